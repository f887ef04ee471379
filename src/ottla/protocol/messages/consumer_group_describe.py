"""ConsumerGroupDescribe: ConsumerGroupDescribeRequest and ConsumerGroupDescribeResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")
I32_I32 = Struct(">ii")
I8 = Struct(">b")


class ConsumerGroupDescribeRequest(ApiMessage):
    """ConsumerGroupDescribeRequest: API key 69, versions 0 to 1, flexible from 0."""

    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 69
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_ids: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is ABSENT else group_ids
        self.include_authorized_operations = include_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_ids = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        self.include_authorized_operations = decoder.boolean()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.group_ids)
        for element in self.group_ids:
            encoder.compact_string(element)
        out += BOOL.pack(self.include_authorized_operations)
        out.append(0)


class ConsumerGroupDescribeResponse(ApiMessage):
    """ConsumerGroupDescribeResponse: API key 69, versions 0 to 1, flexible from 0."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 69
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is ABSENT else groups

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.groups = [DescribedGroup.read(decoder, version) for _ in range(decoder.compact_count(20))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        encoder.compact_count(self.groups)
        for described_group in self.groups:
            described_group.write(encoder, version)
        out.append(0)


class DescribedGroup(Message):
    """In `ConsumerGroupDescribeResponse.groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = ABSENT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members: list[Member] = [] if members is ABSENT else members
        self.authorized_operations = authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string()
        self.group_id = decoder.compact_string()
        self.group_state = decoder.compact_string()
        self.group_epoch, self.assignment_epoch = decoder.fixed(I32_I32)
        self.assignor_name = decoder.compact_string()
        self.members = [Member.read(decoder, version) for _ in range(decoder.compact_count(16))]
        self.authorized_operations = decoder.int32()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        encoder.nullable_compact_string(self.error_message)
        encoder.compact_string(self.group_id)
        encoder.compact_string(self.group_state)
        out += I32_I32.pack(self.group_epoch, self.assignment_epoch)
        encoder.compact_string(self.assignor_name)
        encoder.compact_count(self.members)
        for member in self.members:
            member.write(encoder, version)
        out += I32.pack(self.authorized_operations)
        out.append(0)


class Member(Message):
    """In `DescribedGroup.members`."""

    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = ABSENT,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is ABSENT else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment: Assignment = Assignment() if assignment is None else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string()
        self.instance_id = decoder.nullable_compact_string()
        self.rack_id = decoder.nullable_compact_string()
        self.member_epoch = decoder.int32()
        self.client_id = decoder.compact_string()
        self.client_host = decoder.compact_string()
        self.subscribed_topic_names = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        self.subscribed_topic_regex = decoder.nullable_compact_string()
        self.assignment = Assignment.read(decoder, version)
        self.target_assignment = Assignment.read(decoder, version)
        if version >= 1:
            self.member_type = decoder.int8()
        else:
            self.member_type = -1
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.member_id)
        encoder.nullable_compact_string(self.instance_id)
        encoder.nullable_compact_string(self.rack_id)
        out += I32.pack(self.member_epoch)
        encoder.compact_string(self.client_id)
        encoder.compact_string(self.client_host)
        encoder.compact_count(self.subscribed_topic_names)
        for element in self.subscribed_topic_names:
            encoder.compact_string(element)
        encoder.nullable_compact_string(self.subscribed_topic_regex)
        self.assignment.write(encoder, version)
        self.target_assignment.write(encoder, version)
        if version >= 1:
            out += I8.pack(self.member_type)
        out.append(0)


class Assignment(Message):
    """In `Member.assignment`."""

    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = ABSENT,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is ABSENT else topic_partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_partitions = [TopicPartitions.read(decoder, version) for _ in range(decoder.compact_count(19))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.topic_partitions)
        for topic_partitions in self.topic_partitions:
            topic_partitions.write(encoder, version)
        out.append(0)


class TopicPartitions(Message):
    """In `Assignment.topic_partitions`."""

    __slots__ = ("topic_id", "topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_id = decoder.uuid()
        self.topic_name = decoder.compact_string()
        self.partitions = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.topic_id)
        encoder.compact_string(self.topic_name)
        encoder.compact_count(self.partitions)
        encoder.numbers(self.partitions, "i")
        out.append(0)
