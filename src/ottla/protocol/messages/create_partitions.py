"""CreatePartitions: CreatePartitionsRequest and CreatePartitionsResponse of Apache Kafka 4.3.1.

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
I32_BOOL = Struct(">i?")


class CreatePartitionsRequest(ApiMessage):
    """CreatePartitionsRequest: API key 37, versions 0 to 3, flexible from 2."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = ABSENT,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [
            CreatePartitionsTopic.read(decoder, version)
            for _ in range(decoder.compact_count(7) if version >= 2 else decoder.count(7))
        ]
        self.timeout_ms, self.validate_only = decoder.fixed(I32_BOOL)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 2 else encoder.count)(self.topics)
        for create_partitions_topic in self.topics:
            create_partitions_topic.write(encoder, version)
        out += I32_BOOL.pack(self.timeout_ms, self.validate_only)
        if version >= 2:
            out.append(0)


class CreatePartitionsTopic(Message):
    """In `CreatePartitionsRequest.topics`."""

    __slots__ = ("name", "count", "assignments")

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = ABSENT,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments: list[CreatePartitionsAssignment] | None = [] if assignments is ABSENT else assignments

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.count = decoder.int32()
        count = decoder.nullable_compact_count(2) if version >= 2 else decoder.nullable_count(2)
        self.assignments = (
            None if count < 0 else [CreatePartitionsAssignment.read(decoder, version) for _ in range(count)]
        )
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        out += I32.pack(self.count)
        (encoder.nullable_compact_count if version >= 2 else encoder.nullable_count)(self.assignments)
        for create_partitions_assignment in self.assignments or ():
            create_partitions_assignment.write(encoder, version)
        if version >= 2:
            out.append(0)


class CreatePartitionsAssignment(Message):
    """In `CreatePartitionsTopic.assignments`."""

    __slots__ = ("broker_ids",)

    def __init__(
        self,
        *,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.broker_ids: list[int] = [] if broker_ids is ABSENT else broker_ids

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.broker_ids = decoder.numbers(decoder.compact_count(4) if version >= 2 else decoder.count(4), "i", 4)
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 2 else encoder.count)(self.broker_ids)
        encoder.numbers(self.broker_ids, "i")
        if version >= 2:
            out.append(0)


class CreatePartitionsResponse(ApiMessage):
    """CreatePartitionsResponse: API key 37, versions 0 to 3, flexible from 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = [] if results is ABSENT else results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.results = [
            CreatePartitionsTopicResult.read(decoder, version)
            for _ in range(decoder.compact_count(5) if version >= 2 else decoder.count(5))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 2 else encoder.count)(self.results)
        for create_partitions_topic_result in self.results:
            create_partitions_topic_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class CreatePartitionsTopicResult(Message):
    """In `CreatePartitionsResponse.results`."""

    __slots__ = ("name", "error_code", "error_message")

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.error_message)
        if version >= 2:
            out.append(0)
