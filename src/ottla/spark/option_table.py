"""Every option of the source in one table: what it takes, which kind of query uses it, what it does.

`options` reads by it, and the table in docs/spark-source.md is written from it (`tools/generate_spark_options.py`).
Names and meanings are those of Spark's own Kafka source, but for `columns`, `maxBytesPerTrigger` and the options of
values with a schema.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.errors import ConfigError

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
VALUE_ERROR, VALUE_BYTES = "valueError", "valueBytes"
DEAD_LETTER_COLUMNS = (VALUE_ERROR, VALUE_BYTES)
"""What could not be decoded, and why, where undecodable=dead-letter."""

BATCH = "batch"
STREAMING = "streaming"
BOTH = "both"


class Option(NamedTuple):
    """One row. `takes` completes the sentence "it must be ..."; `read` makes the value of the text, or raises
    ValueError. `used_by`: which queries use it. Others refuse it if `refused` says why; otherwise they ignore it.
    """

    name: str
    takes: str
    default: str
    what: str
    read: Callable[[str], Any] = str.strip
    used_by: str = BOTH
    refused: str = ""

    def value_of(self, text: str) -> Any:
        """What the text means; ConfigError names option, value and what is allowed."""
        try:
            return self.read(text)
        except ValueError as error:
            told = f" ({error})" if str(error) else ""
            raise ConfigError(f"The option {self.name} is {text!r}{told}: it must be {self.takes}.") from None


def _read_name(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _read_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError
    return word == "true"


def _read_count(text: str) -> int:
    number = _read_whole(text)
    if number < 1:
        raise ValueError
    return number


def _read_whole(text: str) -> int:
    # int() would take "1_000" and other scripts' digits, which Java refuses.
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text):
        raise ValueError
    return int(text)


_UNITS_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _read_bytes(text: str) -> int:
    """Spark's spelling of sizes: a number and a unit of 1,024s, bytes without one."""
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]?)b?\s*", text.lower())
    number = int(found[1]) * _UNITS_BYTES.get(found[2], 0) if found else 0
    # Spark keeps it in a Java long.
    if not 1 <= number < 1 << 63:
        raise ValueError
    return number


_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _read_duration_ms(text: str) -> int:
    """Spark's spelling of times: a number and a unit, milliseconds without one."""
    found = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]*)\s*", text.lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise ValueError
    return int(int(found[1]) * _UNITS_MS[found[2] or "ms"])


def _read_topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ValueError
    return topics


def _read_pattern(text: str) -> re.Pattern[str]:
    if not text.strip():
        raise ValueError
    try:
        with warnings.catch_warnings():
            # Python only warns of patterns that mean something else in Java, such as [a-z&&[^b]].
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text.strip())
    except (re.error, FutureWarning) as error:
        raise ValueError(str(error)) from None


def _read_undecodable(text: str) -> str:
    word = text.strip().lower()
    if word not in UNDECODABLE_WORDS:
        raise ValueError
    return word


def _read_strategy(text: str) -> str:
    word = text.strip().lower()
    if word not in ("error", "latest"):
        raise ValueError
    return word


DEAD_LETTER = "dead-letter"
UNDECODABLE_WORDS = ("fail", "null", DEAD_LETTER)

_OFFSETS = "JSON {topic: {partition: offset}}"
_TIMES = "JSON {topic: {partition: milliseconds since 1970}}, naming every partition"
_TIME = "a whole number of milliseconds since 1970"
_NO_END = "a streaming query has no end: leave it out, or use spark.read"
_COUNT = "a whole number from 1 on"

