"""AddOffsetsToTxn: AddOffsetsToTxnRequest and AddOffsetsToTxnResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I32_I16 = Struct(">ih")
I64_I16 = Struct(">qh")


class AddOffsetsToTxnRequest(ApiMessage):
    """AddOffsetsToTxnRequest: API key 25, versions 0 to 4, flexible from 3."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")

    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string() if version >= 3 else decoder.string()
        self.producer_id, self.producer_epoch = decoder.fixed(I64_I16)
        self.group_id = decoder.compact_string() if version >= 3 else decoder.string()
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.transactional_id)
        out += I64_I16.pack(self.producer_id, self.producer_epoch)
        (encoder.compact_string if version >= 3 else encoder.string)(self.group_id)
        if version >= 3:
            out.append(0)


class AddOffsetsToTxnResponse(ApiMessage):
    """AddOffsetsToTxnResponse: API key 25, versions 0 to 4, flexible from 3."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

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
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        if version >= 3:
            out.append(0)
