"""Interceptors: what they see, what they may change, and that nothing they do breaks the producer."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pyarrow as pa
import pytest
from tests.client.in_time import logged
from tests.read_back import stored_in_time

import ottla
from ottla import BatchSeen, ProducerRecord


class Notes:
    """Notes what it sees, and in which thread."""

    def __init__(self) -> None:
        self.records: list[ProducerRecord] = []
        self.batches: list[BatchSeen] = []
        self.acks: list[BatchSeen] = []
        self.threads: set[int] = set()
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> None:
        self.records.append(record)

    def on_batch(self, batch: BatchSeen) -> None:
        self.batches.append(batch)
        self.threads.add(threading.get_ident())

    def on_ack(self, batch: BatchSeen) -> None:
        self.acks.append(batch)
        self.threads.add(threading.get_ident())

    def close(self) -> None:
        self.closed += 1


def test_records_batches_and_outcomes_are_seen(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    notes = Notes()
    with ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[notes]) as producer:
        delivery = producer.send(kafka_topic, {"n": 1}.__repr__(), "k", headers=[("h", b"1")], partition=1)
        delivery.result(30)
        assert notes.closed == 0
        producer.send(kafka_topic, b"2", partition=1).result(30)
    assert notes.records[0] == ProducerRecord(kafka_topic, "{'n': 1}", "k", [("h", b"1")], 1, None)
    assert [batch[:3] + batch[4:] for batch in notes.batches] == [(kafka_topic, 1, 1, "pending", -1, None)] * 2
    assert [(ack.outcome, ack.base_offset, ack.record_count, ack.error) for ack in notes.acks] == [
        ("acked", 0, 1, None),
        ("acked", 1, 1, None),
    ]
    assert all(batch.size_bytes > 61 for batch in notes.batches)
    assert threading.get_ident() not in notes.threads
    assert notes.closed == 1


def test_rows_of_a_table_are_seen_as_batches(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    notes = Notes()
    with ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[notes]) as producer:
        producer.send_table(kafka_topic, pa.table({"v": ["x"] * 1000}), value="v")
    assert notes.records == []
    assert sum(batch.record_count for batch in notes.batches) == 1000
    assert sum(ack.record_count for ack in notes.acks) == 1000


def test_interceptors_change_a_record_one_after_the_other(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    class Adds:
        def __init__(self, more: str) -> None:
            self.more = more

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            headers = [*(record.headers or ()), (self.more, None)]
            return record._replace(value={**record.value, "by": self.more}, headers=headers)

    with ottla.Producer(
        kafka_cluster.bootstrap_servers, interceptor_classes=[Adds("one"), Adds("two")], value_serializer="json"
    ) as producer:
        producer.send(kafka_topic, {"n": 1})
    [record] = stored_in_time(kafka_cluster, kafka_topic)
    assert record.value == b'{"n":1,"by":"two"}'
    assert [name for name, _ in record.headers] == ["one", "two"]


class Breaks:
    """Raises wherever it can, sometimes what would end a program."""

    def on_send(self, record: ProducerRecord) -> Any:
        if record.value == b"wrong":
            return b"no record"
        raise ZeroDivisionError("on_send")

    def on_batch(self, batch: BatchSeen) -> None:
        raise SystemExit("on_batch")

    def on_ack(self, batch: BatchSeen) -> None:
        raise KeyError("on_ack")

    def close(self) -> None:
        raise KeyboardInterrupt


def test_an_interceptor_that_raises_is_logged_once_a_kind_and_counted_and_changes_nothing(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes()
    with caplog.at_level(logging.ERROR, "ottla.producer"):
        producer = ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[Breaks, notes], linger_ms=0)
        for number in range(20):
            producer.send(kafka_topic, b"%d" % number, timestamp_ms=number).result(30)
        producer.send(kafka_topic, b"wrong", timestamp_ms=99).result(30)
        producer.close()
    expected = [*(b"%d" % number for number in range(20)), b"wrong"]
    assert [record.value for record in stored_in_time(kafka_cluster, kafka_topic)] == expected
    assert [record.value for record in notes.records] == expected
    assert len(notes.batches) == len(notes.acks) == 21
    assert producer.metrics()["ottla-interceptor-error-total"] == 20 + 1 + 21 + 21 + 1
    told = [message.split()[0] for message in logged(caplog, "ottla.producer")]
    assert sorted(told) == ["close", "on_ack", "on_batch", "on_send", "on_send"]


def test_on_ack_hears_of_batches_that_failed_and_of_those_nobody_knows_of(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    notes = Notes()
    producer = ottla.Producer(
        kafka_cluster.bootstrap_servers,
        interceptor_classes=[notes],
        enable_idempotence=False,
        retries=0,
        linger_ms=0,
    )
    with kafka_cluster.faults.refuse(topic=kafka_topic, nth=1, error=10):
        failed = producer.send(kafka_topic, b"1", partition=0)
        assert isinstance(failed.exception(30), ottla.DeliveryFailed)
    with kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=1):
        unknown = producer.send(kafka_topic, b"2", partition=0)
        assert isinstance(unknown.exception(30), ottla.DeliveryUnknown)
    producer.close()
    assert [(ack.outcome, ack.base_offset) for ack in notes.acks] == [("failed", -1), ("unknown", -1)]
    assert all(isinstance(ack.error, ottla.OttlaError) for ack in notes.acks)


def test_on_ack_hears_of_a_record_that_send_refused(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    notes = Notes()
    with ottla.Producer(
        kafka_cluster.bootstrap_servers, interceptor_classes=[notes], value_serializer="json"
    ) as producer:
        with pytest.raises(ottla.RecordError):
            producer.send(kafka_topic, object())
        with pytest.raises(ottla.RecordError):
            producer.send(kafka_topic, 1, partition=77)
    assert [(ack.partition, ack.record_count) for ack in notes.acks] == [(-1, 1), (77, 1)]
    assert {ack.outcome for ack in notes.acks} == {"failed"}


def test_coroutines_are_intercepted_alike(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    notes = Notes()

    async def send() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, interceptor_classes=[notes]) as producer:
            stored = await (await producer.send(kafka_topic, b"1"))
            assert stored.offset == 0
            await (await producer.send(kafka_topic, b"2"))
            with pytest.raises(ottla.OttlaError):
                await producer.send("not a topic's name", b"3")

    asyncio.run(send())
    assert [record.value for record in notes.records] == [b"1", b"2", b"3"]
    assert [(ack.topic, ack.outcome) for ack in notes.acks] == [
        (kafka_topic, "acked"),
        (kafka_topic, "acked"),
        ("not a topic's name", "failed"),
    ]


class Raises:
    def __init__(self) -> None:
        raise LookupError("mine")

    def on_ack(self, batch: Any) -> None: ...


class WantsMore:
    def __init__(self, more: int) -> None: ...

    def on_ack(self, batch: Any) -> None: ...


class Async:
    async def on_ack(self, batch: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([object()], "has none of the methods on_send, on_batch, on_ack"),
        ("com.example.Interceptor", "is not a list of objects"),
        (5, "is not a list of objects"),
        ([Raises], r"Raises\(\) raised LookupError: mine; give an object of it"),
        ([WantsMore], r"WantsMore\(\) raised TypeError: .*, or a class that needs no arguments"),
        ([Async], "on_ack of Async is an async function, which nobody would await"),
        ([Async()], "on_ack of Async is an async function, which nobody would await"),
    ],
)
def test_what_is_no_interceptor_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ottla.ConfigError, match=words):
        ottla.Producer("127.0.0.1:9", interceptor_classes=given)