OPTIONS = (
    Option("kafka.bootstrap.servers", "host:port, several with commas", "", "Where to find the cluster.", _read_name),
    Option(
        "kafka.*",
        "a setting of ottla's reader, those for TLS, SASL and OAuth among them",
        "",
        "Any setting of the reader, such as `kafka.security.protocol` or `kafka.isolation.level`.",
    ),
    Option(
        "subscribe",
        "topic names, with commas",
        "",
        "All partitions of these topics. Exactly one of subscribe, subscribePattern and assign is needed.",
        _read_topics,
    ),
    Option(
        "subscribePattern",
        "a regular expression (Python's `re`)",
        "",
        "All topics whose name contains a match (put ^ and $ around it for whole names), except Kafka's internal "
        "topics, `__ottla_sink` and `__ottla_sink_markers`. A running stream also reads matching topics that are "
        "created later.",
        _read_pattern,
    ),
    Option("assign", "JSON {topic: [partition, ...]}", "", "These partitions alone."),
    Option(
        "startingOffsets",
        f"earliest, latest (streaming only) or {_OFFSETS}, naming every partition; there -2 is earliest, -1 latest "
        "(streaming only)",
        "earliest for a batch, latest for a stream",
        "Where to begin; a stream that has a checkpoint goes on from there instead.",
    ),
    Option(
        "startingTimestamp",
        _TIME,
        "",
        "Begin with the first record that has this timestamp or a later one.",
        _read_whole,
    ),
    Option("startingOffsetsByTimestamp", _TIMES, "", "The same for each partition."),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error or latest",
        "error",
        "What to do in a partition where no record has that timestamp or a later one: fail, or begin at its end.",
        _read_strategy,
    ),
    Option(
        "endingOffsets",
        f"latest or {_OFFSETS}, naming every partition; there -1 is latest",
        "latest",
        "Where a batch ends; that offset is not read.",
        used_by=BATCH,
        refused=_NO_END,
    ),
    Option(
        "endingTimestamp",
        _TIME,
        "",
        "End before the first record that has this timestamp or a later one; if there is none, at the end.",
        _read_whole,
        BATCH,
        _NO_END,
    ),
    Option("endingOffsetsByTimestamp", _TIMES, "", "The same for each partition.", used_by=BATCH, refused=_NO_END),
    Option(
        "failOnDataLoss",
        "true or false",
        "true",
        "Whether offsets that are gone (retention, deleted or emptied topics) fail the query, or are left out with a "
        "warning.",
        _read_bool,
    ),
    Option("includeHeaders", "true or false", "false", "Whether there is a column `headers`.", _read_bool),
    Option(
        "columns",
        f"names out of {', '.join((*COLUMNS, HEADERS))}, with commas",
        "all",
        "Which columns there are (ottla's own; Spark does not tell a Python source which ones a query needs). Those "
        "left out are not decoded.",
    ),
    Option(
        "value.format",
        "avro, protobuf or json",
        "",
        "Values are decoded with the schemas of a registry; the column `value` is a struct "
        "([more](#values-with-a-schema)).",
    ),
    Option("registry", "an address, several with commas", "", "The schema registry of value.format."),
    Option(
        "registry.*",
        "a setting of the registry's client",
        "",
        "Any setting of it, such as `registry.basic.auth.user.info` or `registry.ssl.truststore.location`.",
    ),
    Option("subject", "the name of a subject", "TOPIC-value", "All values are read as the latest schema of it."),
    Option(
        "value.schema",
        "the text of a schema, or the id of one that is registered",
        "the latest one of the subject",
        "All values are read as this one; fields that it leaves out are not decoded.",
    ),
    Option("value.message", "the name of a message", "the file's first one", "Which message of a Protobuf file."),
    Option(
        "undecodable",
        "fail, null or dead-letter",
        "fail",
        "What to do with a value that cannot be decoded. fail: the query fails. null: `value` is null. dead-letter: "
        "`value` is null, the column `valueError` has the reason, and the column `valueBytes` has the value's bytes.",
        _read_undecodable,
    ),
    Option(
        "minPartitions",
        _COUNT,
        "one task per partition",
        "At least so many tasks; large ranges are cut. With more than 64 partitions, a task may read several that have "
        "few records, up to 1,000 together.",
        _read_count,
    ),
    Option("maxRecordsPerPartition", _COUNT, "", "No task reads more; larger ranges are cut.", _read_count),
    Option(
        "maxOffsetsPerTrigger",
        _COUNT,
        "",
        "At most so many offsets in a micro-batch, shared out by how much each partition has.",
        _read_count,
        STREAMING,
    ),
    Option(
        "maxBytesPerTrigger",
        "a whole number of bytes from 1 on, also with a unit (k, m, g or t, such as 100m)",
        "",
        "At most so many bytes in a micro-batch, as stored by the brokers (compressed); shared out in the same way "
        "(ottla's own). It is an estimate: a partition's size divided by the offsets that it holds. With "
        "maxOffsetsPerTrigger, the smaller one of the two counts. Needs DESCRIBE on the cluster.",
        _read_bytes,
        STREAMING,
    ),
    Option(
        "minOffsetsPerTrigger",
        _COUNT,
        "",
        "Wait until there are so many; not with Trigger.AvailableNow.",
        _read_count,
        STREAMING,
    ),
    Option(
        "maxTriggerDelay",
        "a time such as 15m, 90s or 500ms",
        "15m",
        "How long to wait for minOffsetsPerTrigger.",
        _read_duration_ms,
        STREAMING,
    ),
    Option(
        "kafka.group.id",
        "the name of a consumer group",
        "",
        "A stream commits there what it has processed, for others to see; nothing is read from it. A batch commits "
        "nothing.",
        _read_name,
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        _COUNT,
        "120000",
        "A task fails if no record comes for so many milliseconds.",
        _read_count,
    ),
)
"""In the order of the documentation."""

WITHOUT_EFFECT = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix")
"""Options of Spark's that only tune its consumers: accepted, and without effect."""

REFUSED_SETTINGS = {
    "kafka.auto.offset.reset": "use startingOffsets and failOnDataLoss instead",
    "kafka.enable.auto.commit": "leave it out; a stream commits to kafka.group.id, and a batch commits nothing",
    "kafka.interceptor.classes": "leave it out, and use DataFrame operations",
    "kafka.key.deserializer": "keys are binary: use DataFrame operations, such as cast",
    "kafka.value.deserializer": "use DataFrame operations, such as cast, or the option value.format",
}
"""Kafka settings that Spark's own source refuses, too, and what to do instead."""

SETTINGS_WITHOUT_EFFECT = frozenset(
    "kafka." + name
    for name in (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    )
)
"""Settings of Kafka's consumer about membership in groups, polling and metrics, which a source does not have."""
