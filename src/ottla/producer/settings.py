"""The producer's settings: Kafka's names and defaults (4.x), and Java's rules for those that contradict each other.

The rules, as `ProducerConfig` and `KafkaProducer` of 4.3 apply them: idempotence needs acks=all, retries above 0 and at
most five requests in flight. If `enable.idempotence` was given, a contradiction is an error. If idempotence is on by
default, other acks or retries=0 switch it off; more than five requests in flight are an error. A `delivery.timeout.ms`
that was given must be at least `linger.ms` + `request.timeout.ms`; the default is raised to that. A `transactional.id`
needs idempotence.

An error names both settings, both values and what to change. If idempotence was switched off, that is logged, and shown
in the producer's `repr` and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.connection.setting import INT32_MAX, read_settings
from ottla.connection.settings import CONNECTION_SETTINGS, TEXT_BYTES_MAX, ConnectionSettings
from ottla.errors import ConfigError
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.records.compression import codec_of

if TYPE_CHECKING:
    from ottla.producer.figures import Metrics

IN_FLIGHT_MAX_WITH_IDEMPOTENCE = 5
_OWN_SETTINGS = PRODUCER_SETTINGS[len(CONNECTION_SETTINGS) :]


class ProducerSettings:
    """Every row of `PRODUCER_SETTINGS` as an attribute, checked against the others.

    `acks` is -1, 0 or 1. `idempotent` says whether idempotence is on after all rules; if a rule switched it off,
    `idempotence_off_by` names the setting and its value. `compression_level` is None for the codec's default.
    `in_flight_max` is the limit of unanswered requests; with acks=0 there is none, as in Java: no request is answered,
    and each counts only until the socket has taken it. `warnings` are sentences for the client to log. `connection` has
    the settings that all clients have.
    """

    TABLE: ClassVar = PRODUCER_SETTINGS

    acks: int
    batch_size: int
    buffer_memory: int
    compression_type: str
    delivery_timeout_ms: int
    enable_idempotence: bool
    enable_metrics_push: bool
    interceptor_classes: tuple[Any, ...] | None
    key_serializer: Any
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_idle_ms: int
    metric_reporters: tuple[Callable[[Metrics], object], ...] | None
    metrics_num_samples: int
    metrics_recording_level: str
    metrics_sample_window_ms: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_class: str | Callable[..., Any]
    partitioner_ignore_keys: bool
    retries: int
    transaction_timeout_ms: int
    transactional_id: str | None
    value_serializer: Any

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` names the setting, the value and what is allowed."""
        values, explicit = read_settings(PRODUCER_SETTINGS, given)
        self.connection = ConnectionSettings.from_values(values, explicit)
        for row in _OWN_SETTINGS:
            setattr(self, row.keyword, values[row.keyword])
        self.acks = -1 if values["acks"] == "all" else int(values["acks"])
        # The default is left to the codec: the number may stand for another level (lz4).
        levels = codec_of(self.compression_type).levels
        level = values.get(f"compression_{self.compression_type}_level")
        self.compression_level: int | None = None if levels is None or level == levels.default else level
        self.in_flight_max = self.max_in_flight_requests_per_connection if self.acks else INT32_MAX
        self.linger_ms = min(self.linger_ms, INT32_MAX)  # as Java does; it is 24 days
        self.idempotence_off_by = self._settle_idempotence("enable_idempotence" in explicit)
        self.idempotent = self.enable_idempotence and not self.idempotence_off_by
        self._check_transactional_id()
        self._settle_delivery_timeout("delivery_timeout_ms" in explicit)
        self.warnings = list(self.connection.warnings)
        if self.buffer_memory < self.batch_size:
            self.warnings.append(
                f"buffer.memory={self.buffer_memory} is below batch.size={self.batch_size}: no batch can fill, and "
                "send waits while one is under way; raise buffer.memory to several times batch.size or lower that"
            )

    @property
    def partitioner(self) -> str:
        """The short name of the built-in partitioner, which also places what a user's function leaves to it."""
        return self.partitioner_class if isinstance(self.partitioner_class, str) else "default"

    @property
    def partition_function(self) -> Callable[..., Any] | None:
        """The user's own partitioner, where there is one."""
        return None if isinstance(self.partitioner_class, str) else self.partitioner_class

    def promise(self) -> str:
        """What a producer with these settings promises, for its `repr`: "acks=all, idempotence on"."""
        acks = "all" if self.acks == -1 else self.acks
        if self.idempotent:
            return f"acks={acks}, idempotence on"
        off = f"idempotence off because of {self.idempotence_off_by}" if self.idempotence_off_by else "idempotence off"
        return f"acks={acks}, {off}"

    def _settle_idempotence(self, asked_for: bool) -> str:
        """Return the setting that switches idempotence off, "" if none does; `ConfigError` for a contradiction."""
        if not self.enable_idempotence:
            return ""
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
            told = "" if asked_for else ", its default,"
            raise ConfigError(
                f"enable.idempotence=true{told} needs max.in.flight.requests.per.connection of "
                f"{IN_FLIGHT_MAX_WITH_IDEMPOTENCE} at most, because brokers remember no more batches of a producer, "
                f"but max.in.flight.requests.per.connection={in_flight} was given; lower it or set "
                "enable.idempotence=false."
            )
        if self.retries == 0:
            return "retries=0"
        return "" if self.acks == -1 else f"acks={self.acks}"

    def _check_transactional_id(self) -> None:
        if self.transactional_id is None:
            return
        if not self.transactional_id:
            raise ConfigError("transactional.id is empty; give it a name, or leave it out.")
        if len(self.transactional_id.encode()) > TEXT_BYTES_MAX:
            raise ConfigError(
                f"transactional.id is longer than the {TEXT_BYTES_MAX} bytes that the protocol has room for."
            )
        if not self.idempotent:
            cause = self.idempotence_off_by or "enable.idempotence=false"
            raise ConfigError(
                f"transactional.id={self.transactional_id!r} needs enable.idempotence=true, but {cause} was given; "
                f"leave out {cause} or transactional.id."
            )

    def _settle_delivery_timeout(self, asked_for: bool) -> None:
        linger_ms, request_timeout_ms = self.linger_ms, self.connection.request_timeout_ms
        least_ms = min(linger_ms + request_timeout_ms, INT32_MAX)
        if self.delivery_timeout_ms >= least_ms:
            return
        if asked_for:
            raise ConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms, here "
                f"{linger_ms} + {request_timeout_ms} = {least_ms}; raise it or lower those two."
            )
        self.delivery_timeout_ms = least_ms
