"""AddPartitionsToTxn: AddPartitionsToTxnRequest and AddPartitionsToTxnResponse of Apache Kafka 4.3.1.

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
I64_I16 = Struct(">qh")
I64_I16_BOOL = Struct(">qh?")


class AddPartitionsToTxnRequest(ApiMessage):
    """AddPartitionsToTxnRequest: API key 24, versions 0 to 5, flexible from 3."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )

    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] = ABSENT,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = ABSENT,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = [] if transactions is ABSENT else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = (
            [] if v3_and_below_topics is ABSENT else v3_and_below_topics
        )

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        if version >= 4:
            self.transactions = [
                AddPartitionsToTxnTransaction.read(decoder, version) for _ in range(decoder.compact_count(14))
            ]
        else:
            self.transactions = []
        if version <= 3:
            self.v3_and_below_transactional_id = decoder.compact_string() if version >= 3 else decoder.string()
            self.v3_and_below_producer_id, self.v3_and_below_producer_epoch = decoder.fixed(I64_I16)
            self.v3_and_below_topics = [
                AddPartitionsToTxnTopic.read(decoder, version)
                for _ in range(decoder.compact_count(3) if version >= 3 else decoder.count(3))
            ]
        else:
            self.v3_and_below_transactional_id = ""
            self.v3_and_below_producer_id = 0
            self.v3_and_below_producer_epoch = 0
            self.v3_and_below_topics = []
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        if version >= 4:
            encoder.compact_count(self.transactions)
            for add_partitions_to_txn_transaction in self.transactions:
                add_partitions_to_txn_transaction.write(encoder, version)
        elif self.transactions != []:
            raise UnsupportedField(self, "transactions", version)
        if version <= 3:
            (encoder.compact_string if version >= 3 else encoder.string)(self.v3_and_below_transactional_id)
            out += I64_I16.pack(self.v3_and_below_producer_id, self.v3_and_below_producer_epoch)
            (encoder.compact_count if version >= 3 else encoder.count)(self.v3_and_below_topics)
            for add_partitions_to_txn_topic in self.v3_and_below_topics:
                add_partitions_to_txn_topic.write(encoder, version)
        else:
            if self.v3_and_below_transactional_id != "":
                raise UnsupportedField(self, "v3_and_below_transactional_id", version)
            if self.v3_and_below_producer_id != 0:
                raise UnsupportedField(self, "v3_and_below_producer_id", version)
            if self.v3_and_below_producer_epoch != 0:
                raise UnsupportedField(self, "v3_and_below_producer_epoch", version)
            if self.v3_and_below_topics != []:
                raise UnsupportedField(self, "v3_and_below_topics", version)
        if version >= 3:
            out.append(0)


