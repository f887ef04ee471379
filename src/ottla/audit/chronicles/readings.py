"""Everything that was ever read: which values each offset showed, in the order of time, and in which rounds.

One pass over all rounds of all readers; the checkers that ask what was read look here. An offset shows one value for
good, unless there was a loss that is excused: then it shows others later, and each of them is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.audit.chronicles.chronicle import ReadSeen, RecordSeen

Place = tuple[str, int]


@dataclass(slots=True)
class Shown:
    """A value that an offset showed: the record, and the first and the last of the rounds in a row that returned it."""

    record: RecordSeen
    first: ReadSeen
    last: ReadSeen


@dataclass(slots=True, frozen=True)
class Conflict:
    """Two reads of one offset, the second the next one after the first, that differ."""

    place: Place
    first: RecordSeen
    first_read: ReadSeen
    second: RecordSeen
    second_read: ReadSeen


class Readings:
    """`values`: place -> offset -> what it showed, one after the other; `by_level`: the same by isolation level."""

    def __init__(self, reads: Sequence[ReadSeen]) -> None:
        self.values: dict[Place, dict[int, list[Shown]]] = {}
        self.by_level: dict[tuple[str, Place], dict[int, list[Shown]]] = {}
        self.conflicts: list[Conflict] = []
        for read in sorted(reads, key=lambda each: each.ended_us):
            place = read.topic, read.partition
            values = self.values.setdefault(place, {})
            level = self.by_level.setdefault((read.isolation_level, place), {})
            for record in read.records:
                before = _note(values, record, read)
                if before is not None:
                    self.conflicts.append(Conflict(place, before.record, before.last, record, read))
                _note(level, record, read)

    def shown(self) -> Iterator[tuple[Place, Shown]]:
        """Every value of every offset."""
        for place, values in self.values.items():
            for shown in values.values():
                for each in shown:
                    yield place, each


def _note(values: dict[int, list[Shown]], record: RecordSeen, read: ReadSeen) -> Shown | None:
    """Note what a round returned, and return what the offset showed before, if that was another value."""
    shown = values.get(record.offset)
    if shown is None:
        values[record.offset] = [Shown(record, read, read)]
        return None
    before = shown[-1]
    if _is_same(before.record, record):
        before.last = read
        return None
    shown.append(Shown(record, read, read))
    return before


def _is_same(one: RecordSeen, other: RecordSeen) -> bool:
    return (
        one.number == other.number
        and one.value_crc == other.value_crc
        and one.key_crc == other.key_crc
        and one.timestamp_ms == other.timestamp_ms
        and one.headers_crc == other.headers_crc
    )
