"""A transaction that is aborted before the coordinator has stored the end of the previous one.

From transaction version 2 on (KIP-890) the producer has its next epoch already. The coordinator answers EndTxn with
CONCURRENT_TRANSACTIONS, as Apache Kafka does from 4.0.0 on. Only a newer producer makes it answer PRODUCER_FENCED, and
that one's transaction must stay as it is: an InitProducerId, even one that names the old identity, would abort it.
"""

from __future__ import annotations

import pytest
from tests import exactly_once

import ottla

from .in_time import wait_until


def visible_rows(servers: str, topic: str) -> dict[int, list[int]]:
    """Wait until all transactions of this id have ended; return what readers of committed records find then."""
    wait_until(lambda: not exactly_once.busy(servers, topic))
    return exactly_once.visible_rows(servers, topic)


@pytest.mark.parametrize("linger_ms", [0, 60_000])
def test_a_producer_is_not_fenced_by_its_own_transaction(
    kafka_cluster: ottla.Cluster, kafka_topic: str, linger_ms: int
) -> None:
    servers = kafka_cluster.bootstrap_servers
    with (
        ottla.Producer(servers, transactional_id=kafka_topic, linger_ms=linger_ms) as producer,
        kafka_cluster.faults.delay_ack(api="WriteTxnMarkers", delay_ms=300) as late,
    ):
        for number in range(2):
            with producer.transaction():
                producer.send(kafka_topic, b"%d" % number, partition=0)
            producer.begin_transaction()
            producer.send(kafka_topic, b"7", partition=0)
            producer.abort_transaction()
        assert late.fired
        with producer.transaction():
            producer.send(kafka_topic, b"2", partition=0)
    assert visible_rows(servers, kafka_topic) == {0: [0, 1, 2]}


def test_a_producer_that_another_one_has_fenced_is_told_so_at_its_abort(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    with ottla.Producer(servers, transactional_id=kafka_topic, linger_ms=60_000) as producer:
        producer.begin_transaction()
        producer.send(kafka_topic, b"7", partition=0)
        with ottla.Producer(servers, transactional_id=kafka_topic) as newer, newer.transaction():
            newer.send(kafka_topic, b"0", partition=0)
        with pytest.raises(ottla.ProducerFenced):
            producer.abort_transaction()
        with pytest.raises(ottla.ProducerFenced):
            producer.begin_transaction()
        with pytest.raises(ottla.DeliveryError):
            producer.close()
    assert visible_rows(servers, kafka_topic) == {0: [0]}


@pytest.mark.parametrize("has_ended_one", [False, True])
def test_the_abort_of_a_fenced_producer_leaves_the_newer_ones_transaction_alone(
    kafka_cluster: ottla.Cluster, kafka_topic: str, has_ended_one: bool
) -> None:
    servers = kafka_cluster.bootstrap_servers
    with (
        ottla.Producer(servers, transactional_id=kafka_topic, linger_ms=0) as producer,
        ottla.Producer(servers, transactional_id=kafka_topic, linger_ms=0) as newer,
    ):
        if has_ended_one:
            with producer.transaction():
                producer.send(kafka_topic, b"0", partition=0)
        producer.begin_transaction()
        producer.send(kafka_topic, b"7", partition=0).result(30)
        newer.begin_transaction()
        newer.send(kafka_topic, b"1", partition=0).result(30)
        with pytest.raises(ottla.ProducerFenced):
            producer.abort_transaction()
        newer.send(kafka_topic, b"2", partition=0)
        newer.commit_transaction()
    assert visible_rows(servers, kafka_topic) == {0: [0, 1, 2] if has_ended_one else [1, 2]}
