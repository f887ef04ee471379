"""DescribeClientQuotas: DescribeClientQuotasRequest and DescribeClientQuotasResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
F64 = Struct(">d")
I32_I16 = Struct(">ih")
I8 = Struct(">b")


class DescribeClientQuotasRequest(ApiMessage):
    """DescribeClientQuotasRequest: API key 48, versions 0 to 1, flexible from 1."""

    __slots__ = ("components", "strict")

    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        components: list[ComponentData] = ABSENT,
        strict: bool = False,
    ) -> None:
        self.components: list[ComponentData] = [] if components is ABSENT else components
        self.strict = strict

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.components = [
            ComponentData.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 1 else decoder.count(4))
        ]
        self.strict = decoder.boolean()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 1 else encoder.count)(self.components)
        for component_data in self.components:
            component_data.write(encoder, version)
        out += BOOL.pack(self.strict)
        if version >= 1:
            out.append(0)


class ComponentData(Message):
    """In `DescribeClientQuotasRequest.components`."""

    __slots__ = ("entity_type", "match_type", "match")

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entity_type = decoder.compact_string() if version >= 1 else decoder.string()
        self.match_type = decoder.int8()
        self.match = decoder.nullable_compact_string() if version >= 1 else decoder.nullable_string()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 1 else encoder.string)(self.entity_type)
        out += I8.pack(self.match_type)
        (encoder.nullable_compact_string if version >= 1 else encoder.nullable_string)(self.match)
        if version >= 1:
            out.append(0)


class DescribeClientQuotasResponse(ApiMessage):
    """DescribeClientQuotasResponse: API key 48, versions 0 to 1, flexible from 1."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")

    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries: list[EntryData] | None = [] if entries is ABSENT else entries

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string() if version >= 1 else decoder.nullable_string()
        count = decoder.nullable_compact_count(3) if version >= 1 else decoder.nullable_count(3)
        self.entries = None if count < 0 else [EntryData.read(decoder, version) for _ in range(count)]
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        (encoder.nullable_compact_string if version >= 1 else encoder.nullable_string)(self.error_message)
        (encoder.nullable_compact_count if version >= 1 else encoder.nullable_count)(self.entries)
        for entry_data in self.entries or ():
            entry_data.write(encoder, version)
        if version >= 1:
            out.append(0)


class EntryData(Message):
    """In `DescribeClientQuotasResponse.entries`."""

    __slots__ = ("entity", "values")

    def __init__(
        self,
        *,
        entity: list[EntityData] = ABSENT,
        values: list[ValueData] = ABSENT,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is ABSENT else entity
        self.values: list[ValueData] = [] if values is ABSENT else values

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.entity = [
            EntityData.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 1 else decoder.count(3))
        ]
        self.values = [
            ValueData.read(decoder, version)
            for _ in range(decoder.compact_count(10) if version >= 1 else decoder.count(10))
        ]
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 1 else encoder.count)(self.entity)
        for entity_data in self.entity:
            entity_data.write(encoder, version)
        (encoder.compact_count if version >= 1 else encoder.count)(self.values)
        for value_data in self.values:
            value_data.write(encoder, version)
        if version >= 1:
            out.append(0)


class EntityData(Message):
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


class ValueData(Message):
    """In `EntryData.values`."""

    __slots__ = ("key", "value")

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.key = decoder.compact_string() if version >= 1 else decoder.string()
        self.value = decoder.float64()
        if version >= 1:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 1 else encoder.string)(self.key)
        out += F64.pack(self.value)
        if version >= 1:
            out.append(0)
