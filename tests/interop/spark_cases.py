"""What Spark's own Kafka connector and ours are asked to do, case by case, and which row of the guide each case is for.

`READS`, `STREAMS`, `WRITES` and `SINKS` say what is done with both formats (`spark_sides.py` does it). `REFUSED` says
which of them both refuse and in which words, `DIFFERENT` which of them differ, and the test says how. `ROWS` has the
rows of the table in docs/spark-migration.md, by the text of their first cell.
"""

from __future__ import annotations

import json
import time
from typing import Any

# Retention takes what is older than a week.
SENT_MS = int(time.time() * 1000) - 43_200_000
FIRST_MS = int(time.time() * 1000) - 86_400_000


def each(value: int, topic: str = "plain") -> str:
    """One value for each of the topic's three partitions."""
    return json.dumps({topic: dict.fromkeys("012", value)})


def topic_of(case: str, form: str) -> str:
    """The topic that one format writes to in a case."""
    return f"{form}-" + "".join(letter if letter.isalnum() else "-" for letter in case)


READS: dict[str, dict[str, str]] = {
    "all": {"subscribe": "plain"},
    "several": {"subscribe": "plain, trimmed,empty"},
    "pattern": {"subscribePattern": "(pl|tr).*"},
    "all topics": {"subscribePattern": ".*"},
    "part of a name": {"subscribePattern": "plai"},
    "Java's own pattern": {"subscribePattern": "[a-z&&[^x]]+"},
    "assigned": {"assign": '{"plain": [2, 0], "trimmed": [0]}'},
    "headers": {"subscribe": "plain", "includeHeaders": "true"},
    "offsets": {
        "subscribe": "plain",
        "startingOffsets": '{"plain": {"0": 3, "1": -2, "2": 10}}',
        "endingOffsets": '{"plain": {"0": 5, "1": -1, "2": 10}}',
    },
    "offsets of some": {"subscribe": "plain", "startingOffsets": '{"plain": {"0": 3}}'},
    "offsets beyond": {"subscribe": "plain", "startingOffsets": each(99)},
    "latest": {"subscribe": "plain", "startingOffsets": "latest"},
    "ends at earliest": {"subscribe": "plain", "endingOffsets": "earliest"},
    "time": {
        "subscribe": "plain",
        "startingTimestamp": str(FIRST_MS + 6),
        "endingTimestamp": str(FIRST_MS + 20),
    },
    "no time that late": {"subscribe": "plain", "startingTimestamp": str(FIRST_MS + 10**7)},
    "no time that late, latest": {
        "subscribe": "plain",
        "startingTimestamp": str(FIRST_MS + 28),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "ends late": {"subscribe": "plain", "endingTimestamp": str(FIRST_MS + 10**7)},
    "times": {
        "subscribe": "plain",
        "startingOffsetsByTimestamp": each(FIRST_MS + 7),
        "endingOffsetsByTimestamp": each(FIRST_MS + 21),
    },
    "a time before times before offsets": {
        "subscribe": "plain",
        "startingTimestamp": str(FIRST_MS + 9),
        "startingOffsetsByTimestamp": each(FIRST_MS + 20),
        "startingOffsets": each(9),
    },
    "gone, strictly": {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 1}}'},
    "gone": {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 1}}', "failOnDataLoss": "false"},
    "committed": {"subscribe": "transactions", "kafka.isolation.level": "read_committed"},
    "uncommitted": {"subscribe": "transactions"},
    "pieces": {"subscribe": "plain", "minPartitions": "11"},
    "no pieces": {"subscribe": "plain", "minPartitions": "0"},
    "small pieces": {"subscribe": "plain", "maxRecordsPerPartition": "3"},
    "empty": {"subscribe": "empty"},
    "unknown": {"subscribe": "unknown"},
    "no such partition": {"assign": '{"plain": [3]}'},
    "two ways": {"subscribe": "plain", "assign": '{"plain": [0]}'},
    "no way": {},
    "no cluster": {"subscribe": "plain", "kafka.bootstrap.servers": ""},
    "group": {"subscribe": "plain", "kafka.group.id": "readers"},
    "prefix of groups": {"subscribe": "plain", "groupIdPrefix": "x"},
    "retries": {"subscribe": "plain", "fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "7"},
    "patience": {"subscribe": "plain", "kafkaConsumer.pollTimeoutMs": "60000"},
    "bounded batch": {"subscribe": "plain", "maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "2"},
    "reset": {"subscribe": "plain", "kafka.auto.offset.reset": "earliest"},
    "key deserializer": {"subscribe": "plain", "kafka.key.deserializer": "a.B"},
    "value deserializer": {"subscribe": "plain", "kafka.value.deserializer": "a.B"},
    "auto commit": {"subscribe": "plain", "kafka.enable.auto.commit": "true"},
    "interceptors": {"subscribe": "plain", "kafka.interceptor.classes": "a.B"},
    "polling": {"subscribe": "plain", "kafka.max.poll.records": "7", "kafka.session.timeout.ms": "30000"},
    "connection": {"subscribe": "plain", "kafka.client.id": "me", "kafka.fetch.min.bytes": "1"},
    "security in plain text": {
        "subscribe": "plain",
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.ssl.truststore.type": "JKS",
        "kafka.ssl.truststore.location": "/no/such/store.jks",
        "kafka.sasl.mechanism": "PLAIN",
    },
    "Java's engine": {"subscribe": "plain", "kafka.ssl.engine.factory.class": "a.B"},
    "Java's provider": {"subscribe": "plain", "kafka.ssl.provider": "SunJSSE"},
    "unknown setting": {"subscribe": "plain", "kafka.no.such.setting": "1"},
    "unknown option": {"subscribe": "plain", "noSuchOption": "1"},
    "any case": {"SUBSCRIBE": "plain", "KAFKA.client.ID": "me", "startingoffsets": "EARLIEST"},
    "end before start": {"subscribe": "plain", "startingOffsets": each(5), "endingOffsets": each(3)},
    "end before start in time": {
        "subscribe": "plain",
        "startingTimestamp": str(FIRST_MS + 20),
        "endingTimestamp": str(FIRST_MS + 5),
    },
    "pattern of nothing": {"subscribePattern": "nothing.*"},
    "more pieces than records": {"subscribe": "plain", "minPartitions": "100"},
    "no topic": {"subscribe": " "},
    "no name of a topic": {"subscribe": "not:allowed"},
    "nonsense assigned": {"assign": "plain"},
    "nonsense for offsets": {"subscribe": "plain", "startingOffsets": "{plain"},
    "a word for offsets": {"subscribe": "plain", "startingOffsets": "soon"},
    "nonsense for true": {"subscribe": "plain", "failOnDataLoss": "nope"},
    "nonsense for a count": {"subscribe": "plain", "minPartitions": "many"},
    "pieces of nothing": {"subscribe": "plain", "maxRecordsPerPartition": "0"},
    "nonsense for patience": {"subscribe": "plain", "kafkaConsumer.pollTimeoutMs": "soon"},
    "nonsense for isolation": {"subscribe": "plain", "kafka.isolation.level": "serializable"},
}

COUNTED = ("all", "pieces", "small pieces", "empty")
"""Of which it is asked how many tasks read them."""

EARLY = {"subscribe": "plain", "startingOffsets": "earliest"}
STREAMS: dict[str, dict[str, Any]] = {
    "stream": EARLY,
    "stream once": EARLY | {"trigger": {"once": True}},
    "stream of a group": EARLY | {"kafka.group.id": "readers-of-a-stream"},
    "stream of what comes": {"subscribe": "plain"},
    "stream of offsets": {"subscribe": "plain", "startingOffsets": '{"plain": {"0": 3, "1": -2, "2": -1}}'},
    "stream of times": {"subscribe": "plain", "startingTimestamp": str(FIRST_MS + 15)},
    "bounded stream": EARLY | {"maxOffsetsPerTrigger": "12"},
    "stream of so many bytes": EARLY | {"maxBytesPerTrigger": "1m"},
    "stream that waits": EARLY | {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "1s"},
    "least above most": EARLY | {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    "stream with an end": EARLY | {"endingOffsets": "latest"},
    "stream with an end in time": EARLY | {"endingTimestamp": "5"},
    "stream of a pattern": {"subscribePattern": "(pl|tr)ai.*", "startingOffsets": "earliest"},
    "stream of partitions": {"assign": '{"plain": [2, 0]}', "startingOffsets": "earliest"},
    "stream with headers": EARLY | {"includeHeaders": "true"},
    "stream in pieces": EARLY | {"minPartitions": "9"},
    "stream of what is committed": {
        "subscribe": "transactions",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    },
    "stream of what is left": {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 1}}',
        "failOnDataLoss": "false",
    },
    "stream of what is gone": {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 1}}'},
    "stream of nothing at a time": EARLY | {"maxOffsetsPerTrigger": "0"},
    "stream of nonsense at a time": EARLY | {"maxOffsetsPerTrigger": "many"},
    "stream with a nonsense delay": EARLY | {"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"},
}

