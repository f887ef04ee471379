"""How far a command is, on stderr: a bar, where stderr is a terminal, once the work has taken two seconds.

A thread shows it, and loads rich for that: most commands end before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

_PATIENCE_S = 2.0
_PERIOD_S = 0.2


class Counter:
    """Counts what is done; `with` shows it, if it lasts. `total` is None where it is not known."""

    def __init__(self, words: str, unit: str, total: int | None = None, *, is_shown: bool = True) -> None:
        self.count = 0
        self.ask: Callable[[], int] = lambda: self.count
        """How much is done, for who shows it: from another thread."""
        self._task: dict[str, Any] = {"description": words, "unit": f" {unit}", "total": total}
        self._is_shown = is_shown and sys.stderr.isatty()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def counted(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; the rows of one are done when the next one is asked for."""
        for batch in batches:
            yield batch
            self.count += batch.num_rows

    def _show(self) -> None:
        if self._is_over.wait(_PATIENCE_S):
            return
        from ottla.screen import late_progress

        progress = late_progress()
        task = progress.add_task(**self._task)
        with progress:
            while not self._is_over.wait(_PERIOD_S):
                progress.update(task, completed=self.ask())

    def __enter__(self) -> Self:
        if self._is_shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
