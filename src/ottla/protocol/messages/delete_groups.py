"""DeleteGroups: DeleteGroupsRequest and DeleteGroupsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")


class DeleteGroupsRequest(ApiMessage):
    """DeleteGroupsRequest: API key 42, versions 0 to 2, flexible from 2."""

    __slots__ = ("groups_names",)

    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        groups_names: list[str] = ABSENT,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is ABSENT else groups_names

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.groups_names = [
            decoder.compact_string() if version >= 2 else decoder.string()
            for _ in range(decoder.compact_count(1) if version >= 2 else decoder.count(1))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 2 else encoder.count)(self.groups_names)
        for element in self.groups_names:
            (encoder.compact_string if version >= 2 else encoder.string)(element)
        if version >= 2:
            out.append(0)


class DeleteGroupsResponse(ApiMessage):
    """DeleteGroupsResponse: API key 42, versions 0 to 2, flexible from 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is ABSENT else results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.results = [
            DeletableGroupResult.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 2 else decoder.count(4))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 2 else encoder.count)(self.results)
        for deletable_group_result in self.results:
            deletable_group_result.write(encoder, version)
        if version >= 2:
            out.append(0)


class DeletableGroupResult(Message):
    """In `DeleteGroupsResponse.results`."""

    __slots__ = ("group_id", "error_code")

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string() if version >= 2 else decoder.string()
        self.error_code = decoder.int16()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.group_id)
        out += I16.pack(self.error_code)
        if version >= 2:
            out.append(0)
