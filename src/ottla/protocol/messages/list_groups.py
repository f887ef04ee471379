"""ListGroups: ListGroupsRequest and ListGroupsResponse of Apache Kafka 4.3.1.

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


class ListGroupsRequest(ApiMessage):
    """ListGroupsRequest: API key 16, versions 0 to 5, flexible from 3."""

    __slots__ = ("states_filter", "types_filter")

    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        states_filter: list[str] = ABSENT,
        types_filter: list[str] = ABSENT,
    ) -> None:
        self.states_filter: list[str] = [] if states_filter is ABSENT else states_filter
        self.types_filter: list[str] = [] if types_filter is ABSENT else types_filter

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 4:
            self.states_filter = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        else:
            self.states_filter = []
        if version >= 5:
            self.types_filter = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        else:
            self.types_filter = []
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 4:
            encoder.compact_count(self.states_filter)
            for element in self.states_filter:
                encoder.compact_string(element)
        elif self.states_filter != []:
            raise UnsupportedField(self, "states_filter", version)
        if version >= 5:
            encoder.compact_count(self.types_filter)
            for element in self.types_filter:
                encoder.compact_string(element)
        elif self.types_filter != []:
            raise UnsupportedField(self, "types_filter", version)
        if version >= 3:
            out.append(0)


class ListGroupsResponse(ApiMessage):
    """ListGroupsResponse: API key 16, versions 0 to 5, flexible from 3."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")

    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups: list[ListedGroup] = [] if groups is ABSENT else groups

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.error_code = decoder.int16()
        self.groups = [
            ListedGroup.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 3 else decoder.count(3))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        out += I16.pack(self.error_code)
        (encoder.compact_count if version >= 3 else encoder.count)(self.groups)
        for listed_group in self.groups:
            listed_group.write(encoder, version)
        if version >= 3:
            out.append(0)


class ListedGroup(Message):
    """In `ListGroupsResponse.groups`."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 3 else decoder.string()
        self.protocol_type = decoder.compact_string() if version >= 3 else decoder.string()
        if version >= 4:
            self.group_state = decoder.compact_string()
        else:
            self.group_state = ""
        if version >= 5:
            self.group_type = decoder.compact_string()
        else:
            self.group_type = ""
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.group_id)
        (encoder.compact_string if version >= 3 else encoder.string)(self.protocol_type)
        if version >= 4:
            encoder.compact_string(self.group_state)
        if version >= 5:
            encoder.compact_string(self.group_type)
        if version >= 3:
            out.append(0)
