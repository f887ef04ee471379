"""The producer's settings: Kafka's names and defaults (4.x), and Java's rules for those that contradict each other.

The rules, as `ProducerConfig` and `KafkaProducer` of 4.3 apply them: idempotence wants acks=all, retries above 0 and at
most five requests in flight. Where idempotence was asked for, a contradiction is refused; where it is on by default,
acks and retries switch it off, and only too many requests in flight are refused. A `delivery.timeout.ms` that was
given must cover `linger.ms` + `request.timeout.ms`; one that was not given grows to cover them. A `transactional.id`
does not go without idempotence, asked for or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connection.setting import INT32_MAX, read_settings
from ottla.connection.settings import CONNECTION_SETTINGS, ConnectionSettings
from ottla.errors import ConfigError
from ottla.producer.settings_table import PRODUCER_SETTINGS

IN_FLIGHT_MAX_WITH_IDEMPOTENCE = 5
_OWN_SETTINGS = PRODUCER_SETTINGS[len(CONNECTION_SETTINGS) :]


class ProducerSettings:
    """Every row of `PRODUCER_SETTINGS` as an attribute, checked against the others.

    `acks` is -1, 0 or 1. `idempotent` says whether idempotence is on after all rules. `compression_level` is None
    where the codec in use is to take its default. `in_flight_max` is the limit of unanswered requests; with acks=0
    there is none, as in Java: no request is answered, and each counts only until the socket has taken it.
    `connection` holds the part all clients share.
    """

    acks: int
    batch_size: int
    buffer_memory: int
    compression_type: str
    delivery_timeout_ms: int
    enable_idempotence: bool
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    partitioner_ignore_keys: bool
    retries: int
    transaction_timeout_ms: int
    transactional_id: str | None

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` names the setting, the value and what is allowed."""
        values, explicit = read_settings(PRODUCER_SETTINGS, given)
        self.connection = ConnectionSettings.from_values(values)
        for row in _OWN_SETTINGS:
            setattr(self, row.keyword, values[row.keyword])
        self.acks = -1 if values["acks"] == "all" else int(values["acks"])
        # A codec's default level is left to the codec: lz4's 9 stands for the fast compressor, not for level 9 of the
        # slow one (KIP-390).
        level_name = f"compression_{self.compression_type}_level"
        level = values.get(level_name)
        defaults = {row.keyword: row.default for row in _OWN_SETTINGS}
        self.compression_level: int | None = None if level == defaults.get(level_name) else level
        self.in_flight_max = self.max_in_flight_requests_per_connection if self.acks else INT32_MAX
        self.idempotent = self._settle_idempotence("enable_idempotence" in explicit)
        self._check_transactional_id()
        self._settle_delivery_timeout("delivery_timeout_ms" in explicit)

    def _settle_idempotence(self, asked_for: bool) -> bool:
        if not self.enable_idempotence:
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

    def _check_transactional_id(self) -> None:
        if self.transactional_id is None:
            return
        if not self.transactional_id:
            raise ConfigError("transactional.id is empty; give it a name, or leave it out.")
        if not self.idempotent:
            raise ConfigError(
                f"transactional.id={self.transactional_id!r} needs idempotence, which is off here: leave out "
                "enable.idempotence=false, acks other than all, and retries=0."
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
