"""ListConfigResources: ListConfigResourcesRequest and ListConfigResourcesResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32_I16 = Struct(">ih")
I8 = Struct(">b")


class ListConfigResourcesRequest(ApiMessage):
    """ListConfigResourcesRequest: API key 74, versions 0 to 1, flexible from 0."""

    __slots__ = ("resource_types",)

    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        resource_types: list[int] = ABSENT,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is ABSENT else resource_types

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.resource_types = decoder.numbers(decoder.compact_count(1), "b", 1)
        else:
            self.resource_types = []
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            encoder.compact_count(self.resource_types)
            encoder.numbers(self.resource_types, "b")
        elif self.resource_types != []:
            raise UnsupportedField(self, "resource_types", version)
        out.append(0)


class ListConfigResourcesResponse(ApiMessage):
    """ListConfigResourcesResponse: API key 74, versions 0 to 1, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources")

    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is ABSENT else config_resources

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.config_resources = [ConfigResource.read(decoder, version) for _ in range(decoder.compact_count(2))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.compact_count(self.config_resources)
        for config_resource in self.config_resources:
            config_resource.write(encoder, version)
        out.append(0)


class ConfigResource(Message):
    """In `ListConfigResourcesResponse.config_resources`."""

    __slots__ = ("resource_name", "resource_type")

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.resource_name = decoder.compact_string()
        if version >= 1:
            self.resource_type = decoder.int8()
        else:
            self.resource_type = 16
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.resource_name)
        if version >= 1:
            out += I8.pack(self.resource_type)
        out.append(0)
