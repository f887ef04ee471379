"""AlterConfigs: AlterConfigsRequest and AlterConfigsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I32 = Struct(">i")
I8 = Struct(">b")


class AlterConfigsRequest(ApiMessage):
    """AlterConfigsRequest: API key 33, versions 0 to 2, flexible from 2."""

    __slots__ = ("resources", "validate_only")

    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.resources: list[AlterConfigsResource] = [] if resources is ABSENT else resources
        self.validate_only = validate_only

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.resources = [
            AlterConfigsResource.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 2 else decoder.count(4))
        ]
        self.validate_only = decoder.boolean()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 2 else encoder.count)(self.resources)
        for alter_configs_resource in self.resources:
            alter_configs_resource.write(encoder, version)
        out += BOOL.pack(self.validate_only)
        if version >= 2:
            out.append(0)


class AlterConfigsResource(Message):
    """In `AlterConfigsRequest.resources`."""

    __slots__ = ("resource_type", "resource_name", "configs")

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[AlterableConfig] = [] if configs is ABSENT else configs

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.resource_type = decoder.int8()
        self.resource_name = decoder.compact_string() if version >= 2 else decoder.string()
        self.configs = [
            AlterableConfig.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 2 else decoder.count(3))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I8.pack(self.resource_type)
        (encoder.compact_string if version >= 2 else encoder.string)(self.resource_name)
        (encoder.compact_count if version >= 2 else encoder.count)(self.configs)
        for alterable_config in self.configs:
            alterable_config.write(encoder, version)
        if version >= 2:
            out.append(0)


class AlterableConfig(Message):
    """In `AlterConfigsResource.configs`."""

    __slots__ = ("name", "value")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 2 else decoder.string()
        self.value = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 2 else encoder.string)(self.name)
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.value)
        if version >= 2:
            out.append(0)


class AlterConfigsResponse(ApiMessage):
    """AlterConfigsResponse: API key 33, versions 0 to 2, flexible from 2."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = [] if responses is ABSENT else responses

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.responses = [
            AlterConfigsResourceResponse.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 2 else decoder.count(6))
        ]
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 2 else encoder.count)(self.responses)
        for alter_configs_resource_response in self.responses:
            alter_configs_resource_response.write(encoder, version)
        if version >= 2:
            out.append(0)


class AlterConfigsResourceResponse(Message):
    """In `AlterConfigsResponse.responses`."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 2 else decoder.nullable_string()
        self.resource_type = decoder.int8()
        self.resource_name = decoder.compact_string() if version >= 2 else decoder.string()
        if version >= 2:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 2 else encoder.nullable_string)(self.error_message)
        out += I8.pack(self.resource_type)
        (encoder.compact_string if version >= 2 else encoder.string)(self.resource_name)
        if version >= 2:
            out.append(0)
