"""Where a reader stands in one partition.

A position is first LOCATING (asking which offsets to read between), then READING, and ends FINISHED or FAILED. When
another leader has come, it is VALIDATING in between: asking whether the new leader's log still holds what was read, and
what is to be read (KIP-320). The states and what moves between them stand in `TRANSITIONS`; whatever is not in that
table cannot happen, and trying it raises.

Invariants: `fetch_offset` only grows; a position has at most one request under way; what was fetched and not yet
consumed is counted in `buffered_bytes`.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum

EARLIEST = -2
LATEST = -1


def timestamp_ms(time: datetime) -> int:
    """Kafka's milliseconds since 1970 where a position is asked for by time; no record is older, and -1 is `LATEST`."""
    return max(0, int(time.timestamp() * 1000))


class PositionState(IntEnum):
    """Where the reading of one partition is in its life."""

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

    `start` and `end` are None while they must still be asked for; `wanted_start` is what the user said, and
    `is_bounded` that an end was given. `stuck_since_us` is when the first failure since the last success happened, None
    where all is well.

    Leader epochs are -1 where they are not known. `epoch` is that of the last record read (`has_read`), or the one that
    came with `start`; `end_epoch` came with `end`. `checked_epoch` is the epoch of the last leader whose log agreed
    with these; `asked_epoch` is that of the leader to which the present request was sent.

    `nearest` is the replica that the leader named to be read from (KIP-392), -1 for none, up to `nearest_until_us`.
    Until `shuns_nearest_until_us` the leader is not to name one, because the last one was of no use.
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
        """Finished or failed."""
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
        """Whether `asks_for` is a time, so that there may be no such offset."""
        return self.start is None and self.start_is_timestamp

    def learn(self, offset: int, epoch: int) -> None:
        """Take the answer to `asks_for`; -1: no record is as young as the timestamp, so the end is meant."""
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
        """There is a new leader: its log must be compared with the last one's."""
        self.move(PositionEvent.LEADER_CHANGED)
        self.checks_end = self.epoch < 0

    def claim(self) -> tuple[int, int]:
        """(offset, leader epoch): the leader's log has to hold the records of this epoch before this offset."""
        if self.checks_end:
            assert self.end is not None
            return self.end, self.end_epoch
        return self.fetch_offset, self.epoch

    def is_kept_by(self, epoch: int, end_offset: int) -> bool:
        """Whether a log agrees with `claim`; `epoch`, its newest up to the claimed one, ends there at `end_offset`.

        Followers need not know the epoch of a leader that has appended no record; they know the epoch of each record.
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
        """Something is in the way: remember since when, and why."""
        if self.stuck_since_us is None:
            self.stuck_since_us = now_us
        self.stuck_reason = reason
