"""Sending from coroutines: nothing waits that need not, nothing blocks the event loop, and nothing is lost."""

from __future__ import annotations

import array
import asyncio
import mmap
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.client.in_time import ahead, connections_lost, run, wait_until
from tests.read_back import stored_count, stored_records

import ottla
from ottla.client.async_producer import AsyncProducer
from ottla.protocol.error_codes import ErrorCode


def test_a_record_is_stored_as_it_was_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            delivery = await producer.send(
                kafka_topic, b"value", "key", headers=[("h", b"1"), ("n", None)], partition=1, timestamp_ms=1234
            )
            assert isinstance(delivery, ottla.Delivery)
            told = await delivery
            assert (told.topic, told.partition, told.offset, told.timestamp_ms) == (kafka_topic, 1, 0, 1234)
            assert await delivery == told
            assert delivery.result() == told

    run(work())
    [record] = stored_records(kafka_cluster, kafka_topic)[1]
    assert (record.timestamp_ms, bytes(record.key or b""), bytes(record.value or b"")) == (1234, b"key", b"value")
    assert [(name, None if value is None else bytes(value)) for name, value in record.headers] == [
        ("h", b"1"),
        ("n", None),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_arrives_once_and_in_order(kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str) -> None:
    async def work() -> None:
        config = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "compression.type": codec, "batch.size": 3000}
        async with AsyncProducer.from_config(config) as producer:
            deliveries = [await producer.send(kafka_topic, b"%d" % n, b"%d" % (n % 7)) for n in range(20_000)]
            offsets = [(delivery.partition, (await delivery).offset) for delivery in deliveries]
            assert len(set(offsets)) == 20_000

    run(work())
    values = [
        [int(record.value or 0) for record in records]
        for records in stored_records(kafka_cluster, kafka_topic).values()
    ]
    assert sorted(value for part in values for value in part) == list(range(20_000))
    assert all(part == sorted(part) for part in values)


def test_send_takes_no_turn_of_the_event_loop_while_there_is_room(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=1000) as producer:
            await producer.partitions_for(kafka_topic)
            turns = []
            asyncio.get_running_loop().call_soon(turns.append, "others had a turn")
            for _ in range(100):
                await producer.send(kafka_topic, b"x")
            assert turns == []

    run(work())


def test_records_are_appended_on_the_event_loops_thread_and_no_other_is_started(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    serialized_on: set[threading.Thread] = set()

    def serialize(value: Any) -> bytes:
        serialized_on.add(threading.current_thread())
        return b"%d" % value

    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serialize) as producer:
            before = set(threading.enumerate())
            # The first one waits for the topic; each delivery is waited for, too.
            for number in range(100):
                await (await producer.send(kafka_topic, number))
            # Threads of others may have ended meanwhile.
            assert set(threading.enumerate()) <= before
        assert serialized_on == {threading.current_thread()}

    run(work())
    assert stored_count(kafka_cluster, kafka_topic) == 100


