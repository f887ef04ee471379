"""How far a command is, on stderr: a bar, where stderr is a terminal, once the work has taken two seconds.

rich is loaded when the bar is shown, by a thread of its own: most commands end before that.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 2.0


class Counter:
    """Counts what is done; `with` shows it, if it lasts. `total` is None where nobody knows it."""

    def __init__(self, words: str, unit: str, total: int | None = None, *, patience_s: float = _PATIENCE_S) -> None:
        self.count = 0
        self._task: dict[str, Any] = {"description": words, "unit": f" {unit}", "total": total}
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._is_over = False
        self._timer = threading.Timer(patience_s, self._show)
        self._timer.daemon = True

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.count += count
        progress = self._progress
        if progress is not None:
            progress.update(progress.task_ids[0], completed=self.count)

    def counted(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; their rows are done when the next one is asked for."""
        for batch in batches:
            yield batch
            self.advance(batch.num_rows)

    def _show(self) -> None:
        from ottla.screen import late_progress

        progress = late_progress()
        progress.add_task(**self._task, completed=self.count)
        with self._lock:
            if not self._is_over:
                progress.start()
                self._progress = progress

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._progress is not None:
                self._progress.stop()
