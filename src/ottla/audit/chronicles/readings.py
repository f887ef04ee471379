"""Everything that was ever read, each offset once: what stood there first, who read it when, and what differed later.

One pass over all rounds of all readers; the checkers that ask what was read look here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.audit.chronicles.chronicle import ReadSeen, RecordSeen

Place = tuple[str, int]


@dataclass(slots=True, frozen=True)
class Conflict:
    """Two reads of one offset that differ."""

    place: Place
    first: RecordSeen
    first_read: ReadSeen
    second: RecordSeen
    second_read: ReadSeen


class Readings:
    """`first`: place -> offset -> what was read there first, and by which round; `by_level` the same for each level."""

    def __init__(self, reads: Sequence[ReadSeen]) -> None:
        self.first: dict[Place, dict[int, tuple[RecordSeen, ReadSeen]]] = {}
        self.by_level: dict[tuple[str, Place], dict[int, tuple[RecordSeen, ReadSeen]]] = {}
        self.conflicts: list[Conflict] = []
        for read in sorted(reads, key=lambda each: each.ended_us):
            place = read.topic, read.partition
            first = self.first.setdefault(place, {})
            level = self.by_level.setdefault((read.isolation_level, place), {})
            for record in read.records:
                offset = record.offset
                known = first.get(offset)
                if known is None:
                    first[offset] = level[offset] = record, read
                    continue
                was = known[0]
                if (
                    was.number != record.number
                    or was.value_crc != record.value_crc
                    or was.key_crc != record.key_crc
                    or was.timestamp_ms != record.timestamp_ms
                    or was.headers_crc != record.headers_crc
                ):
                    self.conflicts.append(Conflict(place, was, known[1], record, read))
                if offset not in level:
                    level[offset] = record, read
