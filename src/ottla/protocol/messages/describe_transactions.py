"""DescribeTransactions: DescribeTransactionsRequest and DescribeTransactionsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")
I32_I64_I64_I16 = Struct(">iqqh")


class DescribeTransactionsRequest(ApiMessage):
    """DescribeTransactionsRequest: API key 65, versions 0 to 0, flexible from 0."""

    __slots__ = ("transactional_ids",)

    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        transactional_ids: list[str] = ABSENT,
    ) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is ABSENT else transactional_ids

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_ids = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.transactional_ids)
        for element in self.transactional_ids:
            encoder.compact_string(element)
        out.append(0)


class DescribeTransactionsResponse(ApiMessage):
    """DescribeTransactionsResponse: API key 65, versions 0 to 0, flexible from 0."""

    __slots__ = ("throttle_time_ms", "transaction_states")

    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states: list[TransactionState] = [] if transaction_states is ABSENT else transaction_states

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.transaction_states = [TransactionState.read(decoder, version) for _ in range(decoder.compact_count(28))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        encoder.compact_count(self.transaction_states)
        for transaction_state in self.transaction_states:
            transaction_state.write(encoder, version)
        out.append(0)


class TransactionState(Message):
    """In `DescribeTransactionsResponse.transaction_states`."""

    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics: list[TopicData] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.transactional_id = decoder.compact_string()
        self.transaction_state = decoder.compact_string()
        self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch = (
            decoder.fixed(I32_I64_I64_I16)
        )
        self.topics = [TopicData.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        encoder.compact_string(self.transactional_id)
        encoder.compact_string(self.transaction_state)
        out += I32_I64_I64_I16.pack(
            self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch
        )
        encoder.compact_count(self.topics)
        for topic_data in self.topics:
            topic_data.write(encoder, version)
        out.append(0)


class TopicData(Message):
    """In `TransactionState.topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic = decoder.compact_string()
        self.partitions = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.topic)
        encoder.compact_count(self.partitions)
        encoder.numbers(self.partitions, "i")
        out.append(0)
