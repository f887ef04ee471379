"""ApiVersions: ApiVersionsRequest and ApiVersionsResponse of Apache Kafka 4.3.1.

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
I16_I16 = Struct(">hh")
I16_I16_I16 = Struct(">hhh")
I32 = Struct(">i")
I64 = Struct(">q")


class ApiVersionsRequest(ApiMessage):
    """ApiVersionsRequest: API key 18, versions 0 to 4, flexible from 3."""

    __slots__ = ("client_software_name", "client_software_version")

    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 3:
            self.client_software_name = decoder.compact_string()
            self.client_software_version = decoder.compact_string()
        else:
            self.client_software_name = ""
            self.client_software_version = ""
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 3:
            encoder.compact_string(self.client_software_name)
            encoder.compact_string(self.client_software_version)
        if version >= 3:
            out.append(0)


class ApiVersionsResponse(ApiMessage):
    """ApiVersionsResponse: API key 18, versions 0 to 4, flexible from 3."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )

    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] = ABSENT,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = ABSENT,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = ABSENT,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys: list[ApiVersion] = [] if api_keys is ABSENT else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = [] if supported_features is ABSENT else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = [] if finalized_features is ABSENT else finalized_features
        self.zk_migration_ready = zk_migration_ready

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.api_keys = [
            ApiVersion.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 3 else decoder.count(6))
        ]
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.supported_features = []
        self.finalized_features_epoch = -1
        self.finalized_features = []
        self.zk_migration_ready = False
        if version >= 3:
            for tag, field in decoder.tagged_fields():
                if tag == 0:
                    self.supported_features = [
                        SupportedFeatureKey.read(field, version) for _ in range(field.compact_count(6))
                    ]
                elif tag == 1:
                    self.finalized_features_epoch = field.int64()
                elif tag == 2:
                    self.finalized_features = [
                        FinalizedFeatureKey.read(field, version) for _ in range(field.compact_count(6))
                    ]
                elif tag == 3:
                    self.zk_migration_ready = field.boolean()
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (encoder.compact_count if version >= 3 else encoder.count)(self.api_keys)
        for api_version in self.api_keys:
            api_version.write(encoder, version)
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        if version >= 3:
            tags: list[tuple[int, Encoder]] = []
            if self.supported_features:
                field = Encoder()
                field.compact_count(self.supported_features)
                for supported_feature_key in self.supported_features:
                    supported_feature_key.write(field, version)
                tags.append((0, field))
            if self.finalized_features_epoch != -1:
                field = Encoder()
                field.out += I64.pack(self.finalized_features_epoch)
                tags.append((1, field))
            if self.finalized_features:
                field = Encoder()
                field.compact_count(self.finalized_features)
                for finalized_feature_key in self.finalized_features:
                    finalized_feature_key.write(field, version)
                tags.append((2, field))
            if self.zk_migration_ready:
                field = Encoder()
                field.out += BOOL.pack(self.zk_migration_ready)
                tags.append((3, field))
            encoder.tagged_fields(tags)


class ApiVersion(Message):
    """In `ApiVersionsResponse.api_keys`."""

    __slots__ = ("api_key", "min_version", "max_version")

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.api_key, self.min_version, self.max_version = decoder.fixed(I16_I16_I16)
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I16_I16.pack(self.api_key, self.min_version, self.max_version)
        if version >= 3:
            out.append(0)


class SupportedFeatureKey(Message):
    """In `ApiVersionsResponse.supported_features`."""

    __slots__ = ("name", "min_version", "max_version")

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.min_version, self.max_version = decoder.fixed(I16_I16)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        out += I16_I16.pack(self.min_version, self.max_version)
        out.append(0)


class FinalizedFeatureKey(Message):
    """In `ApiVersionsResponse.finalized_features`."""

    __slots__ = ("name", "max_version_level", "min_version_level")

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.max_version_level, self.min_version_level = decoder.fixed(I16_I16)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        out += I16_I16.pack(self.max_version_level, self.min_version_level)
        out.append(0)
