"""The table of a producer's settings under Kafka's names (4.x); the connection's rows come first.

Rows only: the rules between them are in `settings.py`, and how they are read in `connection/setting.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connection.function_setting import function_reader
from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting
from ottla.connection.settings import CONNECTION_SETTINGS
from ottla.producer.intake_settings import read_interceptors
from ottla.producer.metric_settings import METRIC_SETTINGS
from ottla.producer.partitioner_class import read_partitioner
from ottla.records.batch_header import CODECS
from ottla.records.compression import Levels, codec_of


def _serializer(setting: str) -> Callable[[Any], Any]:
    return function_reader(setting, ("serialize_with_headers", "serialize"), "serialize(topic, object)")


def _level(codec: str, levels: Levels) -> Setting:
    default = "" if levels.special is None else f"; {levels.special} leaves it to the library"
    return Setting(
        f"compression.{codec}.level",
        int,
        levels.default,
        f"{codec}'s level{default}.",
        lowest=levels.lowest,
        highest=levels.highest,
        special=levels.special,
        kip=390,
        group="Compression",
    )


PRODUCER_SETTINGS: tuple[Setting, ...] = (
    *CONNECTION_SETTINGS,
    *METRIC_SETTINGS,
    Setting(
        "metadata.max.idle.ms",
        int,
        300_000,
        "After how long without a record for a topic its metadata is not kept up to date any more; the next send to it "
        "waits for it again.",
        lowest=5_000,
        highest=INT64_MAX,
        kip=526,
        group="The cluster",
    ),
    Setting(
        "acks",
        str,
        "all",
        "Who must have a batch before it counts: nobody (0), the leader (1), all replicas in sync (all). With 0 nobody "
        "is asked: what a broker refuses or never gets is lost without an error, offsets are not known, and nothing "
        "but a full socket slows the producer down.",
        allowed=("all", "-1", "0", "1"),
        group="Delivery",
    ),
    Setting(
        "enable.idempotence",
        bool,
        True,
        "Number the batches, so that one that is sent again is stored once.",
        kip=98,
        group="Delivery",
    ),
    Setting(
        "retries",
        int,
        INT32_MAX,
        "How often a batch is sent again, within delivery.timeout.ms.",
        lowest=0,
        highest=INT32_MAX,
        group="Delivery",
    ),
    Setting(
        "max.in.flight.requests.per.connection",
        int,
        5,
        "The most requests without an answer on one connection. Batches that are not full use fewer where more would "
        "only wait at the broker. With acks=0 there is no limit.",
        lowest=1,
        highest=INT32_MAX,
        group="Delivery",
    ),
    Setting(
        "delivery.timeout.ms",
        int,
        120_000,
        "How long a batch may take, from its first record to its outcome, retries included; then it is given up.",
        lowest=0,
        highest=INT32_MAX,
        kip=91,
        group="Delivery",
    ),
    Setting(
        "transactional.id",
        str,
        None,
        "The name by which a producer's transactions go on after a restart; an older producer of that name is fenced.",
        kip=98,
        group="Transactions",
    ),
    Setting(
        "transaction.timeout.ms",
        int,
        60_000,
        "How long a transaction may stay open before its coordinator aborts it.",
        lowest=1,
        highest=INT32_MAX,
        kip=98,
        group="Transactions",
    ),
    Setting(
        "linger.ms",
        int,
        5,
        "How long a batch waits for more records. After that it is sent with the next request, and takes records until "
        "then.",
        lowest=0,
        highest=INT64_MAX,
        kip=1030,
        group="Batches and memory",
    ),
    Setting(
        "batch.size",
        int,
        16_384,
        "The bytes at which a batch is full, after compression (estimated from earlier batches).",
        lowest=0,
        highest=INT32_MAX,
        group="Batches and memory",
    ),
    Setting(
        "max.request.size",
        int,
        1_048_576,
        "The most bytes of batches in one request, and of one record.",
        lowest=0,
        highest=INT32_MAX,
        group="Batches and memory",
    ),
    Setting(
        "buffer.memory",
        int,
        33_554_432,
        "The most memory for records without an outcome, in bytes. When it is full, send waits; calls are served in "
        "the order in which they came.",
        lowest=0,
        highest=INT64_MAX,
        group="Batches and memory",
    ),
    Setting(
        "max.block.ms",
        int,
        60_000,
        "How long one call of send may wait in all, for metadata and for memory. In send_table it is counted for each "
        "batch. Transaction calls wait as long for an answer.",
        lowest=0,
        highest=INT64_MAX,
        group="Batches and memory",
    ),
    Setting(
        "compression.type",
        str,
        "none",
        "How batches are compressed.",
        allowed=CODECS,
        group="Compression",
    ),
    *(_level(codec, levels) for codec in CODECS if (levels := codec_of(codec).levels) is not None),
    Setting(
        "partitioner.class",
        object,
        "default",
        "How a record gets its partition: a name, or a function that is given a column of keys and a view of the "
        "cluster and returns a column of partitions.",
        takes="str | Callable[[KeyColumn, ClusterView], Any]",
        reads=read_partitioner,
        group="Partitions",
    ),
    Setting(
        "partitioner.adaptive.partitioning.enable",
        bool,
        True,
        "Give partitions with long queues fewer of the records without a key.",
        kip=794,
        group="Partitions",
    ),
    Setting(
        "partitioner.availability.timeout.ms",
        int,
        0,
        "After how long with batches waiting and none taken a broker's partitions get no more records without a key; "
        "0: never.",
        lowest=0,
        highest=INT64_MAX,
        kip=794,
        group="Partitions",
    ),
    Setting(
        "partitioner.ignore.keys",
        bool,
        False,
        "Spread records with a key like those without one.",
        kip=794,
        group="Partitions",
    ),
    Setting(
        "key.serializer",
        object,
        None,
        "What makes bytes of a key given to send: a name such as json or long, a function of the object, "
        "or an object with serialize(topic, object); without one, keys are bytes or text.",
        takes="Any",
        reads=_serializer("key.serializer"),
        group="Serializers and interceptors",
    ),
    Setting(
        "value.serializer",
        object,
        None,
        "The same for values; None stays a tombstone.",
        takes="Any",
        reads=_serializer("value.serializer"),
        group="Serializers and interceptors",
    ),
    Setting(
        "interceptor.classes",
        list,
        None,
        "Objects (or classes) with on_send, on_batch or on_ack, which see records and batches pass.",
        takes="Sequence[Any]",
        reads=read_interceptors,
        group="Serializers and interceptors",
    ),
)
