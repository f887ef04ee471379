"""Transactions over sockets: what a reader of committed records sees, whatever goes wrong on the way.

Every test runs with both transaction versions (KIP-890's 2, and 1 as brokers before 4.0 have it).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.client.in_time import ahead

import ottla
from ottla.client.producer import Producer

from ..markers import await_markers


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=3, settings={"transaction_version": request.param}) as cluster:
        yield cluster


@pytest.fixture
def name(cluster: ottla.Cluster, kafka_name: str) -> str:
    """A topic of the test's own with three partitions; its name serves as transactional id, too."""
    cluster.create_topic(kafka_name, partitions=3)
    return kafka_name


def producer_of(cluster: ottla.Cluster, name: str, **settings: Any) -> Producer:
    given = {"transactional_id": name, "linger_ms": 0, "retry_backoff_ms": 10, **settings}
    return Producer.from_config({"bootstrap_servers": cluster.bootstrap_servers, **given})


@contextlib.contextmanager
def given_up(producer: Producer) -> Iterator[None]:
    """A transaction whose block raises."""
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        yield
        raise ZeroDivisionError


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


def test_commits_are_seen_and_aborts_are_not(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for number in range(6):
            producer.begin_transaction()
            deliveries = [producer.send(name, b"%d-%d" % (number, p), partition=p) for p in range(3)]
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
    assert committed(cluster, name) == [b"%d-%d" % (number, p) for number in (0, 2, 4) for p in range(3)]


def test_librdkafka_reads_the_same_committed_records(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send(name, b"%d" % number, partition=0)
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
    settings = {"group.id": "g", "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    consumer.assign([TopicPartition(name, 0, 0)])
    assert [message.value() for message in consumer.consume(2, 30)] == [b"1", b"3"]
    consumer.close()


def test_nothing_can_be_sent_outside_of_a_transaction(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for _ in range(2):
            with pytest.raises(ottla.TransactionMisuse, match="call begin_transaction"):
                producer.send(name, b"outside")
            with producer.transaction():
                producer.send(name, b"inside")
        with pytest.raises(ottla.TransactionMisuse, match="nothing can be committed now: no transaction is open"):
            producer.commit_transaction()
        with pytest.raises(ottla.TransactionMisuse, match="nothing can be aborted now"):
            producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(ottla.TransactionMisuse, match="a transaction is open; commit or abort it first"):
            producer.begin_transaction()
        producer.commit_transaction()
    with Producer(cluster.bootstrap_servers) as plain, pytest.raises(ottla.TransactionMisuse, match="transactional_id"):
        plain.begin_transaction()


def test_the_context_commits_or_aborts(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        with producer.transaction() as same:
            assert same is producer
            producer.send(name, b"kept")
        with given_up(producer):
            producer.send(name, b"taken back")
        with producer.transaction():
            producer.send(name, b"kept, too")
    assert committed(cluster, name) == [b"kept", b"kept, too"]


def test_a_table_takes_part(cluster: ottla.Cluster, name: str) -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"value": [f"row {number}" for number in range(500)]})
    with producer_of(cluster, name) as producer:
        with producer.transaction():
            producer.send(name, b"single")
            producer.send_table(name, table, value="value")
        with given_up(producer):
            producer.send_table(name, table, value="value")
    assert committed(cluster, name) == sorted([b"single", *(b"row %d" % number for number in range(500))])


def test_a_lost_answer_to_the_commit_is_asked_for_again(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for number in range(3):
            with cluster.faults.lose_ack(api="EndTxn", nth=1) as fault, producer.transaction():
                producer.send(name, b"%d" % number)
            assert fault.fired == 1
    assert committed(cluster, name) == [b"0", b"1", b"2"]


def test_a_commit_that_nobody_answers_is_unfinished_and_is_never_aborted(cluster: ottla.Cluster, name: str) -> None:
    clock = ottla.Clock()
    with producer_of(cluster, name, clock=clock) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        delivery = producer.send(name, b"kept")
        with cluster.faults.lose_request(api="EndTxn") as fault:
            unfinished = ahead(clock, 60, fault.await_fired)
            with (
                unfinished,
                pytest.raises(ottla.TransactionUnfinished, match=r"commit_transaction\(\) again") as caught,
            ):
                producer.commit_transaction()
            assert caught.value.retriable
            assert fault.fired
            for other in (producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(ottla.TransactionMisuse, match=r"now: commit_transaction\(\) has no answer yet"):
                    other()
            with pytest.raises(ottla.TransactionMisuse, match="being committed"):
                producer.send(name, b"too late")
        assert delivery.result(0).offset >= 0
        until_told(producer.commit_transaction)
        with producer.transaction():
            producer.send(name, b"next")
    assert committed(cluster, name) == [b"kept", b"next"]


def until_told(verb: Any) -> None:
    """Repeat a call as its error says."""
    for _ in range(100):
        try:
            verb()
        except ottla.TransactionUnfinished:
            continue
        return
    raise AssertionError("never answered")


def test_a_batch_that_fails_leaves_nothing_but_an_abort(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        producer.begin_transaction()
        producer.send(name, b"stored, and taken back", partition=0).result(30)
        with cluster.faults.refuse(topic=name, error=10) as fault:
            refused = producer.send(name, b"refused", partition=1)
            with pytest.raises(ottla.DeliveryFailed):
                refused.result(30)
            assert fault.fired
        with pytest.raises(ottla.TransactionError, match="MESSAGE_TOO_LARGE") as caught:
            producer.commit_transaction()
        assert caught.value.abortable
        with pytest.raises(ottla.TransactionError, match="call abort_transaction"):
            producer.send(name, b"more")
        with pytest.raises(ottla.TransactionError):
            producer.begin_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(name, b"next", partition=1)
    assert committed(cluster, name) == [b"next"]


def test_the_context_aborts_what_cannot_be_committed(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        refuse = cluster.faults.refuse(topic=name, error=10)
        with refuse, pytest.raises(ottla.TransactionError), producer.transaction():
            producer.send(name, b"refused")
        with producer.transaction():
            producer.send(name, b"next")
    assert committed(cluster, name) == [b"next"]


def test_lost_acks_of_batches_cost_no_transaction(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer, cluster.faults.lose_ack(topic=name, every=3) as fault:
        for number in range(10):
            with producer.transaction():
                producer.send(name, b"%d" % number, partition=number % 3)
        assert fault.fired
    assert committed(cluster, name) == sorted(b"%d" % number for number in range(10))


def test_a_zombie_is_fenced_for_good(cluster: ottla.Cluster, name: str) -> None:
    old, new = producer_of(cluster, name), producer_of(cluster, name)
    old.begin_transaction()
    old.send(name, b"zombie").result(30)
    new.init_transactions()
    with pytest.raises(ottla.ProducerFenced) as caught:
        old.commit_transaction()
    assert caught.value.fatal
    for verb in (old.begin_transaction, old.commit_transaction, old.abort_transaction, old.init_transactions):
        with pytest.raises(ottla.ProducerFenced):
            verb()
    with pytest.raises(ottla.ProducerFenced):
        old.send(name, b"more")
    old.close()
    with new.transaction():
        new.send(name, b"new")
    new.close()
    assert committed(cluster, name) == [b"new"]


def test_a_fenced_zombie_s_batches_are_refused(cluster: ottla.Cluster, name: str) -> None:
    old, new = producer_of(cluster, name), producer_of(cluster, name)
    old.begin_transaction()
    old.send(name, b"zombie").result(30)
    new.init_transactions()
    with pytest.raises(ottla.DeliveryFailed):
        old.send(name, b"zombie, again").result(30)
    with pytest.raises(ottla.TransactionError):
        old.commit_transaction()
    with pytest.raises(ottla.ProducerFenced):
        old.abort_transaction()
    old.close()
    new.close()
    assert committed(cluster, name) == []


def test_a_coordinator_that_moves_is_found_again(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for number in range(4):
            with producer.transaction():
                producer.send(name, b"%d" % number)
                cluster.move_coordinator(transactional_id=name)
                producer.send_offsets_to_transaction({(name, 0): number}, name)
    assert committed(cluster, name) == [b"0", b"1", b"2", b"3"]


def offset_of(cluster: ottla.Cluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 0})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_offsets_count_with_the_transaction(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        with producer.transaction():
            producer.send_offsets_to_transaction({(name, 0): (5, "metadata"), (name, 1): 7}, name)
        with given_up(producer):
            producer.send_offsets_to_transaction({(name, 0): 9}, name)
        assert offset_of(cluster, name, name) == 5
        producer.begin_transaction()
        with pytest.raises(ottla.TransactionError, match="generation of the group"):
            producer.send_offsets_to_transaction({(name, 0): 11}, name + "-x", generation=3, member_id="unknown")
        with pytest.raises(ottla.TransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with pytest.raises(ottla.TransactionMisuse, match="no offset to commit"):
            producer.send_offsets_to_transaction({(name, 0): -1}, name)
        producer.send_offsets_to_transaction({}, name)
    assert offset_of(cluster, name, name) == 5


@pytest.mark.parametrize(
    ("offsets", "member", "said"),
    [
        ({("t", 2**40): 5}, {}, "no offset to commit"),
        ({("t", 0): 2**70}, {}, "no offset to commit"),
        ({("t", 0): (5, "note", 2**31)}, {}, "no offset to commit"),
        ({("t", 0): (5, "note", 1, 2)}, {}, "no offset to commit"),
        ({("t", 0): (5, "\ud800")}, {}, "no offset to commit"),
        ({("t" * 40_000, 0): 5}, {}, "no offset to commit"),
        ([("t", 0, 5)], {}, r"offsets=<list> cannot be committed; give \{\(topic, partition\): next offset"),
        ({("t", 0): 5}, {"group_id": None}, "group_id=<NoneType> cannot be sent"),
        ({("t", 0): 5}, {"group_id": "\ud800"}, "group_id='.ud800' cannot be sent"),
        ({("t", 0): 5}, {"group_id": ""}, "group_id is empty"),
        ({("t", 0): 5}, {"generation": "1"}, "generation='1' cannot be used; it is a whole number from 0 on, or -1"),
        ({("t", 0): 5}, {"generation": 2**31}, "generation=2147483648 cannot be used"),
        ({("t", 0): 5}, {"member_id": None}, "member_id=<NoneType> cannot be sent"),
        ({("t", 0): 5}, {"group_instance_id": 5}, "group_instance_id=5 cannot be sent"),
    ],
)
def test_offsets_that_no_request_can_carry_change_nothing(
    cluster: ottla.Cluster, name: str, offsets: Any, member: dict[str, Any], said: str
) -> None:
    with producer_of(cluster, name) as producer, producer.transaction():
        with pytest.raises(ottla.TransactionMisuse, match=said):
            producer.send_offsets_to_transaction(offsets, **{"group_id": name, **member})
        producer.send_offsets_to_transaction({(name, 0): 5}, name)
        producer.send(name, b"kept")
    assert committed(cluster, name) == [b"kept"]
    assert offset_of(cluster, name, name) == 5


@pytest.mark.parametrize("identity", ["x", (1, 2, 3), ("x", 1), ("x", 2**63, 1), ("x", 1, 2**15), {"sasl.password": 1}])
def test_what_is_no_identity_cannot_be_taken_over(cluster: ottla.Cluster, name: str, identity: Any) -> None:
    with producer_of(cluster, name) as producer:
        with pytest.raises(ottla.TransactionMisuse, match=r"identity=.* is not an identity; give what Admin"):
            producer.init_transactions(identity)
        producer.init_transactions()


def test_closing_aborts_what_is_open(cluster: ottla.Cluster, name: str) -> None:
    producer = producer_of(cluster, name)
    producer.begin_transaction()
    producer.send(name, b"open").result(30)
    producer.close()
    with producer_of(cluster, name + "-other") as other, other.transaction():
        other.send(name, b"other", partition=0)
    # A transaction that stayed open would hold this back until its timeout.
    assert committed(cluster, name) == [b"other"]
    with pytest.raises(ottla.ClosedError):
        producer.begin_transaction()


def test_many_threads_send_in_one_transaction(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        for number in range(5):
            producer.begin_transaction()
            sent: list[bytes] = []

            def send(who: int, number: int = number, sent: list[bytes] = sent) -> None:
                for each in range(200):
                    value = b"%d-%d-%d" % (number, who, each)
                    try:
                        producer.send(name, value)
                    except ottla.TransactionMisuse:
                        return  # the gate is shut: the end has begun
                    sent.append(value)

            threads = [threading.Thread(target=send, args=(who,)) for who in range(4)]
            for thread in threads:
                thread.start()
            producer.commit_transaction()
            for thread in threads:
                thread.join()
            mine = [value for value in committed(cluster, name) if value.startswith(b"%d-" % number)]
            assert sorted(sent) == mine


def test_a_call_from_a_delivery_callback_says_why_not(cluster: ottla.Cluster, name: str) -> None:
    told: list[BaseException] = []

    def delivered(delivery: Any) -> None:
        try:
            producer.commit_transaction()
        except ottla.OttlaError as error:
            told.append(error)

    with producer_of(cluster, name) as producer, producer.transaction():
        producer.send(name, b"x", on_delivery=delivered).result(30)
    assert len(told) == 1
    assert "commit_transaction() inside a delivery callback" in str(told[0])


def test_a_timeout_that_the_broker_refuses_is_named(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name, transaction_timeout_ms=10_000_000) as producer:
        with pytest.raises(ottla.KafkaError, match="timeout is larger than the broker allows") as caught:
            producer.init_transactions()
        assert caught.value.fatal


def test_a_child_process_cannot_end_its_parents_transaction(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer, producer.transaction():
        producer.send(name, b"parent")
        child = os.fork()
        if child == 0:
            try:
                producer.commit_transaction()
            except ottla.ForkError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert committed(cluster, name) == [b"parent"]


def test_an_abort_that_meets_a_commit_is_not_told_that_it_aborted(cluster: ottla.Cluster, name: str) -> None:
    with producer_of(cluster, name) as producer:
        producer.begin_transaction()
        producer.send(name, b"x")
        verbs: Any = producer._driver.transactions
        deciding = verbs._deciding

        class Later:
            """Another thread asks to commit just before this one decides."""

            def __enter__(self) -> None:
                verbs._deciding = deciding
                next(verbs.end(True))
                deciding.acquire()

            def __exit__(self, *_: object) -> None:
                deciding.release()

        verbs._deciding = Later()
        with pytest.raises(ottla.TransactionMisuse, match=r"now: commit_transaction\(\) has no answer yet"):
            producer.abort_transaction()
        producer.commit_transaction()
    assert committed(cluster, name) == [b"x"]
