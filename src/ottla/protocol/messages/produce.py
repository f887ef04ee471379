"""Produce: ProduceRequest and ProduceResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Any, Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I16_I32 = Struct(">hi")
I32 = Struct(">i")
I32_I16_I64_I64 = Struct(">ihqq")
I32_I32 = Struct(">ii")
I64 = Struct(">q")


class ProduceRequest(ApiMessage):
    """ProduceRequest: API key 0, versions 3 to 13, flexible from 9."""

    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")

    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data: list[TopicProduceData] = [] if topic_data is ABSENT else topic_data

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.nullable_compact_string() if version >= 9 else decoder.nullable_string()
        self.acks, self.timeout_ms = decoder.fixed(I16_I32)
        self.topic_data = [
            TopicProduceData.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 9 else decoder.count(3))
        ]
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.nullable_compact_string if version >= 9 else encoder.nullable_string)(self.transactional_id)
        out += I16_I32.pack(self.acks, self.timeout_ms)
        (encoder.compact_count if version >= 9 else encoder.count)(self.topic_data)
        for topic_produce_data in self.topic_data:
            topic_produce_data.write(encoder, version)
        if version >= 9:
            out.append(0)


class TopicProduceData(Message):
    """In `ProduceRequest.topic_data`."""

    __slots__ = ("name", "topic_id", "partition_data")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: list[PartitionProduceData] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data: list[PartitionProduceData] = [] if partition_data is ABSENT else partition_data

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 12:
            self.name = decoder.compact_string() if version >= 9 else decoder.string()
        else:
            self.name = ""
        if version >= 13:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partition_data = [
            PartitionProduceData.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 9 else decoder.count(6))
        ]
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 12:
            (encoder.compact_string if version >= 9 else encoder.string)(self.name)
        if version >= 13:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 9 else encoder.count)(self.partition_data)
        for partition_produce_data in self.partition_data:
            partition_produce_data.write(encoder, version)
        if version >= 9:
            out.append(0)


class PartitionProduceData(Message):
    """In `TopicProduceData.partition_data`."""

    __slots__ = ("index", "records")

    def __init__(
        self,
        *,
        index: int = 0,
        records: Any = None,
    ) -> None:
        self.index = index
        self.records = records

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.index = decoder.int32()
        self.records = decoder.nullable_compact_byte_string() if version >= 9 else decoder.nullable_byte_string()
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.index)
        (encoder.compact_records if version >= 9 else encoder.records)(self.records)
        if version >= 9:
            out.append(0)


class ProduceResponse(ApiMessage):
    """ProduceResponse: API key 0, versions 3 to 13, flexible from 9."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")

    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = ABSENT,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = ABSENT,
    ) -> None:
        self.responses: list[TopicProduceResponse] = [] if responses is ABSENT else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is ABSENT else node_endpoints

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.responses = [
            TopicProduceResponse.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 9 else decoder.count(3))
        ]
        self.throttle_time_ms = decoder.int32()
        self.node_endpoints = []
        if version >= 9:
            for tag, field in decoder.tagged_fields():
                if tag == 0 and version >= 10:
                    self.node_endpoints = [NodeEndpoint.read(field, version) for _ in range(field.compact_count(11))]
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_count if version >= 9 else encoder.count)(self.responses)
        for topic_produce_response in self.responses:
            topic_produce_response.write(encoder, version)
        out += I32.pack(self.throttle_time_ms)
        if version >= 9:
            tags: list[tuple[int, Encoder]] = []
            if version >= 10 and self.node_endpoints:
                field = Encoder()
                field.compact_count(self.node_endpoints)
                for node_endpoint in self.node_endpoints:
                    node_endpoint.write(field, version)
                tags.append((0, field))
            elif self.node_endpoints:
                raise UnsupportedField(self, "node_endpoints", version)
            encoder.tagged_fields(tags)
        elif self.node_endpoints != []:
            raise UnsupportedField(self, "node_endpoints", version)


