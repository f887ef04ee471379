"""Fetch: FetchRequest and FetchResponse of Apache Kafka 4.3.1.

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
I32_I32_I32_I8 = Struct(">iiib")
I32_I64 = Struct(">iq")
I64 = Struct(">q")
I64_I32 = Struct(">qi")
I64_I64 = Struct(">qq")


class FetchRequest(ApiMessage):
    """FetchRequest: API key 1, versions 4 to 18, flexible from 12."""

    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )

    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] = ABSENT,
        forgotten_topics_data: list[ForgottenTopic] = ABSENT,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[FetchTopic] = [] if topics is ABSENT else topics
        self.forgotten_topics_data: list[ForgottenTopic] = (
            [] if forgotten_topics_data is ABSENT else forgotten_topics_data
        )
        self.rack_id = rack_id

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 14:
            self.replica_id = decoder.int32()
        else:
            self.replica_id = -1
        self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level = decoder.fixed(I32_I32_I32_I8)
        if version >= 7:
            self.session_id, self.session_epoch = decoder.fixed(I32_I32)
        else:
            self.session_id = 0
            self.session_epoch = -1
        self.topics = [
            FetchTopic.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 12 else decoder.count(3))
        ]
        if version >= 7:
            self.forgotten_topics_data = [
                ForgottenTopic.read(decoder, version)
                for _ in range(decoder.compact_count(3) if version >= 12 else decoder.count(3))
            ]
        else:
            self.forgotten_topics_data = []
        if version >= 11:
            self.rack_id = decoder.compact_string() if version >= 12 else decoder.string()
        else:
            self.rack_id = ""
        self.cluster_id = None
        self.replica_state = None
        if version >= 12:
            for tag, field in decoder.tagged_fields():
                if tag == 0:
                    self.cluster_id = field.nullable_compact_string()
                elif tag == 1 and version >= 15:
                    self.replica_state = ReplicaState.read(field, version)
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 14:
            out += I32.pack(self.replica_id)
        elif self.replica_id != -1:
            raise UnsupportedField(self, "replica_id", version)
        out += I32_I32_I32_I8.pack(self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level)
        if version >= 7:
            out += I32_I32.pack(self.session_id, self.session_epoch)
        (encoder.compact_count if version >= 12 else encoder.count)(self.topics)
        for fetch_topic in self.topics:
            fetch_topic.write(encoder, version)
        if version >= 7:
            (encoder.compact_count if version >= 12 else encoder.count)(self.forgotten_topics_data)
            for forgotten_topic in self.forgotten_topics_data:
                forgotten_topic.write(encoder, version)
        elif self.forgotten_topics_data != []:
            raise UnsupportedField(self, "forgotten_topics_data", version)
        if version >= 11:
            (encoder.compact_string if version >= 12 else encoder.string)(self.rack_id)
        if version >= 12:
            tags: list[tuple[int, Encoder]] = []
            if self.cluster_id is not None:
                field = Encoder()
                field.nullable_compact_string(self.cluster_id)
                tags.append((0, field))
            if version >= 15 and self.replica_state is not None:
                field = Encoder()
                self.replica_state.write(field, version)
                tags.append((1, field))
            elif self.replica_state is not None:
                raise UnsupportedField(self, "replica_state", version)
            encoder.tagged_fields(tags)
        elif self.replica_state is not None:
            raise UnsupportedField(self, "replica_state", version)


class ReplicaState(Message):
    """In `FetchRequest.replica_state`."""

    __slots__ = ("replica_id", "replica_epoch")

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.replica_id, self.replica_epoch = decoder.fixed(I32_I64)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.replica_id, self.replica_epoch)
        out.append(0)


class FetchTopic(Message):
    """In `FetchRequest.topics`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 12:
            self.topic = decoder.compact_string() if version >= 12 else decoder.string()
        else:
            self.topic = ""
        if version >= 13:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = [
            FetchPartition.read(decoder, version)
            for _ in range(decoder.compact_count(16) if version >= 12 else decoder.count(16))
        ]
        if version >= 12:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 12:
            (encoder.compact_string if version >= 12 else encoder.string)(self.topic)
        if version >= 13:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 12 else encoder.count)(self.partitions)
        for fetch_partition in self.partitions:
            fetch_partition.write(encoder, version)
        if version >= 12:
            out.append(0)


