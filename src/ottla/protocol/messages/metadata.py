"""Metadata: MetadataRequest and MetadataResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

BOOL = Struct(">?")
I16 = Struct(">h")
I16_I32_I32 = Struct(">hii")
I32 = Struct(">i")


class MetadataRequest(ApiMessage):
    """MetadataRequest: API key 3, versions 0 to 13, flexible from 9."""

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )

    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = ABSENT,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = [] if topics is ABSENT else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        count = (
            decoder.nullable_compact_count(2)
            if version >= 9
            else decoder.nullable_count(2)
            if version >= 1
            else decoder.count(2)
        )
        self.topics = None if count < 0 else [MetadataRequestTopic.read(decoder, version) for _ in range(count)]
        if version >= 4:
            self.allow_auto_topic_creation = decoder.boolean()
        else:
            self.allow_auto_topic_creation = True
        if 8 <= version <= 10:
            self.include_cluster_authorized_operations = decoder.boolean()
        else:
            self.include_cluster_authorized_operations = False
        if version >= 8:
            self.include_topic_authorized_operations = decoder.boolean()
        else:
            self.include_topic_authorized_operations = False
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.nullable_compact_count if version >= 9 else encoder.nullable_count if version >= 1 else encoder.count)(
            self.topics
        )
        for metadata_request_topic in self.topics or ():
            metadata_request_topic.write(encoder, version)
        if version >= 4:
            out += BOOL.pack(self.allow_auto_topic_creation)
        elif not self.allow_auto_topic_creation:
            raise UnsupportedField(self, "allow_auto_topic_creation", version)
        if 8 <= version <= 10:
            out += BOOL.pack(self.include_cluster_authorized_operations)
        elif self.include_cluster_authorized_operations:
            raise UnsupportedField(self, "include_cluster_authorized_operations", version)
        if version >= 8:
            out += BOOL.pack(self.include_topic_authorized_operations)
        elif self.include_topic_authorized_operations:
            raise UnsupportedField(self, "include_topic_authorized_operations", version)
        if version >= 9:
            out.append(0)


class MetadataRequestTopic(Message):
    """In `MetadataRequest.topics`."""

    __slots__ = ("topic_id", "name")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.name = (
            decoder.nullable_compact_string()
            if version >= 10
            else decoder.compact_string()
            if version >= 9
            else decoder.string()
        )
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 10:
            encoder.uuid(self.topic_id)
        (
            encoder.nullable_compact_string
            if version >= 10
            else encoder.compact_string
            if version >= 9
            else encoder.string
        )(self.name)
        if version >= 9:
            out.append(0)


class MetadataResponse(ApiMessage):
    """MetadataResponse: API key 3, versions 0 to 13, flexible from 9."""

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )

    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = ABSENT,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = ABSENT,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = [] if brokers is ABSENT else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics: list[MetadataResponseTopic] = [] if topics is ABSENT else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 3:
            self.throttle_time_ms = decoder.int32()
        else:
            self.throttle_time_ms = 0
        self.brokers = [
            MetadataResponseBroker.read(decoder, version)
            for _ in range(decoder.compact_count(10) if version >= 9 else decoder.count(10))
        ]
        if version >= 2:
            self.cluster_id = decoder.nullable_compact_string() if version >= 9 else decoder.nullable_string()
        else:
            self.cluster_id = None
        if version >= 1:
            self.controller_id = decoder.int32()
        else:
            self.controller_id = -1
        self.topics = [
            MetadataResponseTopic.read(decoder, version)
            for _ in range(decoder.compact_count(8) if version >= 9 else decoder.count(8))
        ]
        if 8 <= version <= 10:
            self.cluster_authorized_operations = decoder.int32()
        else:
            self.cluster_authorized_operations = -2147483648
        if version >= 13:
            self.error_code = decoder.int16()
        else:
            self.error_code = 0
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 3:
            out += I32.pack(self.throttle_time_ms)
        (encoder.compact_count if version >= 9 else encoder.count)(self.brokers)
        for metadata_response_broker in self.brokers:
            metadata_response_broker.write(encoder, version)
        if version >= 2:
            (encoder.nullable_compact_string if version >= 9 else encoder.nullable_string)(self.cluster_id)
        if version >= 1:
            out += I32.pack(self.controller_id)
        (encoder.compact_count if version >= 9 else encoder.count)(self.topics)
        for metadata_response_topic in self.topics:
            metadata_response_topic.write(encoder, version)
        if 8 <= version <= 10:
            out += I32.pack(self.cluster_authorized_operations)
        elif self.cluster_authorized_operations != -2147483648:
            raise UnsupportedField(self, "cluster_authorized_operations", version)
        if version >= 13:
            out += I16.pack(self.error_code)
        if version >= 9:
            out.append(0)


class MetadataResponseBroker(Message):
    """In `MetadataResponse.brokers`."""

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
        self.host = decoder.compact_string() if version >= 9 else decoder.string()
        self.port = decoder.int32()
        if version >= 1:
            self.rack = decoder.nullable_compact_string() if version >= 9 else decoder.nullable_string()
        else:
            self.rack = None
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.node_id)
        (encoder.compact_string if version >= 9 else encoder.string)(self.host)
        out += I32.pack(self.port)
        if version >= 1:
            (encoder.nullable_compact_string if version >= 9 else encoder.nullable_string)(self.rack)
        if version >= 9:
            out.append(0)


class MetadataResponseTopic(Message):
    """In `MetadataResponse.topics`."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = ABSENT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is ABSENT else partitions
        self.topic_authorized_operations = topic_authorized_operations

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code = decoder.int16()
        self.name = (
            decoder.nullable_compact_string()
            if version >= 12
            else decoder.compact_string()
            if version >= 9
            else decoder.string()
        )
        if version >= 10:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        if version >= 1:
            self.is_internal = decoder.boolean()
        else:
            self.is_internal = False
        self.partitions = [
            MetadataResponsePartition.read(decoder, version)
            for _ in range(decoder.compact_count(18) if version >= 9 else decoder.count(18))
        ]
        if version >= 8:
            self.topic_authorized_operations = decoder.int32()
        else:
            self.topic_authorized_operations = -2147483648
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16.pack(self.error_code)
        (
            encoder.nullable_compact_string
            if version >= 12
            else encoder.compact_string
            if version >= 9
            else encoder.string
        )(self.name)
        if version >= 10:
            encoder.uuid(self.topic_id)
        if version >= 1:
            out += BOOL.pack(self.is_internal)
        (encoder.compact_count if version >= 9 else encoder.count)(self.partitions)
        for metadata_response_partition in self.partitions:
            metadata_response_partition.write(encoder, version)
        if version >= 8:
            out += I32.pack(self.topic_authorized_operations)
        elif self.topic_authorized_operations != -2147483648:
            raise UnsupportedField(self, "topic_authorized_operations", version)
        if version >= 9:
            out.append(0)


