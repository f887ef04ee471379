"""Who waits for a replica: for its high watermark, for records to read, for its log to begin later."""

from __future__ import annotations

from typing import Protocol


class AckWaiter(Protocol):
    """A produce request that waits until its records are replicated."""

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """What it waits for under `order` is replicated (error code 0) or will never be."""
        ...


class FetchWaiter(Protocol):
    """Who fetches the partition, and hears what happens to it."""

    def wake(self) -> None:
        """There may be more to read, or an error to tell."""
        ...

    def note(self) -> None:
        """The high watermark or the log's start has moved, which is told with the next answer."""
        ...

    def isr_changed(self) -> None:
        """Other replicas are in sync than before."""
        ...


class LogStartWaiter(Protocol):
    """Somebody who waits until records are deleted on all replicas."""

    def log_start_moved(self, now_us: int) -> None:
        """A replica's log begins later now, or this one leads no more."""
        ...
