"""What precedes every message: RequestHeader and ResponseHeader of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import Message
from ottla.protocol.primitives import Decoder, Encoder

I16_I16_I32 = Struct(">hhi")
I32 = Struct(">i")


class RequestHeader(Message):
    """RequestHeader: versions 1 to 2, flexible from 2."""

    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id")

    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.request_api_key, self.request_api_version, self.correlation_id = decoder.fixed(I16_I16_I32)
        self.client_id = decoder.nullable_string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I16_I32.pack(self.request_api_key, self.request_api_version, self.correlation_id)
        encoder.nullable_string(self.client_id)
        if version >= 2:
            out.append(0)


class ResponseHeader(Message):
    """ResponseHeader: versions 0 to 1, flexible from 1."""

    __slots__ = ("correlation_id",)

    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.correlation_id = decoder.int32()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.correlation_id)
        if version >= 1:
            out.append(0)