class FetchPartition(Message):
    """In `FetchTopic.partitions`."""

    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition = decoder.int32()
        if version >= 9:
            self.current_leader_epoch = decoder.int32()
        else:
            self.current_leader_epoch = -1
        self.fetch_offset = decoder.int64()
        if version >= 12:
            self.last_fetched_epoch = decoder.int32()
        else:
            self.last_fetched_epoch = -1
        if version >= 5:
            self.log_start_offset = decoder.int64()
        else:
            self.log_start_offset = -1
        self.partition_max_bytes = decoder.int32()
        self.replica_directory_id = ZERO_UUID
        self.high_watermark = 9223372036854775807
        if version >= 12:
            for tag, field in decoder.tagged_fields():
                if tag == 0 and version >= 17:
                    self.replica_directory_id = field.uuid()
                elif tag == 1 and version >= 18:
                    self.high_watermark = field.int64()
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.partition)
        if version >= 9:
            out += I32.pack(self.current_leader_epoch)
        out += I64.pack(self.fetch_offset)
        if version >= 12:
            out += I32.pack(self.last_fetched_epoch)
        elif self.last_fetched_epoch != -1:
            raise UnsupportedField(self, "last_fetched_epoch", version)
        if version >= 5:
            out += I64.pack(self.log_start_offset)
        out += I32.pack(self.partition_max_bytes)
        if version >= 12:
            tags: list[tuple[int, Encoder]] = []
            if version >= 17 and self.replica_directory_id != ZERO_UUID:
                field = Encoder()
                field.uuid(self.replica_directory_id)
                tags.append((0, field))
            if version >= 18 and self.high_watermark != 9223372036854775807:
                field = Encoder()
                field.out += I64.pack(self.high_watermark)
                tags.append((1, field))
            encoder.tagged_fields(tags)


class ForgottenTopic(Message):
    """In `FetchRequest.forgotten_topics_data`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 12:
            self.topic = decoder.compact_string() if version >= 12 else decoder.string()
        else:
            self.topic = ""
        if version >= 13:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = decoder.numbers(decoder.compact_count(4) if version >= 12 else decoder.count(4), "i", 4)
        if version >= 12:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 12:
            (encoder.compact_string if version >= 12 else encoder.string)(self.topic)
        if version >= 13:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 12 else encoder.count)(self.partitions)
        encoder.numbers(self.partitions, "i")
        if version >= 12:
            out.append(0)


class FetchResponse(ApiMessage):
    """FetchResponse: API key 1, versions 4 to 18, flexible from 12."""

    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")

    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = ABSENT,
        node_endpoints: list[NodeEndpoint] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses: list[FetchableTopicResponse] = [] if responses is ABSENT else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is ABSENT else node_endpoints

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        if version >= 7:
            self.error_code, self.session_id = decoder.fixed(I16_I32)
        else:
            self.error_code = 0
            self.session_id = 0
        self.responses = [
            FetchableTopicResponse.read(decoder, version)
            for _ in range(decoder.compact_count(3) if version >= 12 else decoder.count(3))
        ]
        self.node_endpoints = []
        if version >= 12:
            for tag, field in decoder.tagged_fields():
                if tag == 0 and version >= 16:
                    self.node_endpoints = [NodeEndpoint.read(field, version) for _ in range(field.compact_count(11))]
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        if version >= 7:
            out += I16_I32.pack(self.error_code, self.session_id)
        elif self.session_id != 0:
            raise UnsupportedField(self, "session_id", version)
        (encoder.compact_count if version >= 12 else encoder.count)(self.responses)
        for fetchable_topic_response in self.responses:
            fetchable_topic_response.write(encoder, version)
        if version >= 12:
            tags: list[tuple[int, Encoder]] = []
            if version >= 16 and self.node_endpoints:
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


class FetchableTopicResponse(Message):
    """In `FetchResponse.responses`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = ABSENT,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version <= 12:
            self.topic = decoder.compact_string() if version >= 12 else decoder.string()
        else:
            self.topic = ""
        if version >= 13:
            self.topic_id = decoder.uuid()
        else:
            self.topic_id = ZERO_UUID
        self.partitions = [
            PartitionData.read(decoder, version)
            for _ in range(decoder.compact_count(30) if version >= 12 else decoder.count(30))
        ]
        if version >= 12:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version <= 12:
            (encoder.compact_string if version >= 12 else encoder.string)(self.topic)
        if version >= 13:
            encoder.uuid(self.topic_id)
        (encoder.compact_count if version >= 12 else encoder.count)(self.partitions)
        for partition_data in self.partitions:
            partition_data.write(encoder, version)
        if version >= 12:
            out.append(0)


