"""Serializers: what they make of keys and values, when they run, and what becomes of what they cannot take."""

from __future__ import annotations

import asyncio
import json
import struct
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import serialization
from tests.read_back import stored_in_time

import ottla

_SERVER = {"bootstrap.servers": "127.0.0.1:9"}
_JAVA = "org.apache.kafka.common.serialization."


def values(cluster: ottla.Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in stored_in_time(cluster, topic)]


def test_functions_make_the_bytes(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    with ottla.Producer(servers, key_serializer=str, value_serializer=json.dumps) as producer:
        producer.send(kafka_topic, {"a": [1, None]}, 17)
    [record] = stored_in_time(kafka_cluster, kafka_topic)
    assert (record.key, record.value) == (b"17", b'{"a": [1, null]}')


def test_the_key_is_placed_as_it_was_serialized(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, key_serializer=str) as producer:
        deliveries = [(producer.send(kafka_topic, b"", n), producer.send(kafka_topic, b"", n)) for n in range(20)]
        places = [(one.partition, other.partition) for one, other in deliveries]
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        plain = [producer.send(kafka_topic, b"", str(n)).partition for n in range(20)]
    assert places == [(p, p) for p in plain]


def test_objects_are_told_the_topic(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    class Framed:
        def serialize(self, topic: str, given: str) -> bytes:
            return f"{topic}/{given}".encode()

    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=Framed()) as producer:
        producer.send(kafka_topic, "x")
    assert values(kafka_cluster, kafka_topic) == [f"{kafka_topic}/x".encode()]


class WithOrigin:
    """Adds a header beside those of the record."""

    def serialize_with_headers(self, topic: str, given: Any, headers: list[tuple[str, bytes]]) -> bytes:
        headers.append(("origin", topic.encode()))
        return b"%d" % given


def test_objects_may_add_headers(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    given = [("own", b"1")]
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=WithOrigin()) as producer:
        producer.send(kafka_topic, 7, headers=given)
        producer.send(kafka_topic, 8)
        with pytest.raises(ottla.RecordError, match="Headers are a list of"):
            producer.send(kafka_topic, 9, headers={"own": b"1"})  # type: ignore[arg-type]
    first, second = sorted(stored_in_time(kafka_cluster, kafka_topic), key=lambda each: each.value)
    assert [(first.value, first.headers), (second.value, second.headers)] == [
        (b"7", (("own", b"1"), ("origin", kafka_topic.encode()))),
        (b"8", (("origin", kafka_topic.encode()),)),
    ]
    assert given == [("own", b"1")]


async def _send_one(cluster: ottla.Cluster, topic: str) -> None:
    async with ottla.AsyncProducer(cluster.bootstrap_servers, value_serializer=WithOrigin()) as producer:
        await (await producer.send(topic, 7))


def test_objects_may_add_headers_in_an_event_loop(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    asyncio.run(_send_one(kafka_cluster, kafka_topic))
    [record] = stored_in_time(kafka_cluster, kafka_topic)
    assert record.headers == (("origin", kafka_topic.encode()),)


def test_serializers_of_confluent_kafka_are_told_topic_field_and_headers(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    class Told(serialization.Serializer):
        def __call__(self, obj: Any, ctx: serialization.SerializationContext | None = None) -> bytes:
            assert ctx is not None
            assert isinstance(ctx.headers, list)
            ctx.headers.append((f"of-{ctx.field}", ctx.topic.encode()))
            return repr(obj).encode()

    with ottla.Producer(
        kafka_cluster.bootstrap_servers, key_serializer=serialization.IntegerSerializer(), value_serializer=Told()
    ) as producer:
        producer.send(kafka_topic, {"a": 1}, 17)
        with pytest.raises(ottla.RecordError, match=r"key\.serializer IntegerSerializer cannot take a str"):
            producer.send(kafka_topic, {"a": 1}, "17")
    [record] = stored_in_time(kafka_cluster, kafka_topic)
    assert (record.key, record.value) == (b"\0\0\0\x11", b"{'a': 1}")
    assert record.headers == (("of-value", kafka_topic.encode()),)


def test_none_stays_a_tombstone_without_key(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, key_serializer="json", value_serializer="json") as producer:
        producer.send(kafka_topic)
    [record] = stored_in_time(kafka_cluster, kafka_topic)
    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize("serializer", [None, "bytes", "json", bytes])
def test_changing_the_object_after_send_changes_nothing(
    kafka_cluster: ottla.Cluster, kafka_topic: str, serializer: Any
) -> None:
    given: Any = {"n": [1]} if serializer == "json" else bytearray(b"before")
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer, linger_ms=60_000) as producer:
        producer.send(kafka_topic, given, timestamp_ms=1)
        if isinstance(given, dict):
            given["n"].append(2)
        else:
            given[:] = b"after!"
        producer.send(kafka_topic, given, timestamp_ms=2)
    expected = [b'{"n":[1]}', b'{"n":[1,2]}'] if serializer == "json" else [b"before", b"after!"]
    assert values(kafka_cluster, kafka_topic) == expected


def test_coroutines_serialize_before_they_wait(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def send() -> None:
        given = {"n": 1}
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer="json") as producer:
            sending = producer.send(kafka_topic, given, timestamp_ms=1)  # the topic is not known yet
            given["n"] = 2
            await (await sending)
            await producer.send(kafka_topic, given, timestamp_ms=2)
            with pytest.raises(ottla.RecordError, match=r"value\.serializer json cannot take an object"):
                await producer.send(kafka_topic, object())

    asyncio.run(send())
    assert values(kafka_cluster, kafka_topic) == [b'{"n":1}', b'{"n":2}']


@pytest.mark.parametrize(
    ("serializer", "given", "words"),
    [
        (
            json.dumps,
            b"bytes",
            r"value.serializer dumps cannot take a bytes, given for a record to 'test.*': TypeError",
        ),
        ("json", float("nan"), "json cannot take a float.*ValueError"),
        ("string", 5, "string cannot take an int.*it takes str"),
        ("bytes", "text", "bytes cannot take a str.*take 'string'"),
        ("integer", 1 << 40, "integer cannot take an int"),
        ("uuid", "no", "uuid cannot take a str"),
        ("boolean", 1, "boolean cannot take an int"),
        (lambda given: given, {"a": 1}, r"lambda> made a dict of a dict.*has to return bytes, str or None"),
    ],
)
def test_what_a_serializer_cannot_take_is_said_with_its_name_and_the_type(
    kafka_cluster: ottla.Cluster, kafka_topic: str, serializer: Any, given: Any, words: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        with pytest.raises(ottla.RecordError, match=words):
            producer.send(kafka_topic, given)
        assert producer.send(kafka_topic).result(30).offset == 0


def test_what_a_serializer_raises_is_the_cause_and_errors_of_ours_pass(kafka_cluster: ottla.Cluster) -> None:
    def refuse(given: str) -> bytes:
        if given == "ours":
            raise ottla.Unreachable("no registry")
        raise KeyError(given)

    with ottla.Producer(kafka_cluster.bootstrap_servers, key_serializer=refuse) as producer:
        with pytest.raises(ottla.RecordError, match=r"key.serializer .*refuse") as raised:
            producer.send("flights", b"", "theirs")
        assert isinstance(raised.value.__cause__, KeyError)
        with pytest.raises(ottla.Unreachable, match="no registry"):
            producer.send("flights", b"", "ours")


def test_other_records_arrive_beside_those_that_cannot_be_serialized(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    refused = 0
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer="integer") as producer:
        for number in range(100):
            try:
                producer.send(kafka_topic, number if number % 3 else str(number), timestamp_ms=number)
            except ottla.RecordError:
                refused += 1
    assert refused == 34
    assert values(kafka_cluster, kafka_topic) == [struct.pack(">i", n) for n in range(100) if n % 3]


def json_objects(given: Any) -> bytes:
    """What somebody writes who has dicts alone in mind."""
    return json.dumps({**given}).encode()


@pytest.mark.parametrize("serializer", ["json", json_objects], ids=["json", "function"])
def test_bytes_where_a_serializer_wants_a_dict_are_refused_and_every_other_record_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, serializer: Any
) -> None:
    words = "value.serializer .* cannot take a bytes, given for a record to 'test.*': TypeError"
    with ottla.Producer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
        for number in range(30):
            producer.send(kafka_topic, {"n": number}, timestamp_ms=number)
            with pytest.raises(ottla.RecordError, match=words):
                producer.send(kafka_topic, b'{"n": 0}')

    async def send() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, value_serializer=serializer) as producer:
            for number in range(30, 60):
                with pytest.raises(ottla.RecordError, match=words):
                    await producer.send(kafka_topic, b'{"n": 0}')
                await producer.send(kafka_topic, {"n": number}, timestamp_ms=number)

    asyncio.run(send())
    assert [json.loads(value) for value in values(kafka_cluster, kafka_topic)] == [{"n": n} for n in range(60)]


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("ByteArraySerializer", b"\0\xff", b"\0\xff"),
        ("StringSerializer", "größe", "größe".encode()),
        ("ShortSerializer", -2, b"\xff\xfe"),
        ("IntegerSerializer", 258, b"\0\0\1\2"),
        ("LongSerializer", -1, b"\xff" * 8),
        ("FloatSerializer", 1.5, b"\x3f\xc0\0\0"),
        ("DoubleSerializer", 1.5, b"\x3f\xf8" + bytes(6)),
        ("BooleanSerializer", True, b"\1"),
        ("UUIDSerializer", uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
    ],
)
def test_javas_serializers_go_by_their_names(
    kafka_cluster: ottla.Cluster, kafka_topic: str, name: str, given: Any, made: bytes
) -> None:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "value.serializer": _JAVA + name}
    with ottla.Producer.from_config(config) as producer:
        producer.send(kafka_topic, given)
    assert values(kafka_cluster, kafka_topic) == [made]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("jsno", "value.serializer='jsno' is not known.*Did you mean json"),
        (5, "value.serializer is a name, a function.*not int"),
    ],
)
def test_what_is_no_serializer_is_refused_before_anything_is_connected(given: Any, words: str) -> None:
    with pytest.raises(ottla.ConfigError, match=words):
        ottla.Producer.from_config({**_SERVER, "value.serializer": given})


async def awaited_by_nobody(given: Any) -> bytes:
    return b""


class AsyncSerializer:
    async def serialize(self, topic: str, given: Any) -> bytes:
        return b""


class AsyncObject:
    async def __call__(self, given: Any) -> bytes:
        return b""


async def iterated_by_nobody(given: Any) -> AsyncIterator[bytes]:
    yield b""


@pytest.mark.parametrize("given", [awaited_by_nobody, iterated_by_nobody, AsyncSerializer(), AsyncObject()], ids=type)
def test_a_serializer_that_is_async_is_refused(given: Any) -> None:
    with pytest.raises(ottla.ConfigError, match=r"value\.serializer is an async function, which nobody would await"):
        ottla.Producer.from_config({**_SERVER, "value.serializer": given})


def test_a_class_is_no_serializer() -> None:
    class Framed:
        def serialize(self, topic: str, given: str) -> bytes:
            return b""

    with pytest.raises(ottla.ConfigError, match="is a class; give an object"):
        ottla.Producer.from_config({**_SERVER, "key.serializer": Framed})
