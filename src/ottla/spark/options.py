"""The source's options, named and read as Spark's own Kafka source reads them.

Option names arrive in lower case. Those of Spark's Kafka source that only tune its consumer are taken and have no
effect; those that would change what is read and are not supported are refused, never ignored. `kafka.<setting>` goes to
the reader as `<setting>`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.errors import ConfigError

EARLIEST = "earliest"
LATEST = "latest"
_EARLIEST_OFFSET = -2
_LATEST_OFFSET = -1

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"

_TAKEN = (
    "assign",
    "columns",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "kafka.bootstrap.servers",
    "minPartitions",
    "startingOffsets",
    "subscribe",
)
_REFUSED = (
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribePattern",
)
_WITHOUT_EFFECT = frozenset(
    {
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
        "kafka.group.id",
        "kafkaconsumer.polltimeoutms",
    }
)

PartitionOffsets = dict[str, dict[int, int]]


@dataclass(slots=True, frozen=True)
class SourceOptions:
    """What to read. `starting` and `ending` are a word or {topic: {partition: offset}}, -2 earliest and -1 latest.

    `assigned` is None when whole topics are subscribed to, else {topic: partitions}; `settings` are the connection's.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    assigned: dict[str, tuple[int, ...]] | None = None
    starting: str | PartitionOffsets = EARLIEST
    ending: str | PartitionOffsets = LATEST
    include_headers: bool = False
    min_partitions: int = 0
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = COLUMNS
    settings: dict[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of one `spark.read`; ConfigError names the option that cannot be used and what is allowed."""
    given = {name.lower(): value for name, value in options.items()}
    _refuse_strangers(given)
    servers = given.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise ConfigError("The option kafka.bootstrap.servers is missing: give it as host:port, several with commas.")
    topics, assigned = _read_topics(given)
    include_headers = _read_bool("includeHeaders", given.get("includeheaders", "false"))
    return SourceOptions(
        bootstrap_servers=servers,
        topics=topics,
        assigned=assigned,
        starting=_read_offsets("startingOffsets", given.get("startingoffsets", EARLIEST), EARLIEST),
        ending=_read_offsets("endingOffsets", given.get("endingoffsets", LATEST), LATEST),
        include_headers=include_headers,
        min_partitions=_read_count("minPartitions", given.get("minpartitions", "0")),
        fail_on_data_loss=_read_bool("failOnDataLoss", given.get("failondataloss", "true")),
        columns=_read_columns(given.get("columns"), include_headers),
        settings={
            name.removeprefix("kafka."): value
            for name, value in given.items()
            if name.startswith("kafka.") and name != "kafka.bootstrap.servers" and name not in _WITHOUT_EFFECT
        },
    )


def _refuse_strangers(given: Mapping[str, str]) -> None:
    taken = {name.lower(): name for name in _TAKEN}
    refused = {name.lower(): name for name in _REFUSED}
    for name in given:
        if name in refused:
            raise ConfigError(f"The option {refused[name]} is not supported by ottla yet: use {_words(_TAKEN)}.")
        if name in taken or name in _WITHOUT_EFFECT or name.startswith("kafka."):
            continue
        near = difflib.get_close_matches(name, taken, n=1)
        advice = f"did you mean {taken[near[0]]}?" if near else f"use {_words(_TAKEN)}."
        raise ConfigError(f"{name!r} is not an option of the ottla source: {advice}")


def _read_topics(given: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]] | None]:
    if ("subscribe" in given) == ("assign" in given):
        raise ConfigError('Say what to read with one of the options subscribe="topic,..." and assign={"topic": [0]}.')
    if "subscribe" in given:
        topics = tuple(dict.fromkeys(name.strip() for name in given["subscribe"].split(",") if name.strip()))
        if not topics:
            raise ConfigError("The option subscribe names no topic: give one or more, with commas.")
        return topics, None
    wanted = "{topic: [partition, ...]}"
    parsed = _parse_json("assign", given["assign"], wanted)
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(_is_count(partition) for partition in partitions):
            raise ConfigError(f"The option assign gives {partitions!r} for {topic}: it must be JSON {wanted}.")
        assigned[topic] = tuple(sorted({*partitions}))
    if not any(assigned.values()):
        raise ConfigError(f"The option assign names no partition: it must be JSON {wanted}.")
    return tuple(assigned), assigned


def _read_offsets(name: str, text: str, word: str) -> str | PartitionOffsets:
    if text.strip().lower() == word:
        return word
    allowed = f'"{word}" or JSON {{topic: {{partition: offset}}}}'
    if not text.strip().startswith("{"):
        raise ConfigError(f"The option {name} is {text!r}: for a batch it must be {allowed}.")
    lowest = _EARLIEST_OFFSET if word == EARLIEST else _LATEST_OFFSET
    offsets: PartitionOffsets = {}
    for topic, partitions in _parse_json(name, text, allowed).items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"The option {name} gives {partitions!r} for {topic}: it must be {allowed}.")
        for partition, offset in partitions.items():
            good = partition.isdecimal() and isinstance(offset, int) and not isinstance(offset, bool)
            if not good or (offset < 0 and offset != lowest):
                raise ConfigError(
                    f"The option {name} gives offset {offset!r} for partition {partition!r} of {topic}: "
                    f"it must be an offset from 0, or {lowest} for {word}."
                )
            offsets.setdefault(topic, {})[int(partition)] = offset
    return offsets


def _parse_json(name: str, text: str, allowed: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"The option {name} is not JSON ({error}): it must be {allowed}.") from None
    if not isinstance(parsed, dict):
        raise ConfigError(f"The option {name} is {text!r}: it must be {allowed}.")
    return parsed


def _read_columns(text: str | None, include_headers: bool) -> tuple[str, ...]:
    allowed = (*COLUMNS, HEADERS) if include_headers else COLUMNS
    if text is None:
        return allowed
    by_name = {name.lower(): name for name in allowed}
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name.lower() == HEADERS and not include_headers:
            raise ConfigError("The option columns names headers: add the option includeHeaders=true.")
        if name.lower() not in by_name:
            raise ConfigError(f"The option columns names {name!r}: it may name {_words(allowed)}.")
    if not chosen:
        raise ConfigError(f"The option columns names no column: it may name {_words(allowed)}.")
    return tuple(dict.fromkeys(by_name[name.lower()] for name in chosen))


def _read_bool(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"The option {name} is {text!r}: it must be true or false.")
    return word == "true"


def _read_count(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"The option {name} is {text!r}: it must be a whole number.")
    return int(text)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
