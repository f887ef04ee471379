"""The settings of one sink: its id, the brokers, how long its transactions may stay open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.connection.setting import INT32_MAX
from ottla.connection.settings import CONNECTION_SETTINGS
from ottla.errors import ConfigError

CONTROL_TOPIC = "__ottla_sink"
# Not to be changed: clusters have topics of receipts with this name.
_RECEIPTS = "_markers"


def topics_of(control_topic: str) -> tuple[str, str]:
    """The two topics of all sinks with this control topic."""
    return control_topic, control_topic + _RECEIPTS


SINK_TOPICS = topics_of(CONTROL_TOPIC)
"""The two topics that all sinks of a cluster share, unless they have another control topic."""
# Kafka's own default of transaction.max.timeout.ms, and so the longest that every cluster allows.
TRANSACTION_TIMEOUT_MS = 900_000
_MARGIN_MS_MIN, _MARGIN_MS_MAX = 15_000, 60_000
_DECISION_MS_MIN = 1_000
# How often brokers look for transactions whose time is over:
# transaction.abort.timed.out.transaction.cleanup.interval.ms.
_LOOK_MS = 10_000
SINK_ID_BYTES_MAX = 200
# Settings of the producer that the sink sets itself.
_OWN = (
    "acks",
    "bootstrap_servers",
    "enable_idempotence",
    "interceptor_classes",
    "key_serializer",
    "transaction_timeout_ms",
    "transactional_id",
    "value_serializer",
)


@dataclass(slots=True, frozen=True)
class SinkSettings:
    """One sink; picklable. ConfigError for what cannot be used.

    `sink_id` names the sink for as long as its query exists; `client_settings` are those of `ottla.Producer`, with dots
    or underscores. A batch whose transactions have less than `margin_ms` left is not decided (None: a tenth of
    `transaction_timeout_ms`, from 15 s to 60 s, and never more than a quarter). `same_rows`: whether a batch that is
    done and comes again with other rows is refused (None: a batch write is, a micro-batch is not). `timeout_name`,
    `margin_name`, `same_rows_name` and `other_rows_name` are what error messages call `transaction_timeout_ms`,
    `margin_ms`, and a `same_rows` that is true or false. `of_checkpoint`: the id was made from the location of the
    checkpoint, and not given by the user. `of_stream`: it is the only sink of a streaming query.
    """

    sink_id: str
    bootstrap_servers: str
    client_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)  # passwords may be among them
    control_topic: str = CONTROL_TOPIC
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    margin_ms: int | None = None
    timeout_name: str = "transaction.timeout.ms"
    margin_name: str = "margin_ms"
    same_rows: bool | None = None
    same_rows_name: str = "same_rows=True"
    other_rows_name: str = "same_rows=False"
    of_checkpoint: bool = False
    of_stream: bool = False

    def __post_init__(self) -> None:
        sink_id = self.sink_id
        if not isinstance(sink_id, str) or not sink_id.isprintable() or not sink_id.strip():
            raise ConfigError(f"sink.id={sink_id!r} cannot name a sink; give it a name of printable characters")
        if len(sink_id.encode()) > SINK_ID_BYTES_MAX:
            raise ConfigError(f"sink.id={sink_id!r} is longer than {SINK_ID_BYTES_MAX} bytes; give a shorter one")
        if not 1_000 <= self.transaction_timeout_ms <= INT32_MAX:
            raise ConfigError(f"{self.timeout_name}={self.transaction_timeout_ms} must be from 1000 to {INT32_MAX}")
        if not 0 <= self.margin < self.transaction_timeout_ms:
            raise ConfigError(
                f"{self.margin_name}={self.margin_ms} must be less than {self.timeout_name} "
                f"({self.transaction_timeout_ms}), and not negative"
            )
        for name in self.client_settings:
            if name.replace(".", "_") in _OWN:
                raise ConfigError(f"{name} is set by the exactly-once sink itself; leave it out")

    @property
    def margin(self) -> int:
        """How many milliseconds every transaction must have left when the batch is decided."""
        if self.margin_ms is not None:
            return self.margin_ms
        timeout_ms = self.transaction_timeout_ms
        return min(_MARGIN_MS_MAX, max(timeout_ms // 10, min(_MARGIN_MS_MIN, timeout_ms // 4)))

    @property
    def decision_timeout_ms(self) -> int:
        """How long the decision's own transaction may take: less than the margin, also where brokers look late.

        Brokers look for transactions that have timed out every ten seconds. One second is the least, which is too long
        for a margin below eleven seconds.
        """
        return max(_DECISION_MS_MIN, min(self.margin // 2, self.margin - _LOOK_MS))

    @property
    def receipts_topic(self) -> str:
        """The topic of the receipts: each task's transaction writes one, which shows whether it was committed."""
        return self.control_topic + _RECEIPTS

    @property
    def topics(self) -> tuple[str, str]:
        """Both topics of the sink."""
        return topics_of(self.control_topic)

    def for_sending(self) -> dict[str, Any]:
        """The settings for `Producer.from_config`, without the transactional id."""
        given = {name.replace("_", "."): value for name, value in self.client_settings.items()}
        given.pop("default.api.timeout.ms", None)
        return {
            # One producer serves many transactional ids.
            "client.id": f"ottla-sink-{self.sink_id}",
            **given,
            "bootstrap.servers": self.bootstrap_servers,
            # A producer must have one. This one does not send it: InitProducerId has set it for the identity.
            "transaction.timeout.ms": self.transaction_timeout_ms,
        }


def settings_for_reading(client_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings of the producer that other clients have, too, as their keywords (with underscores)."""
    known = {row.name for row in CONNECTION_SETTINGS} | {"default.api.timeout.ms"}
    keywords = {name.replace(".", "_") for name in known}
    return {
        name.replace(".", "_"): value for name, value in client_settings.items() if name.replace(".", "_") in keywords
    }
