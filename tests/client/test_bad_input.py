"""What a user can hand over by mistake: one clear error for it, and every other record still arrives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.client.in_time import UNHURRIED, ahead
from tests.read_back import stored

import ottla


class Unbuffered:
    """Neither text nor bytes."""


async def awaited_by_nobody(delivery: ottla.Delivery) -> None: ...


class AsyncCallbacks:
    async def hear(self, delivery: ottla.Delivery) -> None: ...

    async def __call__(self, delivery: ottla.Delivery) -> None: ...


class AsyncGenerators:
    async def __call__(self, delivery: ottla.Delivery) -> AsyncIterator[None]:
        yield


async def iterated_by_nobody(delivery: ottla.Delivery) -> AsyncIterator[None]:
    yield


ASYNC_CALLABLES: dict[str, Any] = {
    "function": awaited_by_nobody,
    "method": AsyncCallbacks().hear,
    "object": AsyncCallbacks(),
    "partial": partial(partial(awaited_by_nobody)),
    "partial of a method": partial(AsyncCallbacks().hear),
    "generator": iterated_by_nobody,
    "object with a generator": AsyncGenerators(),
}


def released() -> memoryview:
    view = memoryview(b"x")
    view.release()
    return view


ASYNC = "on_delivery is an async function, which nobody would await"
WRONG_RECORDS: dict[str, tuple[dict[str, Any], str]] = {
    "value of a wrong type": ({"value": {"a": 1}}, "A record's value is bytes, str or None, not dict"),
    "value that is a number": ({"value": 7}, "A record's value is bytes, str or None, not int"),
    "value that is a number of numpy's": ({"value": np.int64(7)}, "A record's value is bytes, str or None, not int64"),
    "value that is a number in an array": ({"value": np.array(7)}, "A record's value is bytes, str or None, not ndarr"),
    "value that is a date of numpy's": (
        {"value": np.datetime64("2013-01-01")},
        "A record's value is bytes, str or None, not datetime64",
    ),
    "value that is an array of objects": (
        {"value": np.array([b"x"], dtype=object)},
        "A record's value is bytes, str or None, not ndarray",
    ),
    "value that is an array of records with objects": (
        {"value": np.array([(1, b"x")], dtype=[("n", "i4"), ("o", object)])},
        "A record's value is bytes, str or None, not ndarray",
    ),
    "key that is a number of numpy's": (
        {"value": b"x", "key": np.float32(1)},
        "A record's key is bytes, str or None, ",
    ),
    "value of a user's class": ({"value": Unbuffered()}, "A record's value is bytes, str or None, not Unbuffered"),
    "text that UTF-8 cannot write": ({"value": "\ud800"}, "cannot be sent as UTF-8"),
    "key of a wrong type": ({"value": b"x", "key": 1.5}, "A record's key is bytes, str or None, not float"),
    "headers without pairs": ({"value": b"x", "headers": [b"name"]}, "Headers are a list of"),
    "headers that are a dict": ({"value": b"x", "headers": {"id": b"7"}}, "Headers are a list of"),
    "headers that are texts": ({"value": b"x", "headers": ["k1", "v1"]}, "Headers are a list of"),
    "headers that are a number": ({"value": b"x", "headers": 3}, "Headers are a list of"),
    "header name of bytes": ({"value": b"x", "headers": [(b"n", b"v")]}, "A header's name is a str, not bytes"),
    "header name of None": ({"value": b"x", "headers": [(None, b"v")]}, "A header's name is a str, not NoneType"),
    "header name that UTF-8 cannot write": ({"value": b"x", "headers": [("\udcff", b"v")]}, "cannot be sent as UTF-8"),
    "header value of a wrong type": ({"value": b"x", "headers": [("n", 1)]}, "header value is bytes, str or None"),
    "value that was released": ({"value": released()}, "A record's value cannot be read: .* released memoryview"),
    "key that was released": ({"value": b"x", "key": released()}, "A record's key cannot be read: .* released memory"),
    "header value that was released": (
        {"value": b"x", "headers": [("n", released())]},
        "A record's header value cannot be read: .* released memoryview",
    ),
    "partition that is not there": ({"value": b"x", "partition": 3}, "has partitions 0 to 2, not 3"),
    "negative partition": ({"value": b"x", "partition": -1}, "has partitions 0 to 2, not -1"),
    "partition of a wrong type": ({"value": b"x", "partition": "0"}, "has partitions 0 to 2, not '0'"),
    "partition of a wrong type of numpy's": ({"value": b"x", "partition": np.float64(1)}, "has partitions 0 to 2, not"),
    "partition of numpy's that is not there": ({"value": b"x", "partition": np.int64(3)}, "has partitions 0 to 2, not"),
    "timestamp of a wrong type": ({"value": b"x", "timestamp_ms": 1.5}, "A timestamp_ms is an int"),
    "timestamp of a wrong type of numpy's": (
        {"value": b"x", "timestamp_ms": np.float64(1)},
        "A timestamp_ms is an int",
    ),
    "timestamp of numpy's before 1970": ({"value": b"x", "timestamp_ms": np.int64(-5)}, "A timestamp_ms is an int"),
    "timestamp that is a truth": ({"value": b"x", "timestamp_ms": True}, "A timestamp_ms is an int"),
    "timestamp that is a truth of numpy's": ({"value": b"x", "timestamp_ms": np.True_}, "A timestamp_ms is an int"),
    "timestamp beyond 64 bits": ({"value": b"x", "timestamp_ms": 1 << 63}, "A timestamp_ms is an int"),
    "timestamp before 1970": ({"value": b"x", "timestamp_ms": -5}, "A timestamp_ms is an int"),
    "record over max.request.size": ({"value": bytes(60_000)}, r"max\.request\.size allows 50000"),
    "key over max.request.size": ({"value": b"x", "key": bytes(60_000)}, r"max\.request\.size allows 50000"),
    "callback that cannot be called": ({"value": b"x", "on_delivery": "print"}, "on_delivery is called with the Deliv"),
    "callback that is async": (
        {"value": b"x", "on_delivery": awaited_by_nobody},
        "on_delivery is an async function, which nobody would await: .*awaited_by_nobody.*; give a plain one",
    ),
    **{
        f"callback that is an async {what}": ({"value": b"x", "on_delivery": given}, ASYNC)
        for what, given in ASYNC_CALLABLES.items()
    },
}


@pytest.mark.parametrize(("given", "sentence"), WRONG_RECORDS.values(), ids=WRONG_RECORDS.keys())
def test_a_wrong_record_is_refused_and_every_other_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, given: dict[str, Any], sentence: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, max_request_size=50_000, linger_ms=100) as producer:
        for n in range(30):
            producer.send(kafka_topic, b"%d" % n, partition=n % 3)
            if n % 10 == 5:
                with pytest.raises(ottla.RecordError, match=sentence) as caught:
                    producer.send(kafka_topic, **given)
                assert caught.value.abortable
    assert sorted(stored(kafka_cluster, kafka_topic), key=int) == [b"%d" % n for n in range(30)]


@pytest.mark.parametrize(("given", "sentence"), WRONG_RECORDS.values(), ids=WRONG_RECORDS.keys())
def test_a_wrong_record_is_refused_in_coroutines_and_every_other_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, given: dict[str, Any], sentence: str
) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(
            kafka_cluster.bootstrap_servers, max_request_size=50_000, linger_ms=100
        ) as producer:
            for n in range(30):
                if n % 10 == 0:  # before the topic is known, and after
                    with pytest.raises(ottla.RecordError, match=sentence):
                        await producer.send(kafka_topic, **given)
                await producer.send(kafka_topic, b"%d" % n, partition=n % 3)

    asyncio.run(work())
    assert sorted(stored(kafka_cluster, kafka_topic), key=int) == [b"%d" % n for n in range(30)]


@pytest.mark.parametrize("partition", [np.int64(2), np.uint8(2)], ids=repr)
def test_a_partition_may_be_what_stands_for_an_int(
    kafka_cluster: ottla.Cluster, kafka_topic: str, partition: Any
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        assert producer.send(kafka_topic, b"x", partition=partition).result(60).partition == 2


@pytest.mark.parametrize("timestamp_ms", [np.int64(1_700_000_000_000), np.uint8(7)], ids=repr)
def test_a_timestamp_may_be_what_stands_for_an_int(
    kafka_cluster: ottla.Cluster, kafka_topic: str, timestamp_ms: Any
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        stored = producer.send(kafka_topic, b"x", timestamp_ms=timestamp_ms).result(60)
        assert stored.timestamp_ms == int(timestamp_ms)


WRONG_COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "partition that is a number": ({"value": "v", "partition": 1}, "partition=1 is not the name of a column"),
    "key of bytes": ({"value": "v", "key": b"v"}, "key=b'v' is not the name of a column"),
    "headers of a record": ({"value": "v", "headers": [("n", b"")]}, r"headers=\[\('n', b''\)\] is not the name"),
    "timestamp that is a number": ({"value": "v", "timestamp_ms": 17}, "timestamp_ms=17 is not the name of a column"),
    "value that is a number": ({"value": 5}, "value=5 names no columns; allowed are a str or a list of str"),
    "value of bytes": ({"value": b"v"}, "value=b'v' names no columns"),
    "values that are numbers": ({"value": [5]}, r"value=\[5\] names no columns"),
    "number as JSON": ({"value": 5, "value_format": "json"}, "value=5 names no columns"),
}


@pytest.mark.parametrize(("given", "sentence"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_a_column_that_is_named_wrongly_is_refused_and_the_next_table_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, given: dict[str, Any], sentence: str
) -> None:
    table = pa.table({"v": ["1"]})
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError, match=sentence):
            producer.send_table(kafka_topic, table, **given)
        producer.send_table(kafka_topic, table, value="v")
    assert stored(kafka_cluster, kafka_topic) == [b"1"]


def test_a_callback_added_later_that_cannot_be_called_is_refused_at_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=1000) as producer:
        delivery = producer.send(kafka_topic, b"x")
        for _ in range(2):
            with pytest.raises(TypeError, match="add_done_callback takes a function of the Delivery; None cannot be"):
                delivery.add_done_callback(None)  # type: ignore[arg-type]
            producer.flush(60)


@pytest.mark.parametrize("given", ASYNC_CALLABLES.values(), ids=ASYNC_CALLABLES.keys())
def test_an_async_callback_added_later_is_refused_at_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str, given: Any
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=1000) as producer:
        delivery = producer.send(kafka_topic, b"x")
        for _ in range(2):
            with pytest.raises(TypeError, match="add_done_callback is given an async function, which nobody would aw"):
                delivery.add_done_callback(given)
            producer.flush(60)


def test_a_released_value_is_refused_in_coroutines_too(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            for _ in range(2):  # before the topic is known, and after
                with pytest.raises(ottla.RecordError, match="A record's value cannot be read"):
                    await producer.send(kafka_topic, released())
                await producer.send(kafka_topic, b"1")

    asyncio.run(work())
    assert stored(kafka_cluster, kafka_topic) == [b"1", b"1"]


REFUSED_NAMES = ["", ".", "..", "no spaces", "a/b", "a,b", "naïve", "\ud800", "x" * 250, "tab\t", "new\nline"]


@pytest.mark.parametrize("name", [*REFUSED_NAMES, 7, None, b"bytes"], ids=ascii)
def test_a_topic_name_kafka_refuses_is_refused_at_once_and_every_other_record_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, name: Any
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=100, max_block_ms=60_000) as producer:
        for n in range(10):
            producer.send(kafka_topic, b"%d" % n, partition=0)
            with pytest.raises((ottla.RecordError, ottla.KafkaError)) as caught:
                producer.send(name, b"x")
            assert caught.value.abortable
            if isinstance(caught.value, ottla.KafkaError):
                assert caught.value.name == "INVALID_TOPIC_EXCEPTION"
                assert caught.value.topic == name
    assert stored(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(10)]


def test_a_topic_name_far_too_long_is_told_by_its_beginning(kafka_cluster: ottla.Cluster) -> None:
    name = "long" * 100_000
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for ask in (lambda: producer.send(name, b"x"), lambda: producer.partitions_for(name)):
            with pytest.raises(ottla.KafkaError, match=r"topic 'longlong\w+\.\.\.'") as caught:
                ask()
            assert len(str(caught.value)) < 500
            assert caught.value.topic == name
        with pytest.raises(ottla.RecordError) as refused:
            producer.send(name.encode(), b"x")  # type: ignore[arg-type]
        assert len(str(refused.value)) < 500


def test_an_unknown_topic_is_named_after_max_block_ms_and_every_other_record_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    clock = ottla.Clock()
    with ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        for n in range(2):
            producer.send(kafka_topic, b"%d" % n, partition=0)
            with (
                # Whoever asks again has heard that there is no such topic.
                kafka_cluster.faults.hold(api="Metadata", nth=2) as asked_again,
                ahead(clock, 60, asked_again.await_fired),
                pytest.raises(ottla.KafkaError, match="topic 'nobody-made-it' could not be used within") as caught,
            ):
                producer.send("nobody-made-it", b"x")
            assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
            assert caught.value.topic == "nobody-made-it"
            assert caught.value.retriable
    assert stored(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(2)]


def test_a_callback_that_raises_is_logged_and_every_other_record_and_callback_is_served(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def careless(delivery: ottla.Delivery) -> None:
        raise SystemExit("a careless callback")

    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=100) as producer:
        for n in range(30):
            producer.send(kafka_topic, b"%d" % n, partition=0, on_delivery=careless)
            producer.send(
                kafka_topic,
                b"%d" % n,
                partition=1,
                on_delivery=lambda delivery: heard.append(delivery.result(0).offset),
            )
        producer.flush(60)
        producer.send(kafka_topic, b"30", partition=0)
    assert heard == list(range(30))
    logged = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert logged == ["a careless callback"] * 30
    assert len(stored(kafka_cluster, kafka_topic)) == 61


def test_a_callback_that_raises_in_an_event_loop_harms_no_other_record_and_callback(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[int] = []

    def careless(delivery: ottla.Delivery) -> None:
        raise SystemExit("a careless callback")

    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=100) as producer:
            for n in range(30):
                await producer.send(kafka_topic, b"%d" % n, partition=0, on_delivery=careless)
                await producer.send(
                    kafka_topic,
                    b"%d" % n,
                    partition=1,
                    on_delivery=lambda delivery: heard.append(delivery.result(0).offset),
                )
            await producer.flush()
            assert heard == list(range(30))

    asyncio.run(work())
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a careless callback"] * 30
    assert len(stored(kafka_cluster, kafka_topic)) == 60


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\ud800", r"client\.id='\\ud800' cannot be written as UTF-8"),
        ("x" * 40_000, r"client\.id is longer than the 32767 bytes"),
    ],
)
def test_a_client_id_that_no_request_can_carry_is_a_config_error_at_once(text: str, sentence: str) -> None:
    for client in (ottla.Producer, ottla.Admin):
        with pytest.raises(ottla.ConfigError, match=sentence):
            client("localhost:9092", client_id=text)


def test_a_client_id_may_be_any_text(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, client_id="Flüge ✈ 一") as producer:
        assert producer.send(kafka_topic, b"x").result(60).offset == 0


def run_script(script: str, cluster: ottla.Cluster, topic: str) -> None:
    """In a process of its own, which forks: it ends well and says nothing."""
    arguments = [UNHURRIED + script, cluster.bootstrap_servers, topic]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_is_told_while_the_parents_records_arrive(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    run_script(
        """
