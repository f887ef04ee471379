"""LeaveGroup: LeaveGroupRequest and LeaveGroupResponse of Apache Kafka 4.3.1.

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


class LeaveGroupRequest(ApiMessage):
    """LeaveGroupRequest: API key 13, versions 0 to 5, flexible from 4."""

    __slots__ = ("group_id", "member_id", "members")

    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members: list[MemberIdentity] = [] if members is ABSENT else members

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 4 else decoder.string()
        if version <= 2:
            self.member_id = decoder.string()
        else:
            self.member_id = ""
        if version >= 3:
            self.members = [
                MemberIdentity.read(decoder, version)
                for _ in range(decoder.compact_count(3) if version >= 4 else decoder.count(3))
            ]
        else:
            self.members = []
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.group_id)
        if version <= 2:
            encoder.string(self.member_id)
        elif self.member_id != "":
            raise UnsupportedField(self, "member_id", version)
        if version >= 3:
            (encoder.compact_count if version >= 4 else encoder.count)(self.members)
            for member_identity in self.members:
                member_identity.write(encoder, version)
        elif self.members != []:
            raise UnsupportedField(self, "members", version)
        if version >= 4:
            out.append(0)


class MemberIdentity(Message):
    """In `LeaveGroupRequest.members`."""

    __slots__ = ("member_id", "group_instance_id", "reason")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string() if version >= 4 else decoder.string()
        self.group_instance_id = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        if version >= 5:
            self.reason = decoder.nullable_compact_string()
        else:
            self.reason = None
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.member_id)
        (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.group_instance_id)
        if version >= 5:
            encoder.nullable_compact_string(self.reason)
        if version >= 4:
            out.append(0)


class LeaveGroupResponse(ApiMessage):
    """LeaveGroupResponse: API key 13, versions 0 to 5, flexible from 4."""

    __slots__ = ("throttle_time_ms", "error_code", "members")

    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members: list[MemberResponse] = [] if members is ABSENT else members

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.error_code = decoder.int16()
        if version >= 3:
            self.members = [
                MemberResponse.read(decoder, version)
                for _ in range(decoder.compact_count(5) if version >= 4 else decoder.count(5))
            ]
        else:
            self.members = []
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        out += I16.pack(self.error_code)
        if version >= 3:
            (encoder.compact_count if version >= 4 else encoder.count)(self.members)
            for member_response in self.members:
                member_response.write(encoder, version)
        elif self.members != []:
            raise UnsupportedField(self, "members", version)
        if version >= 4:
            out.append(0)


class MemberResponse(Message):
    """In `LeaveGroupResponse.members`."""

    __slots__ = ("member_id", "group_instance_id", "error_code")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string() if version >= 4 else decoder.string()
        self.group_instance_id = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        self.error_code = decoder.int16()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.member_id)
        (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.group_instance_id)
        out += I16.pack(self.error_code)
        if version >= 4:
            out.append(0)
