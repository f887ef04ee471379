"""Where a reader stands in one partition.

A position is first LOCATING (asking which offsets to read between), then READING, and ends FINISHED or FAILED. The
states and what moves between them stand in `TRANSITIONS`; whatever is not in that table cannot happen, and trying it
raises.

Invariants: `fetch_offset` only grows; a position has at most one request under way; what was fetched and not yet
consumed is counted in `buffered_bytes`.
"""

from __future__ import annotations

from enum import IntEnum

EARLIEST = -2
LATEST = -1


class PositionState(IntEnum):
    """Where the reading of one partition is in its life."""

    LOCATING = 0
    READING = 1
    FINISHED = 2
    FAILED = 3


class PositionEvent(IntEnum):
    """What moves a position from one state to the next."""

    LOCATED = 0
    REACHED_END = 1
    BROKE = 2


TRANSITIONS: dict[tuple[PositionState, PositionEvent], PositionState] = {
    (PositionState.LOCATING, PositionEvent.LOCATED): PositionState.READING,
    (PositionState.LOCATING, PositionEvent.BROKE): PositionState.FAILED,
    (PositionState.READING, PositionEvent.REACHED_END): PositionState.FINISHED,
    (PositionState.READING, PositionEvent.BROKE): PositionState.FAILED,
}


class Position:
    """One assigned partition.

    `start` and `end` are None while they must still be asked for; `wanted_start` and `wanted_end` are what the user
    said. `stuck_since_us` is when the first failure since the last success happened, None where all is well.
    """

    __slots__ = (
        "buffered_bytes",
        "end",
        "failures",
        "fetch_offset",
        "in_flight",
        "is_bounded",
        "not_before_us",
        "partition",
        "start",
        "start_is_timestamp",
        "state",
        "stuck_reason",
        "stuck_since_us",
        "topic",
        "wanted_start",
    )

    def __init__(self, topic: str, partition: int, start: int, end: int | None, start_is_timestamp: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.state = PositionState.LOCATING
        self.wanted_start = start
        self.start_is_timestamp = start_is_timestamp
        self.start: int | None = start if start >= 0 and not start_is_timestamp else None
        self.is_bounded = end is not None
        self.end: int | None = end if end is not None and end >= 0 else None
        self.fetch_offset = -1
        self.buffered_bytes = 0
        self.in_flight = False
        self.not_before_us = 0
        self.failures = 0
        self.stuck_since_us: int | None = None
        self.stuck_reason = ""

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

    def learn(self, offset: int) -> None:
        """Take the answer to `asks_for`; -1: no record is as young as the timestamp, so the end is meant."""
        if self.start is None:
            if offset < 0:
                self.wanted_start, self.start_is_timestamp = LATEST, False
            else:
                self.start = offset
        else:
            self.end = offset

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
