"""ConsumerGroupHeartbeat: ConsumerGroupHeartbeatRequest and ConsumerGroupHeartbeatResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16 = Struct(">ih")
I32_I32 = Struct(">ii")
I8 = Struct(">b")


class ConsumerGroupHeartbeatRequest(ApiMessage):
    """ConsumerGroupHeartbeatRequest: API key 68, versions 0 to 1, flexible from 0."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )

    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[RequestTopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.group_id = decoder.compact_string()
        self.member_id = decoder.compact_string()
        self.member_epoch = decoder.int32()
        self.instance_id = decoder.nullable_compact_string()
        self.rack_id = decoder.nullable_compact_string()
        self.rebalance_timeout_ms = decoder.int32()
        count = decoder.nullable_compact_count(1)
        self.subscribed_topic_names = None if count < 0 else [decoder.compact_string() for _ in range(count)]
        if version >= 1:
            self.subscribed_topic_regex = decoder.nullable_compact_string()
        else:
            self.subscribed_topic_regex = None
        self.server_assignor = decoder.nullable_compact_string()
        count = decoder.nullable_compact_count(18)
        self.topic_partitions = (
            None if count < 0 else [RequestTopicPartitions.read(decoder, version) for _ in range(count)]
        )
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.group_id)
        encoder.compact_string(self.member_id)
        out += I32.pack(self.member_epoch)
        encoder.nullable_compact_string(self.instance_id)
        encoder.nullable_compact_string(self.rack_id)
        out += I32.pack(self.rebalance_timeout_ms)
        encoder.nullable_compact_count(self.subscribed_topic_names)
        for element in self.subscribed_topic_names or ():
            encoder.compact_string(element)
        if version >= 1:
            encoder.nullable_compact_string(self.subscribed_topic_regex)
        elif self.subscribed_topic_regex is not None:
            raise UnsupportedField(self, "subscribed_topic_regex", version)
        encoder.nullable_compact_string(self.server_assignor)
        encoder.nullable_compact_count(self.topic_partitions)
        for request_topic_partitions in self.topic_partitions or ():
            request_topic_partitions.write(encoder, version)
        out.append(0)


class RequestTopicPartitions(Message):
    """In `ConsumerGroupHeartbeatRequest.topic_partitions`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_id = decoder.uuid()
        self.partitions = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.topic_id)
        encoder.compact_count(self.partitions)
        encoder.numbers(self.partitions, "i")
        out.append(0)


class ConsumerGroupHeartbeatResponse(ApiMessage):
    """ConsumerGroupHeartbeatResponse: API key 68, versions 0 to 1, flexible from 0."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )

    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.error_message = decoder.nullable_compact_string()
        self.member_id = decoder.nullable_compact_string()
        self.member_epoch, self.heartbeat_interval_ms = decoder.fixed(I32_I32)
        self.assignment = Assignment.read(decoder, version) if decoder.has_struct() else None
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.nullable_compact_string(self.error_message)
        encoder.nullable_compact_string(self.member_id)
        out += I32_I32.pack(self.member_epoch, self.heartbeat_interval_ms)
        if self.assignment is None:
            out += I8.pack(-1)
        else:
            out += I8.pack(1)
            self.assignment.write(encoder, version)
        out.append(0)


class Assignment(Message):
    """In `ConsumerGroupHeartbeatResponse.assignment`."""

    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        *,
        topic_partitions: list[ResponseTopicPartitions] = ABSENT,
    ) -> None:
        self.topic_partitions: list[ResponseTopicPartitions] = [] if topic_partitions is ABSENT else topic_partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_partitions = [
            ResponseTopicPartitions.read(decoder, version) for _ in range(decoder.compact_count(18))
        ]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.topic_partitions)
        for response_topic_partitions in self.topic_partitions:
            response_topic_partitions.write(encoder, version)
        out.append(0)


class ResponseTopicPartitions(Message):
    """In `Assignment.topic_partitions`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_id = decoder.uuid()
        self.partitions = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.topic_id)
        encoder.compact_count(self.partitions)
        encoder.numbers(self.partitions, "i")
        out.append(0)
