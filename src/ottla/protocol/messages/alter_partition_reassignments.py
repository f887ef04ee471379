"""AlterPartitionReassignments: its request and its response, of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")
I32_I16 = Struct(">ih")


class AlterPartitionReassignmentsRequest(ApiMessage):
    """AlterPartitionReassignmentsRequest: API key 45, versions 0 to 1, flexible from 0."""

    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")

    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = ABSENT,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.timeout_ms = decoder.int32()
        if version >= 1:
            self.allow_replication_factor_change = decoder.boolean()
        else:
            self.allow_replication_factor_change = True
        self.topics = [ReassignableTopic.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.timeout_ms)
        if version >= 1:
            out += BOOL.pack(self.allow_replication_factor_change)
        elif not self.allow_replication_factor_change:
            raise UnsupportedField(self, "allow_replication_factor_change", version)
        encoder.compact_count(self.topics)
        for reassignable_topic in self.topics:
            reassignable_topic.write(encoder, version)
        out.append(0)


class ReassignableTopic(Message):
    """In `AlterPartitionReassignmentsRequest.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partitions = [ReassignablePartition.read(decoder, version) for _ in range(decoder.compact_count(6))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partitions)
        for reassignable_partition in self.partitions:
            reassignable_partition.write(encoder, version)
        out.append(0)


class ReassignablePartition(Message):
    """In `ReassignableTopic.partitions`."""

    __slots__ = ("partition_index", "replicas")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index = decoder.int32()
        count = decoder.nullable_compact_count(4)
        self.replicas = None if count < 0 else decoder.numbers(count, "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)
        encoder.nullable_compact_count(self.replicas)
        if self.replicas:
            encoder.numbers(self.replicas, "i")
        out.append(0)


class AlterPartitionReassignmentsResponse(ApiMessage):
    """AlterPartitionReassignmentsResponse: API key 45, versions 0 to 1, flexible from 0."""

    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")

    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[ReassignableTopicResponse] = [] if responses is ABSENT else responses

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        if version >= 1:
            self.allow_replication_factor_change = decoder.boolean()
        else:
            self.allow_replication_factor_change = True
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string()
        self.responses = [ReassignableTopicResponse.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        if version >= 1:
            out += BOOL.pack(self.allow_replication_factor_change)
        out += I16.pack(self.error_code)
        encoder.nullable_compact_string(self.error_message)
        encoder.compact_count(self.responses)
        for reassignable_topic_response in self.responses:
            reassignable_topic_response.write(encoder, version)
        out.append(0)


class ReassignableTopicResponse(Message):
    """In `AlterPartitionReassignmentsResponse.responses`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartitionResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartitionResponse] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partitions = [
            ReassignablePartitionResponse.read(decoder, version) for _ in range(decoder.compact_count(8))
        ]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partitions)
        for reassignable_partition_response in self.partitions:
            reassignable_partition_response.write(encoder, version)
        out.append(0)


class ReassignablePartitionResponse(Message):
    """In `ReassignableTopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        out.append(0)
