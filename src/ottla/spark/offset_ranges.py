"""Which offsets each Spark task reads: decided once, at planning, from the offsets the partitions have then.

Records that arrive later are not read, and a task that is run again reads exactly the same records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.errors import UserMistake
from ottla.spark.options import PartitionOffsets, SourceOptions


@dataclass(slots=True, frozen=True)
class OffsetRange:
    """Offsets `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def plan_ranges(options: SourceOptions, bounds: Mapping[str, Mapping[int, tuple[int, int]]]) -> list[OffsetRange]:
    """One range per partition that has something to read, split further for `minPartitions`.

    `bounds`: {topic: {partition: (first offset, end offset)}} as the brokers answered for every partition there is.
    Raises UserMistake for partitions that are not there and for offsets that are gone or not yet written.
    """
    chosen = {topic: _partitions(options, topic, bounds[topic]) for topic in options.topics}
    _check_named("startingOffsets", options.starting, chosen)
    _check_named("endingOffsets", options.ending, chosen)
    ranges = []
    for topic, partitions in chosen.items():
        for partition in partitions:
            first, end = bounds[topic][partition]
            start = _place(options, "startingOffsets", options.starting, topic, partition, first, end)
            stop = _place(options, "endingOffsets", options.ending, topic, partition, first, end)
            if start > stop:
                raise UserMistake(
                    f"startingOffsets ({start}) lies beyond endingOffsets ({stop}) in partition {partition} "
                    f"of {topic}: swap or correct them."
                )
            if start < stop:
                ranges.append(OffsetRange(topic, partition, start, stop))
    return split_ranges(ranges, options.min_partitions)


def split_ranges(ranges: list[OffsetRange], minimum: int) -> list[OffsetRange]:
    """At least `minimum` ranges where there are as many records, larger ranges cut into more pieces of equal size."""
    total = sum(span.end - span.start for span in ranges)
    pieces: list[OffsetRange] = []
    for span in ranges:
        size = span.end - span.start
        # Rounded up, so that the pieces together never come out fewer than asked for.
        count = min(size, max(1, -(-minimum * size // total))) if len(ranges) < minimum else 1
        cuts = [span.start + size * piece // count for piece in range(count + 1)]
        pieces.extend(OffsetRange(span.topic, span.partition, cuts[piece], cuts[piece + 1]) for piece in range(count))
    return pieces


def _partitions(options: SourceOptions, topic: str, bounds: Mapping[int, tuple[int, int]]) -> tuple[int, ...]:
    if options.assigned is None:
        return tuple(sorted(bounds))
    for partition in options.assigned[topic]:
        if partition not in bounds:
            raise UserMistake(
                f"The option assign names partition {partition} of {topic}, which has {len(bounds)} partitions, "
                "counted from 0."
            )
    return options.assigned[topic]


def _check_named(name: str, offsets: str | PartitionOffsets, chosen: Mapping[str, tuple[int, ...]]) -> None:
    if isinstance(offsets, str):
        return
    for topic in (*offsets, *chosen):
        named, wanted = sorted(offsets.get(topic, {})), sorted(chosen.get(topic, ()))
        if named != wanted:
            raise UserMistake(
                f"The option {name} names partitions {named} of {topic}, and {wanted} are to be read: "
                "it must name exactly those."
            )


def _place(
    options: SourceOptions,
    name: str,
    offsets: str | PartitionOffsets,
    topic: str,
    partition: int,
    first: int,
    end: int,
) -> int:
    default = first if name == "startingOffsets" else end
    offset = default if isinstance(offsets, str) else offsets[topic][partition]
    if offset < 0:
        return default
    if first <= offset <= end:
        return offset
    if options.fail_on_data_loss:
        raise UserMistake(
            f"The option {name} asks for offset {offset} of partition {partition} of {topic}, which holds offsets "
            f"{first} to {end}: correct it, or set failOnDataLoss=false to read what there is."
        )
    return min(max(offset, first), end)
