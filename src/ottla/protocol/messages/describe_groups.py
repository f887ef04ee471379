"""DescribeGroups: DescribeGroupsRequest and DescribeGroupsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Buffer, Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")


class DescribeGroupsRequest(ApiMessage):
    """DescribeGroupsRequest: API key 15, versions 0 to 6, flexible from 5."""

    __slots__ = ("groups", "include_authorized_operations")

    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        groups: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups: list[str] = [] if groups is ABSENT else groups
        self.include_authorized_operations = include_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.groups = [
            decoder.compact_string() if version >= 5 else decoder.string()
            for _ in range(decoder.compact_count(1) if version >= 5 else decoder.count(1))
        ]
        if version >= 3:
            self.include_authorized_operations = decoder.boolean()
        else:
            self.include_authorized_operations = False
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 5 else encoder.count)(self.groups)
        for element in self.groups:
            (encoder.compact_string if version >= 5 else encoder.string)(element)
        if version >= 3:
            out += BOOL.pack(self.include_authorized_operations)
        elif self.include_authorized_operations:
            raise UnsupportedField(self, "include_authorized_operations", version)
        if version >= 5:
            out.append(0)


class DescribeGroupsResponse(ApiMessage):
    """DescribeGroupsResponse: API key 15, versions 0 to 6, flexible from 5."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

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
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.groups = [
            DescribedGroup.read(decoder, version)
            for _ in range(decoder.compact_count(12) if version >= 5 else decoder.count(12))
        ]
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 5 else encoder.count)(self.groups)
        for described_group in self.groups:
            described_group.write(encoder, version)
        if version >= 5:
            out.append(0)


class DescribedGroup(Message):
    """In `DescribeGroupsResponse.groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
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
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = ABSENT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members: list[DescribedGroupMember] = [] if members is ABSENT else members
        self.authorized_operations = authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        if version >= 6:
            self.error_message = decoder.nullable_compact_string()
        else:
            self.error_message = None
        self.group_id = decoder.compact_string() if version >= 5 else decoder.string()
        self.group_state = decoder.compact_string() if version >= 5 else decoder.string()
        self.protocol_type = decoder.compact_string() if version >= 5 else decoder.string()
        self.protocol_data = decoder.compact_string() if version >= 5 else decoder.string()
        self.members = [
            DescribedGroupMember.read(decoder, version)
            for _ in range(decoder.compact_count(7) if version >= 5 else decoder.count(7))
        ]
        if version >= 3:
            self.authorized_operations = decoder.int32()
        else:
            self.authorized_operations = -2147483648
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        if version >= 6:
            encoder.nullable_compact_string(self.error_message)
        elif self.error_message is not None:
            raise UnsupportedField(self, "error_message", version)
        (encoder.compact_string if version >= 5 else encoder.string)(self.group_id)
        (encoder.compact_string if version >= 5 else encoder.string)(self.group_state)
        (encoder.compact_string if version >= 5 else encoder.string)(self.protocol_type)
        (encoder.compact_string if version >= 5 else encoder.string)(self.protocol_data)
        (encoder.compact_count if version >= 5 else encoder.count)(self.members)
        for described_group_member in self.members:
            described_group_member.write(encoder, version)
        if version >= 3:
            out += I32.pack(self.authorized_operations)
        elif self.authorized_operations != -2147483648:
            raise UnsupportedField(self, "authorized_operations", version)
        if version >= 5:
            out.append(0)


class DescribedGroupMember(Message):
    """In `DescribedGroup.members`."""

    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: Buffer = b"",
        member_assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string() if version >= 5 else decoder.string()
        if version >= 4:
            self.group_instance_id = decoder.nullable_compact_string() if version >= 5 else decoder.nullable_string()
        else:
            self.group_instance_id = None
        self.client_id = decoder.compact_string() if version >= 5 else decoder.string()
        self.client_host = decoder.compact_string() if version >= 5 else decoder.string()
        self.member_metadata = decoder.compact_byte_string() if version >= 5 else decoder.byte_string()
        self.member_assignment = decoder.compact_byte_string() if version >= 5 else decoder.byte_string()
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 5 else encoder.string)(self.member_id)
        if version >= 4:
            (encoder.nullable_compact_string if version >= 5 else encoder.nullable_string)(self.group_instance_id)
        (encoder.compact_string if version >= 5 else encoder.string)(self.client_id)
        (encoder.compact_string if version >= 5 else encoder.string)(self.client_host)
        (encoder.compact_byte_string if version >= 5 else encoder.byte_string)(self.member_metadata)
        (encoder.compact_byte_string if version >= 5 else encoder.byte_string)(self.member_assignment)
        if version >= 5:
            out.append(0)
