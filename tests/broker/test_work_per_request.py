"""What one request costs the thread that serves all brokers: it grows with the request, not with its square."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.apis.delete_records import PendingDeletion
from ottla.broker.client_metrics_settings import CLIENT_METRICS_BY_NAME
from ottla.broker.controller.configs import APPEND, SUBTRACT, changed_configs
from ottla.broker.purgatory import Purgatory
from ottla.broker.transactions.transaction import TransactionState
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.primitives import Decoder

from .group_world import GROUP, Client, commit, find_coordinator
from .transaction_world import Producer
from .world import TOPIC, World

MANY = 300


class Counted(list[Any]):
    """A list that counts how many of its entries are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for entry in super().__iter__():
            self.looks += 1
            yield entry


@pytest.fixture
def world() -> World:
    world = World(1)
    world.create_topic()
    return world


@pytest.mark.parametrize(
    ("made", "resource"),
    [
        (alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResource),
        (incremental_alter_configs.IncrementalAlterConfigsRequest, incremental_alter_configs.AlterConfigsResource),
    ],
)
def test_resources_are_gone_through_a_few_times(world: World, made: Any, resource: Any) -> None:
    resources = Counted(resource(resource_type=2, resource_name=f"t{number}", configs=[]) for number in range(MANY))
    answer = world.ask(1, made(resources=resources, validate_only=True), version=1)
    assert [each.error_code for each in answer.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * MANY
    assert resources.looks <= 5 * MANY


def test_what_members_subscribe_to_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    find_coordinator(world)
    names = [f"topic-{number}" for number in range(20)]
    encoded = b"".join(len(name).to_bytes(2) + name.encode() for name in names)
    client = Client(world, protocols={"range": b"\0\0" + len(names).to_bytes(4) + encoded + b"\xff\xff\xff\xff"})
    client.join()
    client.sync({client: b"all"})
    read = 0

    def count(metadata: bytes) -> Decoder:
        nonlocal read
        read += 1
        return Decoder(metadata)

    monkeypatch.setattr("ottla.broker.apis.offset_delete.Decoder", count)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)] * MANY
    asked = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)])
    answer = world.ask(client.node, asked, version=0)
    assert [each.error_code for each in answer.topics[0].partitions] == [0] * MANY
    assert read == 1


def test_an_answer_waits_for_its_transactions_without_looking_at_all_of_them_for_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count(entries: Any) -> bool:
        nonlocal looks
        for entry in entries:
            looks += 1
            if not entry:
                return False
        return True

    monkeypatch.setattr("ottla.broker.apis.add_partitions_to_txn.all", count, raising=False)
    asked = [
        AddPartitionsToTxnTransaction(transactional_id="t", producer_id=1, producer_epoch=0, verify_only=True)
        for _ in range(MANY)
    ]
    answer = world.ask(1, AddPartitionsToTxnRequest(transactions=asked), version=5)
    assert len(answer.results_by_transaction) == MANY
    assert looks <= MANY


def test_partitions_are_verified_without_a_search_through_those_of_the_transaction_for_each(world: World) -> None:
    class Added(tuple[Any, ...]):
        __slots__ = ()

        def __contains__(self, wanted: object) -> bool:
            raise AssertionError("a tuple of any length is searched")

    producer = Producer(world, "t")
    assert producer.init() == 0
    found = world.brokers[1].transactions.find("t", world.now_us)
    assert found is not None
    found.data = found.data._replace(state=TransactionState.ONGOING, partitions=Added([("wide", 0)]))
    world.create_topic("wide", 2, 1)
    partitions = [AddPartitionsToTxnTopic(name="wide", partitions=[0, 1])]
    asked = AddPartitionsToTxnTransaction(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=True,
        topics=partitions,
    )
    answer = world.ask(1, AddPartitionsToTxnRequest(transactions=[asked, asked]), version=5)
    codes = [
        [each.partition_error_code for each in found.topic_results[0].results_by_partition]
        for found in answer.results_by_transaction
    ]
    assert codes == [[0, ErrorCode.TRANSACTION_ABORTABLE]] * 2


class Deleting:
    """A partition whose records are deleted on this broker and not yet on its followers."""

    topic, index, is_leader = TOPIC, 0, True

    def __init__(self) -> None:
        self.deletions_waiting: dict[Any, None] = {}
        self.reached = self.looks = 0

    @property
    def low_watermark(self) -> int:
        self.looks += 1
        return self.reached


def test_a_follower_that_deletes_is_compared_with_what_waits_for_its_partition(world: World) -> None:
    answered = []

    class Broker:
        purgatory = Purgatory()

        def answer(self, request: object, response: DeleteRecordsResponse, now_us: int) -> None:
            answered.append(response)

    pending = PendingDeletion(Broker(), None, DeleteRecordsResponse())  # type: ignore[arg-type]
    partitions: list[Any] = [Deleting() for _ in range(MANY)]
    results = [DeleteRecordsPartitionResult(low_watermark=-1) for _ in partitions]
    for partition, result in zip(partitions, results, strict=True):
        pending.add(partition, 5, result)
    pending.log_start_moved(partitions[0], 0)
    assert (answered, len(partitions[0].deletions_waiting)) == ([], 1)
    for partition in partitions:
        partition.reached = 7
        pending.log_start_moved(partition, 0)
        assert not partition.deletions_waiting
    assert len(answered) == 1
    assert {result.low_watermark for result in results} == {7}
    assert sum(partition.looks for partition in partitions) == MANY + 1


