"""A transactional producer, played by hand, in both transaction versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.broker.internal_topics import partition_of_key
from ottla.broker.topic_names import TRANSACTIONS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.plain import Record, decode_batches

from .group_world import find_coordinator
from .world import TOPIC, World, batch_of, produce_request

# API versions of a producer that runs transactions in version 1 or 2.
_VERSIONS = {
    1: {"produce": 11, "end": 4, "offsets": 4},
    2: {"produce": 12, "end": 5, "offsets": 5},
}


def find_transaction_coordinator(world: World, transactional_id: str) -> int:
    """The broker that coordinates the transactional id; its topic is made where it is missing."""
    asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    answer = world.ask(min(world.brokers), asked, version=6).coordinators[0]
    assert answer.error_code == 0
    return int(answer.node_id)


def state_partition(world: World, transactional_id: str) -> int:
    return partition_of_key(transactional_id, len(world.controller.image.topics[TRANSACTIONS_TOPIC].partitions))


class Producer:
    """One producer; methods give error codes, 0 for success, or "waiting"."""

    def __init__(
        self, world: World, transactional_id: str = "t", *, version: int = 2, timeout_ms: int = 60_000
    ) -> None:
        self.world, self.transactional_id, self.version, self.timeout_ms = world, transactional_id, version, timeout_ms
        self.versions = _VERSIONS[version]
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}
        self.added: dict[tuple[str, int], None] = {}

    @property
    def node(self) -> int:
        return find_transaction_coordinator(self.world, self.transactional_id)

    def init(self, *, keep: bool = False, api_version: int = 5) -> int:
        """InitProducerId, with the id and epoch it has where `keep` says so."""
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id if keep else -1,
            producer_epoch=self.epoch if keep else -1,
        )
        answer = self.world.ask(self.node, message, version=api_version)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return int(answer.error_code)

    def add(self, *places: tuple[str, int], api_version: int = 3) -> int:
        """AddPartitionsToTxn as producers send it; one error code for all."""
        answer = self.world.ask(self.node, self._adding(places), version=api_version)
        codes = [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        if not any(codes):
            self.added.update(dict.fromkeys(places))
        return int(max(codes))

    def ask_add(self, *places: tuple[str, int]) -> None:
        """AddPartitionsToTxn whose answer nobody waits for."""
        self.world.send(self.node, self._adding(places), version=3)

    def _adding(self, places: Sequence[tuple[str, int]]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in places],
        )

    def send(self, *values: bytes, topic: str = TOPIC, partition: int = 0, **more: Any) -> Any:
        """Produce one batch in the transaction; adds the partition first where its version asks for that."""
        place = (topic, partition)
        if self.version == 1 and place not in self.added and not more.pop("unadded", False):
            code = self.add(place)
            if code:
                return code
        answer = self.produce(*values, topic=topic, partition=partition, **more)
        if answer == 0:
            self.sequences[place] = self.sequences.get(place, 0) + len(values)
        return answer

    def produce(self, *values: bytes, topic: str = TOPIC, partition: int = 0, **more: Any) -> Any:
        """The bare Produce request."""
        sequence = more.pop("sequence", self.sequences.get((topic, partition), 0))
        batch = batch_of(
            *values,
            producer_id=self.producer_id,
            producer_epoch=more.pop("epoch", self.epoch),
            sequence=sequence,
            is_transactional=more.pop("is_transactional", True),
        )
        message = produce_request({(topic, partition): batch})
        message.transactional_id = more.pop("transactional_id", self.transactional_id)
        version = more.pop("api_version", self.versions["produce"])
        answer = self.world.ask(self.world.leader(topic, partition), message, version=version)
        return answer if isinstance(answer, str) else answer.responses[0].partition_responses[0].error_code

    def end(self, committed: bool, *, api_version: int | None = None) -> int:
        """EndTxn; takes the epoch that the answer gives."""
        answer = self.world.ask(self.node, self._ending(committed), version=api_version or self.versions["end"])
        if answer.error_code == 0:
            self.added = {}
            if self.version == 2:
                self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return int(answer.error_code)

    def ask_end(self, committed: bool) -> None:
        """EndTxn whose answer nobody waits for."""
        self.world.send(self.node, self._ending(committed), version=self.versions["end"])

    def _ending(self, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def commit(self) -> int:
        return self.end(True)

    def abort(self) -> int:
        return self.end(False)

    def commit_offset(self, group_id: str, offset: int, *, topic: str = TOPIC, **member: Any) -> Any:
        """Offsets of a group in the transaction; the error code."""
        if self.version == 1:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
            code = self.world.ask(self.node, adding, version=3).error_code
            if code:
                return code
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
            **member,
        )
        answer = self.world.ask(find_coordinator(self.world, group_id), message, version=self.versions["offsets"])
        return answer if isinstance(answer, str) else answer.topics[0].partitions[0].error_code

    def describe(self) -> Any:
        asked = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return self.world.ask(self.node, asked, version=0).transaction_states[0]

    @property
    def state(self) -> str:
        return str(self.describe().transaction_state)


def committed_values(world: World, topic: str = TOPIC, partition: int = 0) -> list[bytes]:
    """What a reader of committed records gets: aborted transactions left out as clients do it."""
    return [record.value or b"" for record in read_committed(world, topic, partition)]


def read_committed(world: World, topic: str = TOPIC, partition: int = 0) -> list[Record]:
    offset, kept = 0, []
    while True:
        answer = world.fetch(offset, topic=topic, partition=partition, isolation_level=1)
        assert answer.error_code == 0
        content = answer.records.read() if hasattr(answer.records, "read") else bytes(answer.records)
        if not content:
            return kept
        begun = sorted((row.first_offset, row.producer_id) for row in answer.aborted_transactions or ())
        aborted: dict[int, None] = {}
        for header, records in decode_batches(content):
            while begun and begun[0][0] <= header.last_offset:
                aborted[begun.pop(0)[1]] = None
            offset = header.last_offset + 1
            if header.is_control:
                aborted.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in aborted):
                kept += records


def listed(world: World, **filters: Any) -> dict[str, str]:
    """Transactional ids and their states, from all brokers."""
    found: dict[str, str] = {}
    for broker_id in world.brokers:
        answer = world.ask(broker_id, ListTransactionsRequest(**filters), version=2)
        assert answer.error_code == 0
        found |= {each.transactional_id: each.transaction_state for each in answer.transaction_states}
    return found


RETRIABLE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
