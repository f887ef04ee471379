"""The sink's options, named and read as Spark's own Kafka sink reads them, and those that only ottla has.

Option names arrive in lower case. `kafka.<setting>` goes to the producer as `<setting>`; all of them are checked when a
write is planned, before any task runs.

The default of `delivery`: a streaming query is exactly-once. Spark numbers its batches, so a number that comes again is
a repetition. A batch write has no number. It is exactly-once if `write.id` or `sink.id` is given (within foreachBatch
`sink.id` is enough, because there are batch numbers). Otherwise it is at-least-once, because nothing distinguishes a
new write from a repeated one.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.errors import ConfigError
from ottla.nearest import nearest_name
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.sink.settings import CONTROL_TOPIC, SINK_ID_BYTES_MAX, topics_of
from ottla.spark import value_options
from ottla.spark.option_names import by_name
from ottla.spark.option_table import OPTIONS
from ottla.spark.value_options import REGISTRY_SETTING, ValueOptions, read_value_options

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"

_TAKEN = (
    "delivery",
    "includeHeaders",
    "kafka.bootstrap.servers",
    "sink.control.topic",
    "sink.id",
    "sink.margin.ms",
    "sink.same.rows",
    "topic",
    "write.id",
    *value_options.NAMES,
)
SINK_OPTIONS = {name.lower(): name for name in _TAKEN}
# Kafka allows 249, and the topic of receipts has a longer name.
_CONTROL_TOPIC_LENGTH_MAX = 241
_CONTROL_TOPIC_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{_CONTROL_TOPIC_LENGTH_MAX}}}")
# Spark's own, which it leaves among the options of a streaming query.
_SPARKS = frozenset({"checkpointlocation", "queryname"})
_OF_SOURCE = {row.name.lower(): row.name for row in OPTIONS}
_ASYNC_PROGRESS = "asyncprogresstracking"
_SHOWN_MOST = SINK_ID_BYTES_MAX
# Every ten seconds brokers look for transactions that have timed out, and the decision's own needs some time, too.
_MARGIN_MS_LEAST = 15_000
# Settings that exactly-once sets itself, with the values that the user may give.
_SET_BY_TRANSACTIONS = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
_REFUSED_SETTINGS = {
    "key.serializer": "keys are sent as the bytes they are",
    "value.serializer": "values are sent as the bytes they are: make them with Spark's functions, such as to_json, or "
    "by the option value.format",
    "interceptor.classes": "tasks run in processes of their own: leave it out",
    "transactional.id": "the sink chooses its transactional ids itself: leave it out, and name the sink with sink.id",
}


@dataclass(slots=True, frozen=True)
class SinkOptions:
    """How to write. `topic` None: the column `topic` says it. `settings` are the producer's, by Kafka's dotted names.

    `sink_id` is None for at-least-once. A batch write with a `write_id` and no `sink.id` is its own sink, with the
    `write_id` as its name. `checkpoint` is the option checkpointLocation of a streaming query. `control_topic`: the
    topic of the decisions. `margin_ms`: how much time a batch's transactions must have left when it is decided (None: a
    part of their timeout). `same_rows`: whether a batch that is done must not come again with other rows (None: a
    batch write must not, a micro-batch may). `of_checkpoint`: `sink_id` was made from the checkpoint's location.
    `of_stream`: this is the sink of a streaming query.
    `values`: how to encode values with a schema of a registry.
    """

    bootstrap_servers: str
    topic: str | None = None
    exactly_once: bool = False
    sink_id: str | None = None
    write_id: str | None = None
    checkpoint: str | None = None
    control_topic: str = CONTROL_TOPIC
    margin_ms: int | None = None
    same_rows: bool | None = None
    of_checkpoint: bool = False
    of_stream: bool = False
    settings: dict[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them
    values: ValueOptions | None = None


def read_sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options of one write; ConfigError names the option that cannot be used and what is allowed."""
    given = by_name(options, SINK_OPTIONS.keys() | _SPARKS)
    _refuse_unknown(given, streaming)
    servers = given.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        told = "The option kafka.bootstrap.servers is missing: give it as host:port, several with commas."
        if not given:
            told += (
                ' Spark keeps no options for a table of its catalog: write with df.write.format("ottla").options(...).'
            )
        raise ConfigError(told)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("The option topic is empty: name a topic, or leave the option out and give a column topic.")
    control_topic = _read_control_topic(given)
    if topic is not None and topic.strip() in (*topics_of(control_topic), *topics_of(CONTROL_TOPIC)):
        # A row there whose key is a sink's id would be taken for a decision of that sink.
        raise ConfigError(
            f"The option topic is {topic.strip()!r}, where sinks keep their decisions: name another topic."
        )
    _read_bool("includeHeaders", given.get("includeheaders", "false"))  # a column headers is always written
    exactly_once = _read_delivery(given, streaming)
    same_rows = _read_bool("sink.same.rows", given["sink.same.rows"]) if "sink.same.rows" in given else None
    settings = _read_settings(given, exactly_once)
    return SinkOptions(
        bootstrap_servers=servers,
        topic=None if topic is None else topic.strip(),
        exactly_once=exactly_once,
        sink_id=_read_sink_id(given, streaming) if exactly_once else None,
        write_id=_read_id("write.id", given) if exactly_once else None,
        checkpoint=_read_checkpoint(given) or None if streaming else None,
        control_topic=control_topic,
        margin_ms=_read_margin(given),
        same_rows=same_rows,
        of_checkpoint=exactly_once and streaming and "sink.id" not in given,
        of_stream=streaming,
        settings=settings,
        values=read_value_options(given),
    )


