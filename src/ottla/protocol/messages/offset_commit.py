"""OffsetCommit: OffsetCommitRequest and OffsetCommitResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16 = Struct(">ih")
I32_I64 = Struct(">iq")
I64 = Struct(">q")


class OffsetCommitRequest(ApiMessage):
    """OffsetCommitRequest: API key 8, versions 2 to 10, flexible from 8."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )

    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics: list[OffsetCommitRequestTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 8 else decoder.string()
        self.generation_id_or_member_epoch = decoder.int32()
        self.member_id = decoder.compact_string() if version >= 8 else decoder.string()
        if version >= 7:
            self.group_instance_id = decoder.nullable_compact_string() if version >= 8 else decoder.nullable_string()
        else:
            self.group_instance_id = None
        if version <= 4:
            self.retention_time_ms = decoder.int64()
        else:
            self.retention_time_ms = -1
        self.topics = [
            OffsetCommitRequestTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 8 else decoder.count(3))
        ]
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 8 else encoder.string)(self.group_id)
        out += I32.pack(self.generation_id_or_member_epoch)
        (encoder.compact_string if version >= 8 else encoder.string)(self.member_id)
        if version >= 7:
            (encoder.nullable_compact_string if version >= 8 else encoder.nullable_string)(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise UnsupportedField(self, "group_instance_id", version)
        if version <= 4:
            out += I64.pack(self.retention_time_ms)
        (encoder.compact_count if version >= 8 else encoder.count)(self.topics)
        for offset_commit_request_topic in self.topics:
            offset_commit_request_topic.write(encoder, version)
        if version >= 8:
            out.append(0)


class OffsetCommitRequestTopic(Message):
    """In `OffsetCommitRequest.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetCommitRequestPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 9:
            self.name = decoder.compact_string() if version >= 8 else decoder.string()
        else:
            self.name = ""
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = [
            OffsetCommitRequestPartition.read(decoder, version)
            for _ in range(decoder.compact_count(14) if version >= 8 else decoder.count(14))
        ]
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 9:
            (encoder.compact_string if version >= 8 else encoder.string)(self.name)
        if version >= 10:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 8 else encoder.count)(self.partitions)
        for offset_commit_request_partition in self.partitions:
            offset_commit_request_partition.write(encoder, version)
        if version >= 8:
            out.append(0)


class OffsetCommitRequestPartition(Message):
    """In `OffsetCommitRequestTopic.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.committed_offset = decoder.fixed(I32_I64)
        if version >= 6:
            self.committed_leader_epoch = decoder.int32()
        else:
            self.committed_leader_epoch = -1
        self.committed_metadata = decoder.nullable_compact_string() if version >= 8 else decoder.nullable_string()
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.partition_index, self.committed_offset)
        if version >= 6:
            out += I32.pack(self.committed_leader_epoch)
        (encoder.nullable_compact_string if version >= 8 else encoder.nullable_string)(self.committed_metadata)
        if version >= 8:
            out.append(0)


class OffsetCommitResponse(ApiMessage):
    """OffsetCommitResponse: API key 8, versions 2 to 10, flexible from 8."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetCommitResponseTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 3:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.topics = [
            OffsetCommitResponseTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 8 else decoder.count(3))
        ]
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 3:
            out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 8 else encoder.count)(self.topics)
        for offset_commit_response_topic in self.topics:
            offset_commit_response_topic.write(encoder, version)
        if version >= 8:
            out.append(0)


class OffsetCommitResponseTopic(Message):
    """In `OffsetCommitResponse.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetCommitResponsePartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 9:
            self.name = decoder.compact_string() if version >= 8 else decoder.string()
        else:
            self.name = ""
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = [
            OffsetCommitResponsePartition.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 8 else decoder.count(6))
        ]
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 9:
            (encoder.compact_string if version >= 8 else encoder.string)(self.name)
        if version >= 10:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 8 else encoder.count)(self.partitions)
        for offset_commit_response_partition in self.partitions:
            offset_commit_response_partition.write(encoder, version)
        if version >= 8:
            out.append(0)


class OffsetCommitResponsePartition(Message):
    """In `OffsetCommitResponseTopic.partitions`."""

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
        if version >= 8:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        if version >= 8:
            out.append(0)
