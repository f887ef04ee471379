"""An exception that ends `send_table` early has the outcome of each row: sent or not sent."""

from __future__ import annotations

import asyncio
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from tests.client.in_time import run, wait_until

import ottla
from ottla.client.producer import Producer
from ottla.client.tables import write_table
from ottla.protocol.error_codes import ErrorCode


def batches(count: int, rows: int = 100, partitions: int = 3) -> list[pa.RecordBatch]:
    return [
        pa.record_batch({"value": [b"%d" % (number * rows + row) for row in range(rows)],
                         "partition": [row % partitions for row in range(rows)]})
        for number in range(count)
    ]  # fmt: skip


def stored(cluster: ottla.Cluster, topic: str) -> set[tuple[int, int, bytes]]:
    return {
        (row["partition"], row["offset"], row["value"])
        for row in ottla.read_table(cluster.bootstrap_servers, topic).to_pylist()
    }


@contextmanager
def unplugged(cluster: ottla.Cluster) -> Iterator[None]:
    """No broker answers, so that nothing leaves the buffer."""
    with ExitStack() as stack:
        for broker_id in cluster.brokers():
            stack.enter_context(cluster.faults.unplug(broker_id))
        yield


def check(cluster: ottla.Cluster, topic: str, told: pa.Table) -> int:
    """Each row said to be stored is, under its number; each said not to be sent is not; how many are stored."""
    places = set()
    for number, row in enumerate(told.to_pylist()):
        if row["error"] is None:
            places.add((row["partition"], row["offset"], b"%d" % number))
        else:
            assert row["error"].startswith("failed: not sent")
            assert (row["partition"], row["offset"]) == (None, None)
    assert places == stored(cluster, topic)
    return len(places)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_source_that_raises_in_the_middle(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kind: type[BaseException]
) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from batches(3)
        raise kind("no more")

    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(kind) as caught:
            producer.send_table(kafka_topic, source(), value="value", partition="partition")
        delivery = caught.value.table  # type: ignore[attr-defined]
        assert len(delivery) == 300
        assert caught.value.__notes__ == [
            "300 rows of the table were taken before this exception and are being sent. flush() waits for them and "
            "reports those that fail. The attribute table of this exception is their TableDelivery."
        ]
        told = delivery.result(60)
        assert told.num_rows == 300
        assert check(kafka_cluster, kafka_topic, told) == 300
        assert delivery.failures().num_rows == 0


def test_ctrl_c_while_the_buffer_is_full(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """The rows of one chunk take turns by partition: what was not sent lies between what was."""
    [batch] = batches(1, rows=3000)
    with Producer(kafka_cluster.bootstrap_servers, batch_size=2000, buffer_memory=10_000) as producer:
        producer.partitions_for(kafka_topic)

        def press() -> None:
            wait_until(lambda: producer.metrics()["waiting-threads"] == 1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        finger = threading.Thread(target=press)
        with unplugged(kafka_cluster):
            finger.start()
            with pytest.raises(KeyboardInterrupt) as caught:
                producer.send_table(kafka_topic, batch, value="value", partition="partition")
        finger.join()
        delivery = caught.value.table  # type: ignore[attr-defined]
        told = delivery.result(60)
        producer.flush()
    assert told.num_rows == 3000
    assert 0 < len(delivery) < 3000
    assert check(kafka_cluster, kafka_topic, told) == len(delivery)
    failures = delivery.failures()
    assert failures["row"].to_pylist() == [row for row in range(3000) if told["error"][row].as_py() is not None]
    assert set(failures["error"].to_pylist()) == {"failed: not sent: send_table ended early (KeyboardInterrupt)"}


def test_a_buffer_that_stays_full(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    settings: Any = {"batch_size": 2000, "buffer_memory": 10_000, "max_block_ms": 1000}
    with Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
        producer.partitions_for(kafka_topic)
        with unplugged(kafka_cluster), pytest.raises(ottla.BufferFull) as caught:
            producer.send_table(kafka_topic, batches(1, rows=3000)[0], value="value", partition="partition")
        delivery = caught.value.table
        assert 0 < len(delivery) < 3000
        assert check(kafka_cluster, kafka_topic, delivery.result(60)) == len(delivery)


def test_a_row_that_cannot_be_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    bad = pa.record_batch({"value": [b"x"] * 10, "partition": [0] * 9 + [3]})
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError, match="row 109") as caught:
            producer.send_table(kafka_topic, iter([*batches(1), bad]), value="value", partition="partition")
        delivery = caught.value.table
        told = delivery.result(60)
        assert told["error"].to_pylist()[100:] == ["failed: not sent: send_table ended early (RecordError)"] * 10
        assert check(kafka_cluster, kafka_topic, told) == 100


def test_rows_that_were_sent_and_refused_stand_beside_those_not_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    bad = pa.record_batch({"value": [b"x"], "partition": [3]})
    source = iter([*batches(1, rows=3), bad])
    with (
        Producer(kafka_cluster.bootstrap_servers) as producer,
        kafka_cluster.faults.refuse(topic=kafka_topic, partition=1, error=ErrorCode.INVALID_RECORD),
    ):
        with pytest.raises(ottla.RecordError) as caught:
            producer.send_table(kafka_topic, source, value="value", partition="partition")
        failures = caught.value.table.failures(60).to_pylist()
    assert [(row["row"], row["partition"]) for row in failures] == [(1, 1), (3, None)]


def test_nothing_sent_is_told_too(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError) as caught:
            producer.send_table(kafka_topic, pa.table({"value": [b"x"], "partition": [9]}))
        assert len(caught.value.table) == 0
        assert caught.value.table.result(0)["error"].to_pylist() == [
            "failed: not sent: send_table ended early (RecordError)"
        ]
        assert not hasattr(caught.value, "__notes__")


def test_write_table_tells_it_too(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from batches(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        write_table(kafka_cluster.bootstrap_servers, kafka_topic, source(), value="value", partition="partition")
    # The producer is closed and everything settled.
    assert check(kafka_cluster, kafka_topic, caught.value.table.result(0)) == 200  # type: ignore[attr-defined]


def test_an_error_is_pickled_without_what_only_this_process_knows(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from batches(1)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as caught:
        write_table(kafka_cluster.bootstrap_servers, kafka_topic, source(), value="value", partition="partition")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.table) == ("no more", None)


def test_a_cancelled_table_tells_it_too(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    settings: Any = {"batch_size": 2000, "buffer_memory": 10_000}

    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, **settings) as producer:
            await producer.partitions_for(kafka_topic)
            [batch] = batches(1, rows=3000)
            with unplugged(kafka_cluster):
                task = asyncio.create_task(
                    producer.send_table(kafka_topic, batch, value="value", partition="partition")
                )
                while not producer.metrics()["waiting-threads"]:
                    await asyncio.sleep(0)
                task.cancel()
                # Now it knows. It ends once the batches that wait for memory are queued.
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            delivery = caught.value.table  # type: ignore[attr-defined]
            told = await delivery
            assert told.num_rows == 3000
            assert 0 < len(delivery) < 3000
            assert check(kafka_cluster, kafka_topic, told) == len(delivery)

    run(work())
