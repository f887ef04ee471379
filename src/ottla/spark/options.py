"""The source's options, named and read as Spark's own Kafka source reads them (`option_table`).

Option names arrive in lower case. Those of Spark's that only tune its consumer have no effect. An unknown option is
refused. `kafka.<setting>` goes to the reader as `<setting>`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import ConfigError
from ottla.nearest import nearest_name
from ottla.reader.settings import READER_SETTINGS
from ottla.spark.limits import Limit, read_assignment, read_end, read_start
from ottla.spark.option_names import by_name
from ottla.spark.option_table import (
    BATCH,
    COLUMNS,
    DEAD_LETTER,
    DEAD_LETTER_COLUMNS,
    HEADERS,
    OPTIONS,
    REFUSED_SETTINGS,
    SETTINGS_WITHOUT_EFFECT,
    STREAMING,
    WITHOUT_EFFECT,
)
from ottla.spark.sink_options import SINK_OPTIONS
from ottla.spark.value_options import REGISTRY_SETTING, SUBJECT, UNDECODABLE, ValueOptions, read_value_options

if TYPE_CHECKING:
    from ottla.spark.value_decoding import ValueDecoder

_log = logging.getLogger("ottla.spark")

_ROWS = {row.name.lower(): row for row in OPTIONS}
_IGNORED = {name.lower() for name in WITHOUT_EFFECT} | SETTINGS_WITHOUT_EFFECT
_NOT_SETTINGS = ("kafka.bootstrap.servers", "kafka.group.id")


@dataclass(slots=True, frozen=True)
class SourceOptions:
    """What to read, and how. Of `topics`, `assigned` ({topic: partitions}) and `pattern` exactly one is set."""

    bootstrap_servers: str
    start: Limit
    end: Limit
    topics: tuple[str, ...] | None = None
    assigned: dict[str, tuple[int, ...]] | None = None
    pattern: re.Pattern[str] | None = None
    columns: tuple[str, ...] = COLUMNS
    fail_on_data_loss: bool = True
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    poll_timeout_ms: int = 120_000
    group_id: str | None = None
    # The connection's, under Kafka's names; passwords may be among them.
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    # For values with a schema: found by the driver once, so that the whole query has one type.
    decoder: ValueDecoder | None = field(default=None, repr=False)


class ValueReading(NamedTuple):
    """How values with a schema are read: as `values.schema`, else as the latest one of `subject`."""

    values: ValueOptions
    subject: str | None
    mode: str


def read_options(options: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """The options of one query; ConfigError names the option that cannot be used and what is allowed."""
    given = by_name(options, _ROWS.keys())
    _refuse_unknown(given)
    values = _read_values(given, streaming=streaming)
    if "kafka.bootstrap.servers" not in values:
        raise ConfigError("The option kafka.bootstrap.servers is missing: give it as host:port, several with commas.")
    _check_choice(values)
    most, least = values.get("maxOffsetsPerTrigger"), values.get("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"The option minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most}): swap them."
        )
    return SourceOptions(
        bootstrap_servers=values["kafka.bootstrap.servers"],
        start=read_start(values, streaming=streaming),
        end=read_end(values),
        topics=values.get("subscribe"),
        assigned=read_assignment(values["assign"]) if "assign" in values else None,
        pattern=values.get("subscribePattern"),
        columns=_columns_of(values),
        fail_on_data_loss=values.get("failOnDataLoss", True),
        min_partitions=values.get("minPartitions", 0),
        max_records_per_partition=values.get("maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        max_bytes_per_trigger=values.get("maxBytesPerTrigger"),
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=values.get("maxTriggerDelay", 900_000),
        poll_timeout_ms=values.get("kafkaConsumer.pollTimeoutMs", 120_000),
        group_id=values.get("kafka.group.id"),
        settings={
            name.removeprefix("kafka."): value
            for name, value in given.items()
            if name.startswith("kafka.") and name not in _NOT_SETTINGS and name not in _IGNORED
        },
    )


def read_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns alone: a schema is asked for before Spark says whether it is for a batch or a stream."""
    return _columns_of(_read_any(by_name(options, _ROWS.keys())))


