"""AlterPartition: AlterPartitionRequest and AlterPartitionResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.errors import UnsupportedField
from ottla.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32_I16 = Struct(">ih")
I32_I16_I32_I32 = Struct(">ihii")
I32_I32 = Struct(">ii")
I32_I64 = Struct(">iq")
I8_I32 = Struct(">bi")


class AlterPartitionRequest(ApiMessage):
    """AlterPartitionRequest: API key 56, versions 2 to 3, flexible from 0."""

    __slots__ = ("broker_id", "broker_epoch", "topics")

    API_KEY = 56
    MIN_VERSION = 2
    MAX_VERSION = 3
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[RequestTopicData] = ABSENT,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics: list[RequestTopicData] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.broker_id, self.broker_epoch = decoder.fixed(I32_I64)
        self.topics = [RequestTopicData.read(decoder, version) for _ in range(decoder.compact_count(18))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.broker_id, self.broker_epoch)
        encoder.compact_count(self.topics)
        for request_topic_data in self.topics:
            request_topic_data.write(encoder, version)
        out.append(0)


class RequestTopicData(Message):
    """In `AlterPartitionRequest.topics`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[RequestPartitionData] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[RequestPartitionData] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_id = decoder.uuid()
        self.partitions = [RequestPartitionData.read(decoder, version) for _ in range(decoder.compact_count(15))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.topic_id)
        encoder.compact_count(self.partitions)
        for request_partition_data in self.partitions:
            request_partition_data.write(encoder, version)
        out.append(0)


class RequestPartitionData(Message):
    """In `TopicData.partitions`."""

    __slots__ = (
        "partition_index",
        "leader_epoch",
        "new_isr",
        "new_isr_with_epochs",
        "leader_recovery_state",
        "partition_epoch",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = ABSENT,
        new_isr_with_epochs: list[BrokerState] = ABSENT,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr: list[int] = [] if new_isr is ABSENT else new_isr
        self.new_isr_with_epochs: list[BrokerState] = [] if new_isr_with_epochs is ABSENT else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.leader_epoch = decoder.fixed(I32_I32)
        if version <= 2:
            self.new_isr = decoder.numbers(decoder.compact_count(4), "i", 4)
        else:
            self.new_isr = []
        if version >= 3:
            self.new_isr_with_epochs = [BrokerState.read(decoder, version) for _ in range(decoder.compact_count(13))]
        else:
            self.new_isr_with_epochs = []
        self.leader_recovery_state, self.partition_epoch = decoder.fixed(I8_I32)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I32.pack(self.partition_index, self.leader_epoch)
        if version <= 2:
            encoder.compact_count(self.new_isr)
            encoder.numbers(self.new_isr, "i")
        elif self.new_isr != []:
            raise UnsupportedField(self, "new_isr", version)
        if version >= 3:
            encoder.compact_count(self.new_isr_with_epochs)
            for broker_state in self.new_isr_with_epochs:
                broker_state.write(encoder, version)
        elif self.new_isr_with_epochs != []:
            raise UnsupportedField(self, "new_isr_with_epochs", version)
        out += I8_I32.pack(self.leader_recovery_state, self.partition_epoch)
        out.append(0)


class BrokerState(Message):
    """In `PartitionData.new_isr_with_epochs`."""

    __slots__ = ("broker_id", "broker_epoch")

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.broker_id, self.broker_epoch = decoder.fixed(I32_I64)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I64.pack(self.broker_id, self.broker_epoch)
        out.append(0)


class AlterPartitionResponse(ApiMessage):
    """AlterPartitionResponse: API key 56, versions 2 to 3, flexible from 0."""

    __slots__ = ("throttle_time_ms", "error_code", "topics")

    API_KEY = 56
    MIN_VERSION = 2
    MAX_VERSION = 3
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[ResponseTopicData] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[ResponseTopicData] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = decoder.fixed(I32_I16)
        self.topics = [ResponseTopicData.read(decoder, version) for _ in range(decoder.compact_count(18))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.throttle_time_ms, self.error_code)
        encoder.compact_count(self.topics)
        for response_topic_data in self.topics:
            response_topic_data.write(encoder, version)
        out.append(0)


class ResponseTopicData(Message):
    """In `AlterPartitionResponse.topics`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ResponsePartitionData] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[ResponsePartitionData] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.topic_id = decoder.uuid()
        self.partitions = [ResponsePartitionData.read(decoder, version) for _ in range(decoder.compact_count(21))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.uuid(self.topic_id)
        encoder.compact_count(self.partitions)
        for response_partition_data in self.partitions:
            response_partition_data.write(encoder, version)
        out.append(0)


class ResponsePartitionData(Message):
    """In `TopicData.partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
        "isr",
        "leader_recovery_state",
        "partition_epoch",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = ABSENT,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr: list[int] = [] if isr is ABSENT else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code, self.leader_id, self.leader_epoch = decoder.fixed(I32_I16_I32_I32)
        self.isr = decoder.numbers(decoder.compact_count(4), "i", 4)
        self.leader_recovery_state, self.partition_epoch = decoder.fixed(I8_I32)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16_I32_I32.pack(self.partition_index, self.error_code, self.leader_id, self.leader_epoch)
        encoder.compact_count(self.isr)
        encoder.numbers(self.isr, "i")
        out += I8_I32.pack(self.leader_recovery_state, self.partition_epoch)
        out.append(0)
