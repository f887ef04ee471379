"""SaslAuthenticate: SaslAuthenticateRequest and SaslAuthenticateResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ApiMessage
from ottla.protocol.primitives import Buffer, Decoder, Encoder

I16 = Struct(">h")
I64 = Struct(">q")


class SaslAuthenticateRequest(ApiMessage):
    """SaslAuthenticateRequest: API key 36, versions 0 to 2, flexible from 2."""

    __slots__ = ("auth_bytes",)

    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        auth_bytes: Buffer = b"",
    ) -> None:
        self.auth_bytes = auth_bytes

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.auth_bytes = decoder.compact_byte_string() if version >= 2 else decoder.byte_string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_byte_string if version >= 2 else encoder.byte_string)(self.auth_bytes)
        if version >= 2:
            out.append(0)


class SaslAuthenticateResponse(ApiMessage):
    """SaslAuthenticateResponse: API key 36, versions 0 to 2, flexible from 2."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: Buffer = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        self.auth_bytes = decoder.compact_byte_string() if version >= 2 else decoder.byte_string()
        if version >= 1:
            self.session_lifetime_ms = decoder.int64()
        else:
            self.session_lifetime_ms = 0
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.error_message)
        (encoder.compact_byte_string if version >= 2 else encoder.byte_string)(self.auth_bytes)
        if version >= 1:
            out += I64.pack(self.session_lifetime_ms)
        if version >= 2:
            out.append(0)
