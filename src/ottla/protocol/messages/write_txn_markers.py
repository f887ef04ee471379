"""WriteTxnMarkers: WriteTxnMarkersRequest and WriteTxnMarkersResponse of Apache Kafka 4.3.1.

Written by tools/generate_messages.py from Kafka's descriptors; changes belong there.
"""

# ruff: noqa: RUF023  (fields stand in the order of the wire)

from __future__ import annotations

from struct import Struct
from typing import Self

from ottla.protocol.message import ABSENT, ApiMessage, Message
from ottla.protocol.primitives import Decoder, Encoder

I32 = Struct(">i")
I32_I16 = Struct(">ih")
I64 = Struct(">q")
I64_I16_BOOL = Struct(">qh?")
I8 = Struct(">b")


class WriteTxnMarkersRequest(ApiMessage):
    """WriteTxnMarkersRequest: API key 27, versions 1 to 2, flexible from 1."""

    __slots__ = ("markers",)

    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] = ABSENT,
    ) -> None:
        self.markers: list[WritableTxnMarker] = [] if markers is ABSENT else markers

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.markers = [WritableTxnMarker.read(decoder, version) for _ in range(decoder.compact_count(17))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.markers)
        for writable_txn_marker in self.markers:
            writable_txn_marker.write(encoder, version)
        out.append(0)


class WritableTxnMarker(Message):
    """In `WriteTxnMarkersRequest.markers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = ABSENT,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = [] if topics is ABSENT else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.producer_id, self.producer_epoch, self.transaction_result = decoder.fixed(I64_I16_BOOL)
        self.topics = [WritableTxnMarkerTopic.read(decoder, version) for _ in range(decoder.compact_count(3))]
        self.coordinator_epoch = decoder.int32()
        if version >= 2:
            self.transaction_version = decoder.int8()
        else:
            self.transaction_version = 0
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I64_I16_BOOL.pack(self.producer_id, self.producer_epoch, self.transaction_result)
        encoder.compact_count(self.topics)
        for writable_txn_marker_topic in self.topics:
            writable_txn_marker_topic.write(encoder, version)
        out += I32.pack(self.coordinator_epoch)
        if version >= 2:
            out += I8.pack(self.transaction_version)
        out.append(0)


class WritableTxnMarkerTopic(Message):
    """In `WritableTxnMarker.topics`."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is ABSENT else partition_indexes

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partition_indexes = decoder.numbers(decoder.compact_count(4), "i", 4)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partition_indexes)
        encoder.numbers(self.partition_indexes, "i")
        out.append(0)


class WriteTxnMarkersResponse(ApiMessage):
    """WriteTxnMarkersResponse: API key 27, versions 1 to 2, flexible from 1."""

    __slots__ = ("markers",)

    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = ABSENT,
    ) -> None:
        self.markers: list[WritableTxnMarkerResult] = [] if markers is ABSENT else markers

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.markers = [WritableTxnMarkerResult.read(decoder, version) for _ in range(decoder.compact_count(10))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_count(self.markers)
        for writable_txn_marker_result in self.markers:
            writable_txn_marker_result.write(encoder, version)
        out.append(0)


class WritableTxnMarkerResult(Message):
    """In `WriteTxnMarkersResponse.markers`."""

    __slots__ = ("producer_id", "topics")

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = ABSENT,
    ) -> None:
        self.producer_id = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.producer_id = decoder.int64()
        self.topics = [WritableTxnMarkerTopicResult.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I64.pack(self.producer_id)
        encoder.compact_count(self.topics)
        for writable_txn_marker_topic_result in self.topics:
            writable_txn_marker_topic_result.write(encoder, version)
        out.append(0)


class WritableTxnMarkerTopicResult(Message):
    """In `WritableTxnMarkerResult.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string()
        self.partitions = [
            WritableTxnMarkerPartitionResult.read(decoder, version) for _ in range(decoder.compact_count(7))
        ]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.name)
        encoder.compact_count(self.partitions)
        for writable_txn_marker_partition_result in self.partitions:
            writable_txn_marker_partition_result.write(encoder, version)
        out.append(0)


class WritableTxnMarkerPartitionResult(Message):
    """In `WritableTxnMarkerTopicResult.partitions`."""

    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = decoder.fixed(I32_I16)
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.error_code)
        out.append(0)
