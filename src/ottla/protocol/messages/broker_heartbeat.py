"""BrokerHeartbeat: BrokerHeartbeatRequest and BrokerHeartbeatResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ApiMessage
from ottla.protocol.primitives import Decoder, Encoder

I32_I16_BOOL_BOOL_BOOL = Struct(">ih???")
I32_I64_I64_BOOL_BOOL = Struct(">iqq??")


class BrokerHeartbeatRequest(ApiMessage):
    """BrokerHeartbeatRequest: API key 63, versions 0 to 2, flexible from 0."""

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "current_metadata_offset",
        "want_fence",
        "want_shut_down",
        "offline_log_dirs",
        "cordoned_log_dirs",
    )

    API_KEY = 63
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] = ABSENT,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs: list[bytes] = [] if offline_log_dirs is ABSENT else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.broker_id, self.broker_epoch, self.current_metadata_offset, self.want_fence, self.want_shut_down = (
            decoder.fixed(I32_I64_I64_BOOL_BOOL)
        )
        self.offline_log_dirs = []
        self.cordoned_log_dirs = None
        for tag, field in decoder.tagged_fields():
            if tag == 0 and version >= 1:
                self.offline_log_dirs = [field.uuid() for _ in range(field.compact_count(16))]
            elif tag == 1 and version >= 2:
                count = field.nullable_compact_count(16)
                self.cordoned_log_dirs = None if count < 0 else [field.uuid() for _ in range(count)]
            else:
                continue
            field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64_I64_BOOL_BOOL.pack(
            self.broker_id, self.broker_epoch, self.current_metadata_offset, self.want_fence, self.want_shut_down
        )
        tags: list[tuple[int, Encoder]] = []
        if version >= 1 and self.offline_log_dirs:
            field = Encoder()
            field.compact_count(self.offline_log_dirs)
            for element in self.offline_log_dirs:
                field.uuid(element)
            tags.append((0, field))
        elif self.offline_log_dirs:
            raise UnsupportedField(self, "offline_log_dirs", version)
        if version >= 2 and self.cordoned_log_dirs is not None:
            field = Encoder()
            field.nullable_compact_count(self.cordoned_log_dirs)
            for element in self.cordoned_log_dirs or ():
                field.uuid(element)
            tags.append((1, field))
        elif self.cordoned_log_dirs is not None:
            raise UnsupportedField(self, "cordoned_log_dirs", version)
        encoder.tagged_fields(tags)


class BrokerHeartbeatResponse(ApiMessage):
    """BrokerHeartbeatResponse: API key 63, versions 0 to 2, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down")

    API_KEY = 63
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code, self.is_caught_up, self.is_fenced, self.should_shut_down = (
            decoder.fixed(I32_I16_BOOL_BOOL_BOOL)
        )
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_BOOL_BOOL_BOOL.pack(
            self.throttle_time_ms, self.error_code, self.is_caught_up, self.is_fenced, self.should_shut_down
        )
        out.append(0)
