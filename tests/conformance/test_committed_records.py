"""Transactions: readers of committed records see whole ones or nothing, also where acknowledgements are lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

import ottla

from ..markers import await_markers
from .sides import Side


def producer_of(servers: str, identity: str, **settings: Any) -> ottla.Producer:
    """A transactional producer that does not wait long before it tries again."""
    given = {"transactional_id": identity, "linger_ms": 1, "retry_backoff_ms": 20, **settings}
    return ottla.Producer.from_config({"bootstrap_servers": servers, **given})


@contextlib.contextmanager
def given_up(producer: ottla.Producer) -> Iterator[None]:
    """A transaction whose block raises."""
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        yield
        raise ZeroDivisionError


def committed(side: Side, topic: str) -> dict[int, list[bytes]]:
    """{partition: values in the order of their offsets} as a reader of committed records sees them."""
    await_markers(side.bootstrap_servers, topic)
    rows = ottla.read_table(side.bootstrap_servers, topic, isolation_level="read_committed").to_pylist()
    found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for row in sorted(rows, key=lambda row: row["offset"]):
        found[row["partition"]].append(row["value"])
    return found


def test_commits_are_seen_whole_and_aborts_not_at_all(side: Side, topic: str) -> None:
    table = pa.table({"value": [b"row %d" % number for number in range(300)], "place": [1] * 300})
    with producer_of(side.bootstrap_servers, topic) as producer:
        for number in range(6):
            ending = producer.transaction() if number % 2 == 0 else given_up(producer)
            with ending:
                for each in range(3):
                    producer.send(topic, b"%d" % number, partition=each)
                if number < 2:
                    producer.send_table(topic, table, value="value", partition="place")
    rows = [b"row %d" % number for number in range(300)]
    assert committed(side, topic) == {0: [b"0", b"2", b"4"], 1: [b"0", *rows, b"2", b"4"], 2: [b"0", b"2", b"4"]}


def test_librdkafka_sees_the_same_committed_records(side: Side, topic: str) -> None:
    with producer_of(side.bootstrap_servers, topic) as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
    settings = {"group.id": "g", "enable.auto.commit": False, "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": side.bootstrap_servers, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consumer.consume(2, 120)] == [b"1", b"3"]
    consumer.close()


def test_lost_acks_leave_every_committed_record_once_in_order(side: Side, topic: str) -> None:
    with (
        producer_of(side.lossy_servers, topic, batch_size=300) as producer,
        side.losing_acks(topic, every=4, times=5) as losses,
    ):
        for number in range(10):
            with producer.transaction():
                for each in range(60):
                    producer.send(topic, b"%d-%d" % (number, each), partition=each % 3)
        assert losses.fired > 0
    expected = {p: [b"%d-%d" % (n, each) for n in range(10) for each in range(p, 60, 3)] for p in range(3)}
    assert committed(side, topic) == expected


def test_offsets_count_with_their_transaction(side: Side, topic: str) -> None:
    with producer_of(side.bootstrap_servers, topic) as producer:
        with producer.transaction():
            producer.send(topic, b"result")
            producer.send_offsets_to_transaction({(topic, 0): 5}, topic)
        with given_up(producer):
            producer.send_offsets_to_transaction({(topic, 0): 9}, topic)
    consumer = Consumer({"bootstrap.servers": side.bootstrap_servers, "group.id": topic, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=120)
    consumer.close()
    assert found.offset == 5


def test_a_zombie_is_fenced_and_what_it_sent_is_never_seen(side: Side, topic: str) -> None:
    old, new = producer_of(side.bootstrap_servers, topic), producer_of(side.bootstrap_servers, topic)
    old.begin_transaction()
    old.send(topic, b"zombie", partition=0).result(60)
    new.init_transactions()
    with pytest.raises(ottla.ProducerFenced):
        old.commit_transaction()
    old.close()
    with new.transaction():
        new.send(topic, b"new", partition=0)
    new.close()
    assert committed(side, topic)[0] == [b"new"]
