"""The table of a producer's settings under Kafka's names (4.x); the connection's rows come first.

Rows only: what they mean to each other stands in `settings.py`, how they are read in `connection/setting.py`.
"""

from __future__ import annotations

from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting
from ottla.connection.settings import CONNECTION_SETTINGS

COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER_SETTINGS: tuple[Setting, ...] = (
    *CONNECTION_SETTINGS,
    Setting(
        "acks",
        str,
        "all",
        "Who must have a batch before it counts: nobody (0), the leader (1), all replicas in sync (all). With 0 nobody "
        "is asked: what a broker refuses or never gets is lost without a word, offsets are not known, and nothing but "
        "a full socket slows the producer down.",
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
        "How many requests may be unanswered on one connection; with acks=0 none is answered, and there is no limit.",
        lowest=1,
        highest=INT32_MAX,
        group="Delivery",
    ),
    Setting(
        "delivery.timeout.ms",
        int,
        120_000,
        "How long after it was begun a batch is given up, however often it was sent.",
        lowest=0,
        highest=INT32_MAX,
        kip=91,
        group="Delivery",
    ),
    Setting(
        "linger.ms",
        int,
        5,
        "How long a batch waits for more records before it is sent.",
        lowest=0,
        highest=INT32_MAX,
        kip=1030,
        group="Batches and memory",
    ),
    Setting(
        "batch.size",
        int,
        16_384,
        "The bytes at which a batch is full.",
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
        "The most bytes of records that wait to be stored; then send blocks.",
        lowest=0,
        highest=INT64_MAX,
        group="Batches and memory",
    ),
    Setting(
        "max.block.ms",
        int,
        60_000,
        "How long send may block for metadata or buffer room.",
        lowest=0,
        highest=INT64_MAX,
        group="Batches and memory",
    ),
    Setting(
        "compression.type",
        str,
        "none",
        "How batches are compressed.",
        allowed=COMPRESSION_TYPES,
        group="Compression",
    ),
    Setting(
        "compression.gzip.level",
        int,
        -1,
        "gzip's level; -1 leaves it to the library.",
        lowest=1,
        highest=9,
        special=-1,
        kip=390,
        group="Compression",
    ),
    Setting(
        "compression.lz4.level",
        int,
        9,
        "lz4's level.",
        lowest=1,
        highest=17,
        kip=390,
        group="Compression",
    ),
    Setting(
        "compression.zstd.level",
        int,
        3,
        "zstd's level.",
        lowest=-131_072,
        highest=22,
        kip=390,
        group="Compression",
    ),
    Setting(
        "partitioner.ignore.keys",
        bool,
        False,
        "Spread records with a key like those without one.",
        kip=794,
        group="Partitions",
    ),
)