_ROWS = "array(named_struct('key', 'h', 'value', cast('x' as binary)))"
_NO_VALUE = "array(named_struct('key', 'h', 'value', cast(null as binary)))"
_NO_NAME = "array(named_struct('key', cast(null as string), 'value', cast('x' as binary)))"
HEADERS = "array<struct<key string, value binary>>"
WRITES: dict[str, dict[str, Any]] = {
    "write": {"rows": ["'k' key", "cast(id as string) value"]},
    "write binary": {"rows": ["cast('k' as binary) key", "cast(cast(id as string) as binary) value"]},
    "write tombstones": {"rows": ["'k' key", "cast(null as string) value"]},
    "write to a partition": {"rows": ["'k' key", "cast(id as string) value", "1 partition"]},
    "write to the key's partition": {"rows": ["'k' key", "'v' value", "cast(null as int) partition"]},
    "write headers": {"rows": ["'v' value", f"{_ROWS} headers"], "includeHeaders": "true"},
    "write headers, not told": {"rows": ["'v' value", f"{_ROWS} headers"]},
    "write headers of a map": {"rows": ["'v' value", "map_entries(map('h', cast('x' as binary))) headers"]},
    "write no headers": {"rows": ["'v' value", f"cast(null as {HEADERS}) headers"]},
    "write headers without value": {"rows": ["'v' value", f"{_NO_VALUE} headers"]},
    "write headers without name": {"rows": ["'v' value", f"{_NO_NAME} headers"]},
    "write text headers": {"rows": ["'v' value", "array(named_struct('key', 'h', 'value', 'x')) headers"]},
    "write by column": {"rows": ["'v' value", "TOPIC topic"], "topic": None},
    "write by option": {"rows": ["'v' value", "'no-such-topic' topic"]},
    "write to null": {"rows": ["'v' value", "cast(null as string) topic"], "topic": None},
    "write nowhere": {"rows": ["'v' value"], "topic": None},
    "write without value": {"rows": ["'k' key"]},
    "write numbers": {"rows": ["id value"]},
    "write long partition": {"rows": ["'v' value", "1L partition"]},
    "write number as key": {"rows": ["'v' value", "id key"]},
    "write nothing as key": {"rows": ["null key", "'v' value"]},
    "write varchar": {"rows": ["cast('v' as varchar(5)) value"]},
    "write Value": {"rows": ["'v' Value"]},
    "write to partition 9": {"rows": ["'v' value", "9 partition"], "kafka.max.block.ms": "3000"},
    "write to partition -1": {"rows": ["'v' value", "-1 partition"], "kafka.max.block.ms": "3000"},
    "write too much": {"rows": ["repeat('x', 2000000) value"]},
    "write more columns": {"rows": ["'v' value", "id", "id offset", "0 timestampType"]},
    "write times": {"rows": ["'v' value", f"timestamp_millis({SENT_MS}) timestamp"]},
    "write with settings": {"rows": ["'v' value"], "kafka.acks": "all", "kafka.compression.type": "lz4"},
    "write with nonsense": {"rows": ["'v' value"], "kafka.acks": "7"},
    "write with unknown setting": {"rows": ["'v' value"], "kafka.no.such.setting": "1"},
    "write to the empty topic": {"rows": ["'v' value"], "topic": ""},
    "write with serializer": {"rows": ["'v' value"], "kafka.key.serializer": "a.B"},
    "write with value serializer": {"rows": ["'v' value"], "kafka.value.serializer": "a.B"},
    "write with unknown option": {"rows": ["'v' value"], "noSuchOption": "1"},
    "write in no mode": {"rows": ["'v' value"], "mode": None},
    "write in mode error": {"rows": ["'v' value"], "mode": "errorifexists"},
    "write in mode ignore": {"rows": ["'v' value"], "mode": "ignore"},
    "overwrite": {"rows": ["'v' value"], "mode": "overwrite"},
}
"""`rows`: columns of three rows; `mode` is append unless given; all else are options."""

