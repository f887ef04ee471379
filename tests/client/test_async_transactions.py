"""Transactions from coroutines: what a reader of committed records sees, also when somebody is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from tests.client.in_time import run

import ottla
from ottla.client.async_producer import AsyncProducer
from ottla.protocol.error_codes import ErrorCode

from ..markers import await_markers

pytestmark = pytest.mark.usefixtures("unhurried")


def producer_of(cluster: ottla.Cluster, name: str, **settings: Any) -> AsyncProducer:
    given = {"transactional_id": name, "linger_ms": 0, "retry_backoff_ms": 10, **settings}
    return AsyncProducer.from_config({"bootstrap_servers": cluster.bootstrap_servers, **given})


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


def test_commits_are_seen_and_aborts_are_not(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:
            await producer.init_transactions()
            for number in range(4):
                await producer.begin_transaction()
                delivery = await producer.send(kafka_topic, b"%d" % number)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    assert delivery.done()

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"0", b"2"]


def test_a_block_is_committed_or_where_it_raises_aborted(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": [b"row %d" % number for number in range(5)]})

    async def give_up(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send(kafka_topic, b"given up")
            raise ZeroDivisionError

    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:
            async with producer.transaction() as inside:
                assert inside is producer
                await producer.send(kafka_topic, b"kept")
                await producer.send_table(kafka_topic, table, value="value")
                await producer.send_offsets_to_transaction({(kafka_topic, 0): 7}, "readers")
            with pytest.raises(ZeroDivisionError):
                await give_up(producer)
            with pytest.raises(ottla.TransactionMisuse):
                await producer.send(kafka_topic, b"outside")

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"kept", *(b"row %d" % number for number in range(5))]


def test_a_cancelled_block_is_aborted(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:

            async def in_a_transaction(value: bytes, pause: asyncio.Event | None) -> None:
                async with producer.transaction():
                    await (await producer.send(kafka_topic, value))
                    if pause is not None:
                        pause.set()
                        await asyncio.Event().wait()

            pause = asyncio.Event()
            task = asyncio.create_task(in_a_transaction(b"cancelled", pause))
            await pause.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await in_a_transaction(b"kept", None)

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_a_cancelled_commit_goes_on_and_can_be_heard_again(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:
            await producer.begin_transaction()
            await (await producer.send(kafka_topic, b"kept"))
            with kafka_cluster.faults.unplug(kafka_cluster.coordinator(transactional_id=kafka_topic)):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(producer.commit_transaction(), 0.02)
                with pytest.raises(ottla.TransactionMisuse, match=r"call commit_transaction\(\) again first"):
                    await producer.abort_transaction()
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(kafka_topic, b"next")

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"kept", b"next"]


def test_whoever_is_cancelled_while_beginning_leaves_nothing_open(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:
            await producer.init_transactions()

            async def begin() -> None:
                async with producer.transaction():
                    await producer.send(kafka_topic, b"never")

            task = asyncio.create_task(begin())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(kafka_topic, b"kept")

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_a_transaction_with_a_failed_record_is_aborted(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with producer_of(kafka_cluster, kafka_topic) as producer:
            with (
                kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD, times=1),
                pytest.raises(ottla.TransactionError),
            ):
                async with producer.transaction():
                    await producer.send(kafka_topic, b"refused")
            async with producer.transaction():
                await producer.send(kafka_topic, b"kept")

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"kept"]


def test_a_newer_producer_fences_the_older_one(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        older = producer_of(kafka_cluster, kafka_topic)
        await older.begin_transaction()
        await (await older.send(kafka_topic, b"older"))
        async with producer_of(kafka_cluster, kafka_topic) as newer:
            async with newer.transaction():
                await newer.send(kafka_topic, b"newer")
            with pytest.raises(ottla.OttlaError) as caught:
                await older.commit_transaction()
            assert caught.value.fatal
        await older.close(5)

    run(work())
    assert committed(kafka_cluster, kafka_topic) == [b"newer"]


def test_verbs_need_a_transactional_id(kafka_cluster: ottla.Cluster) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            with pytest.raises(ottla.TransactionMisuse, match="needs a producer with transactional_id"):
                await producer.begin_transaction()

    run(work())
