"""ListTransactions: ListTransactionsRequest and ListTransactionsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32_I16 = Struct(">ih")
I64 = Struct(">q")


class ListTransactionsRequest(ApiMessage):
    """ListTransactionsRequest: API key 66, versions 0 to 2, flexible from 0."""

    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")

    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        state_filters: list[str] = ABSENT,
        producer_id_filters: list[int] = ABSENT,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is ABSENT else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is ABSENT else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.state_filters = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        self.producer_id_filters = decoder.numbers(decoder.compact_count(8), "q", 8)
        if version >= 1:
            self.duration_filter = decoder.int64()
        else:
            self.duration_filter = -1
        if version >= 2:
            self.transactional_id_pattern = decoder.nullable_compact_string()
        else:
            self.transactional_id_pattern = None
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.state_filters)
        for element in self.state_filters:
            encoder.compact_string(element)
        encoder.compact_count(self.producer_id_filters)
        encoder.numbers(self.producer_id_filters, "q")
        if version >= 1:
            out += I64.pack(self.duration_filter)
        elif self.duration_filter != -1:
            raise UnsupportedField(self, "duration_filter", version)
        if version >= 2:
            encoder.nullable_compact_string(self.transactional_id_pattern)
        elif self.transactional_id_pattern is not None:
            raise UnsupportedField(self, "transactional_id_pattern", version)
        out.append(0)


class ListTransactionsResponse(ApiMessage):
    """ListTransactionsResponse: API key 66, versions 0 to 2, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")

    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = ABSENT,
        transaction_states: list[TransactionState] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is ABSENT else unknown_state_filters
        self.transaction_states: list[TransactionState] = [] if transaction_states is ABSENT else transaction_states

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.unknown_state_filters = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        self.transaction_states = [TransactionState.read(decoder, version) for _ in range(decoder.compact_count(11))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.compact_count(self.unknown_state_filters)
        for element in self.unknown_state_filters:
            encoder.compact_string(element)
        encoder.compact_count(self.transaction_states)
        for transaction_state in self.transaction_states:
            transaction_state.write(encoder, version)
        out.append(0)


class TransactionState(Message):
    """In `ListTransactionsResponse.transaction_states`."""

    __slots__ = ("transactional_id", "producer_id", "transaction_state")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string()
        self.producer_id = decoder.int64()
        self.transaction_state = decoder.compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.transactional_id)
        out += I64.pack(self.producer_id)
        encoder.compact_string(self.transaction_state)
        out.append(0)
