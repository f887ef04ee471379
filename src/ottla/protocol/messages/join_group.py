"""JoinGroup: JoinGroupRequest and JoinGroupResponse of Apache Kafka 4.3.1.

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
I16_I32 = Struct(">hi")
I32 = Struct(">i")


class JoinGroupRequest(ApiMessage):
    """JoinGroupRequest: API key 11, versions 0 to 9, flexible from 6."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )

    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = ABSENT,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = [] if protocols is ABSENT else protocols
        self.reason = reason

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 6 else decoder.string()
        self.session_timeout_ms = decoder.int32()
        if version >= 1:
            self.rebalance_timeout_ms = decoder.int32()
        else:
            self.rebalance_timeout_ms = -1
        self.member_id = decoder.compact_string() if version >= 6 else decoder.string()
        if version >= 5:
            self.group_instance_id = decoder.nullable_compact_string() if version >= 6 else decoder.nullable_string()
        else:
            self.group_instance_id = None
        self.protocol_type = decoder.compact_string() if version >= 6 else decoder.string()
        self.protocols = [
            JoinGroupRequestProtocol.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 6 else decoder.count(3))
        ]
        if version >= 8:
            self.reason = decoder.nullable_compact_string()
        else:
            self.reason = None
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.group_id)
        out += I32.pack(self.session_timeout_ms)
        if version >= 1:
            out += I32.pack(self.rebalance_timeout_ms)
        (encoder.compact_string if version >= 6 else encoder.string)(self.member_id)
        if version >= 5:
            (encoder.nullable_compact_string if version >= 6 else encoder.nullable_string)(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise UnsupportedField(self, "group_instance_id", version)
        (encoder.compact_string if version >= 6 else encoder.string)(self.protocol_type)
        (encoder.compact_count if version >= 6 else encoder.count)(self.protocols)
        for join_group_request_protocol in self.protocols:
            join_group_request_protocol.write(encoder, version)
        if version >= 8:
            encoder.nullable_compact_string(self.reason)
        if version >= 6:
            out.append(0)


class JoinGroupRequestProtocol(Message):
    """In `JoinGroupRequest.protocols`."""

    __slots__ = ("name", "metadata")

    def __init__(
        self,
        *,
        name: str = "",
        metadata: Buffer = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 6 else decoder.string()
        self.metadata = decoder.compact_byte_string() if version >= 6 else decoder.byte_string()
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.name)
        (encoder.compact_byte_string if version >= 6 else encoder.byte_string)(self.metadata)
        if version >= 6:
            out.append(0)


class JoinGroupResponse(ApiMessage):
    """JoinGroupResponse: API key 11, versions 0 to 9, flexible from 6."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )

    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members: list[JoinGroupResponseMember] = [] if members is ABSENT else members

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 2:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.error_code, self.generation_id = decoder.fixed(I16_I32)
        if version >= 7:
            self.protocol_type = decoder.nullable_compact_string()
        else:
            self.protocol_type = None
        self.protocol_name = (
            decoder.nullable_compact_string()
            if version >= 7
            else decoder.compact_string()
            if version >= 6
            else decoder.string()
        )
        self.leader = decoder.compact_string() if version >= 6 else decoder.string()
        if version >= 9:
            self.skip_assignment = decoder.boolean()
        else:
            self.skip_assignment = False
        self.member_id = decoder.compact_string() if version >= 6 else decoder.string()
        self.members = [
            JoinGroupResponseMember.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 6 else decoder.count(4))
        ]
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 2:
            out += I32.pack(self.throttle_time_ms)
        out += I16_I32.pack(self.error_code, self.generation_id)
        if version >= 7:
            encoder.nullable_compact_string(self.protocol_type)
        (
            encoder.nullable_compact_string
            if version >= 7
            else encoder.compact_string
            if version >= 6
            else encoder.string
        )(self.protocol_name)
        (encoder.compact_string if version >= 6 else encoder.string)(self.leader)
        if version >= 9:
            out += BOOL.pack(self.skip_assignment)
        elif self.skip_assignment:
            raise UnsupportedField(self, "skip_assignment", version)
        (encoder.compact_string if version >= 6 else encoder.string)(self.member_id)
        (encoder.compact_count if version >= 6 else encoder.count)(self.members)
        for join_group_response_member in self.members:
            join_group_response_member.write(encoder, version)
        if version >= 6:
            out.append(0)


class JoinGroupResponseMember(Message):
    """In `JoinGroupResponse.members`."""

    __slots__ = ("member_id", "group_instance_id", "metadata")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string() if version >= 6 else decoder.string()
        if version >= 5:
            self.group_instance_id = decoder.nullable_compact_string() if version >= 6 else decoder.nullable_string()
        else:
            self.group_instance_id = None
        self.metadata = decoder.compact_byte_string() if version >= 6 else decoder.byte_string()
        if version >= 6:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 6 else encoder.string)(self.member_id)
        if version >= 5:
            (encoder.nullable_compact_string if version >= 6 else encoder.nullable_string)(self.group_instance_id)
        (encoder.compact_byte_string if version >= 6 else encoder.byte_string)(self.metadata)
        if version >= 6:
            out.append(0)
