"""Which leader epoch began at which offset of a log (KIP-101, KIP-279): by it two replicas find where they diverge.

Each Fetch has the epoch and the end of the follower's log. If that epoch ended earlier in the leader's log, the answer
says where, and the follower truncates. Kept in `leader-epoch-checkpoint`; what lies behind the recovery point is found
again from the batches in the log.

Invariant: epochs and start offsets both grow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from ottla.broker.log.files import EpochEntry

NO_EPOCH = -1


class LeaderEpochs:
    """The epochs of one log."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for entry in entries:
            self.note(entry.epoch, entry.start_offset)

    @property
    def latest(self) -> int:
        """The newest epoch, or NO_EPOCH."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def note(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` begins at `start_offset`; older or known epochs change nothing.

        An epoch that began at `start_offset` or behind it has no records: it is forgotten.
        """
        epochs = self._epochs
        if not epochs or epoch > epochs[-1]:
            while self._starts and self._starts[-1] >= start_offset:
                del self._epochs[-1], self._starts[-1]
            self._epochs.append(epoch)
            self._starts.append(start_offset)

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The newest epoch not above `epoch` and the offset where it ended; (NO_EPOCH, -1) where there is none.

        An epoch older than all that are left ended where the oldest of them began, or before: its records were deleted.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index < 0:
            return (epoch, self._starts[0]) if self._epochs and epoch > NO_EPOCH else (NO_EPOCH, -1)
        end = self._starts[index + 1] if index + 1 < len(self._starts) else log_end_offset
        return self._epochs[index], end

    def at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or NO_EPOCH."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def entries(self) -> list[EpochEntry]:
        """All epochs, oldest first."""
        return [EpochEntry(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` now: forget the epochs that began there or behind."""
        count = bisect_left(self._starts, offset)
        del self._epochs[count:], self._starts[count:]

    def advance_start(self, offset: int) -> None:
        """The log begins at `offset` now: of the epochs that began before it, only the latest is kept, with its offset.

        By that a follower is found whose log ends at `offset` with records of an older epoch. They are not those that
        were deleted here: if it kept them, it would wait for the markers of their transactions for ever.
        """
        index = bisect_left(self._starts, offset) - 1
        if index > 0:
            del self._epochs[:index], self._starts[:index]
