"""Transactions that one producer prepares and somebody else ends, by (transactional id, producer id, epoch)."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

import ottla
from ottla.client.producer import Producer
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

from ..markers import await_markers
from ..wire import Wire


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.fixture
def name(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name)
    return kafka_name


def prepared(cluster: ottla.Cluster, name: str, transactional_id: str, *values: bytes) -> Any:
    """The identity of a transaction with these records, whose producer is closed."""
    with Producer(cluster.bootstrap_servers, transactional_id=transactional_id, linger_ms=0) as producer:
        producer.begin_transaction()
        for value in values:
            producer.send(name, value)
        return producer.prepare_transaction()


def handle(cluster: ottla.Cluster, identity: Any, **settings: Any) -> ottla.TransactionHandle:
    return ottla.TransactionHandle(identity, cluster.bootstrap_servers, retry_backoff_ms=10, **settings)


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


def test_another_process_ends_what_this_one_prepared(cluster: ottla.Cluster, name: str) -> None:
    kept = handle(cluster, prepared(cluster, name, name, b"kept"))
    code = "import pickle, sys; pickle.load(sys.stdin.buffer).end(committed=True)"
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(kept), check=True, timeout=60)
    assert committed(cluster, name) == [b"kept"]
    handle(cluster, prepared(cluster, name, name, b"taken back")).end(committed=False)
    assert committed(cluster, name) == [b"kept"]


def test_the_same_end_again_does_no_harm_and_the_other_one_is_refused(cluster: ottla.Cluster, name: str) -> None:
    identity = prepared(cluster, name, name, b"kept")
    for _ in range(2):
        handle(cluster, identity).end(committed=True)
    with pytest.raises(ottla.TransactionError, match="ended the other way"):
        handle(cluster, identity).end(committed=False)
    assert committed(cluster, name) == [b"kept"]


def test_a_lost_answer_is_asked_for_again(cluster: ottla.Cluster, name: str) -> None:
    identity = prepared(cluster, name, name, b"kept")
    with cluster.faults.lose_ack(api="EndTxn", nth=1) as fault:
        handle(cluster, identity).end(committed=True)
    assert fault.fired == 1
    assert committed(cluster, name) == [b"kept"]


def test_in_version_1_a_commit_that_was_not_heard_may_be_done_though_the_next_answer_denies_it() -> None:
    """An InitProducerId comes twice, the second time after the commit: the coordinator knows of no transaction."""
    with (
        ottla.Cluster(brokers=1, settings={"transaction_version": 1}) as cluster,
        closing(Wire(cluster.bootstrap_servers)) as wire,
    ):
        cluster.create_topic("parcels")

        def initialize(producer_id: int, epoch: int) -> Any:
            request = InitProducerIdRequest(
                transactional_id="t", transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
            )
            answer = wire.ask_until_ready(request, 4)
            assert not answer.error_code
            return answer

        wire.ask_until_ready(FindCoordinatorRequest(key="t", key_type=1), 1)
        first = initialize(-1, -1)
        second = initialize(first.producer_id, first.producer_epoch)
        topics = [AddPartitionsToTxnTopic(name="parcels", partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=second.producer_id,
            v3_and_below_producer_epoch=second.producer_epoch,
            v3_and_below_topics=topics,
        )
        wire.ask_until_ready(request, 3)
        identity = TransactionIdentity("t", second.producer_id, second.producer_epoch)
        with (
            cluster.faults.lose_ack(api="EndTxn", nth=1),
            cluster.faults.hold(api="EndTxn", nth=2) as again,
            ThreadPoolExecutor() as pool,
        ):
            ended = pool.submit(handle(cluster, identity).end, committed=True)
            again.await_reached()
            initialize(first.producer_id, first.producer_epoch)
            again.release()
            with pytest.raises(ottla.TransactionUnknown, match="asked for and not answered"):
                ended.result()


def test_a_coordinator_that_does_not_answer_leaves_it_unfinished(cluster: ottla.Cluster, name: str) -> None:
    identity = prepared(cluster, name, name, b"kept")
    with cluster.faults.lose_request(api="EndTxn"):
        impatient = handle(cluster, identity, default_api_timeout_ms=2_000)
        with pytest.raises(ottla.TransactionUnfinished, match="end it again, committed or aborted as before") as caught:
            impatient.end(committed=True)
    assert caught.value.retriable
    handle(cluster, identity).end(committed=True)
    assert committed(cluster, name) == [b"kept"]


def test_a_newer_producer_has_ended_it(cluster: ottla.Cluster, name: str) -> None:
    identity = prepared(cluster, name, name, b"lost")
    with Producer(cluster.bootstrap_servers, transactional_id=name) as newer:
        newer.init_transactions()
    with pytest.raises(ottla.ProducerFenced):
        handle(cluster, identity).end(committed=True)
    assert committed(cluster, name) == []


def test_the_producer_itself_may_end_what_it_prepared(cluster: ottla.Cluster, name: str) -> None:
    with Producer(cluster.bootstrap_servers, transactional_id=name) as producer:
        for value in (b"one", b"two"):
            producer.begin_transaction()
            with pytest.raises(ottla.TransactionMisuse, match="nothing was sent"):
                producer.prepare_transaction()
            producer.send(name, value)
            producer.prepare_transaction()
            with pytest.raises(ottla.TransactionMisuse, match="prepared"):
                producer.send(name, b"too late")
            producer.commit_transaction()
    assert committed(cluster, name) == [b"one", b"two"]


def test_many_are_ended_at_the_same_time(cluster: ottla.Cluster, name: str) -> None:
    identities = [prepared(cluster, name, f"{name}-{number}", b"%d" % number) for number in range(6)]
    strange = (f"{name}-strange", 99, 0)
    told = ottla.end_transactions([*identities, strange], True, cluster.bootstrap_servers)
    assert [told[identity] for identity in identities] == [None] * 6
    assert isinstance(told[ottla.TransactionIdentity(*strange)], ottla.KafkaError)
    assert committed(cluster, name) == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("identity", ["x", None, 7, ("x", 1), ("x", "1", 0), (b"x", 1, 0), ("x", 1, 2**15)], ids=repr)
def test_what_is_no_identity_is_refused_at_once(identity: Any) -> None:
    said = r"identity=.* is not an identity; give what Admin\.fence_producers or prepare_transaction returned, \("
    with pytest.raises(ottla.TransactionMisuse, match=said):
        ottla.TransactionHandle(identity, "localhost:9092")
    with pytest.raises(ottla.TransactionMisuse, match=said):
        ottla.end_transactions([identity], True, "localhost:9092")


def test_an_identity_may_come_out_of_json(closed_port: str) -> None:
    assert ottla.TransactionHandle(["t", 1, 0], closed_port).identity == ("t", 1, 0)  # type: ignore[arg-type]


def test_nobody_there_is_said_plainly(closed_port: str) -> None:
    nobody = ottla.TransactionHandle(("t", 1, 0), closed_port, default_api_timeout_ms=2_000)
    with pytest.raises(ottla.TransactionUnfinished, match="no Kafka broker could be reached"):
        nobody.end(committed=True)