class AddPartitionsToTxnTransaction(Message):
    """In `AddPartitionsToTxnRequest.transactions`."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = [] if topics is ABSENT else topics

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string()
        self.producer_id, self.producer_epoch, self.verify_only = decoder.fixed(I64_I16_BOOL)
        self.topics = [AddPartitionsToTxnTopic.read(decoder, version) for _ in range(decoder.compact_count(3))]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.transactional_id)
        out += I64_I16_BOOL.pack(self.producer_id, self.producer_epoch, self.verify_only)
        encoder.compact_count(self.topics)
        for add_partitions_to_txn_topic in self.topics:
            add_partitions_to_txn_topic.write(encoder, version)
        out.append(0)


class AddPartitionsToTxnTopic(Message):
    """In `AddPartitionsToTxnTransaction.topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions: list[int] = [] if partitions is ABSENT else partitions

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 3 else decoder.string()
        self.partitions = decoder.numbers(decoder.compact_count(4) if version >= 3 else decoder.count(4), "i", 4)
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.name)
        (encoder.compact_count if version >= 3 else encoder.count)(self.partitions)
        encoder.numbers(self.partitions, "i")
        if version >= 3:
            out.append(0)


class AddPartitionsToTxnResponse(ApiMessage):
    """AddPartitionsToTxnResponse: API key 24, versions 0 to 5, flexible from 3."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")

    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = ABSENT,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = (
            [] if results_by_transaction is ABSENT else results_by_transaction
        )
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = (
            [] if results_by_topic_v3_and_below is ABSENT else results_by_topic_v3_and_below
        )

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.throttle_time_ms = decoder.int32()
        if version >= 4:
            self.error_code = decoder.int16()
            self.results_by_transaction = [
                AddPartitionsToTxnResult.read(decoder, version) for _ in range(decoder.compact_count(3))
            ]
        else:
            self.error_code = 0
            self.results_by_transaction = []
        if version <= 3:
            self.results_by_topic_v3_and_below = [
                AddPartitionsToTxnTopicResult.read(decoder, version)
                for _ in range(decoder.compact_count(3) if version >= 3 else decoder.count(3))
            ]
        else:
            self.results_by_topic_v3_and_below = []
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32.pack(self.throttle_time_ms)
        if version >= 4:
            out += I16.pack(self.error_code)
            encoder.compact_count(self.results_by_transaction)
            for add_partitions_to_txn_result in self.results_by_transaction:
                add_partitions_to_txn_result.write(encoder, version)
        elif self.results_by_transaction != []:
            raise UnsupportedField(self, "results_by_transaction", version)
        if version <= 3:
            (encoder.compact_count if version >= 3 else encoder.count)(self.results_by_topic_v3_and_below)
            for add_partitions_to_txn_topic_result in self.results_by_topic_v3_and_below:
                add_partitions_to_txn_topic_result.write(encoder, version)
        elif self.results_by_topic_v3_and_below != []:
            raise UnsupportedField(self, "results_by_topic_v3_and_below", version)
        if version >= 3:
            out.append(0)


class AddPartitionsToTxnResult(Message):
    """In `AddPartitionsToTxnResponse.results_by_transaction`."""

    __slots__ = ("transactional_id", "topic_results")

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = [] if topic_results is ABSENT else topic_results

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.transactional_id = decoder.compact_string()
        self.topic_results = [
            AddPartitionsToTxnTopicResult.read(decoder, version) for _ in range(decoder.compact_count(3))
        ]
        decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        encoder.compact_string(self.transactional_id)
        encoder.compact_count(self.topic_results)
        for add_partitions_to_txn_topic_result in self.topic_results:
            add_partitions_to_txn_topic_result.write(encoder, version)
        out.append(0)


class AddPartitionsToTxnTopicResult(Message):
    """In `AddPartitionsToTxnResult.topic_results`."""

    __slots__ = ("name", "results_by_partition")

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = (
            [] if results_by_partition is ABSENT else results_by_partition
        )

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.name = decoder.compact_string() if version >= 3 else decoder.string()
        self.results_by_partition = [
            AddPartitionsToTxnPartitionResult.read(decoder, version)
            for _ in range(decoder.compact_count(6) if version >= 3 else decoder.count(6))
        ]
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        (encoder.compact_string if version >= 3 else encoder.string)(self.name)
        (encoder.compact_count if version >= 3 else encoder.count)(self.results_by_partition)
        for add_partitions_to_txn_partition_result in self.results_by_partition:
            add_partitions_to_txn_partition_result.write(encoder, version)
        if version >= 3:
            out.append(0)


class AddPartitionsToTxnPartitionResult(Message):
    """In `AddPartitionsToTxnTopicResult.results_by_partition`."""

    __slots__ = ("partition_index", "partition_error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        self = cls.__new__(cls)
        self.partition_index, self.partition_error_code = decoder.fixed(I32_I16)
        if version >= 3:
            decoder.skip_tags()
        return self

    def write(self, encoder: Encoder, version: int) -> None:
        out = encoder.out
        out += I32_I16.pack(self.partition_index, self.partition_error_code)
        if version >= 3:
            out.append(0)
