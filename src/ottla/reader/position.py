"""The state of reading one partition.

A position is first LOCATING (it asks for the offsets to read between), then READING, and ends FINISHED or FAILED. After
a change of the leader it is VALIDATING in between: it asks whether the new leader's log still has what was read, and
what is to be read (KIP-320). `TRANSITIONS` has all changes of the state; any other raises.

Invariants: `fetch_offset` only grows; a position has at most one request under way; what was fetched and not yet
consumed is counted in `buffered_bytes`.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum

EARLIEST = -2
LATEST = -1


def timestamp_ms(time: datetime) -> int:
    """Milliseconds since 1970, at least 0: ListOffsets has other meanings for negative numbers (-1 is `LATEST`)."""
    return max(0, int(time.timestamp() * 1000))


class PositionState(IntEnum):
    """The states of reading one partition."""

    LOCATING = 0
    VALIDATING = 1
    READING = 2
    FINISHED = 3
    FAILED = 4


class PositionEvent(IntEnum):
    """What moves a position from one state to the next."""

    LOCATED = 0
    REACHED_END = 1
    BROKE = 2
    LEADER_CHANGED = 3
    VALIDATED = 4


TRANSITIONS: dict[tuple[PositionState, PositionEvent], PositionState] = {
    (PositionState.LOCATING, PositionEvent.LOCATED): PositionState.READING,
    (PositionState.LOCATING, PositionEvent.BROKE): PositionState.FAILED,
    (PositionState.READING, PositionEvent.REACHED_END): PositionState.FINISHED,
    (PositionState.READING, PositionEvent.BROKE): PositionState.FAILED,
    (PositionState.READING, PositionEvent.LEADER_CHANGED): PositionState.VALIDATING,
    (PositionState.VALIDATING, PositionEvent.VALIDATED): PositionState.READING,
    (PositionState.VALIDATING, PositionEvent.BROKE): PositionState.FAILED,
}


class Position:
    """One assigned partition.

    `start` and `end` are None while they must still be asked for; `wanted_start` is the start that the user gave, and
    `is_bounded` says whether an end was given. `stuck_since_us` is when the first failure since the last success
    happened, None if there was none.

    Leader epochs are -1 where they are not known. `epoch` is that of the last record read (`has_read`), or the one that
    came with `start`; `end_epoch` came with `end`. `checked_epoch` is the epoch of the last leader that needs no check
    any more: it gave the offsets, its log agreed with these epochs, or it cannot be asked. `asked_epoch` is that of the
    leader to which the last request was sent.

    `nearest` is the replica that the leader named to be read from (KIP-392), -1 for none, up to `nearest_until_us`.
    Until `shuns_nearest_until_us` requests have no rack, because the last replica failed.
    """

    __slots__ = (
        "asked_epoch",
        "buffered_bytes",
        "checked_epoch",
        "checks_end",
        "end",
        "end_epoch",
        "epoch",
        "failures",
        "fetch_offset",
        "has_read",
        "in_flight",
        "is_bounded",
        "nearest",
        "nearest_until_us",
        "not_before_us",
        "partition",
        "shuns_nearest_until_us",
        "start",
        "start_is_timestamp",
        "state",
        "stuck_reason",
        "stuck_since_us",
        "topic",
        "topic_id",
        "wanted_start",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int | None,
        start_is_timestamp: bool,
        topic_id: bytes = b"",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.state = PositionState.LOCATING
        self.wanted_start = start
        self.start_is_timestamp = start_is_timestamp
        self.start: int | None = start if start >= 0 and not start_is_timestamp else None
        self.is_bounded = end is not None
        self.end: int | None = end if end is not None and end >= 0 else None
        self.fetch_offset = -1
        self.epoch = -1
        self.end_epoch = -1
        self.asked_epoch = -1
        self.checked_epoch = -1
        self.checks_end = False
        self.has_read = False
        self.buffered_bytes = 0
        self.in_flight = False
        self.not_before_us = 0
        self.failures = 0
        self.stuck_since_us: int | None = None
        self.stuck_reason = ""
        self.nearest = -1
        self.nearest_until_us = 0
        self.shuns_nearest_until_us = 0

    def move(self, event: PositionEvent) -> None:
        """Follow the transition table; `RuntimeError` for a move that is not in it."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise RuntimeError(
                f"reading {self.topic}-{self.partition}: {event.name} cannot happen in {self.state.name}"
            ) from None

    @property
    def is_over(self) -> bool:
        """Whether it is finished or failed."""
        return self.state >= PositionState.FINISHED

    def asks_for(self) -> int | None:
        """The timestamp to ask ListOffsets for next, None when both offsets are known."""
        if self.start is None:
            return self.wanted_start
        if self.is_bounded and self.end is None:
            return LATEST
        return None

    @property
    def asks_by_time(self) -> bool:
        """Whether `asks_for` is a time: then there may be no such offset."""
        return self.start is None and self.start_is_timestamp

    def learn(self, offset: int, epoch: int) -> None:
        """Take the answer to `asks_for`; -1: all records are older than the timestamp, so the start is the end."""
        if offset < 0:
            self.wanted_start, self.start_is_timestamp = LATEST, False
            return
        if self.checked_epoch < 0:
            self.checked_epoch = self.asked_epoch
        if self.start is None:
            self.start, self.epoch = offset, epoch
        else:
            self.end, self.end_epoch = offset, epoch

    @property
    def has_claims(self) -> bool:
        """Whether there is anything to compare a new leader's log with."""
        return self.epoch >= 0 or self.end_epoch >= 0

    def begin_check(self) -> None:
        """There is a new leader: its log must be checked against `claim`."""
        self.move(PositionEvent.LEADER_CHANGED)
        self.checks_end = self.epoch < 0

    def claim(self) -> tuple[int, int]:
        """(offset, leader epoch): the leader's log must have the records of this epoch that are before this offset."""
        if self.checks_end:
            assert self.end is not None
            return self.end, self.end_epoch
        return self.fetch_offset, self.epoch

    def is_kept_by(self, epoch: int, end_offset: int) -> bool:
        """Whether a log agrees with `claim`; `epoch` is its newest up to the claimed one, and ends at `end_offset`.

        The epoch of a record that was read must be in the log. Another one may be missing: followers do not know the
        epoch of a leader that has appended no record.
        """
        offset, claimed_epoch = self.claim()
        is_of_record = self.has_read and not self.checks_end
        return end_offset >= offset and (epoch >= claimed_epoch or not is_of_record)

    def claim_kept(self) -> None:
        """The leader's log agrees with `claim`: check the end as well, or read on."""
        if not self.checks_end or self.epoch < 0:
            self.checked_epoch = self.asked_epoch
        if self.end_epoch >= 0 and not self.checks_end:
            self.checks_end = True
        else:
            self.checks_end = False
            self.move(PositionEvent.VALIDATED)

    def went_well(self) -> None:
        """The last request was answered without an error."""
        self.failures = 0
        self.not_before_us = 0
        self.stuck_since_us = None
        self.stuck_reason = ""

    def is_stuck(self, reason: str, now_us: int) -> None:
        """It cannot go on now: keep since when, and why."""
        if self.stuck_since_us is None:
            self.stuck_since_us = now_us
        self.stuck_reason = reason
