"""Calls a producer's metric reporters every so often, on a thread of their own.

The I/O thread never runs a reporter, so a slow one does not slow the producer down; what it raises is logged under
`ottla.producer`. The last call comes when the producer has ended: a producer that lived for less than a window is
reported, too. A forked child has no such thread and reports nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from ottla.producer.figures import Metrics

_log = logging.getLogger("ottla.producer")

Reporter = Callable[[Metrics], object]


class MetricReporting:
    """Calls `reporters` with what `read` returns, every `every_ms` and at the end."""

    def __init__(
        self, reporters: Sequence[Reporter], read: Callable[[], Metrics], every_ms: int, thread_name: str
    ) -> None:
        self._reporters = reporters
        self._read = read
        self._every_s = min(every_ms / 1000, threading.TIMEOUT_MAX)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    def start(self) -> None:
        """Start the thread; the first call comes when the first window is over."""
        self._thread.start()

    def end(self) -> None:
        """Have the last call made; returns at once."""
        self._over.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the last call, `timeout_s` at most: a reporter that hangs must not hold up the producer's close."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._report()
        self._report()

    def _report(self) -> None:
        metrics = self._read()
        for reporter in self._reporters:
            try:
                reporter(metrics)
            except BaseException:  # sys.exit() in a reporter would end this thread, and all reports with it
                _log.exception("the metric reporter %r raised; the producer is not affected", reporter)