class CountedDict(dict[Any, Any]):
    """A dictionary that counts how often it is gone through."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_topics_asked_for_by_id_are_not_looked_for_among_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = world.brokers[1].replicas.image.topics
    wanted = topics[TOPIC].topic_id
    monkeypatch.setattr(type(topics), "values", None)
    asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (wanted, bytes(15) + b"\1")]
    found = world.ask(1, MetadataRequest(topics=asked), version=12).topics
    assert [(each.name, each.error_code) for each in found] == [(TOPIC, 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_what_is_named_many_times_is_described_once(world: World) -> None:
    find_coordinator(world)
    client = Client(world)
    client.join()
    topics = [MetadataRequestTopic(name=TOPIC)] * MANY
    assert len(world.ask(1, MetadataRequest(topics=topics), version=12).topics) == 1
    assert len(world.ask(client.node, DescribeGroupsRequest(groups=[GROUP] * MANY), version=5).groups) == 1
    consumers = ConsumerGroupDescribeRequest(group_ids=[GROUP] * MANY)
    assert len(world.ask(client.node, consumers, version=1).groups) == 1
    transactions = DescribeTransactionsRequest(transactional_ids=["t"] * MANY)
    assert len(world.ask(1, transactions, version=0).transaction_states) == 1
    logs = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0] * MANY)])
    assert len(world.ask(1, logs, version=4).results[0].topics[0].partitions) == 1


def test_open_transactions_are_gone_through_once_for_all_partitions(world: World) -> None:
    find_coordinator(world)
    commit(world, 5)
    group = world.brokers[1].groups.find(GROUP, world.now_us)
    assert group is not None
    counted = group.undecided = CountedDict({number: {(TOPIC, 1): (None, 0)} for number in range(MANY)})
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1] * MANY)]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True)
    found = world.ask(1, asked, version=8).groups[0].topics[0].partitions
    assert [each.error_code for each in found] == [0, ErrorCode.UNSTABLE_OFFSET_COMMIT] * MANY
    assert counted.looks == 1


def test_filters_are_not_gone_through_for_each_transaction(world: World) -> None:
    producer = Producer(world, "t")
    producer.init()

    class Filter(list[Any]):
        def __contains__(self, wanted: object) -> bool:
            raise AssertionError("a list of any length is searched")

    asked = ListTransactionsRequest(producer_id_filters=Filter([producer.producer_id] * MANY))
    found = [
        each.transactional_id
        for broker_id in world.brokers
        for each in world.ask(broker_id, asked, version=2).transaction_states
    ]
    assert found == ["t"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("or.*", ["orders"]), ("(a+)+b", None), ("(?=o).*", None), (".*", ["orders"]), ("(", None)],
)
def test_patterns_that_may_take_for_ever_are_refused(world: World, pattern: str, found: list[str] | None) -> None:
    for name in ("orders", "a" * 250):
        Producer(world, name).init()
    answer = world.ask(1, ListTransactionsRequest(transactional_id_pattern=pattern), version=2)
    if found is None:
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    else:
        assert [each.transactional_id for each in answer.transaction_states] == found


def test_a_request_makes_ten_thousand_partitions_at_most(world: World) -> None:
    """A name of few bytes makes thousands of objects, also with `validate_only`."""
    asked = [
        CreatableTopic(name=f"t{number}", num_partitions=6000, replication_factor=1, assignments=[], configs=[])
        for number in range(3)
    ]
    answer = world.ask(1, CreateTopicsRequest(topics=asked, validate_only=True), version=7)
    assert [each.error_code for each in answer.topics] == [0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
    for name in ("a", "b"):
        world.create_topic(name)
    more = [CreatePartitionsTopic(name=name, count=6000, assignments=None) for name in ("a", "b")]
    grown = world.ask(1, CreatePartitionsRequest(topics=more, validate_only=True), version=3)
    assert [each.error_code for each in grown.results] == [0, ErrorCode.POLICY_VIOLATION]


def test_words_of_a_list_are_compared_once() -> None:
    compared = 0

    class Word(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def strip(self, *_: Any) -> Word:
            return self

    class Words(str):
        __slots__ = ()

        def split(self, *_: Any) -> list[Any]:
            return [Word(each) for each in str.split(self, ",")]

    present = Words(",".join(f"a{number}" for number in range(MANY)))
    given = Words(",".join(f"b{number}" for number in range(MANY)))
    [(_, text)] = changed_configs({"metrics": present}, [("metrics", APPEND, given)], CLIENT_METRICS_BY_NAME)
    assert text == f"{present},{given}"
    changed_configs({"metrics": present}, [("metrics", SUBTRACT, given)], CLIENT_METRICS_BY_NAME)
    assert compared <= 4 * MANY
