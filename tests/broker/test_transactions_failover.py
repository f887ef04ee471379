"""A transaction's coordinator dies: the next one builds on nothing that only it has and may yet be lost with it."""

from __future__ import annotations

import pytest

from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

from .group_world import find_coordinator
from .transaction_world import Producer, committed_values, find_transaction_coordinator, state_partition
from .world import TOPIC, World, full_disk_of_the_last_in_line


def transactional(world: World) -> tuple[Producer, int]:
    producer = Producer(world, version=1)
    assert producer.init() == 0
    return producer, state_partition(world, producer.transactional_id)


def test_a_partition_that_only_the_new_coordinator_has_added_is_not_yet_added(replicated: World) -> None:
    producer, index = transactional(replicated)
    first, second, third = full_disk_of_the_last_in_line(replicated, TRANSACTIONS_TOPIC, index)
    producer.ask_add((TOPIC, 0))
    replicated.kill(first)
    replicated.pass_time(2000)
    assert replicated.leader(TRANSACTIONS_TOPIC, index) == second
    assert producer.add((TOPIC, 0)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    replicated.kill(second)
    replicated.storages[third].failure = None
    replicated.start(first)
    replicated.pass_time(3000)
    assert replicated.leader(TRANSACTIONS_TOPIC, index) == third
    assert producer.send(b"a") == 0
    assert producer.commit() == 0
    assert producer.state == "CompleteCommit"
    assert committed_values(replicated) == [b"a"]


def test_an_end_that_only_the_new_coordinator_has_heard_of_is_carried_out_once_it_is_replicated(
    replicated: World,
) -> None:
    producer, index = transactional(replicated)
    assert producer.send(b"a") == 0
    first, second, third = full_disk_of_the_last_in_line(replicated, TRANSACTIONS_TOPIC, index)
    producer.ask_end(True)
    replicated.kill(first)
    replicated.pass_time(5000)
    assert replicated.leader(TRANSACTIONS_TOPIC, index) == second
    assert committed_values(replicated) == []
    replicated.storages[third].failure = None
    replicated.pass_time(2000)
    assert committed_values(replicated) == [b"a"]
    assert producer.state == "CompleteCommit"


def test_a_coordinator_that_is_left_alone_where_two_must_be_in_sync_is_not_available_until_the_other_is_back() -> None:
    pair = World(2)
    assert pair.create_topic() == 0
    producer, index = transactional(pair)
    first, second = pair.partition(TRANSACTIONS_TOPIC, index).replicas
    producer.ask_add((TOPIC, 0))
    pair.kill(first)
    pair.pass_time(2000)
    assert pair.leader(TRANSACTIONS_TOPIC, index) == second
    assert producer.add((TOPIC, 0)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    pair.start(first)
    pair.pass_time(2000)
    assert producer.send(b"a") == 0
    assert producer.commit() == 0
    assert committed_values(pair) == [b"a"]


@pytest.mark.parametrize(("given", "factor"), [({}, 3), ({"transaction_state_log_replication_factor": 2}, 2)])
def test_the_topic_of_transactions_has_as_many_replicas_as_its_setting_says(given: dict[str, int], factor: int) -> None:
    world = World(3, **given)
    find_transaction_coordinator(world, "t")
    find_coordinator(world)
    assert len(world.partition(TRANSACTIONS_TOPIC, 0).replicas) == factor
    assert len(world.partition(OFFSETS_TOPIC, 0).replicas) == 3


def test_a_cluster_that_has_fewer_brokers_than_the_offsets_topic_has_replicas_has_no_coordinator() -> None:
    world = World(1, offsets_topic_replication_factor=3)
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    (answer,) = world.ask(min(world.brokers), asked, version=6).coordinators
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.error_message == "__consumer_offsets cannot be made"
