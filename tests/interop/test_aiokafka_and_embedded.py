"""aiokafka, a client of its own from the socket up, against the embedded cluster: producer, consumer, group, admin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

import ottla
from ottla.cluster.cluster import Cluster

_PARTITIONS = 3
_PATIENCE_S = 60
Places = dict[tuple[int, int], Any]


async def written(cluster: Cluster, topic: str, given: list[Any], **settings: Any) -> Places:
    """Where aiokafka says its rows went, by (partition, offset)."""
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5, **settings) as producer:
        sending = [
            await producer.send(topic, value, key, timestamp_ms=timestamp, headers=list(headers))
            for key, value, headers, timestamp in given
        ]
        stored = await asyncio.wait_for(asyncio.gather(*sending), _PATIENCE_S)
    return {(each.partition, each.offset): row for each, row in zip(stored, given, strict=True)}


async def read(cluster: Cluster, topic: str, count: int) -> Places:
    """The next `count` records, by (partition, offset)."""
    found: Places = {}
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False) as consumer:
        places = [TopicPartition(topic, number) for number in range(_PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        while len(found) < count:
            message = await asyncio.wait_for(consumer.getone(), _PATIENCE_S)
            row = (message.key, message.value, message.headers, message.timestamp)
            found[message.partition, message.offset] = row
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_ottla_reads_what_aiokafka_wrote(cluster: Cluster, topic: str, codec: str | None, exchange: Any) -> None:
    given = exchange.plain_rows(1000)
    places = asyncio.run(written(cluster, topic, given, compression_type=codec, acks="all"))
    assert len(places) == len(given) > 900
    assert exchange.ottla_reads(cluster.bootstrap_servers, topic) == places


def test_an_idempotent_producer_of_aiokafka_is_acked(cluster: Cluster, topic: str, exchange: Any) -> None:
    given = exchange.plain_rows(500)
    places = asyncio.run(written(cluster, topic, given, enable_idempotence=True))
    assert exchange.ottla_reads(cluster.bootstrap_servers, topic) == places


def test_aiokafka_reads_what_ottla_wrote(cluster: Cluster, topic: str, exchange: Any) -> None:
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        for key, value, headers, timestamp in exchange.rows(1000):
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp)
    found = asyncio.run(read(cluster, topic, 1000))
    assert found == exchange.ottla_reads(cluster.bootstrap_servers, topic)


def test_two_members_of_an_aiokafka_group_read_everything_once_and_its_offsets_are_kept(
    cluster: Cluster, topic: str
) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % _PARTITIONS)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=60_000,
        )

    async def reading() -> tuple[list[bytes], list[int | None]]:
        values: list[bytes] = []
        async with member() as one, member() as other:
            async with asyncio.timeout(_PATIENCE_S):
                while {len(one.assignment()), len(other.assignment())} != {1, 2}:
                    await asyncio.sleep(0.01)
                await asyncio.gather(one.seek_to_beginning(), other.seek_to_beginning())
                while len(values) < 300:
                    for consumer in (one, other):
                        for messages in (await consumer.getmany(timeout_ms=50)).values():
                            values += [message.value for message in messages]
                await asyncio.gather(one.commit(), other.commit())
        async with member() as after:
            return values, [await after.committed(TopicPartition(topic, number)) for number in range(_PARTITIONS)]

    values, committed = asyncio.run(reading())
    assert sorted(map(int, values)) == list(range(300))
    assert committed == [100] * _PARTITIONS


def test_aiokafkas_admin_makes_lists_and_deletes_topics(cluster: Cluster, kafka_name: str) -> None:
    async def working() -> tuple[set[str], set[str]]:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        try:
            new = NewTopic(kafka_name, 2, 3)
            made = await admin.create_topics([new])
            assert [code for _, code, _ in made.topic_errors] == [0]
            again = await admin.create_topics([new])
            assert [for_code(code) for _, code, _ in again.topic_errors] == [TopicAlreadyExistsError]
            listed = set(await admin.list_topics())
            await admin.delete_topics([kafka_name])
            return listed, set(await admin.list_topics())
        finally:
            await admin.close()

    with_it, without_it = asyncio.run(working())
    assert kafka_name in with_it
    assert kafka_name not in without_it
