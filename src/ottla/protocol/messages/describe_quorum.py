"""DescribeQuorum: DescribeQuorumRequest and DescribeQuorumResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")
I32_I16 = Struct(">ih")
I32_I32_I64 = Struct(">iiq")
I64 = Struct(">q")
I64_I64 = Struct(">qq")
U16 = Struct(">H")


class DescribeQuorumRequest(ApiMessage):
    """DescribeQuorumRequest: API key 55, versions 0 to 2, flexible from 0."""

    __slots__ = ("topics",)

    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[RequestTopicData] = ABSENT,
    ) -> None:
        self.topics: list[RequestTopicData] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [RequestTopicData.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.topics)
        for request_topic_data in self.topics:
            request_topic_data.write(encoder, version)
        out.append(0)


class RequestTopicData(Message):
    """In `DescribeQuorumRequest.topics`."""

    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[RequestPartitionData] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[RequestPartitionData] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_name = decoder.compact_string()
        self.partitions = [RequestPartitionData.read(decoder, version) for _ in range(decoder.compact_count(5))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.topic_name)
        encoder.compact_count(self.partitions)
        for request_partition_data in self.partitions:
            request_partition_data.write(encoder, version)
        out.append(0)


class RequestPartitionData(Message):
    """In `TopicData.partitions`."""

    __slots__ = ("partition_index",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)
        out.append(0)


class DescribeQuorumResponse(ApiMessage):
    """DescribeQuorumResponse: API key 55, versions 0 to 2, flexible from 0."""

    __slots__ = ("error_code", "error_message", "topics", "nodes")

    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ResponseTopicData] = ABSENT,
        nodes: list[Node] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[ResponseTopicData] = [] if topics is ABSENT else topics
        self.nodes: list[Node] = [] if nodes is ABSENT else nodes

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        if version >= 2:
            self.error_message = decoder.nullable_compact_string()
        else:
            self.error_message = ""
        self.topics = [ResponseTopicData.read(decoder, version) for _ in range(decoder.compact_count(3))]
        if version >= 2:
            self.nodes = [Node.read(decoder, version) for _ in range(decoder.compact_count(6))]
        else:
            self.nodes = []
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        if version >= 2:
            encoder.nullable_compact_string(self.error_message)
        encoder.compact_count(self.topics)
        for response_topic_data in self.topics:
            response_topic_data.write(encoder, version)
        if version >= 2:
            encoder.compact_count(self.nodes)
            for node in self.nodes:
                node.write(encoder, version)
        elif self.nodes != []:
            raise UnsupportedField(self, "nodes", version)
        out.append(0)


class ResponseTopicData(Message):
    """In `DescribeQuorumResponse.topics`."""

    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[ResponsePartitionData] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[ResponsePartitionData] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_name = decoder.compact_string()
        self.partitions = [ResponsePartitionData.read(decoder, version) for _ in range(decoder.compact_count(25))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.topic_name)
        encoder.compact_count(self.partitions)
        for response_partition_data in self.partitions:
            response_partition_data.write(encoder, version)
        out.append(0)


class ResponsePartitionData(Message):
    """In `TopicData.partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] = ABSENT,
        observers: list[ReplicaState] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters: list[ReplicaState] = [] if current_voters is ABSENT else current_voters
        self.observers: list[ReplicaState] = [] if observers is ABSENT else observers

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = decoder.fixed(I32_I16)
        if version >= 2:
            self.error_message = decoder.nullable_compact_string()
        else:
            self.error_message = ""
        self.leader_id, self.leader_epoch, self.high_watermark = decoder.fixed(I32_I32_I64)
        self.current_voters = [ReplicaState.read(decoder, version) for _ in range(decoder.compact_count(13))]
        self.observers = [ReplicaState.read(decoder, version) for _ in range(decoder.compact_count(13))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        if version >= 2:
            encoder.nullable_compact_string(self.error_message)
        out += I32_I32_I64.pack(self.leader_id, self.leader_epoch, self.high_watermark)
        encoder.compact_count(self.current_voters)
        for replica_state in self.current_voters:
            replica_state.write(encoder, version)
        encoder.compact_count(self.observers)
        for replica_state in self.observers:
            replica_state.write(encoder, version)
        out.append(0)


class ReplicaState(Message):
    """In `PartitionData.current_voters`."""

    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.replica_id = decoder.int32()
        if version >= 2:
            self.replica_directory_id = decoder.uuid()
        else:
            self.replica_directory_id = ZERO_UUID
        self.log_end_offset = decoder.int64()
        if version >= 1:
            self.last_fetch_timestamp, self.last_caught_up_timestamp = decoder.fixed(I64_I64)
        else:
            self.last_fetch_timestamp = -1
            self.last_caught_up_timestamp = -1
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.replica_id)
        if version >= 2:
            encoder.uuid(self.replica_directory_id)
        elif self.replica_directory_id != ZERO_UUID:
            raise UnsupportedField(self, "replica_directory_id", version)
        out += I64.pack(self.log_end_offset)
        if version >= 1:
            out += I64_I64.pack(self.last_fetch_timestamp, self.last_caught_up_timestamp)
        out.append(0)


class Node(Message):
    """In `DescribeQuorumResponse.nodes`."""

    __slots__ = ("node_id", "listeners")

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[Listener] = ABSENT,
    ) -> None:
        self.node_id = node_id
        self.listeners: list[Listener] = [] if listeners is ABSENT else listeners

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.node_id = decoder.int32()
        self.listeners = [Listener.read(decoder, version) for _ in range(decoder.compact_count(5))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.node_id)
        encoder.compact_count(self.listeners)
        for listener in self.listeners:
            listener.write(encoder, version)
        out.append(0)


class Listener(Message):
    """In `Node.listeners`."""

    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.host = decoder.compact_string()
        self.port = decoder.uint16()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_string(self.host)
        out += U16.pack(self.port)
        out.append(0)
