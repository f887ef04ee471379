"""AlterClientQuotas: AlterClientQuotasRequest and AlterClientQuotasResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
F64_BOOL = Struct(">d?")
I16 = Struct(">h")
I32 = Struct(">i")


class AlterClientQuotasRequest(ApiMessage):
    """AlterClientQuotasRequest: API key 49, versions 0 to 1, flexible from 1."""

    __slots__ = ("entries", "validate_only")

    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        entries: list[RequestEntryData] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.entries: list[RequestEntryData] = [] if entries is ABSENT else entries
        self.validate_only = validate_only

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entries = [
            RequestEntryData.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 1 else decoder.count(3))
        ]
        self.validate_only = decoder.boolean()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 1 else encoder.count)(self.entries)
        for request_entry_data in self.entries:
            request_entry_data.write(encoder, version)
        out += BOOL.pack(self.validate_only)
        if version >= 1:
            out.append(0)


class RequestEntryData(Message):
    """In `AlterClientQuotasRequest.entries`."""

    __slots__ = ("entity", "ops")

    def __init__(
        self,
        *,
        entity: list[RequestEntityData] = ABSENT,
        ops: list[OpData] = ABSENT,
    ) -> None:
        self.entity: list[RequestEntityData] = [] if entity is ABSENT else entity
        self.ops: list[OpData] = [] if ops is ABSENT else ops

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entity = [
            RequestEntityData.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 1 else decoder.count(3))
        ]
        self.ops = [
            OpData.read(decoder, version)
            for _ in range(decoder.compact_count(11) if version >= 1 else decoder.count(11))
        ]
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 1 else encoder.count)(self.entity)
        for request_entity_data in self.entity:
            request_entity_data.write(encoder, version)
        (encoder.compact_count if version >= 1 else encoder.count)(self.ops)
        for op_data in self.ops:
            op_data.write(encoder, version)
        if version >= 1:
            out.append(0)


class RequestEntityData(Message):
    """In `EntryData.entity`."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entity_type = decoder.compact_string() if version >= 1 else decoder.string()
        self.entity_name = decoder.nullable_compact_string() if version >= 1 else decoder.nullable_string()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 1 else encoder.string)(self.entity_type)
        (encoder.nullable_compact_string if version >= 1 else encoder.nullable_string)(self.entity_name)
        if version >= 1:
            out.append(0)


class OpData(Message):
    """In `EntryData.ops`."""

    __slots__ = ("key", "value", "remove")

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.key = decoder.compact_string() if version >= 1 else decoder.string()
        self.value, self.remove = decoder.fixed(F64_BOOL)
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 1 else encoder.string)(self.key)
        out += F64_BOOL.pack(self.value, self.remove)
        if version >= 1:
            out.append(0)


class AlterClientQuotasResponse(ApiMessage):
    """AlterClientQuotasResponse: API key 49, versions 0 to 1, flexible from 1."""

    __slots__ = ("throttle_time_ms", "entries")

    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[ResponseEntryData] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries: list[ResponseEntryData] = [] if entries is ABSENT else entries

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.entries = [
            ResponseEntryData.read(decoder, version)
            for _ in range(decoder.compact_count(5) if version >= 1 else decoder.count(5))
        ]
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 1 else encoder.count)(self.entries)
        for response_entry_data in self.entries:
            response_entry_data.write(encoder, version)
        if version >= 1:
            out.append(0)


class ResponseEntryData(Message):
    """In `AlterClientQuotasResponse.entries`."""

    __slots__ = ("error_code", "error_message", "entity")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[ResponseEntityData] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity: list[ResponseEntityData] = [] if entity is ABSENT else entity

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 1 else decoder.nullable_string()
        self.entity = [
            ResponseEntityData.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 1 else decoder.count(3))
        ]
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 1 else encoder.nullable_string)(self.error_message)
        (encoder.compact_count if version >= 1 else encoder.count)(self.entity)
        for response_entity_data in self.entity:
            response_entity_data.write(encoder, version)
        if version >= 1:
            out.append(0)


class ResponseEntityData(Message):
    """In `EntryData.entity`."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entity_type = decoder.compact_string() if version >= 1 else decoder.string()
        self.entity_name = decoder.nullable_compact_string() if version >= 1 else decoder.nullable_string()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 1 else encoder.string)(self.entity_type)
        (encoder.nullable_compact_string if version >= 1 else encoder.nullable_string)(self.entity_name)
        if version >= 1:
            out.append(0)
