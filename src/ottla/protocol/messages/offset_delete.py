"""OffsetDelete: OffsetDeleteRequest and OffsetDeleteResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16_I32 = Struct(">hi")
I32 = Struct(">i")
I32_I16 = Struct(">ih")


class OffsetDeleteRequest(ApiMessage):
    """OffsetDeleteRequest: API key 47, versions 0 to 0."""

    __slots__ = ("group_id", "topics")

    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32768

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetDeleteRequestTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.string()
        self.topics = [OffsetDeleteRequestTopic.read(decoder, version) for _ in range(decoder.count(6))]
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        encoder.string(self.group_id)
        encoder.count(self.topics)
        for offset_delete_request_topic in self.topics:
            offset_delete_request_topic.write(encoder, version)


class OffsetDeleteRequestTopic(Message):
    """In `OffsetDeleteRequest.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteRequestPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.string()
        self.partitions = [OffsetDeleteRequestPartition.read(decoder, version) for _ in range(decoder.count(4))]
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        encoder.string(self.name)
        encoder.count(self.partitions)
        for offset_delete_request_partition in self.partitions:
            offset_delete_request_partition.write(encoder, version)


class OffsetDeleteRequestPartition(Message):
    """In `OffsetDeleteRequestTopic.partitions`."""

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
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)


class OffsetDeleteResponse(ApiMessage):
    """OffsetDeleteResponse: API key 47, versions 0 to 0."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")

    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 32768

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code, self.throttle_time_ms = decoder.fixed(I16_I32)
        self.topics = [OffsetDeleteResponseTopic.read(decoder, version) for _ in range(decoder.count(6))]
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I32.pack(self.error_code, self.throttle_time_ms)
        encoder.count(self.topics)
        for offset_delete_response_topic in self.topics:
            offset_delete_response_topic.write(encoder, version)


class OffsetDeleteResponseTopic(Message):
    """In `OffsetDeleteResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteResponsePartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.string()
        self.partitions = [OffsetDeleteResponsePartition.read(decoder, version) for _ in range(decoder.count(6))]
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        encoder.string(self.name)
        encoder.count(self.partitions)
        for offset_delete_response_partition in self.partitions:
            offset_delete_response_partition.write(encoder, version)


class OffsetDeleteResponsePartition(Message):
    """In `OffsetDeleteResponseTopic.partitions`."""

    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = decoder.fixed(I32_I16)
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
