"""EndTxn: EndTxnRequest and EndTxnResponse of Apache Kafka 4.3.1.

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
I64_I16_BOOL = Struct(">qh?")


class EndTxnRequest(ApiMessage):
    """EndTxnRequest: API key 26, versions 0 to 5, flexible from 3."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")

    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string() if version >= 3 else decoder.string()
        self.producer_id, self.producer_epoch, self.committed = decoder.fixed(I64_I16_BOOL)
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.transactional_id)
        out += I64_I16_BOOL.pack(self.producer_id, self.producer_epoch, self.committed)
        if version >= 3:
            out.append(0)


class EndTxnResponse(ApiMessage):
    """EndTxnResponse: API key 26, versions 0 to 5, flexible from 3."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        if version >= 5:
            self.producer_id, self.producer_epoch = decoder.fixed(I64_I16)
        else:
            self.producer_id = -1
            self.producer_epoch = -1
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        if version >= 5:
            out += I64_I16.pack(self.producer_id, self.producer_epoch)
        if version >= 3:
            out.append(0)
