"""A producer that goes on under another identity: its connections and metadata stay, and nothing else does.

Every test runs with both transaction versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.producer import Producer
from ottla.producer.transaction_states import TransactionIdentity

from ..markers import await_markers

NEVER = 10**6


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=3)
    return kafka_name


def fenced(cluster: ottla.Cluster, name: str) -> TransactionIdentity:
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        return admin.fence_producers([name])[name]


def producer_of(cluster: ottla.Cluster, name: str, **settings: Any) -> Producer:
    given = {"transactional_id": name, "linger_ms": 0, "retry_backoff_ms": 10, **settings}
    return Producer.from_config({"bootstrap_servers": cluster.bootstrap_servers, **given})


def prepare(producer: Producer, topic: str, value: bytes) -> TransactionIdentity:
    producer.begin_transaction()
    for partition in range(3):
        producer.send(topic, value, partition=partition)
    return producer.prepare_transaction()


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


def test_each_prepared_transaction_has_its_own_end(cluster: ottla.Cluster, topic: str) -> None:
    identities = [fenced(cluster, f"{topic}-{number}") for number in range(4)]
    with producer_of(cluster, identities[0].transactional_id) as producer:
        for number, identity in enumerate(identities):
            producer.init_transactions(identity)
            assert prepare(producer, topic, b"%d" % number) == identity
            assert identity.transactional_id in repr(producer)
    for committing in (True, False):
        ends = [identity for number, identity in enumerate(identities) if (number % 2 == 0) == committing]
        told = ottla.end_transactions(ends, committing, cluster.bootstrap_servers)
        assert set(told.values()) == {None}
    assert committed(cluster, topic) == [b"0"] * 3 + [b"2"] * 3


def test_a_new_identity_costs_no_connection_and_no_metadata(cluster: ottla.Cluster, topic: str) -> None:
    identities = [fenced(cluster, f"{topic}-{number}") for number in range(3)]
    with producer_of(cluster, identities[0].transactional_id) as producer:
        producer.init_transactions(identities[0])
        prepare(producer, topic, b"cold")
        with (
            cluster.faults.hold(api="ApiVersions", nth=NEVER) as opened,
            cluster.faults.hold(api="Metadata", nth=NEVER) as metadata,
        ):
            for identity in identities[1:]:
                producer.init_transactions(identity)
                prepare(producer, topic, b"warm")
            assert (opened.matched, metadata.matched) == (0, 0)


def test_the_same_id_may_come_again_with_its_next_epoch(cluster: ottla.Cluster, topic: str) -> None:
    with producer_of(cluster, topic) as producer:
        producer.init_transactions(fenced(cluster, topic))
        prepare(producer, topic, b"older")
        # This aborts what is prepared.
        producer.init_transactions(fenced(cluster, topic))
        prepare(producer, topic, b"newer")
        producer.commit_transaction()
    assert committed(cluster, topic) == [b"newer"] * 3


@pytest.mark.parametrize("ends", ["commit_transaction", "abort_transaction"])
def test_after_a_transaction_has_ended_another_identity_can_be_taken(
    cluster: ottla.Cluster, topic: str, ends: str
) -> None:
    with producer_of(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"first")
        getattr(producer, ends)()
        producer.init_transactions(fenced(cluster, f"{topic}-other"))
        prepare(producer, topic, b"second")
        producer.commit_transaction()
    first = [b"first"] if ends == "commit_transaction" else []
    assert committed(cluster, topic) == first + [b"second"] * 3


def test_an_open_transaction_is_not_left_behind(cluster: ottla.Cluster, topic: str) -> None:
    other = fenced(cluster, f"{topic}-other")
    with producer_of(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"kept")
        with pytest.raises(ottla.TransactionMisuse, match="no identity can be taken over now: a transaction is open"):
            producer.init_transactions(other)
        producer.commit_transaction()
    assert committed(cluster, topic) == [b"kept"]


def test_who_was_fenced_takes_no_other_identity(cluster: ottla.Cluster, topic: str) -> None:
    other = fenced(cluster, f"{topic}-other")
    with producer_of(cluster, topic) as producer:
        producer.begin_transaction()
        fenced(cluster, topic)
        late = producer.send(topic, b"late")
        with pytest.raises(ottla.OttlaError):
            producer.commit_transaction()
        with pytest.raises(ottla.OttlaError):
            producer.abort_transaction()
        with pytest.raises(ottla.ProducerFenced):
            producer.init_transactions(other)
        assert late.exception() is not None
    assert committed(cluster, topic) == []
