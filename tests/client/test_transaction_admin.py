"""What `Admin` says of transactions, and producers that act under an identity that somebody else was given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from ottla.client.producer import Producer

from ..markers import await_markers


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.fixture
def name(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=2)
    return kafka_name


@pytest.fixture
def admin(cluster: ottla.Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap_servers, retry_backoff_ms=10) as admin:
        yield admin


def producer_of(cluster: ottla.Cluster, transactional_id: str) -> Producer:
    return Producer(cluster.bootstrap_servers, transactional_id=transactional_id, linger_ms=0)


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


def test_a_transaction_is_listed_and_described_while_it_is_open_and_after(
    cluster: ottla.Cluster, admin: ottla.Admin, name: str
) -> None:
    with producer_of(cluster, f"{name}+1") as producer:
        producer.begin_transaction()
        producer.send(name, b"open", partition=1)
        identity = producer.prepare_transaction()
        [listed] = admin.list_transactions(f"{name}+")
        assert (listed.transactional_id, listed.producer_id, listed.state) == (*identity[:2], "Ongoing")
        described = admin.describe_transactions([identity.transactional_id, "nobody"])
        assert list(described) == [identity.transactional_id]
        found = described[identity.transactional_id]
        assert (found.producer_id, found.producer_epoch, found.state) == (*identity[1:], "Ongoing")
        assert found.partitions == ((name, 1),)
        assert found.started_ms is not None
        assert found.coordinator_id == listed.coordinator_id
        producer.commit_transaction()
    committed(cluster, name)
    assert [each.state for each in admin.list_transactions(f"{name}+")] == ["CompleteCommit"]


def test_only_those_in_given_states_are_listed(cluster: ottla.Cluster, admin: ottla.Admin, name: str) -> None:
    with producer_of(cluster, f"{name}-open") as opened, producer_of(cluster, f"{name}-done") as done:
        admin.fence_producers([f"{name}-empty"])
        for producer in (opened, done):
            producer.begin_transaction()
            producer.send(name, b"row", partition=0)
            producer.flush()
        done.commit_transaction()
        listed = admin.list_transactions(name, ["Ongoing", "Empty"])
        assert [each.transactional_id for each in listed] == [f"{name}-empty", f"{name}-open"]
        assert [each.transactional_id for each in admin.list_transactions(name, "Ongoing")] == [f"{name}-open"]
        opened.abort_transaction()


def test_a_prefix_is_no_pattern(cluster: ottla.Cluster, admin: ottla.Admin, name: str) -> None:
    admin.fence_producers([f"{name}.*", f"{name}xx"])
    assert [each.transactional_id for each in admin.list_transactions(f"{name}.")] == [f"{name}.*"]
    assert len(admin.list_transactions(name)) == 2


def test_all_coordinators_are_asked_again_when_they_have_moved(
    cluster: ottla.Cluster, admin: ottla.Admin, name: str
) -> None:
    ids = [f"{name}-{number}" for number in range(6)]
    before = admin.fence_producers(ids)
    for transactional_id in ids:
        cluster.move_coordinator(transactional_id=transactional_id)
    after = admin.fence_producers(ids)
    assert {each: after[each].producer_epoch - before[each].producer_epoch for each in ids} == dict.fromkeys(ids, 1)
    assert sorted(admin.describe_transactions(ids)) == ids
    assert [each.transactional_id for each in admin.list_transactions(name)] == ids


def test_fencing_aborts_what_is_open_and_ends_older_producers(
    cluster: ottla.Cluster, admin: ottla.Admin, name: str
) -> None:
    with producer_of(cluster, name) as old:
        old.begin_transaction()
        old.send(name, b"lost").result(30)
        admin.fence_producers([name])
        with pytest.raises(ottla.ProducerFenced):
            old.commit_transaction()
    assert committed(cluster, name) == []


def test_producers_share_a_transaction_under_an_identity_they_were_given(
    cluster: ottla.Cluster, admin: ottla.Admin, name: str
) -> None:
    identity = admin.fence_producers([name], transaction_timeout_ms=30_000)[name]
    with producer_of(cluster, name) as one, producer_of(cluster, name) as other:
        for number, producer in enumerate((one, other)):
            producer.init_transactions(identity)
            producer.begin_transaction()
            producer.send(name, b"%d" % number, partition=number)
            assert producer.prepare_transaction() == identity == producer.transaction_identity
        one.commit_transaction()
    assert committed(cluster, name) == [b"0", b"1"]


def test_a_timeout_that_brokers_do_not_allow_is_refused(admin: ottla.Admin, name: str) -> None:
    with pytest.raises(ottla.KafkaError, match="INVALID_TRANSACTION_TIMEOUT"):
        admin.fence_producers([name], transaction_timeout_ms=3_600_000)
