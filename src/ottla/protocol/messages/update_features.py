"""UpdateFeatures: UpdateFeaturesRequest and UpdateFeaturesResponse of Apache Kafka 4.3.1.

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
I16 = Struct(">h")
I32 = Struct(">i")
I32_I16 = Struct(">ih")
I8 = Struct(">b")


class UpdateFeaturesRequest(ApiMessage):
    """UpdateFeaturesRequest: API key 57, versions 0 to 2, flexible from 0."""

    __slots__ = ("timeout_ms", "feature_updates", "validate_only")

    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = [] if feature_updates is ABSENT else feature_updates
        self.validate_only = validate_only

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.timeout_ms = decoder.int32()
        self.feature_updates = [FeatureUpdateKey.read(decoder, version) for _ in range(decoder.compact_count(5))]
        if version >= 1:
            self.validate_only = decoder.boolean()
        else:
            self.validate_only = False
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.timeout_ms)
        encoder.compact_count(self.feature_updates)
        for feature_update_key in self.feature_updates:
            feature_update_key.write(encoder, version)
        if version >= 1:
            out += BOOL.pack(self.validate_only)
        elif self.validate_only:
            raise UnsupportedField(self, "validate_only", version)
        out.append(0)


class FeatureUpdateKey(Message):
    """In `UpdateFeaturesRequest.feature_updates`."""

    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.feature = decoder.compact_string()
        self.max_version_level = decoder.int16()
        if version <= 0:
            self.allow_downgrade = decoder.boolean()
        else:
            self.allow_downgrade = False
        if version >= 1:
            self.upgrade_type = decoder.int8()
        else:
            self.upgrade_type = 1
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.feature)
        out += I16.pack(self.max_version_level)
        if version <= 0:
            out += BOOL.pack(self.allow_downgrade)
        elif self.allow_downgrade:
            raise UnsupportedField(self, "allow_downgrade", version)
        if version >= 1:
            out += I8.pack(self.upgrade_type)
        elif self.upgrade_type != 1:
            raise UnsupportedField(self, "upgrade_type", version)
        out.append(0)


class UpdateFeaturesResponse(ApiMessage):
    """UpdateFeaturesResponse: API key 57, versions 0 to 2, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results: list[UpdatableFeatureResult] = [] if results is ABSENT else results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        if version <= 1:
            self.results = [UpdatableFeatureResult.read(decoder, version) for _ in range(decoder.compact_count(5))]
        else:
            self.results = []
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        if version <= 1:
            encoder.compact_count(self.results)
            for updatable_feature_result in self.results:
                updatable_feature_result.write(encoder, version)
        out.append(0)


class UpdatableFeatureResult(Message):
    """In `UpdateFeaturesResponse.results`."""

    __slots__ = ("feature", "error_code", "error_message")

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.feature = decoder.compact_string()
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.feature)
        out += I16.pack(self.error_code)
        encoder.nullable_compact_string(self.error_message)
        out.append(0)
