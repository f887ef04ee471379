"""ottla's transactions on Apache Kafka 4.3: by version 2 as it comes, and by version 1 as clusters before 4.0 have it.

What was committed is read by librdkafka, which shares no code with either side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.client.producer import Producer

from ..markers import await_markers
from ..needs import lacking

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module", params=[2, 1], ids=["version-2", "version-1"])
def kafka(request: pytest.FixtureRequest, apache_kafka: str) -> Iterator[str]:
    """The address of a node with this transaction version."""
    # The common node is asked for by name: it is stopped behind the last test that does.
    if request.param == 2:
        yield apache_kafka
        return
    try:
        node = ApacheKafka(format_arguments=("--feature", "transaction.version=1"))
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with node:
        yield node.bootstrap_servers


@pytest.fixture
def name(kafka: str, kafka_name: str) -> str:
    """A topic of the test's own, also the transactional id and the group."""
    with ottla.Admin(kafka) as admin:
        admin.create_topics(kafka_name, partitions=2, replication_factor=1)
    return kafka_name


def producer_of(kafka: str, name: str, **settings: Any) -> Producer:
    return Producer.from_config({"bootstrap_servers": kafka, "transactional_id": name, "linger_ms": 0, **settings})


def committed(kafka: str, topic: str) -> list[bytes]:
    """Everything that librdkafka reads of committed records, up to the last stable offset."""
    await_markers(kafka, topic)
    settings = {"group.id": "reader", "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": kafka, "enable.partition.eof": True, **settings})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(2)])
    values, ends = [], 0
    while ends < 2:
        message = consumer.poll(120)
        assert message is not None
        if message.error() is not None:
            ends += 1
        else:
            values.append(message.value())
    consumer.close()
    return sorted(values)


def test_commits_are_seen_and_aborts_are_not(kafka: str, name: str) -> None:
    with producer_of(kafka, name) as producer:
        producer.init_transactions()
        # Not always 0: a coordinator that is just starting may give an identity and be asked once more.
        first = producer._driver.core.transaction_identity
        for number in range(6):
            producer.begin_transaction()
            for partition in range(2):
                producer.send(name, b"%d-%d" % (number, partition), partition=partition)
            # An abort that overtakes its records ends a transaction the coordinator may never have heard of.
            producer.flush()
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
        last = producer._driver.core.transaction_identity
    assert first is not None
    assert last is not None
    # By version 2 every transaction raises the epoch.
    assert last.producer_epoch - first.producer_epoch == (6 if "version-2" in name else 0)
    assert committed(kafka, name) == [b"%d-%d" % (number, p) for number in (0, 2, 4) for p in range(2)]


def test_offsets_count_with_the_transaction(kafka: str, name: str) -> None:
    with producer_of(kafka, name) as producer:
        for offset, is_kept in ((5, True), (9, False)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({(name, 0): (offset, "note")}, name)
            producer.commit_transaction() if is_kept else producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(ottla.TransactionError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({(name, 0): 11}, name, generation=3, member_id="unknown")
        producer.abort_transaction()
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": name, "log_level": 0})
    [found] = consumer.committed([TopicPartition(name, 0)], timeout=120)
    consumer.close()
    assert found.offset == 5


def test_a_zombie_is_fenced(kafka: str, name: str) -> None:
    old, new = producer_of(kafka, name), producer_of(kafka, name)
    old.begin_transaction()
    old.send(name, b"zombie").result(120)
    with new.transaction():
        new.send(name, b"new")
    with pytest.raises(ottla.ProducerFenced):
        old.commit_transaction()
    old.close()
    new.close()
    assert committed(kafka, name) == [b"new"]


def test_a_zombie_that_sends_can_only_abort_and_is_fenced_then(kafka: str, name: str) -> None:
    old, new = producer_of(kafka, name), producer_of(kafka, name)
    old.begin_transaction()
    old.send(name, b"zombie", partition=0).result(120)
    new.init_transactions()
    with pytest.raises(ottla.DeliveryFailed):
        old.send(name, b"zombie, again", partition=0).result(120)
    with pytest.raises(ottla.TransactionError):
        old.commit_transaction()
    with pytest.raises(ottla.ProducerFenced):
        old.abort_transaction()
    old.close()
    new.close()
    assert committed(kafka, name) == []


def test_a_record_that_is_refused_leaves_an_abort_after_which_it_goes_on(kafka: str, name: str) -> None:
    with ottla.Admin(kafka) as admin:
        # Made with its limit: the broker hears later than the controller of one that is altered.
        topic = f"{name}-limited"
        admin.create_topics(topic, partitions=2, replication_factor=1, configs={"max.message.bytes": 2000})
    with producer_of(kafka, name) as producer:
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, b"stored", partition=0).result(120)
            with pytest.raises(ottla.DeliveryFailed):
                producer.send(topic, bytes(5000), partition=0).result(120)
            with pytest.raises(ottla.TransactionError, match="MESSAGE_TOO_LARGE"):
                producer.commit_transaction()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic, b"kept %d" % number, partition=0)
    assert committed(kafka, topic) == [b"kept 0", b"kept 1", b"kept 2"]


def test_what_one_prepares_another_ends(kafka: str, name: str) -> None:
    identities = []
    for number in range(2):
        with producer_of(kafka, f"{name}-{number}") as producer:
            producer.begin_transaction()
            producer.send(name, b"%d" % number)
            identities.append(producer.prepare_transaction())
    for _ in range(2):
        ottla.TransactionHandle(identities[0], kafka).end(committed=True)
        ottla.TransactionHandle(identities[1], kafka).end(committed=False)
    with pytest.raises(ottla.TransactionError, match="ended the other way"):
        ottla.TransactionHandle(identities[0], kafka).end(committed=False)
    assert committed(kafka, name) == [b"0"]


def test_many_short_transactions_in_a_row(kafka: str, name: str) -> None:
    with producer_of(kafka, name) as producer:
        for number in range(50):
            with producer.transaction():
                producer.send(name, b"%02d" % number, partition=number % 2)
    assert committed(kafka, name) == [b"%02d" % number for number in range(50)]
