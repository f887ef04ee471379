"""Which partition a record goes to."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.errors import RecordError

from .sides import Side


def test_keys_go_where_librdkafkas_murmur2_sends_them(side: Side, topic: str, kafka_name: str, reading: Any) -> None:
    keys = [b"key-%d" % number for number in range(500)] + [b"", b"\xff" * 7, "ключ".encode()]
    with ottla.Producer(side.bootstrap_servers) as ours:
        told = {key: ours.send(topic, b"value", key) for key in keys}
    side.create_topic(f"{kafka_name}-theirs", 3, 1)
    theirs = Producer({"bootstrap.servers": side.bootstrap_servers, "partitioner": "murmur2", "log_level": 0})
    for key in keys:
        theirs.produce(f"{kafka_name}-theirs", b"value", key)
    assert theirs.flush(60) == 0
    expected = {one.key: one.partition for one in reading.records(side, f"{kafka_name}-theirs")}
    assert {key: delivery.result(0).partition for key, delivery in told.items()} == expected


def test_keyless_records_fill_one_partitions_batch_and_reach_all(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, batch_size=2000) as producer:
        for number in range(5000):
            producer.send(topic, b"%050d" % number)
    values = reading.values(side, topic)
    assert all(values.values())
    assert sum(map(len, values.values())) == 5000
    batches = reading.batches(side, topic)
    assert 5000 / len(batches) > 10


def test_an_explicit_partition_is_taken_and_one_that_is_not_there_refused(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers) as producer:
        producer.send(topic, b"two", b"key", partition=2)
        with pytest.raises(RecordError, match=topic):
            producer.send(topic, b"three", partition=3)
        producer.send(topic, b"zero", b"key", partition=0)
    assert reading.values(side, topic) == {0: [b"zero"], 1: [], 2: [b"two"]}


# ---- partitioner.availability.timeout.ms (KIP-794) -------------------------------------------------------------------

_PATIENCE_S = 60
_SMALL: dict[str, Any] = {"linger_ms": 0, "batch_size": 200, "max_in_flight_requests_per_connection": 1}


@contextlib.contextmanager
def standing_still(side: Side, topic: str, producer: ottla.Producer) -> Iterator[list[Any]]:
    """Partition 0's leader takes nothing; gives what waits for it: one batch in flight, and others behind it."""
    for partition in range(3):
        producer.send(topic, b"before", partition=partition).result(_PATIENCE_S)
    with side.proxy.hold(side.leader(topic, 0)):
        waiting = [producer.send(topic, b"%0300d" % number, partition=0) for number in range(5)]
        yield waiting


def send_keyless(producer: ottla.Producer, topic: str, sent: list[Any]) -> int:
    """A record without a key; where it went. At the brokers' pace, as far as they have one."""
    sent.append(producer.send(topic, b"%0100d" % len(sent)))
    if sent[-1].partition != 0:
        sent[-1].result(_PATIENCE_S)
    partition: int = sent[-1].partition
    return partition


def test_a_broker_that_takes_nothing_is_left_out_after_the_availability_timeout_and_taken_in_again(
    side: Side, topic: str, reading: Any
) -> None:
    """Left out: 2000 records in a row go elsewhere. By the length of its queue alone it would get dozens of them."""
    sent: list[Any] = []
    settings = {**_SMALL, "partitioner_availability_timeout_ms": 200}
    with ottla.Producer(side.noted_servers, **settings) as producer:
        with standing_still(side, topic, producer) as waiting:
            in_a_row = 0
            while in_a_row < 2000:
                in_a_row = in_a_row + 1 if send_keyless(producer, topic, sent) else 0
                assert len(sent) < 6000, f"of {len(sent)} records the last {in_a_row} went elsewhere"
            assert {delivery.partition for delivery in sent[-2000:]} == {1, 2}
            assert not any(delivery.done() for delivery in waiting)
            # A record that names it does not move.
            waiting.append(producer.send(topic, b"named", partition=0))
        give_up_s = time.monotonic() + _PATIENCE_S
        while send_keyless(producer, topic, sent):
            assert time.monotonic() < give_up_s, "it takes records again, and gets none"
        assert sent[-1].result(_PATIENCE_S).partition == 0
        assert all(delivery.exception(_PATIENCE_S) is None for delivery in waiting + sent)
    stored = [value for values in reading.values(side, topic).values() for value in values]
    named = [b"before"] * 3 + [b"%0300d" % n for n in range(5)] + [b"named"]
    assert sorted(stored) == sorted(named + [b"%0100d" % n for n in range(len(sent))])


def test_without_an_availability_timeout_a_broker_that_takes_nothing_gets_records_all_the_same(
    side: Side, topic: str
) -> None:
    sent: list[Any] = []
    with ottla.Producer(side.noted_servers, **_SMALL) as producer, standing_still(side, topic, producer) as waiting:
        give_up_s, there = time.monotonic() + _PATIENCE_S, 0
        while there < 10:
            there += send_keyless(producer, topic, sent) == 0
            assert time.monotonic() < give_up_s, f"of {len(sent)} records {there} went to the longest queue"
        assert not any(delivery.done() for delivery in waiting)
    assert all(delivery.exception(0) is None for delivery in waiting + sent)