import asyncio, os, sys, ottla
servers, topic = sys.argv[1:]
producer = ottla.Producer(servers, linger_ms=200)
deliveries = [producer.send(topic, b"%d" % n, partition=0) for n in range(100)]
if (child := os.fork()) == 0:
    told = 0
    for use in (
        lambda: producer.send(topic, b"child", partition=0),
        lambda: producer.send_table(topic, [], value="v"),
        producer.flush,
        lambda: deliveries[0].result(1),
        lambda: asyncio.run(asyncio.wait_for(deliveries[0], 10)),
    ):
        try:
            use()
        except ottla.ForkError as error:
            assert error.fatal
            told += "make a new one in the child" in str(error)
    producer.close()
    os._exit(told)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
deliveries += [producer.send(topic, b"%d" % n, partition=0) for n in range(100, 200)]
producer.close()
assert [delivery.result(0).offset for delivery in deliveries] == list(range(200))
""",
        kafka_cluster,
        kafka_topic,
    )
    assert stored(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(200)]


def test_a_forked_child_of_an_event_loop_is_told_while_the_parents_records_arrive(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    run_script(
        """
import asyncio, os, sys, ottla
servers, topic = sys.argv[1:]

async def child(producer, delivery):
    told = 0
    for use in (
        lambda: producer.send(topic, b"child", partition=0),
        lambda: producer.send("another", b"child"),
        lambda: producer.send_table(topic, [], value="v"),
        lambda: producer.partitions_for("another"),
        lambda: producer.client_instance_id(1),
        producer.flush,
        lambda: asyncio.wait_for(delivery, 10),
    ):
        try:
            await use()
        except ottla.OttlaError as error:
            told += isinstance(error, ottla.ForkError) and "make a new one in the child" in str(error)
    await producer.close()
    return told

async def parent():
    async with ottla.AsyncProducer(servers, linger_ms=200) as producer:
        deliveries = [await producer.send(topic, b"%d" % n, partition=0) for n in range(100)]
        if (pid := os.fork()) == 0:
            os._exit(asyncio.run(child(producer, deliveries[0])))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        deliveries += [await producer.send(topic, b"%d" % n, partition=0) for n in range(100, 200)]
        assert [(await delivery).offset for delivery in deliveries] == list(range(200))

asyncio.run(parent())
""",
        kafka_cluster,
        kafka_topic,
    )
    assert stored(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(200)]
