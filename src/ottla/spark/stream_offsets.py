"""What a stream decides by offsets alone: how far a micro-batch goes, what it reads, and what has been lost.

Offsets are kept in the checkpoint in the format of Spark's own Kafka source, {"topic": {"0": 23}}, so that a query can
change from one to the other. Topics and partitions are in order: Spark compares offsets as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.errors import UserMistake
from ottla.spark.offset_ranges import OffsetRange, Place


def to_json(offsets: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them."""
    told: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        told.setdefault(topic, {})[str(partition)] = offset
    return told


def from_json(told: Mapping[str, Any]) -> dict[Place, int]:
    """Offsets out of a checkpoint; UserMistake where another kind of source has written them."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in told.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UserMistake(
            f"The checkpoint holds offsets that are no Kafka source's ({json.dumps(told)[:200]}): "
            "they must be {topic: {partition: offset}}; give this query a checkpoint of its own."
        ) from None


def beginnings(start: Mapping[Place, int], latest: Mapping[Place, int], first: Mapping[Place, int]) -> dict[Place, int]:
    """Where a micro-batch begins in each partition of `latest`: at `start`, but not before the first offset there is.

    A partition that `start` lacks is new, and is read from its first offset on.
    """
    return {place: max(start.get(place, 0), first[place]) for place in latest}


def count_available(begin: Mapping[Place, int], latest: Mapping[Place, int]) -> int:
    """How many offsets there are to read."""
    return sum(max(0, end - begin[place]) for place, end in latest.items())


def share_out(begin: Mapping[Place, int], latest: Mapping[Place, int], most: int) -> dict[Place, int]:
    """Where a micro-batch of about `most` offsets ends, as in Spark.

    The offsets are divided in proportion to how many each partition has; each one that has any gets at least one.
    """
    available = count_available(begin, latest)
    if available <= most:
        return dict(latest)
    return {
        place: begin[place] + max(1, most * (end - begin[place]) // available) if end > begin[place] else end
        for place, end in latest.items()
    }


def plan_micro_batch(
    start: Mapping[Place, int], end: Mapping[Place, int], first: Mapping[Place, int]
) -> tuple[list[OffsetRange], list[str]]:
    """What to read from `start` to `end`, and a clause about each loss of data.

    `first`: the first offset of every partition there is now, of those in `end`.
    """
    ranges: list[OffsetRange] = []
    losses = [
        f"partition {partition} of {topic} is gone" for topic, partition in start if (topic, partition) not in end
    ]
    for (topic, partition), stop in sorted(end.items()):
        place = (topic, partition)
        begun = start.get(place)
        if place not in first:
            if stop > (begun or 0):
                losses.append(f"partition {partition} of {topic} is gone")
            continue
        begin = first[place] if begun is None else max(begun, first[place])
        lost = min(begin, stop) - (begun or 0)
        if begun is not None and stop < begun:
            losses.append(f"partition {partition} of {topic} ends at offset {stop}, and {begun} was reached before")
        elif lost > 0:
            losses.append(
                f"offsets {begun or 0} to {min(begin, stop) - 1} of partition {partition} of {topic} are gone"
            )
        if begin < stop:
            ranges.append(OffsetRange(topic, partition, begin, stop))
    return ranges, losses


def consumer_lag(progress: Any) -> dict[str, dict[str, int]]:
    """How many offsets a stream of this source is behind, {topic: {partition: count}}.

    `progress` is what `query.lastProgress` or a listener gives. All topics and sources of the query are included. Empty
    before the first micro-batch.
    """
    lags: dict[Place, int] = {}
    for source in (progress or {})["sources"] if progress else ():
        lags.update(lag_of(source))
    return to_json(lags)


def lag_of(source: Any) -> dict[Place, int]:
    """How many offsets each partition of one source is behind, from what a query's progress tells of it."""
    latest, end = _offsets_of(source["latestOffset"]), _offsets_of(source["endOffset"])
    return {place: max(0, offset - end.get(place, 0)) for place, offset in latest.items()}


def _offsets_of(told: Any) -> dict[Place, int]:
    if isinstance(told, str):
        told = json.loads(told)
    return from_json(told) if told else {}
