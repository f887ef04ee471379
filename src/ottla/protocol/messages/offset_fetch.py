"""OffsetFetch: OffsetFetchRequest and OffsetFetchResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")
I32_I64 = Struct(">iq")
I32_I64_I32 = Struct(">iqi")


class OffsetFetchRequest(ApiMessage):
    """OffsetFetchRequest: API key 9, versions 1 to 10, flexible from 6."""

    __slots__ = ("group_id", "topics", "groups", "require_stable")

    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = ABSENT,
        groups: list[OffsetFetchRequestGroup] = ABSENT,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = [] if topics is ABSENT else topics
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is ABSENT else groups
        self.require_stable = require_stable

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 7:
            self.group_id = decoder.compact_string() if version >= 6 else decoder.string()
            count = (
                decoder.nullable_compact_count(3)
                if version >= 6
                else decoder.nullable_count(3)
                if version >= 2
                else decoder.count(3)
            )
            self.topics = None if count < 0 else [OffsetFetchRequestTopic.read(decoder, version) for _ in range(count)]
        else:
            self.group_id = ""
            self.topics = []
        if version >= 8:
            self.groups = [OffsetFetchRequestGroup.read(decoder, version) for _ in range(decoder.compact_count(3))]
        else:
            self.groups = []
        if version >= 7:
            self.require_stable = decoder.boolean()
        else:
            self.require_stable = False
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 7:
            (encoder.compact_string if version >= 6 else encoder.string)(self.group_id)
            (
                encoder.nullable_compact_count
                if version >= 6
                else encoder.nullable_count
                if version >= 2
                else encoder.count
            )(self.topics)
            for offset_fetch_request_topic in self.topics or ():
                offset_fetch_request_topic.write(encoder, version)
        else:
            if self.group_id != "":
                raise UnsupportedField(self, "group_id", version)
            if self.topics != []:
                raise UnsupportedField(self, "topics", version)
        if version >= 8:
            encoder.compact_count(self.groups)
            for offset_fetch_request_group in self.groups:
                offset_fetch_request_group.write(encoder, version)
        elif self.groups != []:
            raise UnsupportedField(self, "groups", version)
        if version >= 7:
            out += BOOL.pack(self.require_stable)
        elif self.require_stable:
            raise UnsupportedField(self, "require_stable", version)
        if version >= 6:
            out.append(0)


class OffsetFetchRequestTopic(Message):
    """In `OffsetFetchRequest.topics`."""

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
        self.name = decoder.compact_string() if version >= 6 else decoder.string()
        self.partition_indexes = decoder.numbers(decoder.compact_count(4) if version >= 6 else decoder.count(4), "i", 4)
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.name)
        (encoder.compact_count if version >= 6 else encoder.count)(self.partition_indexes)
        encoder.numbers(self.partition_indexes, "i")
        if version >= 6:
            out.append(0)


class OffsetFetchRequestGroup(Message):
    """In `OffsetFetchRequest.groups`."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string()
        if version >= 9:
            self.member_id = decoder.nullable_compact_string()
            self.member_epoch = decoder.int32()
        else:
            self.member_id = None
            self.member_epoch = -1
        count = decoder.nullable_compact_count(3)
        self.topics = None if count < 0 else [OffsetFetchRequestTopics.read(decoder, version) for _ in range(count)]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.group_id)
        if version >= 9:
            encoder.nullable_compact_string(self.member_id)
            out += I32.pack(self.member_epoch)
        encoder.nullable_compact_count(self.topics)
        for offset_fetch_request_topics in self.topics or ():
            offset_fetch_request_topics.write(encoder, version)
        out.append(0)


