"""DescribeLogDirs: DescribeLogDirsRequest and DescribeLogDirsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")
I32_I64_I64_BOOL = Struct(">iqq?")
I64_I64 = Struct(">qq")


class DescribeLogDirsRequest(ApiMessage):
    """DescribeLogDirsRequest: API key 35, versions 1 to 5, flexible from 2."""

    __slots__ = ("topics",)

    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = ABSENT,
    ) -> None:
        self.topics: list[DescribableLogDirTopic] | None = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        count = decoder.nullable_compact_count(3) if version >= 2 else decoder.nullable_count(3)
        self.topics = None if count < 0 else [DescribableLogDirTopic.read(decoder, version) for _ in range(count)]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.nullable_compact_count if version >= 2 else encoder.nullable_count)(self.topics)
        for describable_log_dir_topic in self.topics or ():
            describable_log_dir_topic.write(encoder, version)
        if version >= 2:
            out.append(0)


class DescribableLogDirTopic(Message):
    """In `DescribeLogDirsRequest.topics`."""

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
        self.topic = decoder.compact_string() if version >= 2 else decoder.string()
        self.partitions = decoder.numbers(decoder.compact_count(4) if version >= 2 else decoder.count(4), "i", 4)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.topic)
        (encoder.compact_count if version >= 2 else encoder.count)(self.partitions)
        encoder.numbers(self.partitions, "i")
        if version >= 2:
            out.append(0)


class DescribeLogDirsResponse(ApiMessage):
    """DescribeLogDirsResponse: API key 35, versions 1 to 5, flexible from 2."""

    __slots__ = ("throttle_time_ms", "error_code", "results")

    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results: list[DescribeLogDirsResult] = [] if results is ABSENT else results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        if version >= 3:
            self.error_code = decoder.int16()
        else:
            self.error_code = 0
        self.results = [
            DescribeLogDirsResult.read(decoder, version)
            for _ in range(decoder.compact_count(5) if version >= 2 else decoder.count(5))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        if version >= 3:
            out += I16.pack(self.error_code)
        (encoder.compact_count if version >= 2 else encoder.count)(self.results)
        for describe_log_dirs_result in self.results:
            describe_log_dirs_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class DescribeLogDirsResult(Message):
    """In `DescribeLogDirsResponse.results`."""

    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = ABSENT,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics: list[DescribeLogDirsTopic] = [] if topics is ABSENT else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.log_dir = decoder.compact_string() if version >= 2 else decoder.string()
        self.topics = [
            DescribeLogDirsTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 2 else decoder.count(3))
        ]
        if version >= 4:
            self.total_bytes, self.usable_bytes = decoder.fixed(I64_I64)
        else:
            self.total_bytes = -1
            self.usable_bytes = -1
        if version >= 5:
            self.is_cordoned = decoder.boolean()
        else:
            self.is_cordoned = False
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.compact_string if version >= 2 else encoder.string)(self.log_dir)
        (encoder.compact_count if version >= 2 else encoder.count)(self.topics)
        for describe_log_dirs_topic in self.topics:
            describe_log_dirs_topic.write(encoder, version)
        if version >= 4:
            out += I64_I64.pack(self.total_bytes, self.usable_bytes)
        if version >= 5:
            out += BOOL.pack(self.is_cordoned)
        if version >= 2:
            out.append(0)


class DescribeLogDirsTopic(Message):
    """In `DescribeLogDirsResult.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[DescribeLogDirsPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.partitions = [
            DescribeLogDirsPartition.read(decoder, version)
            for _ in range(decoder.compact_count(21) if version >= 2 else decoder.count(21))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        (encoder.compact_count if version >= 2 else encoder.count)(self.partitions)
        for describe_log_dirs_partition in self.partitions:
            describe_log_dirs_partition.write(encoder, version)
        if version >= 2:
            out.append(0)


class DescribeLogDirsPartition(Message):
    """In `DescribeLogDirsTopic.partitions`."""

    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.partition_size, self.offset_lag, self.is_future_key = decoder.fixed(I32_I64_I64_BOOL)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64_I64_BOOL.pack(self.partition_index, self.partition_size, self.offset_lag, self.is_future_key)
        if version >= 2:
            out.append(0)
