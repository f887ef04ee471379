"""The metrics that clients push to brokers that subscribe to them (KIP-714).

The image's `client_metrics` are the subscriptions. Those that match a client are merged into one: all their metrics,
the shortest interval (five minutes at most, as in Apache Kafka), and a number that changes with either. The client
pushes under that number, and not more often than the interval. Its last push is kept until three intervals (a minute at
least) pass without a request. All pushes that are kept have a limit in bytes; the oldest go first. Without
subscriptions the two APIs are not in ApiVersions, so no client uses them.

As in Apache Kafka: after a change of the subscriptions the client must get them again; a client that has announced its
end may push no more.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from ottla.broker.client_metrics_settings import (
    ALL_METRICS,
    CLIENT_METRICS_BY_NAME,
    INTERVAL_MS_DEFAULT,
    patterns_of,
)
from ottla.broker.dynamic_settings import ConfigPairs
from ottla.broker.otlp import NotOtlp, TooManyFields, read_metrics
from ottla.broker.patterns import matches
from ottla.broker.request import Request
from ottla.broker.uuids import random_uuid
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ottla.records.batch_header import CODECS, CorruptBatch
from ottla.records.compression import Allowance, BatchTooLarge, decompress
from ottla.records.crc import crc32c

# In Apache Kafka's order of preference.
_ACCEPTED = [4, 3, 1, 2]
_INSTANCES_MAX = 16_384
_KEPT_US_MIN = 60_000_000
_KEPT_BYTES_MAX = 64 << 20
# How often clients without a recent request are looked for.
_LOOK_US = 1_000_000
_LONG_AGO_US = -(1 << 62)
_RESERVED = (ZERO_UUID, (1).to_bytes(16))


class ClientInstance:
    """A client that has got a subscription, and what it pushed last."""

    def __init__(self, number: bytes, request: Request, subscriptions: dict[str, ConfigPairs]) -> None:
        self.id = number
        self.client_id = request.client_id or ""
        client = request.client
        self.host = "" if client is None else client.host
        self.port = 0 if client is None else client.port
        self.software_name = "" if client is None else client.software_name
        self.software_version = "" if client is None else client.software_version
        self.got_us = self.pushed_us = _LONG_AGO_US
        self.heard_us = 0
        self.last_error = 0
        self.pushes = 0
        self.is_terminating = False
        # What it pushed last, uncompressed, and when; it takes many times the memory once it is read.
        self.data = b""
        self.taken_us = _LONG_AGO_US
        self.subscribe(subscriptions)

    def subscribe(self, subscriptions: dict[str, ConfigPairs]) -> None:
        """Use these subscriptions for this client from now on."""
        self.subscriptions = subscriptions
        self.got_us = self.pushed_us = _LONG_AGO_US
        self.is_terminating = False
        names: dict[str, None] = {}
        self.interval_ms = INTERVAL_MS_DEFAULT
        for configs in subscriptions.values():
            given = dict(configs)
            if not self._matches(given.get("match", "")):
                continue
            wanted: Any = CLIENT_METRICS_BY_NAME["metrics"].parse(given.get("metrics", ""))
            names |= dict.fromkeys(wanted)
            interval: Any = CLIENT_METRICS_BY_NAME["interval.ms"].parse(given.get("interval.ms", INTERVAL_MS_DEFAULT))
            self.interval_ms = min(self.interval_ms, interval)
        self.names = [ALL_METRICS] if ALL_METRICS in names else sorted(names)
        crc = crc32c(f"{self.names}{self.interval_ms}".encode())
        folded = int.from_bytes(self.id[:8]) ^ int.from_bytes(self.id[8:])
        number = (crc ^ folded ^ folded >> 32) & 0xFFFFFFFF
        self.subscription_id = number - (1 << 32) if number >> 31 else number

    def _matches(self, match: str) -> bool:
        known = {
            "client_instance_id": str(UUID(bytes=self.id)),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.host,
            "client_source_port": str(self.port),
        }
        try:
            patterns = patterns_of(match)
        except ValueError:
            # A broker that allowed more has stored it.
            return False
        return all(matches(pattern, known[field]) for field, pattern in patterns.items())

    @property
    def resource(self) -> dict[str, Any]:
        """The attributes of the resource that was pushed last."""
        return read_metrics(self.data)[0]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The points that were pushed last."""
        return read_metrics(self.data)[1]

    @property
    def kept_us(self) -> int:
        """For how long it is kept without a request."""
        return max(_KEPT_US_MIN, self.interval_ms * 3000)