class MetadataResponsePartition(Message):
    """In `MetadataResponseTopic.partitions`."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = ABSENT,
        isr_nodes: list[int] = ABSENT,
        offline_replicas: list[int] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is ABSENT else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is ABSENT else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is ABSENT else offline_replicas

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.error_code, self.partition_index, self.leader_id = decoder.fixed(I16_I32_I32)
        if version >= 7:
            self.leader_epoch = decoder.int32()
        else:
            self.leader_epoch = -1
        self.replica_nodes = decoder.numbers(decoder.compact_count(4) if version >= 9 else decoder.count(4), "i", 4)
        self.isr_nodes = decoder.numbers(decoder.compact_count(4) if version >= 9 else decoder.count(4), "i", 4)
        if version >= 5:
            self.offline_replicas = decoder.numbers(
                decoder.compact_count(4) if version >= 9 else decoder.count(4), "i", 4
            )
        else:
            self.offline_replicas = []
        if version >= 9:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I16_I32_I32.pack(self.error_code, self.partition_index, self.leader_id)
        if version >= 7:
            out += I32.pack(self.leader_epoch)
        (encoder.compact_count if version >= 9 else encoder.count)(self.replica_nodes)
        encoder.numbers(self.replica_nodes, "i")
        (encoder.compact_count if version >= 9 else encoder.count)(self.isr_nodes)
        encoder.numbers(self.isr_nodes, "i")
        if version >= 5:
            (encoder.compact_count if version >= 9 else encoder.count)(self.offline_replicas)
            encoder.numbers(self.offline_replicas, "i")
        if version >= 9:
            out.append(0)
