"""Leadership and coordination moved on purpose, while clients go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.markers import await_markers

import ottla
from ottla.errors import ConfigError, KafkaError, UserMistake


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(3) as three:
        yield three


def test_a_leader_is_moved_and_its_producer_follows(cluster: ottla.Cluster) -> None:
    cluster.create_topic("moved")
    before = cluster.leader("moved", 0)
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send("moved", b"a").result(20)
        after = cluster.move_leader("moved", 0)
        assert after == cluster.leader("moved", 0) != before
        producer.send("moved", b"b").result(20)
        assert cluster.move_leader("moved", 0, before) == before
        producer.send("moved", b"c").result(20)
    table = ottla.read_table(cluster.bootstrap_servers, "moved")
    assert table.column("value").to_pylist() == [b"a", b"b", b"c"]
    assert len(cluster.isr("moved", 0)) == 3


def test_a_group_keeps_its_offsets_when_its_coordinator_moves(cluster: ottla.Cluster) -> None:
    cluster.create_topic("grouped")
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition("grouped", 0, 7)], asynchronous=False)
    before = cluster.coordinator(group="readers")
    assert cluster.move_coordinator(group="readers") != before
    with closing(Consumer(settings)) as consumer:
        assert consumer.committed([TopicPartition("grouped", 0)], timeout=20)[0].offset == 7


def test_a_transaction_is_committed_by_the_coordinator_it_was_moved_to(cluster: ottla.Cluster) -> None:
    cluster.create_topic("paid")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "payments"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("paid", b"once")
    producer.flush(20)
    before = cluster.coordinator(transactional_id="payments")
    assert cluster.move_coordinator(transactional_id="payments") != before
    producer.commit_transaction(20)
    await_markers(cluster.bootstrap_servers, "paid")
    table = ottla.read_table(cluster.bootstrap_servers, "paid", isolation_level="read_committed")
    assert table.column("value").to_pylist() == [b"once"]


def test_nobody_is_made_a_leader_who_has_just_ended() -> None:
    """Until it is missed, the controller takes such a broker for alive."""
    with ottla.Cluster(3, settings={"broker.session.timeout.ms": 600_000}) as cluster:
        cluster.create_topic("moved")
        leader, first, second = cluster.isr("moved", 0)
        assert cluster.leader("moved", 0) == leader
        cluster.kill(first)
        with pytest.raises(UserMistake, match=f"broker {first} is down: it cannot lead now"):
            cluster.move_leader("moved", 0, first)
        assert cluster.move_leader("moved", 0) == second
        cluster.kill(leader)
        with pytest.raises(KafkaError, match=f"PREFERRED_LEADER_NOT_AVAILABLE.*broker {leader}, is down"):
            cluster.elect_leader("moved", 0)
        with pytest.raises(UserMistake, match=r"moved-0 cannot be led by another: \[.*\] are in sync, and down"):
            cluster.move_leader("moved", 0)
        with pytest.raises(ConfigError, match="size=0 must be an integer from 1"):
            cluster.await_isr("moved", 0, 0)


def test_what_cannot_be_moved_is_said(cluster: ottla.Cluster) -> None:
    cluster.create_topic("alone", replication_factor=1)
    with pytest.raises(UserMistake, match="no other replica in sync"):
        cluster.move_leader("alone", 0)
    with pytest.raises(UserMistake, match=r"there is no nowhere-0"):
        cluster.move_leader("nowhere", 0)
    with pytest.raises(ConfigError, match="either a group or a transactional_id"):
        cluster.coordinator()
