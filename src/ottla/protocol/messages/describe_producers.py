"""DescribeProducers: DescribeProducersRequest and DescribeProducersResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16 = Struct(">ih")
I64_I32_I32_I64_I32_I64 = Struct(">qiiqiq")


class DescribeProducersRequest(ApiMessage):
    """DescribeProducersRequest: API key 61, versions 0 to 0, flexible from 0."""

    __slots__ = ("topics",)

    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = ABSENT,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [TopicRequest.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.topics)
        for topic_request in self.topics:
            topic_request.write(encoder, version)
        out.append(0)


class TopicRequest(Message):
    """In `DescribeProducersRequest.topics`."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is ABSENT else partition_indexes

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partition_indexes = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partition_indexes)
        encoder.numbers(self.partition_indexes, "i")
        out.append(0)


class DescribeProducersResponse(ApiMessage):
    """DescribeProducersResponse: API key 61, versions 0 to 0, flexible from 0."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TopicResponse] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [TopicResponse.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        encoder.compact_count(self.topics)
        for topic_response in self.topics:
            topic_response.write(encoder, version)
        out.append(0)


class TopicResponse(Message):
    """In `DescribeProducersResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionResponse] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partitions = [PartitionResponse.read(decoder, version) for _ in range(decoder.compact_count(9))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partitions)
        for partition_response in self.partitions:
            partition_response.write(encoder, version)
        out.append(0)


class PartitionResponse(Message):
    """In `TopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers: list[ProducerState] = [] if active_producers is ABSENT else active_producers

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        self.active_producers = [ProducerState.read(decoder, version) for _ in range(decoder.compact_count(37))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        encoder.compact_count(self.active_producers)
        for producer_state in self.active_producers:
            producer_state.write(encoder, version)
        out.append(0)


class ProducerState(Message):
    """In `PartitionResponse.active_producers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        (
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_start_offset,
        ) = decoder.fixed(I64_I32_I32_I64_I32_I64)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I64_I32_I32_I64_I32_I64.pack(
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_start_offset,
        )
        out.append(0)
