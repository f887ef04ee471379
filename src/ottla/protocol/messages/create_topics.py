"""CreateTopics: CreateTopicsRequest and CreateTopicsResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL_I8_BOOL = Struct(">?b?")
I16 = Struct(">h")
I32 = Struct(">i")
I32_BOOL = Struct(">i?")
I32_I16 = Struct(">ih")


class CreateTopicsRequest(ApiMessage):
    """CreateTopicsRequest: API key 19, versions 2 to 7, flexible from 5."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = ABSENT,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatableTopic] = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topics = [
            CreatableTopic.read(decoder, version)
            for _ in range(decoder.compact_count(10) if version >= 5 else decoder.count(10))
        ]
        self.timeout_ms, self.validate_only = decoder.fixed(I32_BOOL)
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 5 else encoder.count)(self.topics)
        for creatable_topic in self.topics:
            creatable_topic.write(encoder, version)
        out += I32_BOOL.pack(self.timeout_ms, self.validate_only)
        if version >= 5:
            out.append(0)


class CreatableTopic(Message):
    """In `CreateTopicsRequest.topics`."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = ABSENT,
        configs: list[CreatableTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = [] if assignments is ABSENT else assignments
        self.configs: list[CreatableTopicConfig] = [] if configs is ABSENT else configs

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 5 else decoder.string()
        self.num_partitions, self.replication_factor = decoder.fixed(I32_I16)
        self.assignments = [
            CreatableReplicaAssignment.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 5 else decoder.count(6))
        ]
        self.configs = [
            CreatableTopicConfig.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 5 else decoder.count(3))
        ]
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 5 else encoder.string)(self.name)
        out += I32_I16.pack(self.num_partitions, self.replication_factor)
        (encoder.compact_count if version >= 5 else encoder.count)(self.assignments)
        for creatable_replica_assignment in self.assignments:
            creatable_replica_assignment.write(encoder, version)
        (encoder.compact_count if version >= 5 else encoder.count)(self.configs)
        for creatable_topic_config in self.configs:
            creatable_topic_config.write(encoder, version)
        if version >= 5:
            out.append(0)


class CreatableReplicaAssignment(Message):
    """In `CreatableTopic.assignments`."""

    __slots__ = ("partition_index", "broker_ids")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids: list[int] = [] if broker_ids is ABSENT else broker_ids

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index = decoder.int32()
        self.broker_ids = decoder.numbers(decoder.compact_count(4) if version >= 5 else decoder.count(4), "i", 4)
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition_index)
        (encoder.compact_count if version >= 5 else encoder.count)(self.broker_ids)
        encoder.numbers(self.broker_ids, "i")
        if version >= 5:
            out.append(0)


class CreatableTopicConfig(Message):
    """In `CreatableTopic.configs`."""

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
        self.name = decoder.compact_string() if version >= 5 else decoder.string()
        self.value = decoder.nullable_compact_string() if version >= 5 else decoder.nullable_string()
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 5 else encoder.string)(self.name)
        (encoder.nullable_compact_string if version >= 5 else encoder.nullable_string)(self.value)
        if version >= 5:
            out.append(0)


class CreateTopicsResponse(ApiMessage):
    """CreateTopicsResponse: API key 19, versions 2 to 7, flexible from 5."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[CreatableTopicResult] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        self.topics = [
            CreatableTopicResult.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 5 else decoder.count(6))
        ]
        if version >= 5:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 5 else encoder.count)(self.topics)
        for creatable_topic_result in self.topics:
            creatable_topic_result.write(encoder, version)
        if version >= 5:
            out.append(0)


class CreatableTopicResult(Message):
    """In `CreateTopicsResponse.topics`."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs: list[CreatableTopicConfigs] | None = [] if configs is ABSENT else configs

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 5 else decoder.string()
        if version >= 7:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.error_code = decoder.int16()
        self.error_message = decoder.nullable_compact_string() if version >= 5 else decoder.nullable_string()
        if version >= 5:
            self.num_partitions, self.replication_factor = decoder.fixed(I32_I16)
            count = decoder.nullable_compact_count(6)
            self.configs = None if count < 0 else [CreatableTopicConfigs.read(decoder, version) for _ in range(count)]
        else:
            self.num_partitions = -1
            self.replication_factor = -1
            self.configs = []
        self.topic_config_error_code = 0
        if version >= 5:
            for tag, field in decoder.tagged_fields():
                if tag == 0:
                    self.topic_config_error_code = field.int16()
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 5 else encoder.string)(self.name)
        if version >= 7:
            encoder.uuid(self.topic_id)
        out += I16.pack(self.error_code)
        (encoder.nullable_compact_string if version >= 5 else encoder.nullable_string)(self.error_message)
        if version >= 5:
            out += I32_I16.pack(self.num_partitions, self.replication_factor)
            encoder.nullable_compact_count(self.configs)
            for creatable_topic_configs in self.configs or ():
                creatable_topic_configs.write(encoder, version)
        if version >= 5:
            tags: list[tuple[int, Encoder]] = []
            if self.topic_config_error_code:
                field = Encoder()
                field.out += I16.pack(self.topic_config_error_code)
                tags.append((0, field))
            encoder.tagged_fields(tags)


class CreatableTopicConfigs(Message):
    """In `CreatableTopicResult.configs`."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.value = decoder.nullable_compact_string()
        self.read_only, self.config_source, self.is_sensitive = decoder.fixed(BOOL_I8_BOOL)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.nullable_compact_string(self.value)
        out += BOOL_I8_BOOL.pack(self.read_only, self.config_source, self.is_sensitive)
        out.append(0)
