"""The producer's settings: Kafka's names and defaults (4.x), and Java's rules for those that contradict each other.

The rules, as `ProducerConfig` and `KafkaProducer` of 4.3 apply them: idempotence wants acks=all, retries above 0 and at
most five requests in flight. Where idempotence was asked for, a contradiction is refused; where it is on by default,
acks and retries switch it off, and only too many requests in flight are refused. A `delivery.timeout.ms` that was
given must cover `linger.ms` + `request.timeout.ms`; one that was not given grows to cover them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connection.settings import (
    CONNECTION_SETTINGS,
    INT32_MAX,
    INT64_MAX,
    ConnectionSettings,
    Setting,
    read_settings,
)
from ottla.errors import ConfigError

IN_FLIGHT_MAX_WITH_IDEMPOTENCE = 5
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCER_SETTINGS: tuple[Setting, ...] = (
    *CONNECTION_SETTINGS,
    Setting(
        "acks",
        str,
        "all",
        "Who must have a batch before it counts: nobody (0), the leader (1), all replicas in sync (all).",
        allowed=("all", "-1", "0", "1"),
    ),
    Setting(
        "enable.idempotence",
        bool,
        True,
        "Number the batches, so that one that is sent again is stored once.",
        kip=98,
    ),
    Setting(
        "retries",
        int,
        INT32_MAX,
        "How often a batch is sent again, within delivery.timeout.ms.",
        lowest=0,
        highest=INT32_MAX,
    ),
    Setting(
        "max.in.flight.requests.per.connection",
        int,
        5,
        "How many requests may be unanswered on one connection.",
        lowest=1,
        highest=INT32_MAX,
    ),
    Setting(
        "delivery.timeout.ms",
        int,
        120_000,
        "How long after it was begun a batch is given up, however often it was sent.",
        lowest=0,
        highest=INT32_MAX,
        kip=91,
    ),
    Setting(
        "linger.ms",
        int,
        5,
        "How long a batch waits for more records before it is sent.",
        lowest=0,
        highest=INT32_MAX,
        kip=1030,
    ),
    Setting(
        "batch.size",
        int,
        16_384,
        "The bytes at which a batch is full.",
        lowest=0,
        highest=INT32_MAX,
    ),
    Setting(
        "max.request.size",
        int,
        1_048_576,
        "The most bytes of batches in one request, and of one record.",
        lowest=0,
        highest=INT32_MAX,
    ),
    Setting(
        "buffer.memory",
        int,
        33_554_432,
        "The most bytes of records that wait to be stored; then send blocks.",
        lowest=0,
        highest=INT64_MAX,
    ),
    Setting(
        "max.block.ms",
        int,
        60_000,
        "How long send may block for metadata or buffer room.",
        lowest=0,
        highest=INT64_MAX,
    ),
    Setting(
        "compression.type",
        str,
        "none",
        "How batches are compressed.",
        allowed=COMPRESSION_TYPES,
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
    ),
    Setting(
        "compression.lz4.level",
        int,
        9,
        "lz4's level.",
        lowest=1,
        highest=17,
        kip=390,
    ),
    Setting(
        "compression.zstd.level",
        int,
        3,
        "zstd's level.",
        lowest=-131_072,
        highest=22,
        kip=390,
    ),
    Setting(
        "partitioner.ignore.keys",
        bool,
        False,
        "Spread records with a key like those without one.",
        kip=794,
    ),
)


class ProducerSettings:
    """Every row of `PRODUCER_SETTINGS` as an attribute, checked against the others.

    `acks` is -1, 0 or 1. `idempotent` says whether idempotence is on after all rules. `compression_level` is None
    where no level was given for the codec in use. `connection` holds the part all clients share.
    """

    __slots__ = (
        "acks",
        "batch_size",
        "buffer_memory",
        "compression_level",
        "compression_type",
        "connection",
        "delivery_timeout_ms",
        "idempotent",
        "linger_ms",
        "max_block_ms",
        "max_in_flight_requests_per_connection",
        "max_request_size",
        "partitioner_ignore_keys",
        "retries",
    )

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` names the setting, the value and what is allowed."""
        values, explicit = read_settings(PRODUCER_SETTINGS, given)
        self.connection = ConnectionSettings.from_values(values)
        self.acks = -1 if values["acks"] == "all" else int(values["acks"])
        self.batch_size: int = values["batch_size"]
        self.buffer_memory: int = values["buffer_memory"]
        self.compression_type: str = values["compression_type"]
        level_name = f"compression_{self.compression_type}_level"
        self.compression_level: int | None = values[level_name] if level_name in explicit else None
        if self.compression_type == "gzip" and self.compression_level == -1:
            self.compression_level = None
        self.linger_ms: int = values["linger_ms"]
        self.max_block_ms: int = values["max_block_ms"]
        self.max_in_flight_requests_per_connection: int = values["max_in_flight_requests_per_connection"]
        self.max_request_size: int = values["max_request_size"]
        self.partitioner_ignore_keys: bool = values["partitioner_ignore_keys"]
        self.retries: int = values["retries"]
        self.idempotent = self._settle_idempotence(values["enable_idempotence"], "enable_idempotence" in explicit)
        self.delivery_timeout_ms = self._settle_delivery_timeout(
            values["delivery_timeout_ms"], "delivery_timeout_ms" in explicit
        )

    def _settle_idempotence(self, enabled: bool, asked_for: bool) -> bool:
        if not enabled:
            return False
        if asked_for and self.retries == 0:
            raise ConfigError(
                "enable.idempotence=true needs retries above 0, but retries=0 was given; "
                "raise retries or set enable.idempotence=false."
            )
        if asked_for and self.acks != -1:
            raise ConfigError(
                f"enable.idempotence=true needs acks=all, but acks={self.acks} was given; "
                "set acks=all or enable.idempotence=false."
            )
        in_flight = self.max_in_flight_requests_per_connection
        if in_flight > IN_FLIGHT_MAX_WITH_IDEMPOTENCE:
            raise ConfigError(
                f"max.in.flight.requests.per.connection={in_flight} is too many with idempotence, "
                f"which brokers keep for the last {IN_FLIGHT_MAX_WITH_IDEMPOTENCE} batches; "
                f"allowed is 1 to {IN_FLIGHT_MAX_WITH_IDEMPOTENCE}, or set enable.idempotence=false."
            )
        return self.acks == -1 and self.retries > 0

    def _settle_delivery_timeout(self, timeout_ms: int, asked_for: bool) -> int:
        least_ms = min(self.linger_ms + self.connection.request_timeout_ms, INT32_MAX)
        if timeout_ms >= least_ms:
            return timeout_ms
        if asked_for:
            raise ConfigError(
                f"delivery.timeout.ms={timeout_ms} must be at least linger.ms + request.timeout.ms, here "
                f"{self.linger_ms} + {self.connection.request_timeout_ms} = {least_ms}; raise it or lower those two."
            )
        return least_ms