REAL_TIME = {"realTime": "5 seconds"}
SINKS: dict[str, dict[str, Any]] = {
    "append": {},
    "complete": {"outputMode": "complete"},
    "update": {"outputMode": "update"},
    "foreachBatch": {"outputMode": "update", "form": "foreachBatch"},
    "checkpoint of the configuration": {"configured": True},
    "checkpoint of the configuration, named": {"configured": True, "sink.id": "ottla alone knows this one"},
    "async progress": {"asyncProgressTrackingEnabled": "true", "trigger": {"processingTime": "1 second"}},
    "continuous": {"trigger": {"continuous": "1 second"}, "form": "noop"},
    "real time": {"trigger": REAL_TIME, "outputMode": "update", "counted": False, "source": "kafka"},
    "real time, foreach": {"trigger": REAL_TIME, "outputMode": "update", "counted": False, "form": "foreach"},
}
"""A stream over `plain`, counted by partition but in mode append, into a topic, with the trigger AvailableNow unless
`trigger` is another one. `form` is where it goes instead, and the source is then of the format in question."""

REFUSED: dict[str, tuple[str, str]] = {
    "offsets of some": ("don't match what are assigned", "it must name exactly those"),
    "offsets beyond": ("start offset 99 is greater than the", "which has the offsets from 0 to 10"),
    "latest": ("starting offset can't be latest for batch queries", "The option startingOffsets is 'latest'"),
    "ends at earliest": ("ending offset can't be earliest for batch queries", "The option endingOffsets is 'earliest'"),
    "no time that late": ("No offset matched from request", "has none from then on"),
    "gone, strictly": ("Some data may have been lost", "which has the offsets from 12 to 30"),
    "unknown": ("UnknownTopicOrPartitionException", "names topic 'unknown', which does not exist"),
    "two ways": ("Only one of the following options can be specified", "not with subscribe, assign together"),
    "no way": ("One of the following options must be specified", "none of them is given"),
    "no cluster": ("Failed to create new KafkaAdminClient", "The option kafka.bootstrap.servers is ''"),
    "no pieces": ("minPartitions must be positive", "The option minPartitions is '0'"),
    "reset": ("Kafka option 'auto.offset.reset' is not supported", "The option kafka.auto.offset.reset cannot be used"),
    "key deserializer": ("Kafka option 'key.deserializer' is not supported", "kafka.key.deserializer cannot be used"),
    "value deserializer": ("Kafka option 'value.deserializer' is not", "kafka.value.deserializer cannot be used"),
    "auto commit": ("Kafka option 'enable.auto.commit' is not", "The option kafka.enable.auto.commit cannot be used"),
    "interceptors": (
        "Kafka option 'interceptor.classes' is not",
        "The option kafka.interceptor.classes cannot be used",
    ),
    "Java's engine": ("Class a.B could not be found", "ssl.engine.factory.class names a Java class"),
    "end before start": ("start offset 5 is greater than the", "The start (5) lies beyond the end (3)"),
    "least above most": ("minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(4)", "(5) is higher than"),
    "stream with an end": (
        "ending offset not valid in streaming queries",
        "endingOffsets cannot be used in a streaming",
    ),
    "end before start in time": ("is greater than the resolved end offset", "lies beyond the end"),
    "no topic": ("No topics to subscribe to", "The option subscribe is ' ': it must be topic names"),
    "no name of a topic": ("InvalidTopicException", "names topic 'not:allowed', which is no name of a topic"),
    "nonsense assigned": ("No topicpartitions to assign", "The option assign is 'plain', which is not JSON"),
    "nonsense for offsets": ("Expected e.g.", "The option startingOffsets is '{plain', which is not JSON"),
    "a word for offsets": ("Expected e.g.", "The option startingOffsets is 'soon': it must be earliest or JSON"),
    "nonsense for true": ('For input string: "nope"', "The option failOnDataLoss is 'nope': it must be true or false"),
    "nonsense for a count": (
        'For input string: "many"',
        "The option minPartitions is 'many': it must be a whole number",
    ),
    "pieces of nothing": ("must be positive", "The option maxRecordsPerPartition is '0': it must be a whole number"),
    "nonsense for patience": ('For input string: "soon"', "kafkaConsumer.pollTimeoutMs is 'soon': it must be a whole"),
    "nonsense for isolation": (
        "Invalid value serializable",
        "isolation.level='serializable' is not known; allowed are",
    ),
    "stream of what is gone": ("Some data may have been lost", "which has the offsets from 12 to 30"),
    "stream of nonsense at a time": ('For input string: "many"', "maxOffsetsPerTrigger is 'many': it must be a whole"),
    "stream with a nonsense delay": (
        "Failed to parse time string: soon",
        "maxTriggerDelay is 'soon': it must be a time",
    ),
    "write headers without name": ("NullPointerException", "has a null header, or one without a name, in row 0"),
    "write text headers": (
        "headers attribute unsupported type",
        "'headers' is of type array<struct<key:string,value:st",
    ),
    "write nothing as key": ("key attribute unsupported type void", "'key' is of type void; it has to be string or"),
    "write Value": (
        "Required attribute 'value' not found",
        "Column 'Value' would be left out: the one that is written",
    ),
    "write to partition 9": ("is not present in metadata after 3000 ms", "names partition 9 in row 0; topic ottla-"),
    "write to partition -1": ("Invalid partition: -1", "names partition -1 in row 0; topic ottla-"),
    "write too much": ("RecordTooLargeException", "allows 1048576. Send less in one record"),
    "write with nonsense": (
        "Invalid value 7 for configuration acks",
        "acks='7' is not known; allowed are all, -1, 0, 1",
    ),
    "write to the empty topic": ("InvalidTopicException", "The option topic is empty: name a topic"),
    "write to null": ("contains a null topic", "Column 'topic' is null in row 0"),
    "write nowhere": ("topic option required when no 'topic' attribute", "Nothing says which topic to write to"),
    "write without value": ("value", "There is no column 'value'"),
    "write numbers": ("value", "'value' is of type bigint; it has to be string or binary"),
    "write number as key": ("key", "'key' is of type bigint; it has to be string or binary"),
    "write long partition": ("partition", "'partition' is of type bigint; it has to be int"),
    "write with serializer": ("key.serializer' is not supported", "The option kafka.key.serializer cannot be set"),
    "write with value serializer": ("value.serializer' is not supported", "kafka.value.serializer cannot be set"),
    "write in mode ignore": ("Save mode Ignore not allowed for Kafka", 'cannot be written in the "Ignore" mode'),
    "overwrite": ("Save mode Overwrite not allowed for Kafka", "A topic cannot be overwritten"),
}
"""What both refuse, each for this reason and in these words; an error of another kind is none of these."""