class TopicProduceResponse(Message):
    """In `ProduceResponse.responses`."""

    __slots__ = ("name", "topic_id", "partition_responses")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses: list[PartitionProduceResponse] = (
            [] if partition_responses is ABSENT else partition_responses
        )

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 12:
            self.name = decoder.compact_string() if version >= 9 else decoder.string()
        else:
            self.name = ""
        if version >= 13:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partition_responses = [
            PartitionProduceResponse.read(decoder, version)
            for _ in range(decoder.compact_count(22) if version >= 9 else decoder.count(22))
        ]
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 12:
            (encoder.compact_string if version >= 9 else encoder.string)(self.name)
        if version >= 13:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 9 else encoder.count)(self.partition_responses)
        for partition_produce_response in self.partition_responses:
            partition_produce_response.write(encoder, version)
        if version >= 9:
            out.append(0)


class PartitionProduceResponse(Message):
    """In `TopicProduceResponse.partition_responses`."""

    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = ABSENT,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is ABSENT else record_errors
        self.error_message = error_message
        self.current_leader = current_leader

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.index, self.error_code, self.base_offset, self.log_append_time_ms = decoder.fixed(I32_I16_I64_I64)
        if version >= 5:
            self.log_start_offset = decoder.int64()
        else:
            self.log_start_offset = -1
        if version >= 8:
            self.record_errors = [
                BatchIndexAndErrorMessage.read(decoder, version)
                for _ in range(decoder.compact_count(6) if version >= 9 else decoder.count(6))
            ]
            self.error_message = decoder.nullable_compact_string() if version >= 9 else decoder.nullable_string()
        else:
            self.record_errors = []
            self.error_message = None
        self.current_leader = None
        if version >= 9:
            for tag, field in decoder.tagged_fields():
                if tag == 0 and version >= 10:
                    self.current_leader = LeaderIdAndEpoch.read(field, version)
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_I64_I64.pack(self.index, self.error_code, self.base_offset, self.log_append_time_ms)
        if version >= 5:
            out += I64.pack(self.log_start_offset)
        if version >= 8:
            (encoder.compact_count if version >= 9 else encoder.count)(self.record_errors)
            for batch_index_and_error_message in self.record_errors:
                batch_index_and_error_message.write(encoder, version)
            (encoder.nullable_compact_string if version >= 9 else encoder.nullable_string)(self.error_message)
        if version >= 9:
            tags: list[tuple[int, Encoder]] = []
            if version >= 10 and self.current_leader is not None:
                field = Encoder()
                self.current_leader.write(field, version)
                tags.append((0, field))
            elif self.current_leader is not None:
                raise UnsupportedField(self, "current_leader", version)
            encoder.tagged_fields(tags)
        elif self.current_leader is not None:
            raise UnsupportedField(self, "current_leader", version)


class BatchIndexAndErrorMessage(Message):
    """In `PartitionProduceResponse.record_errors`."""

    __slots__ = ("batch_index", "batch_index_error_message")

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.batch_index = decoder.int32()
        self.batch_index_error_message = (
            decoder.nullable_compact_string() if version >= 9 else decoder.nullable_string()
        )
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.batch_index)
        (encoder.nullable_compact_string if version >= 9 else encoder.nullable_string)(self.batch_index_error_message)
        if version >= 9:
            out.append(0)


class LeaderIdAndEpoch(Message):
    """In `PartitionProduceResponse.current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.leader_id, self.leader_epoch = decoder.fixed(I32_I32)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I32.pack(self.leader_id, self.leader_epoch)
        out.append(0)


class NodeEndpoint(Message):
    """In `ProduceResponse.node_endpoints`."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.node_id = decoder.int32()
        self.host = decoder.compact_string()
        self.port = decoder.int32()
        self.rack = decoder.nullable_compact_string()
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.node_id)
        encoder.compact_string(self.host)
        out += I32.pack(self.port)
        encoder.nullable_compact_string(self.rack)
        out.append(0)
