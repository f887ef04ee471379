"""TxnOffsetCommit: TxnOffsetCommitRequest and TxnOffsetCommitResponse of Apache Kafka 4.3.1.

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
I32_I16 = Struct(">ih")
I32_I64 = Struct(">iq")
I64_I16 = Struct(">qh")


class TxnOffsetCommitRequest(ApiMessage):
    """TxnOffsetCommitRequest: API key 28, versions 0 to 5, flexible from 3."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )

    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string() if version >= 3 else decoder.string()
        self.group_id = decoder.compact_string() if version >= 3 else decoder.string()
        self.producer_id, self.producer_epoch = decoder.fixed(I64_I16)
        if version >= 3:
            self.generation_id = decoder.int32()
            self.member_id = decoder.compact_string()
            self.group_instance_id = decoder.nullable_compact_string()
        else:
            self.generation_id = -1
            self.member_id = ""
            self.group_instance_id = None
        self.topics = [
            TxnOffsetCommitRequestTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 3 else decoder.count(3))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.transactional_id)
        (encoder.compact_string if version >= 3 else encoder.string)(self.group_id)
        out += I64_I16.pack(self.producer_id, self.producer_epoch)
        if version >= 3:
            out += I32.pack(self.generation_id)
            encoder.compact_string(self.member_id)
            encoder.nullable_compact_string(self.group_instance_id)
        else:
            if self.generation_id != -1:
                raise UnsupportedField(self, "generation_id", version)
            if self.member_id != "":
                raise UnsupportedField(self, "member_id", version)
            if self.group_instance_id is not None:
                raise UnsupportedField(self, "group_instance_id", version)
        (encoder.compact_count if version >= 3 else encoder.count)(self.topics)
        for txn_offset_commit_request_topic in self.topics:
            txn_offset_commit_request_topic.write(encoder, version)
        if version >= 3:
            out.append(0)


class TxnOffsetCommitRequestTopic(Message):
    """In `TxnOffsetCommitRequest.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[TxnOffsetCommitRequestPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 3 else decoder.string()
        self.partitions = [
            TxnOffsetCommitRequestPartition.read(decoder, version)
            for _ in range(decoder.compact_count(14) if version >= 3 else decoder.count(14))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.name)
        (encoder.compact_count if version >= 3 else encoder.count)(self.partitions)
        for txn_offset_commit_request_partition in self.partitions:
            txn_offset_commit_request_partition.write(encoder, version)
        if version >= 3:
            out.append(0)


class TxnOffsetCommitRequestPartition(Message):
    """In `TxnOffsetCommitRequestTopic.partitions`."""

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
        if version >= 2:
            self.committed_leader_epoch = decoder.int32()
        else:
            self.committed_leader_epoch = -1
        self.committed_metadata = decoder.nullable_compact_string() if version >= 3 else decoder.nullable_string()
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.partition_index, self.committed_offset)
        if version >= 2:
            out += I32.pack(self.committed_leader_epoch)
        (encoder.nullable_compact_string if version >= 3 else encoder.nullable_string)(self.committed_metadata)
        if version >= 3:
            out.append(0)


class TxnOffsetCommitResponse(ApiMessage):
    """TxnOffsetCommitResponse: API key 28, versions 0 to 5, flexible from 3."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [
            TxnOffsetCommitResponseTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 3 else decoder.count(3))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 3 else encoder.count)(self.topics)
        for txn_offset_commit_response_topic in self.topics:
            txn_offset_commit_response_topic.write(encoder, version)
        if version >= 3:
            out.append(0)


class TxnOffsetCommitResponseTopic(Message):
    """In `TxnOffsetCommitResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[TxnOffsetCommitResponsePartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 3 else decoder.string()
        self.partitions = [
            TxnOffsetCommitResponsePartition.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 3 else decoder.count(6))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.name)
        (encoder.compact_count if version >= 3 else encoder.count)(self.partitions)
        for txn_offset_commit_response_partition in self.partitions:
            txn_offset_commit_response_partition.write(encoder, version)
        if version >= 3:
            out.append(0)


class TxnOffsetCommitResponsePartition(Message):
    """In `TxnOffsetCommitResponseTopic.partitions`."""

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
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        if version >= 3:
            out.append(0)