class PartitionData(Message):
    """In `FetchableTopicResponse.partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | None = ABSENT,
        preferred_read_replica: int = -1,
        records: Any = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = (
            [] if aborted_transactions is ABSENT else aborted_transactions
        )
        self.preferred_read_replica = preferred_read_replica
        self.records = records

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset = decoder.fixed(
            I32_I16_I64_I64
        )
        if version >= 5:
            self.log_start_offset = decoder.int64()
        else:
            self.log_start_offset = -1
        count = decoder.nullable_compact_count(16) if version >= 12 else decoder.nullable_count(16)
        self.aborted_transactions = (
            None if count < 0 else [AbortedTransaction.read(decoder, version) for _ in range(count)]
        )
        if version >= 11:
            self.preferred_read_replica = decoder.int32()
        else:
            self.preferred_read_replica = -1
        self.records = decoder.nullable_compact_byte_string() if version >= 12 else decoder.nullable_byte_string()
        self.diverging_epoch = None
        self.current_leader = None
        self.snapshot_id = None
        if version >= 12:
            for tag, field in decoder.tagged_fields():
                if tag == 0:
                    self.diverging_epoch = EpochEndOffset.read(field, version)
                elif tag == 1:
                    self.current_leader = LeaderIdAndEpoch.read(field, version)
                elif tag == 2:
                    self.snapshot_id = SnapshotId.read(field, version)
                else:
                    continue
                field.finish()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_I64_I64.pack(self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset)
        if version >= 5:
            out += I64.pack(self.log_start_offset)
        (encoder.nullable_compact_count if version >= 12 else encoder.nullable_count)(self.aborted_transactions)
        for aborted_transaction in self.aborted_transactions or ():
            aborted_transaction.write(encoder, version)
        if version >= 11:
            out += I32.pack(self.preferred_read_replica)
        elif self.preferred_read_replica != -1:
            raise UnsupportedField(self, "preferred_read_replica", version)
        (encoder.compact_records if version >= 12 else encoder.records)(self.records)
        if version >= 12:
            tags: list[tuple[int, Encoder]] = []
            if self.diverging_epoch is not None:
                field = Encoder()
                self.diverging_epoch.write(field, version)
                tags.append((0, field))
            if self.current_leader is not None:
                field = Encoder()
                self.current_leader.write(field, version)
                tags.append((1, field))
            if self.snapshot_id is not None:
                field = Encoder()
                self.snapshot_id.write(field, version)
                tags.append((2, field))
            encoder.tagged_fields(tags)
        else:
            if self.diverging_epoch is not None:
                raise UnsupportedField(self, "diverging_epoch", version)
            if self.current_leader is not None:
                raise UnsupportedField(self, "current_leader", version)
            if self.snapshot_id is not None:
                raise UnsupportedField(self, "snapshot_id", version)


class EpochEndOffset(Message):
    """In `PartitionData.diverging_epoch`."""

    __slots__ = ("epoch", "end_offset")

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.epoch, self.end_offset = decoder.fixed(I32_I64)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.epoch, self.end_offset)
        out.append(0)


class LeaderIdAndEpoch(Message):
    """In `PartitionData.current_leader`."""

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


class SnapshotId(Message):
    """In `PartitionData.snapshot_id`."""

    __slots__ = ("end_offset", "epoch")

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.end_offset, self.epoch = decoder.fixed(I64_I32)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I64_I32.pack(self.end_offset, self.epoch)
        out.append(0)


class AbortedTransaction(Message):
    """In `PartitionData.aborted_transactions`."""

    __slots__ = ("producer_id", "first_offset")

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.producer_id, self.first_offset = decoder.fixed(I64_I64)
        if version >= 12:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I64_I64.pack(self.producer_id, self.first_offset)
        if version >= 12:
            out.append(0)


class NodeEndpoint(Message):
    """In `FetchResponse.node_endpoints`."""

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
