"""Coroutines that are cancelled at random while they send through a small buffer and lost acknowledgements.

What `send` returned for is stored once, what was cancelled before is not stored, and each sender's records keep their
order.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.drawn import commit_seeds
from tests.read_back import stored

import ottla
from ottla.client.async_producer import AsyncProducer

pytestmark = pytest.mark.prove

SENDERS = 20
EACH = 150


async def storm(producer: AsyncProducer, topic: str, rng: Random) -> tuple[list[str], list[str], int]:
    """(what send returned for, what it was cancelled for, how many callbacks were called)."""
    sent: list[str] = []
    cancelled: list[str] = []
    called: list[ottla.Delivery] = []

    async def one(value: str, key: str) -> ottla.Delivery:
        try:
            delivery = await producer.send(topic, value, key, on_delivery=called.append)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise
        sent.append(value)
        return delivery

    async def sender(number: int) -> None:
        deliveries: list[ottla.Delivery] = []
        for part in range(EACH):
            value = f"{number}-{part}-" + "x" * rng.randrange(400)
            if rng.random() < 0.2:
                task = asyncio.create_task(one(value, str(number)))
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                if not task.cancelled():
                    deliveries.append(task.result())
            else:
                deliveries.append(await one(value, str(number)))
            if rng.random() < 0.02:
                waiting = asyncio.gather(*deliveries, return_exceptions=True)
                await asyncio.sleep(0)
                waiting.cancel()
            if rng.random() < 0.02:
                await producer.flush()
        await asyncio.gather(*deliveries)

    await asyncio.gather(*[sender(number) for number in range(SENDERS)])
    await producer.flush()
    return sent, cancelled, len(called)


@pytest.mark.parametrize("seed", commit_seeds(3))
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_send_returned_for_is_stored_once_and_nothing_else(
    kafka_cluster: ottla.Cluster, kafka_topic: str, seed: int, codec: str
) -> None:
    async def work() -> tuple[list[str], list[str], int]:
        config = {
            "bootstrap.servers": kafka_cluster.bootstrap_servers,
            "buffer.memory": 30_000,
            "batch.size": 2_000,
            "linger.ms": 1,
            "request.timeout.ms": 500,
            "compression.type": codec,
        }
        async with asyncio.timeout(120), AsyncProducer.from_config(config) as producer:
            return await storm(producer, kafka_topic, Random(seed))

    with kafka_cluster.faults.lose_ack(topic=kafka_topic, every=17):
        sent, cancelled, called = asyncio.run(work())
    there = [value.decode() for value in stored(kafka_cluster, kafka_topic)]
    assert sorted(there) == sorted(sent)
    assert called == len(sent)
    assert cancelled
    for number in range(SENDERS):
        parts = [int(value.split("-")[1]) for value in there if value.startswith(f"{number}-")]
        assert parts == sorted(parts)
