"""DescribeTopicPartitions: DescribeTopicPartitionsRequest and DescribeTopicPartitionsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I16_I32_I32_I32 = Struct(">hiii")
I32 = Struct(">i")
I8 = Struct(">b")


class DescribeTopicPartitionsRequest(ApiMessage):
    """DescribeTopicPartitionsRequest: API key 75, versions 0 to 0, flexible from 0."""

    __slots__ = ("topics", "response_partition_limit", "cursor")

    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = ABSENT,
        response_partition_limit: int = 2000,
        cursor: RequestCursor | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is ABSENT else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [TopicRequest.read(decoder, version) for _ in range(decoder.compact_count(2))]
        self.response_partition_limit = decoder.int32()
        self.cursor = RequestCursor.read(decoder, version) if decoder.has_struct() else None
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.topics)
        for topic_request in self.topics:
            topic_request.write(encoder, version)
        out += I32.pack(self.response_partition_limit)
        if self.cursor is None:
            out += I8.pack(-1)
        else:
            out += I8.pack(1)
            self.cursor.write(encoder, version)
        out.append(0)


class TopicRequest(Message):
    """In `DescribeTopicPartitionsRequest.topics`."""

    __slots__ = ("name",)

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        out.append(0)


class RequestCursor(Message):
    """In `DescribeTopicPartitionsRequest.cursor`."""

    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_name = decoder.compact_string()
        self.partition_index = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.topic_name)
        out += I32.pack(self.partition_index)
        out.append(0)


class DescribeTopicPartitionsResponse(ApiMessage):
    """DescribeTopicPartitionsResponse: API key 75, versions 0 to 0, flexible from 0."""

    __slots__ = ("throttle_time_ms", "topics", "next_cursor")

    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = ABSENT,
        next_cursor: ResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = [] if topics is ABSENT else topics
        self.next_cursor = next_cursor

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [
            DescribeTopicPartitionsResponseTopic.read(decoder, version) for _ in range(decoder.compact_count(26))
        ]
        self.next_cursor = ResponseCursor.read(decoder, version) if decoder.has_struct() else None
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        encoder.compact_count(self.topics)
        for describe_topic_partitions_response_topic in self.topics:
            describe_topic_partitions_response_topic.write(encoder, version)
        if self.next_cursor is None:
            out += I8.pack(-1)
        else:
            out += I8.pack(1)
            self.next_cursor.write(encoder, version)
        out.append(0)


class DescribeTopicPartitionsResponseTopic(Message):
    """In `DescribeTopicPartitionsResponse.topics`."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = ABSENT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = [] if partitions is ABSENT else partitions
        self.topic_authorized_operations = topic_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.name = decoder.nullable_compact_string()
        self.topic_id = decoder.uuid()
        self.is_internal = decoder.boolean()
        self.partitions = [
            DescribeTopicPartitionsResponsePartition.read(decoder, version) for _ in range(decoder.compact_count(20))
        ]
        self.topic_authorized_operations = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        encoder.nullable_compact_string(self.name)
        encoder.uuid(self.topic_id)
        out += BOOL.pack(self.is_internal)
        encoder.compact_count(self.partitions)
        for describe_topic_partitions_response_partition in self.partitions:
            describe_topic_partitions_response_partition.write(encoder, version)
        out += I32.pack(self.topic_authorized_operations)
        out.append(0)


class DescribeTopicPartitionsResponsePartition(Message):
    """In `DescribeTopicPartitionsResponseTopic.partitions`."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = ABSENT,
        isr_nodes: list[int] = ABSENT,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is ABSENT else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is ABSENT else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas: list[int] = [] if offline_replicas is ABSENT else offline_replicas

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code, self.partition_index, self.leader_id, self.leader_epoch = decoder.fixed(I16_I32_I32_I32)
        self.replica_nodes = decoder.numbers(decoder.compact_count(4), "i", 4)
        self.isr_nodes = decoder.numbers(decoder.compact_count(4), "i", 4)
        count = decoder.nullable_compact_count(4)
        self.eligible_leader_replicas = None if count < 0 else decoder.numbers(count, "i", 4)
        count = decoder.nullable_compact_count(4)
        self.last_known_elr = None if count < 0 else decoder.numbers(count, "i", 4)
        self.offline_replicas = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I32_I32_I32.pack(self.error_code, self.partition_index, self.leader_id, self.leader_epoch)
        encoder.compact_count(self.replica_nodes)
        encoder.numbers(self.replica_nodes, "i")
        encoder.compact_count(self.isr_nodes)
        encoder.numbers(self.isr_nodes, "i")
        encoder.nullable_compact_count(self.eligible_leader_replicas)
        if self.eligible_leader_replicas:
            encoder.numbers(self.eligible_leader_replicas, "i")
        encoder.nullable_compact_count(self.last_known_elr)
        if self.last_known_elr:
            encoder.numbers(self.last_known_elr, "i")
        encoder.compact_count(self.offline_replicas)
        encoder.numbers(self.offline_replicas, "i")
        out.append(0)


class ResponseCursor(Message):
    """In `DescribeTopicPartitionsResponse.next_cursor`."""

    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_name = decoder.compact_string()
        self.partition_index = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.topic_name)
        out += I32.pack(self.partition_index)
        out.append(0)