class ClientTelemetry:
    """The clients that use these APIs at one broker."""

    def __init__(self, rng: Random, max_bytes: int) -> None:
        self._rng = rng
        self._max_bytes = max_bytes
        # The one with the latest request comes last.
        self._instances: dict[bytes, ClientInstance] = {}
        # Those of which something is kept, in the order of their last pushes, and how many bytes that is.
        self._pushed: dict[bytes, ClientInstance] = {}
        self._kept_bytes = 0
        self._looked_us = _LONG_AGO_US

    def subscription(
        self, request: Request, subscriptions: dict[str, ConfigPairs], now_us: int
    ) -> GetTelemetrySubscriptionsResponse:
        """The answer to a client that asks what to push."""
        number = bytes(request.message.client_instance_id)
        while number in _RESERVED:
            number = random_uuid(self._rng)
        instance = self._heard(number, request, subscriptions, now_us)
        interval_us = instance.interval_ms * 1000
        came_soon = now_us - max(instance.got_us, instance.pushed_us) < interval_us
        if came_soon and instance.last_error not in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ):
            return GetTelemetrySubscriptionsResponse(
                error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, accepted_compression_types=[], requested_metrics=[]
            )
        if not came_soon:
            instance.got_us = now_us
        instance.last_error = 0
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=number,
            subscription_id=instance.subscription_id,
            accepted_compression_types=_ACCEPTED,
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=instance.names,
        )

    def push(self, request: Request, subscriptions: dict[str, ConfigPairs], now_us: int) -> int:
        """Take what a client pushes; the error code it is answered with."""
        message = request.message
        number = bytes(message.client_instance_id)
        if number in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._heard(number, request, subscriptions, now_us)
        error_code = self._refusal(instance, message, now_us)
        instance.is_terminating = message.terminating
        if not error_code and len(message.metrics):
            error_code = self._take(instance, message, now_us)
        instance.last_error = error_code
        return error_code

    def _refusal(self, instance: ClientInstance, message: Any, now_us: int) -> int:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        last_us = max(instance.got_us, instance.pushed_us)
        is_due = instance.got_us > instance.pushed_us or now_us - last_us >= instance.interval_ms * 1000
        if is_due:
            instance.pushed_us = now_us
        elif not message.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if message.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= message.compression_type < len(CODECS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(message.metrics) > self._max_bytes else 0

    def _take(self, instance: ClientInstance, message: Any, now_us: int) -> int:
        codec = CODECS[message.compression_type]
        try:
            data = bytes(decompress(codec, message.metrics, Allowance(self._max_bytes)))
            read_metrics(data)
        except (BatchTooLarge, TooManyFields):
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (CorruptBatch, NotOtlp):
            return ErrorCode.INVALID_RECORD
        instance.pushes += 1
        self._drop(instance)
        instance.data = data
        instance.taken_us = now_us
        self._pushed[instance.id] = instance
        self._kept_bytes += len(data)
        while self._kept_bytes > _KEPT_BYTES_MAX:
            self._drop(next(iter(self._pushed.values())))
        return 0

    def _drop(self, instance: ClientInstance) -> None:
        """Keep nothing of what a client has pushed."""
        if self._pushed.pop(instance.id, None) is not None:
            self._kept_bytes -= len(instance.data)
            instance.data = b""

    def instances(self, now_us: int) -> list[ClientInstance]:
        """The clients that are kept, the one with the latest request at the end."""
        self._forget(now_us)
        return list(self._instances.values())

    def _heard(
        self, number: bytes, request: Request, subscriptions: dict[str, ConfigPairs], now_us: int
    ) -> ClientInstance:
        if now_us - self._looked_us >= _LOOK_US:
            self._forget(now_us)
        instance = self._instances.pop(number, None)
        if instance is None:
            instance = ClientInstance(number, request, subscriptions)
        elif instance.subscriptions is not subscriptions and instance.subscriptions != subscriptions:
            instance.subscribe(subscriptions)
        self._instances[number] = instance
        instance.heard_us = now_us
        if len(self._instances) > _INSTANCES_MAX:
            self._drop(self._instances.pop(next(iter(self._instances))))
        return instance

    def _forget(self, now_us: int) -> None:
        self._looked_us = now_us
        for number in [key for key, each in self._instances.items() if now_us - each.heard_us >= each.kept_us]:
            self._drop(self._instances.pop(number))
