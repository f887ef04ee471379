"""Where a query starts and ends, by its options: a word, offsets or times, for all partitions or for each.

If several options are given, the first one of these counts, as in Spark: startingTimestamp, startingOffsetsByTimestamp,
startingOffsets. The order for the end is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.errors import ConfigError

EARLIEST = "earliest"
LATEST = "latest"
EARLIEST_OFFSET = -2
LATEST_OFFSET = -1

PartitionOffsets = dict[str, dict[int, int]]
"""{topic: {partition: offset, or time in ms since 1970}}"""


@dataclass(slots=True, frozen=True)
class Limit:
    """One end of what is read; exactly one of `word`, `offsets` (-2 earliest, -1 latest), `time_ms`, `times_ms` is set.

    `option` is the option that said so, for messages. `or_end`: if no record has the time or a later one, take
    the partition's end rather than failing.
    """

    option: str
    word: str | None = None
    offsets: PartitionOffsets | None = None
    time_ms: int | None = None
    times_ms: PartitionOffsets | None = None
    or_end: bool = False

    @property
    def named(self) -> PartitionOffsets | None:
        """What was said for each partition; None where one thing was said for all."""
        return self.offsets if self.offsets is not None else self.times_ms


def read_start(values: Mapping[str, Any], *, streaming: bool) -> Limit:
    """The start, by the options' values; ConfigError for what cannot be one."""
    or_end = values.get("startingOffsetsByTimestampStrategy") == "latest"
    if "startingTimestamp" in values:
        return Limit("startingTimestamp", time_ms=values["startingTimestamp"], or_end=or_end)
    if "startingOffsetsByTimestamp" in values:
        name = "startingOffsetsByTimestamp"
        return Limit(name, times_ms=_read_times(name, values[name]), or_end=or_end)
    words = (EARLIEST, LATEST) if streaming else (EARLIEST,)
    sentinels = {EARLIEST_OFFSET: EARLIEST} | ({LATEST_OFFSET: LATEST} if streaming else {})
    return _read_limit("startingOffsets", values, words, sentinels, LATEST if streaming else EARLIEST)


def read_end(values: Mapping[str, Any]) -> Limit:
    """The end of a batch."""
    if "endingTimestamp" in values:
        return Limit("endingTimestamp", time_ms=values["endingTimestamp"], or_end=True)
    if "endingOffsetsByTimestamp" in values:
        name = "endingOffsetsByTimestamp"
        return Limit(name, times_ms=_read_times(name, values[name]), or_end=True)
    return _read_limit("endingOffsets", values, (LATEST,), {LATEST_OFFSET: LATEST}, LATEST)


def read_assignment(text: str) -> dict[str, tuple[int, ...]]:
    """The option assign: {topic: partitions in order}."""
    wanted = "JSON {topic: [partition, ...]}"
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _parse_json("assign", text, wanted).items():
        if not isinstance(partitions, list) or not all(_is_whole(partition) for partition in partitions):
            raise ConfigError(f"The option assign gives {partitions!r} for {topic}: it must be {wanted}.")
        if partitions:
            assigned[topic] = tuple(sorted({*partitions}))
    if not assigned:
        raise ConfigError(f"The option assign is {text!r} and names no partition: it must be {wanted}.")
    return assigned


def _read_limit(
    name: str, values: Mapping[str, Any], words: tuple[str, ...], sentinels: Mapping[int, str], default: str
) -> Limit:
    text = values.get(name, default)
    word = text.strip().lower()
    if word in words:
        return Limit(name, word=word)
    allowed = f"{', '.join(words)} or JSON {{topic: {{partition: offset}}}}"
    if not word.startswith("{"):
        only = " in a batch" if word in (EARLIEST, LATEST) else ""
        raise ConfigError(f"The option {name} is {text!r}: it must be {allowed}{only}.")
    told = "".join(f", or {sentinel} for {meaning}" for sentinel, meaning in sentinels.items())
    offsets = _read_partitions(name, text, allowed, "offset", f"an offset from 0 on{told}", sentinels)
    return Limit(name, offsets=offsets)


def _read_times(name: str, text: str) -> PartitionOffsets:
    allowed = "JSON {topic: {partition: milliseconds since 1970}}"
    return _read_partitions(name, text, allowed, "time", "a whole number of milliseconds since 1970", {})


def _read_partitions(
    name: str, text: str, allowed: str, noun: str, wanted: str, sentinels: Mapping[int, str]
) -> PartitionOffsets:
    found: PartitionOffsets = {}
    for topic, partitions in _parse_json(name, text, allowed).items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"The option {name} gives {partitions!r} for {topic}: it must be {allowed}.")
        for partition, value in partitions.items():
            if not (partition.isascii() and partition.isdecimal()):
                raise ConfigError(
                    f"The option {name} names partition {partition!r} of {topic}: it must be a whole number from 0 on."
                )
            if not (_is_whole(value) or value in sentinels):
                raise ConfigError(
                    f"The option {name} gives {noun} {value!r} for partition {partition!r} of {topic}: "
                    f"it must be {wanted}."
                )
            found.setdefault(topic, {})[int(partition)] = value
    return found


def _parse_json(name: str, text: str, allowed: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"The option {name} is {text!r}, which is not JSON ({error}): it must be {allowed}."
        ) from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"The option {name} is {text!r}: it must be {allowed}.")
    return parsed


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
