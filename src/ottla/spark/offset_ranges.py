"""Which offsets each Spark task reads: decided once, at planning, from the offsets the partitions have then.

Records that arrive later are not read, and a task that is run again reads exactly the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.errors import UserMistake
from ottla.spark.limits import EARLIEST, EARLIEST_OFFSET, LATEST_OFFSET, Limit

_TASKS_ENOUGH = 64
_PACKED_RECORDS = 1000

Place = tuple[str, int]
"""(topic, partition)"""


@dataclass(slots=True, frozen=True)
class OffsetRange:
    """Offsets `start` up to, not including, `end` of one partition; of the topic with this id, where it has one.

    `plan`: the same text for all ranges that were planned together.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = b""
    plan: str = ""


def plan_ranges(starts: Mapping[Place, int], ends: Mapping[Place, int]) -> list[OffsetRange]:
    """One range per partition of a batch that has something to read; UserMistake where a start lies behind its end."""
    ranges = []
    for (topic, partition), start in starts.items():
        end = ends[topic, partition]
        if start > end:
            raise UserMistake(
                f"The start ({start}) lies beyond the end ({end}) in partition {partition} of {topic}: swap or correct "
                "the options that begin with starting and ending."
            )
        if start < end:
            ranges.append(OffsetRange(topic, partition, start, end))
    return ranges


def place_limit(
    limit: Limit,
    places: Sequence[Place],
    first: Mapping[Place, int],
    end: Mapping[Place, int],
    by_time: Mapping[Place, int],
    *,
    fail_on_data_loss: bool,
) -> dict[Place, int]:
    """The offset that a limit means in each partition.

    `first` and `end`: what the partition holds; `by_time`: what the brokers found for the limit's times, -1 for none.
    Raises UserMistake for partitions that are not named or not there, for offsets that are gone or not yet written, and
    for times that are later than all records.
    """
    if limit.named is not None:
        check_named(limit, places)
    found: dict[Place, int] = {}
    for place in places:
        if limit.word is not None:
            found[place] = first[place] if limit.word == EARLIEST else end[place]
        elif limit.offsets is not None:
            offset = limit.offsets[place[0]][place[1]]
            found[place] = _place_offset(limit.option, place, offset, first[place], end[place], fail_on_data_loss)
        elif by_time[place] >= 0 or limit.or_end:
            found[place] = by_time[place] if by_time[place] >= 0 else end[place]
        else:
            raise UserMistake(
                f"The option {limit.option} asks for records from {time_of(limit, place)} ms on, and partition "
                f"{place[1]} of {place[0]} has none from then on: take an earlier time, or set "
                "startingOffsetsByTimestampStrategy=latest to begin there at the end."
            )
    return found


def time_of(limit: Limit, place: Place) -> int:
    """The time a limit names for a partition, in ms since 1970."""
    if limit.times_ms is not None:
        return limit.times_ms[place[0]][place[1]]
    assert limit.time_ms is not None
    return limit.time_ms


def split_ranges(ranges: list[OffsetRange], minimum: int, most_records: int | None = None) -> list[OffsetRange]:
    """At least `minimum` ranges where there are as many records, none with more than `most_records`.

    Larger ranges are cut into more pieces, of equal size.
    """
    total = sum(span.end - span.start for span in ranges)
    pieces: list[OffsetRange] = []
    for span in ranges:
        size = span.end - span.start
        # Rounded up, so that the pieces together never come out fewer than asked for.
        count = min(size, max(1, -(-minimum * size // total))) if len(ranges) < minimum else 1
        if most_records is not None:
            count = max(count, -(-size // most_records))
        cuts = [span.start + size * piece // count for piece in range(count + 1)]
        pieces.extend(replace(span, start=cuts[piece], end=cuts[piece + 1]) for piece in range(count))
    return pieces


def pack_ranges(
    ranges: Sequence[OffsetRange], minimum: int = 0, most_records: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: one range, or several small ones where there would be very many tasks.

    A task of Spark's costs tens of milliseconds even if it reads one record. Several share one only where more than
    64 tasks are left (or `minimum`), and up to 1,000 records together (or `most_records`): so nothing is read slower.
    """
    tasks = max(_TASKS_ENOUGH, minimum)
    if len(ranges) <= tasks:
        return [(span,) for span in ranges]
    total = sum(span.end - span.start for span in ranges)
    room = min(_PACKED_RECORDS, most_records or _PACKED_RECORDS, max(1, total // tasks))
    packs: list[tuple[OffsetRange, ...]] = []
    pack: list[OffsetRange] = []
    size = 0
    for span in ranges:
        count = span.end - span.start
        if pack and size + count > room:
            packs.append(tuple(pack))
            pack, size = [], 0
        pack.append(span)
        size += count
    return [*packs, tuple(pack)]


def check_named(limit: Limit, places: Sequence[Place]) -> None:
    """UserMistake where a limit that names partitions does not name exactly those that are to be read."""
    named = {topic: sorted(partitions) for topic, partitions in (limit.named or {}).items()}
    wanted: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        wanted.setdefault(topic, []).append(partition)
    for topic in (*named, *wanted):
        if named.get(topic, []) != wanted.get(topic, []):
            raise UserMistake(
                f"The option {limit.option} names partitions {named.get(topic, [])} of {topic}, and "
                f"{wanted.get(topic, [])} are to be read: it must name exactly those."
            )


def _place_offset(option: str, place: Place, offset: int, first: int, end: int, fail_on_data_loss: bool) -> int:
    if offset == EARLIEST_OFFSET:
        return first
    if offset == LATEST_OFFSET:
        return end
    if first <= offset <= end:
        return offset
    if fail_on_data_loss:
        raise UserMistake(
            f"The option {option} asks for offset {offset} of partition {place[1]} of {place[0]}, which has the "
            f"offsets from {first} to {end} (the end): correct it, or set failOnDataLoss=false to read what there is."
        )
    return min(max(offset, first), end)
