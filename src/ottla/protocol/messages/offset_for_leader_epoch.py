"""OffsetForLeaderEpoch: OffsetForLeaderEpochRequest and OffsetForLeaderEpochResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16_I32_I32_I64 = Struct(">hiiq")
I32 = Struct(">i")
I32_I32_I32 = Struct(">iii")


class OffsetForLeaderEpochRequest(ApiMessage):
    """OffsetForLeaderEpochRequest: API key 23, versions 2 to 4, flexible from 4."""

    __slots__ = ("replica_id", "topics")

    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = ABSENT,
    ) -> None:
        self.replica_id = replica_id
        self.topics: list[OffsetForLeaderTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 3:
            self.replica_id = decoder.int32()
        else:
            self.replica_id = -2
        self.topics = [
            OffsetForLeaderTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 4 else decoder.count(3))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 3:
            out += I32.pack(self.replica_id)
        (encoder.compact_count if version >= 4 else encoder.count)(self.topics)
        for offset_for_leader_topic in self.topics:
            offset_for_leader_topic.write(encoder, version)
        if version >= 4:
            out.append(0)


class OffsetForLeaderTopic(Message):
    """In `OffsetForLeaderEpochRequest.topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions: list[OffsetForLeaderPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic = decoder.compact_string() if version >= 4 else decoder.string()
        self.partitions = [
            OffsetForLeaderPartition.read(decoder, version)
            for _ in range(decoder.compact_count(12) if version >= 4 else decoder.count(12))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.topic)
        (encoder.compact_count if version >= 4 else encoder.count)(self.partitions)
        for offset_for_leader_partition in self.partitions:
            offset_for_leader_partition.write(encoder, version)
        if version >= 4:
            out.append(0)


class OffsetForLeaderPartition(Message):
    """In `OffsetForLeaderTopic.partitions`."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition, self.current_leader_epoch, self.leader_epoch = decoder.fixed(I32_I32_I32)
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I32_I32.pack(self.partition, self.current_leader_epoch, self.leader_epoch)
        if version >= 4:
            out.append(0)


class OffsetForLeaderEpochResponse(ApiMessage):
    """OffsetForLeaderEpochResponse: API key 23, versions 2 to 4, flexible from 4."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [
            OffsetForLeaderTopicResult.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 4 else decoder.count(3))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 4 else encoder.count)(self.topics)
        for offset_for_leader_topic_result in self.topics:
            offset_for_leader_topic_result.write(encoder, version)
        if version >= 4:
            out.append(0)


class OffsetForLeaderTopicResult(Message):
    """In `OffsetForLeaderEpochResponse.topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions: list[EpochEndOffset] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic = decoder.compact_string() if version >= 4 else decoder.string()
        self.partitions = [
            EpochEndOffset.read(decoder, version)
            for _ in range(decoder.compact_count(18) if version >= 4 else decoder.count(18))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.topic)
        (encoder.compact_count if version >= 4 else encoder.count)(self.partitions)
        for epoch_end_offset in self.partitions:
            epoch_end_offset.write(encoder, version)
        if version >= 4:
            out.append(0)


class EpochEndOffset(Message):
    """In `OffsetForLeaderTopicResult.partitions`."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code, self.partition, self.leader_epoch, self.end_offset = decoder.fixed(I16_I32_I32_I64)
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I32_I32_I64.pack(self.error_code, self.partition, self.leader_epoch, self.end_offset)
        if version >= 4:
            out.append(0)
