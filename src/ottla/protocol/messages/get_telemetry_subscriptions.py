"""GetTelemetrySubscriptions: its request and its response, of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16 = Struct(">ih")
I32_I32_BOOL = Struct(">ii?")


class GetTelemetrySubscriptionsRequest(ApiMessage):
    """GetTelemetrySubscriptionsRequest: API key 71, versions 0 to 0, flexible from 0."""

    __slots__ = ("client_instance_id",)

    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
    ) -> None:
        self.client_instance_id = client_instance_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.client_instance_id = decoder.uuid()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.client_instance_id)
        out.append(0)


class GetTelemetrySubscriptionsResponse(ApiMessage):
    """GetTelemetrySubscriptionsResponse: API key 71, versions 0 to 0, flexible from 0."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )

    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = ABSENT,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types: list[int] = (
            [] if accepted_compression_types is ABSENT else accepted_compression_types
        )
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is ABSENT else requested_metrics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.client_instance_id = decoder.uuid()
        self.subscription_id = decoder.int32()
        self.accepted_compression_types = decoder.numbers(decoder.compact_count(1), "b", 1)
        self.push_interval_ms, self.telemetry_max_bytes, self.delta_temporality = decoder.fixed(I32_I32_BOOL)
        self.requested_metrics = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.uuid(self.client_instance_id)
        out += I32.pack(self.subscription_id)
        encoder.compact_count(self.accepted_compression_types)
        encoder.numbers(self.accepted_compression_types, "b")
        out += I32_I32_BOOL.pack(self.push_interval_ms, self.telemetry_max_bytes, self.delta_temporality)
        encoder.compact_count(self.requested_metrics)
        for element in self.requested_metrics:
            encoder.compact_string(element)
        out.append(0)
