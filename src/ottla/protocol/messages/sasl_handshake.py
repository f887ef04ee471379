"""SaslHandshake: SaslHandshakeRequest and SaslHandshakeResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")


class SaslHandshakeRequest(ApiMessage):
    """SaslHandshakeRequest: API key 17, versions 0 to 1."""

    __slots__ = ("mechanism",)

    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 32768

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.mechanism = decoder.string()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        encoder.string(self.mechanism)


class SaslHandshakeResponse(ApiMessage):
    """SaslHandshakeResponse: API key 17, versions 0 to 1."""

    __slots__ = ("error_code", "mechanisms")

    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 32768

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.mechanisms: list[str] = [] if mechanisms is ABSENT else mechanisms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.mechanisms = [decoder.string() for _ in range(decoder.count(2))]
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        encoder.count(self.mechanisms)
        for element in self.mechanisms:
            encoder.string(element)