REFUSED_BY_OURS: dict[str, str] = {
    "Java's provider": "ssl.provider chooses among Java's security providers; ottla uses OpenSSL: leave it out",
    "Java's own pattern": "The option subscribePattern is '[a-z&&[^x]]+'",
    "no such partition": "names partition 3 of plain, which has 3 partitions",
    "unknown setting": "no.such.setting",
    "unknown option": "'nosuchoption' is not an option of the ottla source",
    "stream with an end in time": "The option endingTimestamp cannot be used in a streaming query",
    "stream of nothing at a time": "The option maxOffsetsPerTrigger is '0': it must be a whole number from 1 on",
    "write with unknown setting": "no.such.setting is not a setting this client knows",
    "write with unknown option": "'nosuchoption' is not an option of the ottla sink",
    "write in no mode": 'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"',
    "write in mode error": 'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"',
    "update": "ottla does not support Update mode",
    "checkpoint of the configuration": "Spark does not tell sinks about spark.sql.streaming.checkpointLocation",
    "continuous": "Data source ottla does not support continuous processing",
    "real time": "PythonTable is not in the sink allowlist for Real-Time Mode",
    "real time, foreach": "PythonMicroBatchStreamWithTriggerAvailableNow is not supported in Real-time Mode",
    "async progress": "Sink ottla does not support async progress tracking",
}
"""What Spark's own connector takes and ours refuses, in these words."""

