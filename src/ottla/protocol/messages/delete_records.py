"""DeleteRecords: DeleteRecordsRequest and DeleteRecordsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I64 = Struct(">iq")
I32_I64_I16 = Struct(">iqh")


class DeleteRecordsRequest(ApiMessage):
    """DeleteRecordsRequest: API key 21, versions 0 to 2, flexible from 2."""

    __slots__ = ("topics", "timeout_ms")

    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteRecordsTopic] = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [
            DeleteRecordsTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 2 else decoder.count(3))
        ]
        self.timeout_ms = decoder.int32()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 2 else encoder.count)(self.topics)
        for delete_records_topic in self.topics:
            delete_records_topic.write(encoder, version)
        out += I32.pack(self.timeout_ms)
        if version >= 2:
            out.append(0)


class DeleteRecordsTopic(Message):
    """In `DeleteRecordsRequest.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.partitions = [
            DeleteRecordsPartition.read(decoder, version)
            for _ in range(decoder.compact_count(12) if version >= 2 else decoder.count(12))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        (encoder.compact_count if version >= 2 else encoder.count)(self.partitions)
        for delete_records_partition in self.partitions:
            delete_records_partition.write(encoder, version)
        if version >= 2:
            out.append(0)


class DeleteRecordsPartition(Message):
    """In `DeleteRecordsTopic.partitions`."""

    __slots__ = ("partition_index", "offset")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.offset = decoder.fixed(I32_I64)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.partition_index, self.offset)
        if version >= 2:
            out.append(0)


class DeleteRecordsResponse(ApiMessage):
    """DeleteRecordsResponse: API key 21, versions 0 to 2, flexible from 2."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [
            DeleteRecordsTopicResult.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 2 else decoder.count(3))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 2 else encoder.count)(self.topics)
        for delete_records_topic_result in self.topics:
            delete_records_topic_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class DeleteRecordsTopicResult(Message):
    """In `DeleteRecordsResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartitionResult] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.partitions = [
            DeleteRecordsPartitionResult.read(decoder, version)
            for _ in range(decoder.compact_count(14) if version >= 2 else decoder.count(14))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        (encoder.compact_count if version >= 2 else encoder.count)(self.partitions)
        for delete_records_partition_result in self.partitions:
            delete_records_partition_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class DeleteRecordsPartitionResult(Message):
    """In `DeleteRecordsTopicResult.partitions`."""

    __slots__ = ("partition_index", "low_watermark", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.low_watermark, self.error_code = decoder.fixed(I32_I64_I16)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64_I16.pack(self.partition_index, self.low_watermark, self.error_code)
        if version >= 2:
            out.append(0)
