"""DeleteTopics: DeleteTopicsRequest and DeleteTopicsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16 = Struct(">h")
I32 = Struct(">i")


class DeleteTopicsRequest(ApiMessage):
    """DeleteTopicsRequest: API key 20, versions 1 to 6, flexible from 4."""

    __slots__ = ("topics", "topic_names", "timeout_ms")

    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = ABSENT,
        topic_names: list[str] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteTopicState] = [] if topics is ABSENT else topics
        self.topic_names: list[str] = [] if topic_names is ABSENT else topic_names
        self.timeout_ms = timeout_ms

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 6:
            self.topics = [DeleteTopicState.read(decoder, version) for _ in range(decoder.compact_count(18))]
        else:
            self.topics = []
        if version <= 5:
            self.topic_names = [
                decoder.compact_string() if version >= 4 else decoder.string()
                for _ in range(decoder.compact_count(1) if version >= 4 else decoder.count(1))
            ]
        else:
            self.topic_names = []
        self.timeout_ms = decoder.int32()
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 6:
            encoder.compact_count(self.topics)
            for delete_topic_state in self.topics:
                delete_topic_state.write(encoder, version)
        elif self.topics != []:
            raise UnsupportedField(self, "topics", version)
        if version <= 5:
            (encoder.compact_count if version >= 4 else encoder.count)(self.topic_names)
            for element in self.topic_names:
                (encoder.compact_string if version >= 4 else encoder.string)(element)
        out += I32.pack(self.timeout_ms)
        if version >= 4:
            out.append(0)


class DeleteTopicState(Message):
    """In `DeleteTopicsRequest.topics`."""

    __slots__ = ("name", "topic_id")

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.nullable_compact_string()
        self.topic_id = decoder.uuid()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.nullable_compact_string(self.name)
        encoder.uuid(self.topic_id)
        out.append(0)


class DeleteTopicsResponse(ApiMessage):
    """DeleteTopicsResponse: API key 20, versions 1 to 6, flexible from 4."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[DeletableTopicResult] = [] if responses is ABSENT else responses

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.responses = [
            DeletableTopicResult.read(decoder, version)
            for _ in range(decoder.compact_count(4) if version >= 4 else decoder.count(4))
        ]
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 4 else encoder.count)(self.responses)
        for deletable_topic_result in self.responses:
            deletable_topic_result.write(encoder, version)
        if version >= 4:
            out.append(0)


class DeletableTopicResult(Message):
    """In `DeleteTopicsResponse.responses`."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = (
            decoder.nullable_compact_string()
            if version >= 6
            else decoder.compact_string()
            if version >= 4
            else decoder.string()
        )
        if version >= 6:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.error_code = decoder.int16()
        if version >= 5:
            self.error_message = decoder.nullable_compact_string()
        else:
            self.error_message = None
        if version >= 4:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (
            encoder.nullable_compact_string
            if version >= 6
            else encoder.compact_string
            if version >= 4
            else encoder.string
        )(self.name)
        if version >= 6:
            encoder.uuid(self.topic_id)
        out += I16.pack(self.error_code)
        if version >= 5:
            encoder.nullable_compact_string(self.error_message)
        if version >= 4:
            out.append(0)
