"""`AsyncProducer` promises what `Producer` does."""

from __future__ import annotations

import asyncio
from typing import Any

import ottla

from ..papers import Papers
from .sides import Side
from .ways_in import settings_for

_RECORDS = 3000


def test_every_awaited_delivery_says_where_its_record_is(side: Side, topic: str, reading: Any) -> None:
    async def send_all() -> list[Any]:
        async with ottla.AsyncProducer(side.bootstrap_servers) as producer:
            sent = [
                await producer.send(topic, b"%d" % n, b"key-%d" % (n % 20), headers=[("n", b"%d" % n)])
                for n in range(1000)
            ]
            return [await delivery for delivery in sent]

    told = {(place.partition, place.offset): n for n, place in enumerate(asyncio.run(send_all()))}
    stored = {(one.partition, one.offset): one for one in reading.records(side, topic)}
    assert {place: (b"%d" % n, (("n", b"%d" % n),)) for place, n in told.items()} == {
        place: (one.value, one.headers) for place, one in stored.items()
    }


def test_coroutines_under_lost_acks_store_one_copy_in_order(side: Side, topic: str, reading: Any) -> None:
    async def send_part(producer: Any, partition: int) -> list[Any]:
        numbers = range(partition, _RECORDS, 3)
        return [await producer.send(topic, b"%d" % number, partition=partition) for number in numbers]

    async def send_all() -> int:
        settings = {"batch_size": 400, "linger_ms": 1, "retry_backoff_ms": 10}
        async with ottla.AsyncProducer(side.lossy_servers, **settings) as producer:
            with side.losing_acks(topic, every=7, times=5) as losses:
                sent = await asyncio.gather(*(send_part(producer, partition) for partition in range(3)))
                for delivery in [delivery for part in sent for delivery in part]:
                    await delivery
                return int(losses.fired)

    assert asyncio.run(send_all()) > 0
    expected = {partition: [b"%d" % number for number in range(partition, _RECORDS, 3)] for partition in range(3)}
    assert reading.values(side, topic) == expected


def test_coroutines_under_a_killed_leader_store_one_copy_in_order(
    side: Side, papers: Papers, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 3, 3, min_insync_replicas="2")
    victim = side.leader(kafka_name, 0)

    async def send_all() -> list[Any]:
        settings = settings_for(papers, "SASL_SSL", "SCRAM-SHA-512") | {"batch_size": 400, "linger_ms": 1}
        async with ottla.AsyncProducer(side.bootstrap_servers_of("SASL_SSL"), **settings) as producer:
            sent = []
            for number in range(_RECORDS):
                if number == 1000:
                    killing = asyncio.create_task(asyncio.to_thread(side.kill, victim))
                sent.append(await producer.send(kafka_name, b"%d" % number, partition=number % 3))
            await killing
            return [await delivery for delivery in sent]

    told = asyncio.run(send_all())
    side.start(victim)
    side.await_in_sync(kafka_name, 3)
    assert [(place.partition, place.offset) for place in told] == [(n % 3, n // 3) for n in range(_RECORDS)]
    expected = {partition: [b"%d" % number for number in range(partition, _RECORDS, 3)] for partition in range(3)}
    assert reading.values(side, kafka_name) == expected


def test_a_full_buffer_lets_other_coroutines_run_and_everything_arrives(side: Side, topic: str, reading: Any) -> None:
    async def count_turns(turns: list[None]) -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(None)

    async def send_all() -> int:
        turns: list[None] = []
        counting = asyncio.create_task(count_turns(turns))
        async with ottla.AsyncProducer(side.bootstrap_servers, buffer_memory=100_000, batch_size=4000) as producer:
            for number in range(10_000):
                await producer.send(topic, b"%0100d" % number, partition=number % 3)
            turns_while_sending = len(turns)
        counting.cancel()
        return turns_while_sending

    # A megabyte through a buffer of a tenth of it: it was full, and then others had their turns.
    assert asyncio.run(send_all()) > 10
    expected = {partition: [b"%0100d" % number for number in range(partition, 10_000, 3)] for partition in range(3)}
    assert reading.values(side, topic) == expected