def _refuse_unknown(given: Mapping[str, str], streaming: bool) -> None:
    for name in given:
        if name in SINK_OPTIONS or name.startswith(("kafka.", REGISTRY_SETTING)) or (streaming and name in _SPARKS):
            continue
        if name.startswith(_ASYNC_PROGRESS):
            if name == f"{_ASYNC_PROGRESS}enabled" and given[name].strip().lower() == "false":
                continue
            raise ConfigError(
                "Asynchronous progress tracking cannot be used with the ottla sink: after a crash Spark would write "
                "the same rows again in batches with other numbers. Leave out the asyncProgressTracking options."
            )
        if any(row.name == name for row in PRODUCER_SETTINGS):
            raise ConfigError(f"{name!r} is not an option of the ottla sink: give it as kafka.{name}.")
        if name == "checkpointlocation":
            raise ConfigError(
                "The option checkpointLocation is for streaming queries: leave it out. For exactly-once give write.id, "
                "or within foreachBatch sink.id."
            )
        if name == "queryname":
            raise ConfigError("The option queryName is for streaming queries: leave it out.")
        if name in _OF_SOURCE:
            raise ConfigError(
                f"{_OF_SOURCE[name]!r} is an option of the ottla source, not of the sink: leave it out when you write."
            )
        near = nearest_name(name, _TAKEN)
        advice = f"did you mean {near}?" if near else f"use {', '.join(_TAKEN)} and kafka.<setting>."
        raise ConfigError(f"{name!r} is not an option of the ottla sink: {advice}")
    if streaming and "write.id" in given:
        raise ConfigError("The option write.id is for batch writes: leave it out, and give the query a sink.id.")


def _read_delivery(given: Mapping[str, str], streaming: bool) -> bool:
    text = given.get("delivery")
    if text is None:
        return streaming or "sink.id" in given or "write.id" in given
    word = text.strip().lower()
    if word not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise ConfigError(f"The option delivery is {text!r}: it must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}.")
    return word == EXACTLY_ONCE


def _read_control_topic(given: Mapping[str, str]) -> str:
    topic = given.get("sink.control.topic", CONTROL_TOPIC).strip()
    if not topic:
        raise ConfigError("The option sink.control.topic is empty: name a topic, or leave the option out.")
    if not _CONTROL_TOPIC_NAME.fullmatch(topic):
        raise ConfigError(
            f"The option sink.control.topic is {topic!r}: a topic's name has letters, digits, '.', '_' and '-', and "
            f"this one {_CONTROL_TOPIC_LENGTH_MAX} at most, since the second topic has '_markers' behind it."
        )
    return topic


