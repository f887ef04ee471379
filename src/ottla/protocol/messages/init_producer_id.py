"""InitProducerId: InitProducerIdRequest and InitProducerIdResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16_I64_I16 = Struct(">ihqh")
I64_I16 = Struct(">qh")


class InitProducerIdRequest(ApiMessage):
    """InitProducerIdRequest: API key 22, versions 0 to 5, flexible from 2."""

    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch")

    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        self.transaction_timeout_ms = decoder.int32()
        if version >= 3:
            self.producer_id, self.producer_epoch = decoder.fixed(I64_I16)
        else:
            self.producer_id = -1
            self.producer_epoch = -1
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.transactional_id)
        out += I32.pack(self.transaction_timeout_ms)
        if version >= 3:
            out += I64_I16.pack(self.producer_id, self.producer_epoch)
        else:
            if self.producer_id != -1:
                raise UnsupportedField(self, "producer_id", version)
            if self.producer_epoch != -1:
                raise UnsupportedField(self, "producer_epoch", version)
        if version >= 2:
            out.append(0)


class InitProducerIdResponse(ApiMessage):
    """InitProducerIdResponse: API key 22, versions 0 to 5, flexible from 2."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch = decoder.fixed(I32_I16_I64_I16)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_I64_I16.pack(self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch)
        if version >= 2:
            out.append(0)