DIFFERENT = ("write times",)
"""What both do, each in its way."""

ROWS: dict[str, tuple[str, ...]] = {
    # Reading
    "`kafka.bootstrap.servers`": ("all", "no cluster"),
    "`subscribe`": (
        "all",
        "several",
        "no topic",
        "no name of a topic",
    ),
    "`subscribePattern`": (
        "pattern",
        "all topics",
        "part of a name",
        "Java's own pattern",
        "pattern of nothing",
        "stream of a pattern",
    ),
    "`assign`": (
        "assigned",
        "no such partition",
        "stream of partitions",
        "nonsense assigned",
    ),
    "two of these three, or none": ("two ways", "no way"),
    "`startingOffsets`": ("offsets", "latest", "stream", "stream of offsets"),
    "`endingOffsets`": ("offsets", "ends at earliest"),
    "offsets for some partitions only, or beyond the end, or a start behind the end": (
        "offsets of some",
        "offsets beyond",
        "end before start",
    ),
    "`startingTimestamp`, `endingTimestamp`": (
        "time",
        "ends late",
        "no time that late",
        "stream of times",
        "end before start in time",
    ),
    "`startingOffsetsByTimestamp`, `endingOffsetsByTimestamp`": ("times",),
    "a time, times and offsets together": ("a time before times before offsets",),
    "`startingOffsetsByTimestampStrategy`": ("no time that late, latest",),
    "`failOnDataLoss`": (
        "gone",
        "gone, strictly",
        "stream of what is left",
        "stream of what is gone",
    ),
    "`includeHeaders`": (
        "headers",
        "stream with headers",
    ),
    "`minPartitions`": (
        "pieces",
        "no pieces",
        "more pieces than records",
        "stream in pieces",
    ),
    "`maxRecordsPerPartition`": (
        "small pieces",
        "pieces of nothing",
    ),
    "`maxOffsetsPerTrigger`": (
        "bounded stream",
        "stream of nothing at a time",
    ),
    "`maxBytesPerTrigger`": ("stream of so many bytes",),
    "`minOffsetsPerTrigger`, `maxTriggerDelay`": ("stream that waits", "least above most"),
    "options of micro-batches in a batch": ("bounded batch",),
    "`endingOffsets`, `endingTimestamp` and others like them in a stream": (
        "stream with an end",
        "stream with an end in time",
    ),
    "`kafka.group.id`": ("group", "stream of a group"),
    "`groupIdPrefix`": ("prefix of groups",),
    "`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`": ("retries",),
    "`kafkaConsumer.pollTimeoutMs`": ("patience",),
    "`kafka.isolation.level`": ("committed",),
    "`kafka.max.poll.records` and others about groups and polling": ("polling",),
    "`kafka.security.protocol`, `kafka.ssl.*`, `kafka.sasl.*`": (
        "security in plain text",
        "Java's engine",
        "Java's provider",
    ),
    "other `kafka.*` settings": ("connection", "unknown setting"),
    "`kafka.auto.offset.reset`, `kafka.enable.auto.commit`, `kafka.interceptor.classes`, `kafka.key.deserializer`, "
    "`kafka.value.deserializer`": ("reset", "auto commit", "interceptors", "key deserializer", "value deserializer"),
    "an unknown option": ("unknown option",),
    "a value that an option cannot have": (
        "nonsense for offsets",
        "a word for offsets",
        "nonsense for true",
        "nonsense for a count",
        "nonsense for patience",
        "nonsense for isolation",
        "stream of nonsense at a time",
        "stream with a nonsense delay",
    ),
    "option names in capitals or small letters": ("any case",),
    "topics that do not exist": ("unknown",),
    "columns, their types and nulls": ("all", "headers"),
    "open and aborted transactions": (
        "committed",
        "uncommitted",
        "stream of what is committed",
    ),
    "tasks": ("empty", "pieces", "small pieces"),
    "a stream without `startingOffsets`: from latest": ("stream of what comes",),
    "`trigger(availableNow=True)`": ("stream",),
    "`trigger(once=True)`": ("stream once",),
    "`trigger(continuous=...)`": ("continuous",),
    "a checkpoint": ("moved",),
    "`minOffsetsBehindLatest`, `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest` in a query's progress": (
        "stream",
        "bounded stream",
    ),
    "`description` of a source in a query's progress": ("stream",),
    # Writing
    "`topic`": (
        "write",
        "write by option",
        "write to the empty topic",
    ),
    "a column `topic`": ("write by column", "write by option", "write to null", "write nowhere"),
    "columns `key` and `value`": (
        "write",
        "write binary",
        "write tombstones",
        "write without value",
        "write varchar",
        "write Value",
    ),
    "a column `partition`": (
        "write to a partition",
        "write to the key's partition",
        "write to partition 9",
        "write to partition -1",
    ),
    "a column `headers`": (
        "write headers",
        "write headers, not told",
        "write headers of a map",
        "write no headers",
        "write headers without value",
        "write headers without name",
        "write text headers",
    ),
    "a column `timestamp`": ("write times",),
    "other columns": ("write more columns",),
    "columns of other types": (
        "write numbers",
        "write long partition",
        "write number as key",
        "write nothing as key",
    ),
    "where keyed records go": ("write", "append"),
    "records that are too large": ("write too much",),
    "`kafka.*` settings of the producer": (
        "write with settings",
        "write with nonsense",
        "write with unknown setting",
    ),
    "`kafka.key.serializer`, `kafka.value.serializer`": ("write with serializer", "write with value serializer"),
    "an option that the sink does not have": ("write with unknown option",),
    '`.mode("append")`': ("write",),
    'no mode, `.mode("errorifexists")`': ("write in no mode", "write in mode error"),
    '`.mode("overwrite")`, `.mode("ignore")`': ("overwrite", "write in mode ignore"),
    '`outputMode("append")`': ("append",),
    '`outputMode("complete")`': ("complete",),
    '`outputMode("update")`': ("update",),
    "`foreachBatch`": ("foreachBatch",),
    "a checkpoint that Spark's configuration names": (
        "checkpoint of the configuration",
        "checkpoint of the configuration, named",
    ),
    "asynchronous progress tracking": ("async progress",),
    "real-time mode": ("real time", "real time, foreach"),
}
"""The rows of the guide's two tables, by their first cell, and the cases that show each."""
