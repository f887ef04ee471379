"""DescribeConfigs: DescribeConfigsRequest and DescribeConfigsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
BOOL_I8_BOOL = Struct(">?b?")
I16 = Struct(">h")
I32 = Struct(">i")
I8 = Struct(">b")


class DescribeConfigsRequest(ApiMessage):
    """DescribeConfigsRequest: API key 32, versions 1 to 4, flexible from 4."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")

    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = ABSENT,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = [] if resources is ABSENT else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.resources = [
            DescribeConfigsResource.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 4 else decoder.count(4))
        ]
        self.include_synonyms = decoder.boolean()
        if version >= 3:
            self.include_documentation = decoder.boolean()
        else:
            self.include_documentation = False
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 4 else encoder.count)(self.resources)
        for describe_configs_resource in self.resources:
            describe_configs_resource.write(encoder, version)
        out += BOOL.pack(self.include_synonyms)
        if version >= 3:
            out += BOOL.pack(self.include_documentation)
        elif self.include_documentation:
            raise UnsupportedField(self, "include_documentation", version)
        if version >= 4:
            out.append(0)


class DescribeConfigsResource(Message):
    """In `DescribeConfigsRequest.resources`."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys: list[str] | None = [] if configuration_keys is ABSENT else configuration_keys

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.resource_type = decoder.int8()
        self.resource_name = decoder.compact_string() if version >= 4 else decoder.string()
        count = decoder.nullable_compact_count(1) if version >= 4 else decoder.nullable_count(1)
        self.configuration_keys = (
            None
            if count < 0
            else [decoder.compact_string() if version >= 4 else decoder.string() for _ in range(count)]
        )
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I8.pack(self.resource_type)
        (encoder.compact_string if version >= 4 else encoder.string)(self.resource_name)
        (encoder.nullable_compact_count if version >= 4 else encoder.nullable_count)(self.configuration_keys)
        for element in self.configuration_keys or ():
            (encoder.compact_string if version >= 4 else encoder.string)(element)
        if version >= 4:
            out.append(0)


class DescribeConfigsResponse(ApiMessage):
    """DescribeConfigsResponse: API key 32, versions 1 to 4, flexible from 4."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DescribeConfigsResult] = [] if results is ABSENT else results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.results = [
            DescribeConfigsResult.read(decoder, version)
            for _ in range(decoder.compact_count(7) if version >= 4 else decoder.count(7))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 4 else encoder.count)(self.results)
        for describe_configs_result in self.results:
            describe_configs_result.write(encoder, version)
        if version >= 4:
            out.append(0)


class DescribeConfigsResult(Message):
    """In `DescribeConfigsResponse.results`."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[DescribeConfigsResourceResult] = [] if configs is ABSENT else configs

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        self.resource_type = decoder.int8()
        self.resource_name = decoder.compact_string() if version >= 4 else decoder.string()
        self.configs = [
            DescribeConfigsResourceResult.read(decoder, version)
            for _ in range(decoder.compact_count(9) if version >= 4 else decoder.count(9))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.error_message)
        out += I8.pack(self.resource_type)
        (encoder.compact_string if version >= 4 else encoder.string)(self.resource_name)
        (encoder.compact_count if version >= 4 else encoder.count)(self.configs)
        for describe_configs_resource_result in self.configs:
            describe_configs_resource_result.write(encoder, version)
        if version >= 4:
            out.append(0)


class DescribeConfigsResourceResult(Message):
    """In `DescribeConfigsResult.configs`."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = ABSENT,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = [] if synonyms is ABSENT else synonyms
        self.config_type = config_type
        self.documentation = documentation

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 4 else decoder.string()
        self.value = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        self.read_only, self.config_source, self.is_sensitive = decoder.fixed(BOOL_I8_BOOL)
        self.synonyms = [
            DescribeConfigsSynonym.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 4 else decoder.count(4))
        ]
        if version >= 3:
            self.config_type = decoder.int8()
            self.documentation = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        else:
            self.config_type = 0
            self.documentation = ""
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.name)
        (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.value)
        out += BOOL_I8_BOOL.pack(self.read_only, self.config_source, self.is_sensitive)
        (encoder.compact_count if version >= 4 else encoder.count)(self.synonyms)
        for describe_configs_synonym in self.synonyms:
            describe_configs_synonym.write(encoder, version)
        if version >= 3:
            out += I8.pack(self.config_type)
            (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.documentation)
        if version >= 4:
            out.append(0)


class DescribeConfigsSynonym(Message):
    """In `DescribeConfigsResourceResult.synonyms`."""

    __slots__ = ("name", "value", "source")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 4 else decoder.string()
        self.value = decoder.nullable_compact_string() if version >= 4 else decoder.nullable_string()
        self.source = decoder.int8()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 4 else encoder.string)(self.name)
        (encoder.nullable_compact_string if version >= 4 else encoder.nullable_string)(self.value)
        out += I8.pack(self.source)
        if version >= 4:
            out.append(0)
