"""ListPartitionReassignments: its request and its response, of Apache Kafka 4.3.1.

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


class ListPartitionReassignmentsRequest(ApiMessage):
    """ListPartitionReassignmentsRequest: API key 46, versions 0 to 0, flexible from 0."""

    __slots__ = ("timeout_ms", "topics")

    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.timeout_ms = decoder.int32()
        count = decoder.nullable_compact_count(3)
        self.topics = (
            None if count < 0 else [ListPartitionReassignmentsTopics.read(decoder, version) for _ in range(count)]
        )
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.timeout_ms)
        encoder.nullable_compact_count(self.topics)
        for list_partition_reassignments_topics in self.topics or ():
            list_partition_reassignments_topics.write(encoder, version)
        out.append(0)


class ListPartitionReassignmentsTopics(Message):
    """In `ListPartitionReassignmentsRequest.topics`."""

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


class ListPartitionReassignmentsResponse(ApiMessage):
    """ListPartitionReassignmentsResponse: API key 46, versions 0 to 0, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")

    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[OngoingTopicReassignment] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        self.topics = [OngoingTopicReassignment.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        encoder.compact_count(self.topics)
        for ongoing_topic_reassignment in self.topics:
            ongoing_topic_reassignment.write(encoder, version)
        out.append(0)


class OngoingTopicReassignment(Message):
    """In `ListPartitionReassignmentsResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[OngoingPartitionReassignment] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partitions = [OngoingPartitionReassignment.read(decoder, version) for _ in range(decoder.compact_count(8))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partitions)
        for ongoing_partition_reassignment in self.partitions:
            ongoing_partition_reassignment.write(encoder, version)
        out.append(0)


class OngoingPartitionReassignment(Message):
    """In `OngoingTopicReassignment.partitions`."""

    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] = ABSENT,
        adding_replicas: list[int] = ABSENT,
        removing_replicas: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.replicas: list[int] = [] if replicas is ABSENT else replicas
        self.adding_replicas: list[int] = [] if adding_replicas is ABSENT else adding_replicas
        self.removing_replicas: list[int] = [] if removing_replicas is ABSENT else removing_replicas

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index = decoder.int32()
        self.replicas = decoder.numbers(decoder.compact_count(4), "i", 4)
        self.adding_replicas = decoder.numbers(decoder.compact_count(4), "i", 4)
        self.removing_replicas = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)
        encoder.compact_count(self.replicas)
        encoder.numbers(self.replicas, "i")
        encoder.compact_count(self.adding_replicas)
        encoder.numbers(self.adding_replicas, "i")
        encoder.compact_count(self.removing_replicas)
        encoder.numbers(self.removing_replicas, "i")
        out.append(0)
