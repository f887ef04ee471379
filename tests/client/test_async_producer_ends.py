"""How a producer of coroutines ends: by close, or with its block, its event loop, its I/O thread or its process."""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys

import pytest
from tests.client.in_time import run, wait_until
from tests.read_back import stored_count

import ottla
from ottla.client.async_producer import AsyncProducer
from ottla.protocol.error_codes import ErrorCode


def test_close_delivers_everything_and_says_so_afterwards(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
        deliveries = [await producer.send(kafka_topic, b"x") for _ in range(100)]
        await producer.close()
        assert all(delivery.done() for delivery in deliveries)
        await producer.close()
        await producer.flush()
        with pytest.raises(ottla.ClosedError, match="make a new one"):
            await producer.send(kafka_topic, b"x")
        with pytest.raises(ottla.ClosedError):
            await producer.partitions_for(kafka_topic)

    run(work())
    assert stored_count(kafka_cluster, kafka_topic) == 100


def test_a_cancelled_close_goes_on(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers)
        await producer.partitions_for(kafka_topic)
        with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
            delivery = await producer.send(kafka_topic, b"x", partition=0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.close(), 0.01)
            assert not delivery.done()
        await producer.close()
        assert (await delivery).offset == 0

    run(work())


def test_who_closes_makes_up_for_a_landing_that_ctrl_c_kept_from_running(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers)
        await producer.partitions_for(kafka_topic)
        # As after a KeyboardInterrupt when the event loop calls `land`: it counts as scheduled, but does not run.
        producer._waits._is_rung = True
        awaiting = asyncio.ensure_future(outcome(await producer.send(kafka_topic, b"x")))
        await producer.close()
        assert (await awaiting).offset == 0

    async def outcome(delivery: ottla.Delivery) -> ottla.RecordMetadata:
        return await delivery

    run(work())


def test_what_is_no_time_to_wait_is_refused_before_anything_is_done(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers)
        for timeout in (math.nan, -1, "5", True):
            for wait in (producer.close, producer.flush, producer.client_instance_id):
                with pytest.raises(ValueError, match="is no time to wait; give seconds from 0 on"):
                    await wait(timeout)
        for forever in (math.inf, 10**400):
            delivery = await producer.send(kafka_topic, b"x")
            await producer.flush(forever)
            assert delivery.done()
        await producer.close(math.inf)

    run(work())


def test_timeouts_of_flush_and_close_are_kept(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers)
        await producer.partitions_for(kafka_topic)
        with kafka_cluster.faults.drop_ack(topic=kafka_topic) as fault:
            delivery = await producer.send(kafka_topic, b"x")
            wait_until(lambda: fault.fired > 0)
            with pytest.raises(TimeoutError, match="flush again"):
                await producer.flush(0.01)
            with pytest.raises(ottla.DeliveryError, match="1 record is unknown"):
                await producer.close(0.3)
            with pytest.raises(ottla.DeliveryUnknown):
                await delivery

    run(work())


def test_the_error_that_ends_the_block_is_the_one_raised(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send(kafka_topic, b"x")
            raise LookupError("mine")

    with (
        caplog.at_level(logging.ERROR, "ottla.producer"),
        kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD),
        pytest.raises(LookupError, match="mine"),
    ):
        run(work())
    assert "1 record was not delivered" in caplog.text


def test_a_second_event_loop_is_refused_with_a_sentence(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def first(producer: AsyncProducer) -> None:
        await (await producer.send(kafka_topic, b"x"))

    async def second(producer: AsyncProducer) -> None:
        with pytest.raises(ottla.OttlaError, match="in another event loop than before"):
            await producer.flush()
        # Its topic is known and there is room: sending asks for nothing, but nobody would ever hear of the delivery.
        with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
            delivery = await producer.send(kafka_topic, b"y", partition=0)
            told = r"in another event loop than before.* is sent all the same: delivery\.result\(\) in a thread"
            with pytest.raises(ottla.OttlaError, match=told):
                await asyncio.wait_for(delivery, 60)
        assert (await asyncio.to_thread(delivery.result, 60)).offset >= 0

    # Dropped without close: its thread ends by itself.
    producer = AsyncProducer(kafka_cluster.bootstrap_servers)
    run(first(producer))
    run(second(producer))


def test_an_exception_in_the_io_thread_lets_everybody_go(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        producer = AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=10_000)
        await producer.partitions_for(kafka_topic)
        delivery = await producer.send(kafka_topic, b"x")
        waiting = asyncio.gather(delivery, producer.flush(), return_exceptions=True)
        await asyncio.sleep(0)
        producer._driver.loop.post("no event that anybody knows")
        lost, flushed = await waiting
        assert isinstance(lost, ottla.DeliveryFailed | ottla.DeliveryUnknown)
        assert isinstance(flushed, ottla.DeliveryError | None)
        with pytest.raises(ottla.OttlaError, match="make a new one"):
            await producer.send(kafka_topic, b"x")

    run(work())


CODE = """
import asyncio, sys
import ottla

async def main():
    producer = ottla.AsyncProducer({address!r})
    await producer.send({topic!r}, b"sent, and neither awaited nor closed", partition=0)

asyncio.run(main())
assert "pyarrow" not in sys.modules and "numpy" not in sys.modules
"""


def test_what_was_sent_arrives_though_nobody_closes(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    code = CODE.format(address=kafka_cluster.bootstrap_servers, topic=kafka_topic)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 1
