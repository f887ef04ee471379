"""In an event loop: a registry that is silent holds up the records of its topic, and nothing else."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.client.interceptors import BatchSeen
from ottla.registry.client import RegistryClient
from ottla.registry.registered import RegisteredSchema

NUMBER = json.dumps({"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]})
OTHER = json.dumps({"type": "record", "name": "N", "fields": [{"name": "other", "type": "string"}]})


class Held(RegistryClient):
    """Registers nothing before it is let go."""

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self.subjects_asked: list[str] = []
        self.let_go = threading.Event()

    def register(self, subject: str, *more: Any, **settings: Any) -> RegisteredSchema:
        self.subjects_asked.append(subject)
        assert self.let_go.wait(60), "the event loop did not go on"
        return super().register(subject, *more, **settings)


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


async def asked(held: Held) -> None:
    """Let other tasks run until the registry has been asked."""
    async with asyncio.timeout(60):
        while not held.subjects_asked:
            await asyncio.sleep(0)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def read(cluster: ottla.Cluster, topic: str, url: str) -> list[tuple[Any, Any]]:
    deserializer = ottla.AvroDeserializer(url)
    with ottla.Reader(
        cluster.bootstrap_servers, topic, key_deserializer=deserializer, value_deserializer=deserializer
    ) as reader:
        return [(record.key, record.value) for record in reader.records()]


@pytest.fixture
def topic(kafka_cluster: ottla.Cluster, kafka_name: str) -> str:
    kafka_cluster.create_topic(kafka_name, partitions=1)
    return kafka_name


@pytest.mark.parametrize("place", ["prefix", "header"])
def test_the_event_loop_goes_on_while_a_registry_is_asked(
    place: str, kafka_cluster: ottla.Cluster, topic: str, url: str
) -> None:
    async def main() -> None:
        held = Held(url)
        serializer = ottla.AvroSerializer(held, NUMBER, schema_id_in=place)
        async with ottla.AsyncProducer(
            kafka_cluster.bootstrap_servers, key_serializer=serializer, value_serializer=serializer
        ) as producer:
            # Sends that wait for a topic's partitions have no order among each other.
            await producer.partitions_for(topic)
            sending = [
                asyncio.create_task(producer.send(topic, {"n": number}, {"n": -number}, headers=iter([("h", b"1")])))
                for number in range(20)
            ]
            await asked(held)
            assert not any(task.done() for task in sending)
            held.let_go.set()
            await asyncio.gather(*sending)
            # From now on nobody is asked, and nothing waits.
            for number in range(20, 30):
                await producer.send(topic, {"n": number}, {"n": -number})
        assert sorted(held.subjects_asked) == [f"{topic}-key", f"{topic}-value"]

    asyncio.run(main())
    assert read(kafka_cluster, topic, url) == [({"n": -number}, {"n": number}) for number in range(30)]


def test_records_that_wait_are_as_they_were_and_before_those_that_come_later(
    kafka_cluster: ottla.Cluster, topic: str, url: str
) -> None:
    async def main() -> None:
        held = Held(url)
        serializer = ottla.AvroSerializer(held, NUMBER)
        async with ottla.AsyncProducer(
            kafka_cluster.bootstrap_servers, key_serializer=serializer, value_serializer=serializer
        ) as producer:
            await producer.partitions_for(topic)
            row, header, sending = {"n": 0}, bytearray(b"0"), []
            for number in range(3):
                row["n"], header[:] = number, b"%d" % number
                # The second one has to ask for its key, too.
                key = {"n": 7} if number == 1 else None
                sending.append(asyncio.create_task(producer.send(topic, row, key, headers=[("h", header)])))
                await asyncio.sleep(0)
            await asked(held)
            sent_ms = wall_ms()
            while wall_ms() == sent_ms:
                await asyncio.sleep(0)
            held.let_go.set()
            # From the moment on in which the registry answers, others may come.
            while not sending[0].done():
                sending.append(asyncio.create_task(producer.send(topic, {"n": len(sending)})))
                await asyncio.sleep(0)
            await asyncio.gather(*sending)
        with ottla.Reader(kafka_cluster.bootstrap_servers, topic) as reader:
            records = list(reader.records())
        assert [record.headers for record in records[:3]] == [(("h", b"%d" % number),) for number in range(3)]
        assert all(record.timestamp_ms <= sent_ms for record in records[:3])

    asyncio.run(main())
    found = [value["n"] for _, value in read(kafka_cluster, topic, url)]
    assert found == list(range(len(found)))


def test_who_waits_is_let_go_whatever_asking_ends_with(kafka_cluster: ottla.Cluster, topic: str, url: str) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError

    raised: list[BaseException] = [SystemExit(1), Unprintable()]

    def strategy(topic: str, part: str, name: str | None) -> str:
        if raised:
            raise raised.pop(0)
        return topic

    async def main() -> None:
        serializer = ottla.AvroSerializer(url, NUMBER, subject_name_strategy=strategy)
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            with pytest.raises(ottla.OttlaError, match="ended with SystemExit"):
                await producer.send(topic, {"n": 1})
            with pytest.raises(ottla.RecordError, match="Unprintable: an error that cannot be printed"):
                await producer.send(topic, {"n": 1})
            await producer.send(topic, {"n": 2})

    asyncio.run(main())
    assert read(kafka_cluster, topic, url) == [(None, {"n": 2})]


def test_a_record_that_is_cancelled_meanwhile_is_not_sent(kafka_cluster: ottla.Cluster, topic: str, url: str) -> None:
    async def main() -> None:
        held = Held(url)
        serializer = ottla.AvroSerializer(held, NUMBER)
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            first, second = (asyncio.create_task(producer.send(topic, {"n": number})) for number in range(2))
            await asked(held)
            first.cancel()
            await asyncio.wait([first])
            held.let_go.set()
            await second
            assert first.cancelled()
        assert len(held.subjects_asked) == 1

    asyncio.run(main())
    assert read(kafka_cluster, topic, url) == [(None, {"n": 1})]


def test_what_the_registry_refuses_is_told_to_all_who_wait_and_asked_anew(
    kafka_cluster: ottla.Cluster, topic: str, url: str
) -> None:
    class Seen:
        def __init__(self) -> None:
            self.outcomes: list[str] = []

        def on_ack(self, batch: BatchSeen) -> None:
            self.outcomes.append(batch.outcome)

    seen = Seen()
    with ottla.RegistryClient(url) as client:
        client.register(f"{topic}-value", OTHER)

    async def main() -> None:
        held = Held(url)
        serializer = ottla.AvroSerializer(held, NUMBER)
        async with ottla.AsyncProducer(
            kafka_cluster.bootstrap_servers, value_serializer=serializer, interceptor_classes=[seen]
        ) as producer:
            sending = [asyncio.create_task(producer.send(topic, {"n": number})) for number in range(2)]
            await asked(held)
            held.let_go.set()
            errors = await asyncio.gather(*sending, return_exceptions=True)
            assert [type(error) for error in errors] == [ottla.RegistryError] * 2
            assert errors[0] is not errors[1]
            assert seen.outcomes == ["failed"] * 2
            held.set_compatibility("NONE", f"{topic}-value")
            # A tombstone needs no schema.
            await producer.send(topic, None)
            await producer.send(topic, {"n": 7})
        assert len(held.subjects_asked) == 2

    asyncio.run(main())
    assert read(kafka_cluster, topic, url) == [(None, None), (None, {"n": 7})]


def test_a_schema_that_cannot_be_used_is_told_with_the_serializer(
    kafka_cluster: ottla.Cluster, topic: str, url: str
) -> None:
    def strategy(topic: str, part: str, name: str | None) -> str:
        raise ValueError("no subject for this")

    async def main() -> None:
        serializer = ottla.AvroSerializer(url, NUMBER, subject_name_strategy=strategy)
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            with pytest.raises(ottla.RecordError, match=r"value\.serializer AvroSerializer cannot take a dict.*no sub"):
                await producer.send(topic, {"n": 1})
            with pytest.raises(ottla.RecordError):
                await producer.send([topic], {"n": 1})  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_thread_without_an_event_loop_waits_itself(kafka_cluster: ottla.Cluster, topic: str, url: str) -> None:
    async def main() -> None:
        held = Held(url)
        serializer = ottla.AvroSerializer(held, NUMBER)
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.partitions_for(topic)
            sending = asyncio.create_task(asyncio.to_thread(producer.send, topic, {"n": 1}))
            await asked(held)
            held.let_go.set()
            await (await (await sending))

    asyncio.run(main())
    assert read(kafka_cluster, topic, url) == [(None, {"n": 1})]


def test_the_event_loop_goes_on_while_a_table_waits_for_a_registry(
    kafka_cluster: ottla.Cluster, topic: str, url: str
) -> None:
    async def main() -> None:
        held = Held(url)
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            table = pa.table({"n": [1, 2]})
            sending = asyncio.create_task(producer.send_table(topic, table, value_format="avro", registry=held))
            await asked(held)
            assert not sending.done()
            held.let_go.set()
            assert len(await (await sending)) == 2

    asyncio.run(main())