def _read_sink_id(given: Mapping[str, str], streaming: bool) -> str:
    sink_id = _read_id("sink.id", given)
    if sink_id is not None:
        return sink_id
    if not streaming:
        write_id = _read_id("write.id", given)
        if write_id is not None:
            return write_id
        raise ConfigError(
            "delivery=exactly-once for a batch write needs the option write.id: the same one whenever the same rows "
            "are written again, and another one for other rows. Within foreachBatch give sink.id instead."
        )
    checkpoint = _read_checkpoint(given)
    if checkpoint:
        return _shortened(checkpoint)
    raise ConfigError(
        "An exactly-once sink needs a name that is the same on every start. It is made from the option "
        "checkpointLocation, and that was not given (Spark does not tell sinks about "
        "spark.sql.streaming.checkpointLocation). "
        'Add .option("sink.id", "..."), the same on every start of this query and of no other.'
    )


def _read_checkpoint(given: Mapping[str, str]) -> str:
    # One location can be written in several ways; Spark itself prints file:/.
    location = re.sub("^(file:)?/+", "/", given.get("checkpointlocation", "").strip())
    return posixpath.normpath(location) if location.startswith("/") else location.rstrip("/")


def _shortened(location: str) -> str:
    """The location itself; if it is too long for a sink id, a hash of it and its end."""
    if len(location.encode()) <= SINK_ID_BYTES_MAX:
        return location
    end = location.encode()[-SINK_ID_BYTES_MAX // 2 :].decode(errors="ignore")
    return f"{hashlib.sha256(location.encode()).hexdigest()[:16]}...{end}"


def _read_id(name: str, given: Mapping[str, str]) -> str | None:
    """A sink's or a write's name: transactional ids are made of it, and commands show it."""
    text = given.get(name)
    if text is None:
        return None
    word = text.strip()
    if not word:
        raise ConfigError(f"The option {name} is empty: give it a name, or leave it out.")
    if not word.isprintable() or len(word.encode()) > SINK_ID_BYTES_MAX:
        shown = repr(word) if len(word) <= _SHOWN_MOST else f"{word[:_SHOWN_MOST]!r}... ({len(word)} characters)"
        raise ConfigError(
            f"The option {name} is {shown}: it must be printable characters, {SINK_ID_BYTES_MAX} bytes at most."
        )
    return word


def _read_settings(given: Mapping[str, str], exactly_once: bool) -> dict[str, str]:
    settings = {
        name.removeprefix("kafka."): value
        for name, value in given.items()
        if name.startswith("kafka.") and name != "kafka.bootstrap.servers"
    }
    for name, reason in _REFUSED_SETTINGS.items():
        if name in settings:
            raise ConfigError(f"The option kafka.{name} cannot be set: {reason}.")
    for name, allowed in _SET_BY_TRANSACTIONS.items() if exactly_once else ():
        if settings.get(name, allowed[0]).strip().lower() not in allowed:
            raise ConfigError(
                f"The option kafka.{name} is {settings[name]!r}: for delivery=exactly-once it must be {allowed[0]}; "
                "leave it out, or set delivery=at-least-once."
            )
    if exactly_once and settings.get("retries", "").strip() == "0":
        raise ConfigError("The option kafka.retries is 0, and delivery=exactly-once needs retries: leave it out.")
    # Settings that contradict each other, or transactions, are refused here rather than in a task.
    transactional = {"transactional.id": "checked"} if exactly_once else {}
    try:
        ProducerSettings({"bootstrap.servers": given["kafka.bootstrap.servers"], **settings, **transactional})
    except ConfigError as error:
        raise ConfigError(f"Among the options that begin with kafka.: {error}") from None
    return {name: value for name, value in settings.items() if not exactly_once or name not in _SET_BY_TRANSACTIONS}


def _read_margin(given: Mapping[str, str]) -> int | None:
    text = given.get("sink.margin.ms")
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,10}", text.strip()) or int(text) < _MARGIN_MS_LEAST:
        raise ConfigError(
            f"The option sink.margin.ms is {text!r}: it must be a whole number of milliseconds, {_MARGIN_MS_LEAST} or "
            "more, and less than kafka.transaction.timeout.ms."
        )
    return int(text)


def _read_bool(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"The option {name} is {text!r}: it must be true or false.")
    return word == "true"