def test_neither_a_record_nor_its_delivery_waits_for_a_timer_or_a_worker_thread(
    kafka_cluster: ottla.Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        event_loop = asyncio.get_running_loop()
        asked: list[str] = []

        def noted(name: str) -> Callable[..., Any]:
            method = getattr(event_loop, name)

            def note(*arguments: Any, **named: Any) -> Any:
                asked.append(name)
                return method(*arguments, **named)

            return note

        async with AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
            await producer.partitions_for(kafka_topic)
            for name in ("call_later", "call_at", "run_in_executor", "create_task"):
                monkeypatch.setattr(event_loop, name, noted(name))
            for number in range(200):
                await (await producer.send(kafka_topic, b"%d" % number, b"key", headers=[("h", b"v")]))
            for _ in range(5000):  # more than a turn's worth: now and then send gives way to others
                await producer.send(kafka_topic, b"x")
            assert asked == []
            monkeypatch.undo()

    run(work())


def test_others_have_their_turn_however_long_somebody_sends(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with AsyncProducer(kafka_cluster.bootstrap_servers, batch_size=1_000_000) as producer:
            await producer.partitions_for(kafka_topic)
            task = asyncio.create_task(other())
            for _ in range(10_000):
                await producer.send(kafka_topic, b"x")
            assert turns >= 9
            task.cancel()

    run(work())


def test_what_is_sent_may_be_a_task_and_many_at_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            # The first of these wait for the topic, the others may find it known: they have no order among each other.
            deliveries = await asyncio.gather(*[producer.send(kafka_topic, b"%d" % n, partition=0) for n in range(50)])
            task = asyncio.create_task(producer.send(kafka_topic, b"50", partition=0))
            async with asyncio.TaskGroup() as group:
                last = group.create_task(producer.send(kafka_topic, b"51", partition=0))
            told = await asyncio.gather(*deliveries, await task, await last)
            offsets.extend(metadata.offset for metadata in told)

    offsets: list[int] = []
    run(work())
    assert sorted(offsets) == list(range(52))
    assert offsets[50:] == [50, 51]
    values = [int(record.value or 0) for record in stored_records(kafka_cluster, kafka_topic)[0]]
    assert [values[offset] for offset in offsets] == list(range(52))


def test_the_event_loop_goes_on_while_send_waits_for_the_topic(kafka_cluster: ottla.Cluster) -> None:
    async def work() -> None:
        clock, turns = ottla.Clock(), 0
        async with AsyncProducer(kafka_cluster.bootstrap_servers, clock=clock) as producer:
            with kafka_cluster.faults.hold(api="Metadata", nth=2) as asked_again:
                send = asyncio.ensure_future(producer.send("no-such-topic", b"x"))
                while turns < 10 or not asked_again.fired:
                    assert not send.done()
                    turns += 1
                    await asyncio.sleep(0.001)
                clock.advance(60)
                with pytest.raises(ottla.KafkaError, match="topic 'no-such-topic' could not be used within"):
                    await send

    run(work())


def test_a_cluster_that_is_not_there_is_named(closed_port: str) -> None:
    clock = ottla.Clock()

    async def work() -> None:
        async with AsyncProducer(closed_port, clock=clock) as producer:
            with (
                connections_lost() as wait,
                ahead(clock, 60, wait),
                pytest.raises(ottla.Unreachable, match=closed_port),
            ):
                await producer.send("flights", b"x")
            with ahead(clock, 60), pytest.raises(ottla.Unreachable):
                await producer.partitions_for("flights")

    run(work())


def test_a_full_buffer_is_waited_for_and_nothing_is_lost(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        # As if for ever: whoever waits for room has batches sent that would linger.
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=65_536, linger_ms=100_000) as producer:

            async def send(number: int) -> None:
                for part in range(200):
                    await producer.send(kafka_topic, b"%03d-%096d" % (number, part), b"%d" % number)

            await asyncio.gather(*[send(number) for number in range(20)])
            await producer.flush()

    run(work())
    found: dict[bytes, list[int]] = {}
    for records in stored_records(kafka_cluster, kafka_topic).values():
        for record in records:
            sender, part = bytes(record.value or b"").split(b"-")
            found.setdefault(sender, []).append(int(part))
    assert found == {b"%03d" % number: list(range(200)) for number in range(20)}


def test_a_buffer_that_stays_full_is_buffer_full(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock()

    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=20_000, clock=clock) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                await producer.send(kafka_topic, b"x" * 15_000, partition=0)
                full = r"buffer\.memory .20000 bytes. stayed full"
                with ahead(clock, 60), pytest.raises(ottla.BufferFull, match=full) as caught:
                    await producer.send(kafka_topic, b"x" * 15_000, partition=0)
                assert caught.value.__cause__ is None
                assert caught.value.__context__ is None

    run(work())


def test_who_is_cancelled_while_waiting_for_room_has_not_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=20_000) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                await producer.send(kafka_topic, b"first" * 3000, partition=0)
                waiting = [
                    asyncio.create_task(producer.send(kafka_topic, b"%d" % n * 15_000, partition=0)) for n in range(4)
                ]
                await asyncio.sleep(0)
                for cancelled in (waiting[0], waiting[2]):
                    cancelled.cancel()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert [isinstance(one, asyncio.CancelledError) for one in done] == [True, False, True, False]

    run(work())
    values = [bytes(record.value or b"")[:1] for record in stored_records(kafka_cluster, kafka_topic)[0]]
    assert values == [b"f", b"1", b"3"]


def mapped(content: bytes) -> mmap.mmap:
    made = mmap.mmap(-1, len(content))
    made[:] = content
    return made


CHANGEABLE: dict[str, Callable[[bytes], Any]] = {
    "bytearray": bytearray,
    "memoryview": lambda content: memoryview(bytearray(content)),
    "array": lambda content: array.array("B", content),
    "numpy": lambda content: np.frombuffer(content, np.uint8).copy(),
    "mmap": mapped,
}


@pytest.mark.parametrize("make", CHANGEABLE.values(), ids=CHANGEABLE.keys())
@pytest.mark.parametrize("wait_for", ["the topic", "memory"])
def test_what_is_changed_while_send_waits_is_sent_as_it_was(
    kafka_cluster: ottla.Cluster, kafka_topic: str, make: Callable[[bytes], Any], wait_for: str
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=20_000) as producer:
            if wait_for == "memory":
                await producer.send(kafka_topic, b"x" * 15_000, partition=1)
            value, key, content = (make(b"before" * 1000) for _ in range(3))
            headers = [("h", content)]
            waiting = producer.send(kafka_topic, value, key, headers=headers, partition=0)
            for given in (value, key, content):
                memoryview(given).cast("B")[:] = b"behind" * 1000
            headers[0] = ("h", b"behind")
            await (await waiting)

    run(work())
    [record] = stored_records(kafka_cluster, kafka_topic)[0]
    for told in (record.value, record.key, record.headers[0][1]):
        assert bytes(told or b"") == b"before" * 1000


def test_headers_that_can_be_asked_for_once_only_outlast_the_waiting(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            for _ in range(2):  # before the topic is known, and after
                await producer.send(kafka_topic, b"x", headers=(("h", b"v") for _ in range(2)), partition=0)

    run(work())
    for record in stored_records(kafka_cluster, kafka_topic)[0]:
        assert [(name, bytes(content or b"")) for name, content in record.headers] == [("h", b"v")] * 2


def test_cancelling_who_awaits_a_delivery_stops_the_waiting_only(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                delivery = await producer.send(kafka_topic, b"x", partition=0)

                async def wait() -> None:
                    await delivery

                task = asyncio.create_task(wait())
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(delivery, 0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert not delivery.done()
            assert (await delivery).offset == 0

    run(work())


def test_a_failed_record_raises_where_it_is_awaited(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=50) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD):
                for _ in range(3):
                    await producer.send(kafka_topic, b"x", partition=0)
                looked_at = await producer.send(kafka_topic, b"x", partition=0)
                for _ in range(2):
                    with pytest.raises(ottla.DeliveryFailed, match="INVALID_RECORD"):
                        await looked_at
                with pytest.raises(ottla.DeliveryError, match="3 records were not delivered") as caught:
                    await producer.flush()
                assert (caught.value.failed, caught.value.unknown) == (3, 0)
            await producer.flush()

    run(work())


def test_callbacks_run_in_the_event_loop_and_harm_nobody(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[int, bool]] = []

    async def work() -> None:
        here = threading.get_ident()

        def remember(delivery: ottla.Delivery) -> None:
            assert asyncio.get_running_loop()
            told.append((delivery.result().offset, threading.get_ident() == here))
            raise RuntimeError("a careless callback")

        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            for _ in range(3):
                await producer.send(kafka_topic, b"x", partition=0, on_delivery=remember)
            await producer.flush()
            assert told == [(0, True), (1, True), (2, True)]

    run(work())
    assert caplog.text.count("a careless callback") >= 3


@pytest.mark.parametrize("end", ["flush", "close"])
def test_callbacks_have_run_though_all_was_settled_before_anybody_waited(
    kafka_cluster: ottla.Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def work() -> None:
        told: list[ottla.Delivery] = []
        producer = AsyncProducer(kafka_cluster.bootstrap_servers)
        driver = producer._driver
        ask = driver.ask_for_flush

        def ask_and_hold_the_event_loop() -> int:
            flush_number = ask()
            wait_until(lambda: driver.has_ended if end == "close" else driver.is_flushed(flush_number))
            return flush_number

        monkeypatch.setattr(driver, "ask_for_flush", ask_and_hold_the_event_loop)
        await producer.partitions_for(kafka_topic)
        delivery = await producer.send(kafka_topic, b"x", on_delivery=told.append)
        await getattr(producer, end)()
        assert told == [delivery]
        await producer.close()

    run(work())


def test_a_callback_may_send(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        again: list[asyncio.Future[ottla.Delivery]] = []
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:

            def send_on(_: ottla.Delivery) -> None:
                again.append(asyncio.ensure_future(producer.send(kafka_topic, b"second", partition=0)))

            await (await producer.send(kafka_topic, b"first", partition=0, on_delivery=send_on))
            while not again:
                await asyncio.sleep(0)
            assert (await (await again[0])).offset == 1

    run(work())


def test_the_event_loop_is_woken_for_many_deliveries_at_once(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        event_loop = asyncio.get_running_loop()
        wake_ups = 0
        ring = event_loop.call_soon_threadsafe

        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal wake_ups
            wake_ups += 1
            return ring(*arguments, **named)

        told: list[ottla.Delivery] = []
        async with AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=20) as producer:
            await producer.partitions_for(kafka_topic)
            event_loop.call_soon_threadsafe = counted  # type: ignore[assignment]
            deliveries = [await producer.send(kafka_topic, b"x" * 50, on_delivery=told.append) for _ in range(5000)]
            await asyncio.gather(*deliveries)
            await producer.flush()
            assert len(told) == 5000
            assert 0 < wake_ups < 500

    run(work())


def test_waiting_by_hand_is_refused_instead_of_blocking(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                delivery = await producer.send(kafka_topic, b"x", partition=0)
                for ask in (delivery.result, delivery.exception):
                    with pytest.raises(ottla.OttlaError, match="await the delivery instead"):
                        ask()
            assert await asyncio.to_thread(delivery.result, 30) == await delivery

    run(work())


@pytest.mark.parametrize(
    ("topic", "value", "sentence"),
    [
        ("flights", {"a": 1}, "A record's value is bytes, str or None, not dict"),
        (7, b"x", "A topic is a non-empty str"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_a_sentence(
    kafka_cluster: ottla.Cluster, topic: Any, value: Any, sentence: str
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            with pytest.raises(ottla.RecordError, match=sentence):
                await producer.send(topic, value)

    run(work())


def test_a_table_is_sent_and_told_row_by_row(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": [b"%d" % n for n in range(10_000)], "key": [f"N{n % 97}" for n in range(10_000)]})

    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=60_000) as producer:
            delivery = await producer.send_table(kafka_topic, table, key="key", value="value")
            assert len(delivery) == 10_000
            told = await delivery
            assert told["error"].null_count == 10_000
            found = stored_records(kafka_cluster, kafka_topic)
            for row, (partition, offset) in enumerate(zip(*told.select([0, 1]).to_pydict().values(), strict=True)):
                assert bytes(found[partition][offset].value or b"") == b"%d" % row
            with pytest.raises(ottla.RecordError, match="no column 'valeu'"):
                await producer.send_table(kafka_topic, table, value="valeu")

    run(work())


def test_a_cancelled_table_stops_and_what_was_queued_arrives(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    read = 0
    is_halfway, go_on = threading.Event(), threading.Event()

    def pieces() -> Any:
        nonlocal read
        while read < 100:
            if read == 3:
                is_halfway.set()
                go_on.wait(30)
            read += 1
            yield pa.record_batch({"value": [b"x"] * 10})

    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            task = asyncio.create_task(producer.send_table(kafka_topic, pieces(), value="value"))
            await asyncio.to_thread(is_halfway.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            await producer.flush()

    run(work())
    assert read == 4
    assert stored_count(kafka_cluster, kafka_topic) == 30


def test_once_a_table_is_cancelled_nothing_more_is_queued(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    pieces = [pa.record_batch({"value": [b"x" * 15_000], "partition": [0]}) for _ in range(4)]

    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers, buffer_memory=20_000) as producer:
            await producer.partitions_for(kafka_topic)
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                task = asyncio.create_task(
                    producer.send_table(kafka_topic, iter(pieces), value="value", partition="partition")
                )
                while not producer._driver.appender.memory_waiters:
                    await asyncio.sleep(0)
                task.cancel()
                # Now it knows. It ends once the piece that waits for memory is queued.
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            appended = producer._driver.appender.records_appended
            await producer.flush()
            assert appended == producer._driver.appender.records_appended == 2

    run(work())
    assert stored_count(kafka_cluster, kafka_topic) == 2
