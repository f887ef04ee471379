"""Heartbeat: HeartbeatRequest and HeartbeatResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")


class HeartbeatRequest(ApiMessage):
    """HeartbeatRequest: API key 12, versions 0 to 4, flexible from 4."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")

    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id

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
        if version >= 4:
            out.append(0)


class HeartbeatResponse(ApiMessage):
    """HeartbeatResponse: API key 12, versions 0 to 4, flexible from 4."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.error_code = decoder.int16()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        out += I16.pack(self.error_code)
        if version >= 4:
            out.append(0)
