"""SyncGroup: SyncGroupRequest and SyncGroupResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Buffer, Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")


class SyncGroupRequest(ApiMessage):
    """SyncGroupRequest: API key 14, versions 0 to 5, flexible from 4."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )

    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = [] if assignments is ABSENT else assignments

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 4 else decoder.string()
        self.generation_id = decoder.int32()
        self.member_id = decoder.compact_string() if version >= 4 else decoder.string()
        if version >= 3:
            self.group_instance_id = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        else:
            self.group_instance_id = None
        if version >= 5:
            self.protocol_type = decoder.nullable_compact_string()
            self.protocol_name = decoder.nullable_compact_string()
        else:
            self.protocol_type = None
            self.protocol_name = None
        self.assignments = [
            SyncGroupRequestAssignment.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 4 else decoder.count(3))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.group_id)
        out += I32.pack(self.generation_id)
        (encoder.compact_string if version >= 4 else encoder.string)(self.member_id)
        if version >= 3:
            (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise UnsupportedField(self, "group_instance_id", version)
        if version >= 5:
            encoder.nullable_compact_string(self.protocol_type)
            encoder.nullable_compact_string(self.protocol_name)
        (encoder.compact_count if version >= 4 else encoder.count)(self.assignments)
        for sync_group_request_assignment in self.assignments:
            sync_group_request_assignment.write(encoder, version)
        if version >= 4:
            out.append(0)


class SyncGroupRequestAssignment(Message):
    """In `SyncGroupRequest.assignments`."""

    __slots__ = ("member_id", "assignment")

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.member_id = decoder.compact_string() if version >= 4 else decoder.string()
        self.assignment = decoder.compact_byte_string() if version >= 4 else decoder.byte_string()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.member_id)
        (encoder.compact_byte_string if version >= 4 else encoder.byte_string)(self.assignment)
        if version >= 4:
            out.append(0)


class SyncGroupResponse(ApiMessage):
    """SyncGroupResponse: API key 14, versions 0 to 5, flexible from 4."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: Buffer = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.error_code = decoder.int16()
        if version >= 5:
            self.protocol_type = decoder.nullable_compact_string()
            self.protocol_name = decoder.nullable_compact_string()
        else:
            self.protocol_type = None
            self.protocol_name = None
        self.assignment = decoder.compact_byte_string() if version >= 4 else decoder.byte_string()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        out += I16.pack(self.error_code)
        if version >= 5:
            encoder.nullable_compact_string(self.protocol_type)
            encoder.nullable_compact_string(self.protocol_name)
        (encoder.compact_byte_string if version >= 4 else encoder.byte_string)(self.assignment)
        if version >= 4:
            out.append(0)
