"""What waits for a replica: for its high watermark, for records to read, for its log to begin later."""

from __future__ import annotations

from typing import Any, Protocol


class AckWaiter(Protocol):
    """A request that waits until its records are replicated: of a producer, or of a coordinator."""

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """What it waits for under `order` is replicated (error code 0) or will never be."""
        ...


class FetchWaiter(Protocol):
    """One partition of a fetch session, which is called when something happens to the partition."""

    def wake(self) -> None:
        """There may be more to read, or an error to answer."""
        ...

    def note(self) -> None:
        """The high watermark or the log's start has moved: it is to be in the next answer."""
        ...

    def isr_changed(self) -> None:
        """Other replicas are in sync than before."""
        ...


class LogStartWaiter(Protocol):
    """A request that waits until records are deleted on all replicas."""

    def log_start_moved(self, partition: Any, now_us: int) -> None:
        """A replica's log begins later now or is not waited for any more, or the leader leads no more.

        `partition` is the one that this waiter was noted in.
        """
        ...
