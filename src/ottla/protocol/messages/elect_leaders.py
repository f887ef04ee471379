"""ElectLeaders: ElectLeadersRequest and ElectLeadersResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")
I32_I16 = Struct(">ih")
I8 = Struct(">b")


class ElectLeadersRequest(ApiMessage):
    """ElectLeadersRequest: API key 43, versions 0 to 2, flexible from 2."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms")

    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = ABSENT,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions: list[TopicPartitions] | None = [] if topic_partitions is ABSENT else topic_partitions
        self.timeout_ms = timeout_ms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.election_type = decoder.int8()
        else:
            self.election_type = 0
        count = decoder.nullable_compact_count(3) if version >= 2 else decoder.nullable_count(3)
        self.topic_partitions = None if count < 0 else [TopicPartitions.read(decoder, version) for _ in range(count)]
        self.timeout_ms = decoder.int32()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I8.pack(self.election_type)
        elif self.election_type != 0:
            raise UnsupportedField(self, "election_type", version)
        (encoder.nullable_compact_count if version >= 2 else encoder.nullable_count)(self.topic_partitions)
        for topic_partitions in self.topic_partitions or ():
            topic_partitions.write(encoder, version)
        out += I32.pack(self.timeout_ms)
        if version >= 2:
            out.append(0)


class TopicPartitions(Message):
    """In `ElectLeadersRequest.topic_partitions`."""

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


class ElectLeadersResponse(ApiMessage):
    """ElectLeadersResponse: API key 43, versions 0 to 2, flexible from 2."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")

    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results: list[ReplicaElectionResult] = (
            [] if replica_election_results is ABSENT else replica_election_results
        )

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        if version >= 1:
            self.error_code = decoder.int16()
        else:
            self.error_code = 0
        self.replica_election_results = [
            ReplicaElectionResult.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 2 else decoder.count(3))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        if version >= 1:
            out += I16.pack(self.error_code)
        elif self.error_code != 0:
            raise UnsupportedField(self, "error_code", version)
        (encoder.compact_count if version >= 2 else encoder.count)(self.replica_election_results)
        for replica_election_result in self.replica_election_results:
            replica_election_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class ReplicaElectionResult(Message):
    """In `ElectLeadersResponse.replica_election_results`."""

    __slots__ = ("topic", "partition_result")

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partition_result: list[PartitionResult] = [] if partition_result is ABSENT else partition_result

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic = decoder.compact_string() if version >= 2 else decoder.string()
        self.partition_result = [
            PartitionResult.read(decoder, version)
            for _ in range(decoder.compact_count(8) if version >= 2 else decoder.count(8))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.topic)
        (encoder.compact_count if version >= 2 else encoder.count)(self.partition_result)
        for partition_result in self.partition_result:
            partition_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class PartitionResult(Message):
    """In `ReplicaElectionResult.partition_result`."""

    __slots__ = ("partition_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_id, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_id, self.error_code)
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.error_message)
        if version >= 2:
            out.append(0)
