"""PushTelemetry: PushTelemetryRequest and PushTelemetryResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ZERO_UUID, ApiMessage
from ottla.protocol.primitives import Buffer, Decoder, Encoder

I32_BOOL_I8 = Struct(">i?b")
I32_I16 = Struct(">ih")


class PushTelemetryRequest(ApiMessage):
    """PushTelemetryRequest: API key 72, versions 0 to 0, flexible from 0."""

    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")

    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: Buffer = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.client_instance_id = decoder.uuid()
        self.subscription_id, self.terminating, self.compression_type = decoder.fixed(I32_BOOL_I8)
        self.metrics = decoder.compact_byte_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.client_instance_id)
        out += I32_BOOL_I8.pack(self.subscription_id, self.terminating, self.compression_type)
        encoder.compact_byte_string(self.metrics)
        out.append(0)


class PushTelemetryResponse(ApiMessage):
    """PushTelemetryResponse: API key 72, versions 0 to 0, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        out.append(0)
