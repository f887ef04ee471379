"""The versions in which other people's clients ask: the embedded cluster is asked what Apache Kafka is asked.

Each client produces and fetches, in a group where it knows groups, through a proxy that notes API keys and versions. A
new release of a client that asks for more shows here.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer
from tools.apache_kafka import Java

from ottla.broker.apis import VERSIONS
from ottla.protocol.messages import API_VERSIONS, FETCH, METADATA, PRODUCE

from ..kafka_python_member import member
from .lossy_proxy import Asked
from .sides import Side

_PATIENCE_S = 60
_RECORDS = 10

Use = Callable[[pytest.FixtureRequest, str, str, str], None]


def by_librdkafka(_: pytest.FixtureRequest, address: str, topic: str, client_id: str) -> None:
    config = {"bootstrap.servers": address, "client.id": client_id, "log_level": 0}
    producer = Producer(config)
    for number in range(_RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(_PATIENCE_S) == 0
    consumer = Consumer({**config, "group.id": f"{topic}-{client_id}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(_RECORDS, _PATIENCE_S)) == _RECORDS
    consumer.close()


def by_kafka_python(_: pytest.FixtureRequest, address: str, topic: str, client_id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address, client_id=client_id, acks="all")
    for number in range(_RECORDS):
        producer.send(topic, b"%d" % number)
    producer.close(_PATIENCE_S)
    consumer = member(
        topic,
        bootstrap_servers=address,
        client_id=client_id,
        group_id=f"{topic}-{client_id}",
        consumer_timeout_ms=_PATIENCE_S * 1000,
    )
    assert len(list(itertools.islice(consumer, _RECORDS))) == _RECORDS
    consumer.close()


def by_aiokafka(_: pytest.FixtureRequest, address: str, topic: str, client_id: str) -> None:
    async def use() -> None:
        async with AIOKafkaProducer(bootstrap_servers=address, client_id=client_id, acks="all") as producer:
            for number in range(_RECORDS):
                await producer.send_and_wait(topic, b"%d" % number)
        group = {"group_id": f"{topic}-{client_id}", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, bootstrap_servers=address, client_id=client_id, **group) as consumer:
            for _ in range(_RECORDS):
                await asyncio.wait_for(consumer.getone(), _PATIENCE_S)

    asyncio.run(use())


def by_java(request: pytest.FixtureRequest, address: str, topic: str, client_id: str) -> None:
    java: Java = request.getfixturevalue("java")
    config = request.getfixturevalue("tmp_path") / "client.properties"
    config.write_text(f"client.id={client_id}\n")
    where = ["--bootstrap-server", address, "--topic", topic, "--command-config", str(config)]
    sending = ["--num-records", str(_RECORDS), "--producer-acks", "all", "--record-size", "100"]
    java.run("org.apache.kafka.tools.EndToEndLatency", *where, *sending)


class Client(NamedTuple):
    """How it is used, what it calls itself ("" where it does not), and the highest Produce and Fetch that it speaks."""

    use: Use
    software: str
    produce: int
    fetch: int


CLIENTS = {
    "librdkafka": Client(by_librdkafka, "confluent-kafka-python", 10, 16),
    "kafka-python": Client(by_kafka_python, "kafka-python", 9, 12),
    "aiokafka": Client(by_aiokafka, "", 7, 11),
    "java": Client(by_java, "apache-kafka-java", 13, 18),
}


@pytest.mark.kafka
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_asks_the_embedded_cluster_in_the_versions_it_asks_apache_kafka_in(
    name: str, embedded_side: Side, apache_side: Side, kafka_name: str, request: pytest.FixtureRequest
) -> None:
    client, client_id = CLIENTS[name], f"versions-{name}"
    asked: dict[str, set[Asked]] = {}
    for side in (embedded_side, apache_side):
        side.create_topic(kafka_name, 1, 3)
        client.use(request, side.noted_servers, kafka_name, client_id)
        asked[side.name] = set(side.proxy.asked[client_id])
    ours, theirs = by_api(asked["embedded"]), by_api(asked["apache"])
    for key, versions in ours.items():
        assert versions <= set(range(VERSIONS[key][0], VERSIONS[key][1] + 1)), key
    # Heartbeats may come to one of them only.
    both = ours.keys() & theirs.keys()
    assert {PRODUCE, FETCH, METADATA, API_VERSIONS} <= both
    assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}
    assert ours[PRODUCE] == {min(client.produce, VERSIONS[PRODUCE][1])}
    assert ours[FETCH] == {min(client.fetch, VERSIONS[FETCH][1])}
    assert {each.software for each in asked["embedded"]} == {client.software}


def by_api(asked: set[Asked]) -> dict[int, set[int]]:
    """The versions of each API."""
    found: dict[int, set[int]] = {}
    for each in asked:
        found.setdefault(each.api_key, set()).add(each.version)
    return found