class OffsetFetchRequestTopics(Message):
    """In `OffsetFetchRequestGroup.topics`."""

    __slots__ = ("name", "topic_id", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes: list[int] = [] if partition_indexes is ABSENT else partition_indexes

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 9:
            self.name = decoder.compact_string()
        else:
            self.name = ""
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partition_indexes = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 9:
            encoder.compact_string(self.name)
        if version >= 10:
            encoder.uuid(self.topic_id)
        encoder.compact_count(self.partition_indexes)
        encoder.numbers(self.partition_indexes, "i")
        out.append(0)


class OffsetFetchResponse(ApiMessage):
    """OffsetFetchResponse: API key 9, versions 1 to 10, flexible from 6."""

    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")

    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = ABSENT,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is ABSENT else topics
        self.error_code = error_code
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is ABSENT else groups

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 3:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        if version <= 7:
            self.topics = [
                OffsetFetchResponseTopic.read(decoder, version)
                for _ in range(decoder.compact_count(3) if version >= 6 else decoder.count(3))
            ]
        else:
            self.topics = []
        if 2 <= version <= 7:
            self.error_code = decoder.int16()
        else:
            self.error_code = 0
        if version >= 8:
            self.groups = [OffsetFetchResponseGroup.read(decoder, version) for _ in range(decoder.compact_count(5))]
        else:
            self.groups = []
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 3:
            out += I32.pack(self.throttle_time_ms)
        if version <= 7:
            (encoder.compact_count if version >= 6 else encoder.count)(self.topics)
            for offset_fetch_response_topic in self.topics:
                offset_fetch_response_topic.write(encoder, version)
        elif self.topics != []:
            raise UnsupportedField(self, "topics", version)
        if 2 <= version <= 7:
            out += I16.pack(self.error_code)
        if version >= 8:
            encoder.compact_count(self.groups)
            for offset_fetch_response_group in self.groups:
                offset_fetch_response_group.write(encoder, version)
        elif self.groups != []:
            raise UnsupportedField(self, "groups", version)
        if version >= 6:
            out.append(0)


class OffsetFetchResponseTopic(Message):
    """In `OffsetFetchResponse.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 6 else decoder.string()
        self.partitions = [
            OffsetFetchResponsePartition.read(decoder, version)
            for _ in range(decoder.compact_count(16) if version >= 6 else decoder.count(16))
        ]
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.name)
        (encoder.compact_count if version >= 6 else encoder.count)(self.partitions)
        for offset_fetch_response_partition in self.partitions:
            offset_fetch_response_partition.write(encoder, version)
        if version >= 6:
            out.append(0)


class OffsetFetchResponsePartition(Message):
    """In `OffsetFetchResponseTopic.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.committed_offset = decoder.fixed(I32_I64)
        if version >= 5:
            self.committed_leader_epoch = decoder.int32()
        else:
            self.committed_leader_epoch = -1
        self.metadata = decoder.nullable_compact_string() if version >= 6 else decoder.nullable_string()
        self.error_code = decoder.int16()
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.partition_index, self.committed_offset)
        if version >= 5:
            out += I32.pack(self.committed_leader_epoch)
        (encoder.nullable_compact_string if version >= 6 else encoder.nullable_string)(self.metadata)
        out += I16.pack(self.error_code)
        if version >= 6:
            out.append(0)


class OffsetFetchResponseGroup(Message):
    """In `OffsetFetchResponse.groups`."""

    __slots__ = ("group_id", "topics", "error_code")

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = ABSENT,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is ABSENT else topics
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string()
        self.topics = [OffsetFetchResponseTopics.read(decoder, version) for _ in range(decoder.compact_count(3))]
        self.error_code = decoder.int16()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.group_id)
        encoder.compact_count(self.topics)
        for offset_fetch_response_topics in self.topics:
            offset_fetch_response_topics.write(encoder, version)
        out += I16.pack(self.error_code)
        out.append(0)


class OffsetFetchResponseTopics(Message):
    """In `OffsetFetchResponseGroup.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 9:
            self.name = decoder.compact_string()
        else:
            self.name = ""
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = [
            OffsetFetchResponsePartitions.read(decoder, version) for _ in range(decoder.compact_count(20))
        ]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 9:
            encoder.compact_string(self.name)
        if version >= 10:
            encoder.uuid(self.topic_id)
        encoder.compact_count(self.partitions)
        for offset_fetch_response_partitions in self.partitions:
            offset_fetch_response_partitions.write(encoder, version)
        out.append(0)


class OffsetFetchResponsePartitions(Message):
    """In `OffsetFetchResponseTopics.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.committed_offset, self.committed_leader_epoch = decoder.fixed(I32_I64_I32)
        self.metadata = decoder.nullable_compact_string()
        self.error_code = decoder.int16()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64_I32.pack(self.partition_index, self.committed_offset, self.committed_leader_epoch)
        encoder.nullable_compact_string(self.metadata)
        out += I16.pack(self.error_code)
        out.append(0)
