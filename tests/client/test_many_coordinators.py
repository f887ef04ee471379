"""The coordinators of many transactional ids are looked for by one request, where brokers can be asked so (KIP-699)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.test_transaction_handle import prepared

import ottla
from ottla.client.transaction_handle import EndingDriver
from ottla.producer import coordinator

from ..markers import await_markers

NEVER = 10**6


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(params=[True, False], ids=["kafka-4", "before-kafka-3"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether brokers take many keys in a request; others do not know the version that does."""
    if not request.param:
        monkeypatch.setattr(coordinator, "MANY_FROM_VERSION", 99)
    return bool(request.param)


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name)
    return kafka_name


def test_admin_asks_for_all_at_once(cluster: ottla.Cluster, topic: str, many: bool) -> None:
    ids = [f"{topic}-{number}" for number in range(20)]
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.fence_producers(ids)
    with (
        ottla.Admin(cluster.bootstrap_servers) as admin,
        cluster.faults.hold(api="FindCoordinator", nth=NEVER) as sought,
        cluster.faults.hold(api="DescribeTransactions", nth=NEVER) as described,
    ):
        assert set(admin.describe_transactions(ids)) == set(ids)
        assert sought.matched == (1 if many else 20)
        assert described.matched <= 3
        admin.describe_transactions(ids)
        assert sought.matched == (1 if many else 20)


def test_many_transactions_are_ended_with_one_search(cluster: ottla.Cluster, topic: str, many: bool) -> None:
    identities = [prepared(cluster, topic, f"{topic}-{number}", b"%d" % number) for number in range(8)]
    with cluster.faults.hold(api="FindCoordinator", nth=NEVER) as sought:
        told = ottla.end_transactions(identities, True, cluster.bootstrap_servers)
        assert set(told.values()) == {None}
        assert sought.matched == (1 if many else 8)
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    assert sorted(found["value"].to_pylist()) == [b"%d" % number for number in range(8)]


def test_an_id_that_cannot_be_sent_does_not_keep_others_from_their_end(
    cluster: ottla.Cluster, topic: str, many: bool
) -> None:
    identity = prepared(cluster, topic, topic, b"kept")
    strange = ottla.TransactionIdentity("", 1, 0)
    told = ottla.end_transactions([identity, strange], True, cluster.bootstrap_servers)
    assert told[identity] is None
    assert isinstance(told[strange], ottla.KafkaError)


def test_an_id_that_cannot_be_written_does_not_pass_for_an_old_broker(cluster: ottla.Cluster, topic: str) -> None:
    identities = [prepared(cluster, topic, f"{topic}-{number}", b"%d" % number) for number in range(4)]
    unwritable = ottla.TransactionIdentity("\ud800", 1, 0)
    driver = EndingDriver.of({"bootstrap_servers": cluster.bootstrap_servers})
    try:
        told = driver.end(dict.fromkeys([identities[0], unwritable]), True)
        assert told[identities[0]].error is None
        assert isinstance(told[unwritable].error, ottla.KafkaError)
        with cluster.faults.hold(api="FindCoordinator", nth=NEVER) as sought:
            assert {each.error for each in driver.end(dict.fromkeys(identities[1:]), True).values()} == {None}
            assert sought.matched == 1
    finally:
        driver.close()
