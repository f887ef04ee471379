"""A transaction's coordinator dies: the next one builds on nothing that only it has and may yet be lost with it."""

from __future__ import annotations

from ottla.broker.topic_names import TRANSACTIONS_TOPIC
from ottla.protocol.error_codes import ErrorCode

from .transaction_world import Producer, committed_values, state_partition
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
