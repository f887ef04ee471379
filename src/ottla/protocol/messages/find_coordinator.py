"""FindCoordinator: FindCoordinatorRequest and FindCoordinatorResponse of Apache Kafka 4.3.1.

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
I32_I16 = Struct(">ih")
I8 = Struct(">b")


class FindCoordinatorRequest(ApiMessage):
    """FindCoordinatorRequest: API key 10, versions 0 to 6, flexible from 3."""

    __slots__ = ("key", "key_type", "coordinator_keys")

    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = ABSENT,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is ABSENT else coordinator_keys

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 3:
            self.key = decoder.compact_string() if version >= 3 else decoder.string()
        else:
            self.key = ""
        if version >= 1:
            self.key_type = decoder.int8()
        else:
            self.key_type = 0
        if version >= 4:
            self.coordinator_keys = [decoder.compact_string() for _ in range(decoder.compact_count(1))]
        else:
            self.coordinator_keys = []
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 3:
            (encoder.compact_string if version >= 3 else encoder.string)(self.key)
        elif self.key != "":
            raise UnsupportedField(self, "key", version)
        if version >= 1:
            out += I8.pack(self.key_type)
        elif self.key_type != 0:
            raise UnsupportedField(self, "key_type", version)
        if version >= 4:
            encoder.compact_count(self.coordinator_keys)
            for element in self.coordinator_keys:
                encoder.compact_string(element)
        elif self.coordinator_keys != []:
            raise UnsupportedField(self, "coordinator_keys", version)
        if version >= 3:
            out.append(0)


class FindCoordinatorResponse(ApiMessage):
    """FindCoordinatorResponse: API key 10, versions 0 to 6, flexible from 3."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")

    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators: list[Coordinator] = [] if coordinators is ABSENT else coordinators

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 1:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        if version <= 3:
            self.error_code = decoder.int16()
        else:
            self.error_code = 0
        if 1 <= version <= 3:
            self.error_message = decoder.nullable_compact_string() if version >= 3 else decoder.nullable_string()
        else:
            self.error_message = ""
        if version <= 3:
            self.node_id = decoder.int32()
            self.host = decoder.compact_string() if version >= 3 else decoder.string()
            self.port = decoder.int32()
        else:
            self.node_id = 0
            self.host = ""
            self.port = 0
        if version >= 4:
            self.coordinators = [Coordinator.read(decoder, version) for _ in range(decoder.compact_count(14))]
        else:
            self.coordinators = []
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 1:
            out += I32.pack(self.throttle_time_ms)
        if version <= 3:
            out += I16.pack(self.error_code)
        elif self.error_code != 0:
            raise UnsupportedField(self, "error_code", version)
        if 1 <= version <= 3:
            (encoder.nullable_compact_string if version >= 3 else encoder.nullable_string)(self.error_message)
        if version <= 3:
            out += I32.pack(self.node_id)
            (encoder.compact_string if version >= 3 else encoder.string)(self.host)
            out += I32.pack(self.port)
        else:
            if self.node_id != 0:
                raise UnsupportedField(self, "node_id", version)
            if self.host != "":
                raise UnsupportedField(self, "host", version)
            if self.port != 0:
                raise UnsupportedField(self, "port", version)
        if version >= 4:
            encoder.compact_count(self.coordinators)
            for coordinator in self.coordinators:
                coordinator.write(encoder, version)
        elif self.coordinators != []:
            raise UnsupportedField(self, "coordinators", version)
        if version >= 3:
            out.append(0)


class Coordinator(Message):
    """In `FindCoordinatorResponse.coordinators`."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.key = decoder.compact_string()
        self.node_id = decoder.int32()
        self.host = decoder.compact_string()
        self.port, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.key)
        out += I32.pack(self.node_id)
        encoder.compact_string(self.host)
        out += I32_I16.pack(self.port, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        out.append(0)