def read_value_reading(options: Mapping[str, str]) -> ValueReading | None:
    """How values are decoded; None where they are bytes, or not read at all."""
    given = by_name(options, _ROWS.keys())
    read = _read_any(given)
    values = read_value_options(given)
    if values is None or not {"value", *DEAD_LETTER_COLUMNS} & set(_columns_of(read)):
        return None
    subject = values.subject
    if subject is None and values.schema is None:
        topics = read_assignment(read["assign"]) if "assign" in read else read.get("subscribe", ())
        if len(topics) != 1:
            told = f"{len(topics)} topics" if topics else "the topics of a pattern"
            raise ConfigError(
                f"All values of {told} are read as one schema, and the options do not say which: add the option "
                f"{SUBJECT}, or value.schema."
            )
        subject = f"{next(iter(topics))}-value"
    return ValueReading(values, subject, read.get(UNDECODABLE, "fail"))


def _read_any(given: Mapping[str, str]) -> dict[str, Any]:
    """Each option of both kinds of query, by its name as it is written."""
    _refuse_unknown(given)
    return {row.name: row.value_of(given[name]) for name, row in _ROWS.items() if name in given}


def _read_values(given: Mapping[str, str], *, streaming: bool) -> dict[str, Any]:
    """Each option that this kind of query uses, by its name as it is written."""
    kind, other = (STREAMING, BATCH) if streaming else (BATCH, STREAMING)
    values: dict[str, Any] = {}
    for name, row in _ROWS.items():
        if name not in given:
            continue
        value = row.value_of(given[name])
        if row.used_by != other:
            values[row.name] = value
        elif row.refused:
            raise ConfigError(f"The option {row.name} cannot be used in a {kind} query: {row.refused}.")
        else:
            _log.warning("the option %s has no effect in a %s query", row.name, kind)
    return values


def _refuse_unknown(given: Mapping[str, str]) -> None:
    if "provider" in given:
        # Spark's own word for CREATE TABLE; when such a table is read, none of its options come back.
        raise ConfigError(
            "Spark keeps no options for a table of its catalog whose source is written in Python: use CREATE TEMPORARY "
            "VIEW ... USING ottla OPTIONS (...)."
        )
    for name in given:
        if name in REFUSED_SETTINGS:
            raise ConfigError(f"The option {name} cannot be used with the ottla source: {REFUSED_SETTINGS[name]}.")
        if name in _ROWS or name in _IGNORED or name.startswith(("kafka.", REGISTRY_SETTING)):
            continue
        if any(row.name == name for row in READER_SETTINGS):
            raise ConfigError(f"{name!r} is not an option of the ottla source: give it as kafka.{name}.")
        if name in SINK_OPTIONS:
            raise ConfigError(
                f"{SINK_OPTIONS[name]!r} is an option of the ottla sink, not of the source: leave it out when you read."
            )
        known = [row.name for row in _ROWS.values()]
        near = nearest_name(name, known)
        advice = f"did you mean {near}?" if near else f"use {_words(known)}."
        raise ConfigError(f"{name!r} is not an option of the ottla source: {advice}")


def _check_choice(values: Mapping[str, Any]) -> None:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name in values]
    if len(ways) != 1:
        told = f"not with {_words(ways)} together" if ways else "none of them is given"
        raise ConfigError(
            'Say what to read with exactly one of the options subscribe="topic,...", subscribePattern="regex" and '
            f'assign={{"topic": [0]}}: {told}.'
        )


def _columns_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    include_headers = values.get("includeHeaders", False)
    told = DEAD_LETTER_COLUMNS if values.get(UNDECODABLE) == DEAD_LETTER else ()
    allowed = (*COLUMNS, *told, HEADERS) if include_headers else (*COLUMNS, *told)
    text = values.get("columns")
    if text is None:
        return allowed
    by_name = {name.lower(): name for name in allowed}
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name.lower() == HEADERS and not include_headers:
            raise ConfigError(f"The option columns is {text!r} and names headers: add the option includeHeaders=true.")
        if name.lower() not in by_name:
            raise ConfigError(f"The option columns names {name!r}: it may name {_words(allowed)}.")
    if not chosen:
        raise ConfigError(f"The option columns is {text!r} and names no column: it may name {_words(allowed)}.")
    return tuple(dict.fromkeys(by_name[name.lower()] for name in chosen))


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)
