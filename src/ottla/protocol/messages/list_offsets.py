"""ListOffsets: ListOffsetsRequest and ListOffsetsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16_I64_I64 = Struct(">ihqq")
I64 = Struct(">q")
I8 = Struct(">b")


class ListOffsetsRequest(ApiMessage):
    """ListOffsetsRequest: API key 2, versions 1 to 11, flexible from 6."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")

    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics: list[ListOffsetsTopic] = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.replica_id = decoder.int32()
        if version >= 2:
            self.isolation_level = decoder.int8()
        else:
            self.isolation_level = 0
        self.topics = [
            ListOffsetsTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 6 else decoder.count(3))
        ]
        if version >= 10:
            self.timeout_ms = decoder.int32()
        else:
            self.timeout_ms = 0
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.replica_id)
        if version >= 2:
            out += I8.pack(self.isolation_level)
        elif self.isolation_level != 0:
            raise UnsupportedField(self, "isolation_level", version)
        (encoder.compact_count if version >= 6 else encoder.count)(self.topics)
        for list_offsets_topic in self.topics:
            list_offsets_topic.write(encoder, version)
        if version >= 10:
            out += I32.pack(self.timeout_ms)
        if version >= 6:
            out.append(0)


class ListOffsetsTopic(Message):
    """In `ListOffsetsRequest.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 6 else decoder.string()
        self.partitions = [
            ListOffsetsPartition.read(decoder, version)
            for _ in range(decoder.compact_count(12) if version >= 6 else decoder.count(12))
        ]
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.name)
        (encoder.compact_count if version >= 6 else encoder.count)(self.partitions)
        for list_offsets_partition in self.partitions:
            list_offsets_partition.write(encoder, version)
        if version >= 6:
            out.append(0)


class ListOffsetsPartition(Message):
    """In `ListOffsetsTopic.partitions`."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index = decoder.int32()
        if version >= 4:
            self.current_leader_epoch = decoder.int32()
        else:
            self.current_leader_epoch = -1
        self.timestamp = decoder.int64()
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)
        if version >= 4:
            out += I32.pack(self.current_leader_epoch)
        out += I64.pack(self.timestamp)
        if version >= 6:
            out.append(0)


class ListOffsetsResponse(ApiMessage):
    """ListOffsetsResponse: API key 2, versions 1 to 11, flexible from 6."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 2:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.topics = [
            ListOffsetsTopicResponse.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 6 else decoder.count(3))
        ]
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 2:
            out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 6 else encoder.count)(self.topics)
        for list_offsets_topic_response in self.topics:
            list_offsets_topic_response.write(encoder, version)
        if version >= 6:
            out.append(0)


class ListOffsetsTopicResponse(Message):
    """In `ListOffsetsResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartitionResponse] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 6 else decoder.string()
        self.partitions = [
            ListOffsetsPartitionResponse.read(decoder, version)
            for _ in range(decoder.compact_count(22) if version >= 6 else decoder.count(22))
        ]
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.name)
        (encoder.compact_count if version >= 6 else encoder.count)(self.partitions)
        for list_offsets_partition_response in self.partitions:
            list_offsets_partition_response.write(encoder, version)
        if version >= 6:
            out.append(0)


class ListOffsetsPartitionResponse(Message):
    """In `ListOffsetsTopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code, self.timestamp, self.offset = decoder.fixed(I32_I16_I64_I64)
        if version >= 4:
            self.leader_epoch = decoder.int32()
        else:
            self.leader_epoch = -1
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_I64_I64.pack(self.partition_index, self.error_code, self.timestamp, self.offset)
        if version >= 4:
            out += I32.pack(self.leader_epoch)
        elif self.leader_epoch != -1:
            raise UnsupportedField(self, "leader_epoch", version)
        if version >= 6:
            out.append(0)
