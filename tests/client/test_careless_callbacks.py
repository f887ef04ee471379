"""Whatever a user's function raises, be it what ends a program: the producer goes on, and every other record arrives.

Signals reach the main thread only. So KeyboardInterrupt out of a function that the I/O thread calls is that function's
own doing and is logged like any other error; out of one that the sender's thread calls it is the sender's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.connection.authentication import unsecured_token


def stored_values(cluster: ottla.Cluster, topic: str) -> list[bytes | None]:
    """All values, by partition and offset."""
    return ottla.read_table(cluster.bootstrap_servers, topic)["value"].to_pylist()


KINDS = [ZeroDivisionError, SystemExit, KeyboardInterrupt, GeneratorExit]


class Careless:
    """Raises whenever it is called, and counts how often that was."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.calls = 0

    def __call__(self, *_: Any) -> Any:
        self.calls += 1
        raise self.kind("a careless function")


@pytest.mark.parametrize("kind", KINDS)
def test_a_delivery_callback_harms_no_other_record_and_callback(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    careless, heard = Careless(kind), []
    with ottla.Producer(kafka_cluster.bootstrap_servers, batch_size=100) as producer:
        for n in range(200):
            delivery = producer.send(kafka_topic, b"%d" % n, partition=0, on_delivery=careless)
            delivery.add_done_callback(lambda told: heard.append(told.result(0).offset))
            if n % 50 == 0:
                producer.flush(60)
        assert delivery.result(60).offset == 199
    assert heard == list(range(200))
    assert careless.calls == 200
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert logged == [kind] * 200
    assert stored_values(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(200)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_delivery_callback_of_a_record_that_failed_harms_nobody(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kind: type[BaseException]
) -> None:
    careless = Careless(kind)
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        with kafka_cluster.faults.refuse(topic=kafka_topic, nth=1, error=10):
            failed = producer.send(kafka_topic, b"refused", partition=0, on_delivery=careless)
            assert isinstance(failed.exception(60), ottla.DeliveryFailed)
        assert producer.send(kafka_topic, b"next", partition=0).result(60).offset == 0
    assert careless.calls == 1


def test_ctrl_c_in_a_callback_of_an_event_loop_ends_the_loops_run_and_not_the_producer(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    heard: list[int] = []
    producer = ottla.AsyncProducer(kafka_cluster.bootstrap_servers)

    async def send(first: int, on_delivery: Any) -> None:
        for n in range(first, first + 100):
            await producer.send(kafka_topic, b"%d" % n, partition=0, on_delivery=on_delivery if n == first else None)
        await producer.flush()

    with asyncio.Runner() as runner:
        with pytest.raises(KeyboardInterrupt):
            runner.run(send(0, Careless(KeyboardInterrupt)))
        runner.run(send(100, lambda delivery: heard.append(delivery.result(0).offset)))
        runner.run(producer.close())
    assert heard == [100]
    assert stored_values(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(200)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["on_batch", "on_ack", "close"])
def test_an_interceptor_on_the_io_thread_harms_nobody(
    kafka_cluster: ottla.Cluster, kafka_topic: str, method: str, kind: type[BaseException]
) -> None:
    careless = Careless(kind)
    interceptor = type("Interceptor", (), {"on_batch": lambda *_: None, method: careless})()
    with ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[interceptor], linger_ms=0) as producer:
        sent = [producer.send(kafka_topic, b"%d" % n, partition=0) for n in range(100)]
        assert [delivery.result(60).offset for delivery in sent] == list(range(100))
    assert careless.calls > 0
    assert producer.metrics()["ottla-interceptor-error-total"] == careless.calls
    assert stored_values(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(100)]


def first_only(kind: type[BaseException], then: Any) -> Any:
    """A function that raises the third time, and does its work all other times."""
    calls = 0

    def work(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise kind("a careless function")
        return then(*given)

    return work


SENDERS: dict[str, Any] = {
    "interceptor": lambda kind: {
        "interceptor_classes": [type("I", (), {"on_send": staticmethod(first_only(kind, lambda record: None))})()]
    },
    "serializer": lambda kind: {"value_serializer": first_only(kind, lambda value: value)},
    "partitioner": lambda kind: {"partitioner_class": first_only(kind, lambda keys, view: [0] * len(keys))},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", SENDERS)
def test_what_the_senders_thread_calls_raises_there_and_every_other_record_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, what: str, kind: type[BaseException]
) -> None:
    raised = []
    with ottla.Producer(kafka_cluster.bootstrap_servers, **SENDERS[what](kind)) as producer:
        for n in range(100):
            try:
                producer.send(kafka_topic, b"%d" % n, b"key")
            except BaseException as error:
                raised.append((n, type(error)))
    missing = [n for n, _ in raised]
    if what == "interceptor" and issubclass(kind, Exception):
        assert raised == []
    else:
        # What is no mistake but an end of the program keeps its class.
        assert raised == [(2, ottla.RecordError if issubclass(kind, Exception) else kind)]
    expected = [b"%d" % n for n in range(100) if n not in missing]
    assert stored_values(kafka_cluster, kafka_topic) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_interceptor_that_hears_of_a_refused_record_raises_what_ends_a_program_where_it_was_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kind: type[BaseException]
) -> None:
    """That is the sender's thread, which Ctrl+C may well mean."""
    interceptor = type("Interceptor", (), {"on_ack": Careless(kind)})()
    with ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[interceptor]) as producer:
        with pytest.raises(ottla.RecordError if issubclass(kind, Exception) else kind):
            producer.send(kafka_topic, object())  # type: ignore[arg-type]
        producer.send(kafka_topic, b"next")
    assert stored_values(kafka_cluster, kafka_topic) == [b"next"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_partitioner_of_tables_that_raises_sends_nothing_of_its_table_and_all_of_the_others(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kind: type[BaseException]
) -> None:
    partitioner = first_only(kind, lambda keys, view: [0] * len(keys))
    raised = []
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=partitioner) as producer:
        for n in range(5):
            table = pa.table({"k": [b"key"] * 10, "v": [b"%d" % (10 * n + row) for row in range(10)]})
            try:
                producer.send_table(kafka_topic, table, key="k", value="v")
            except BaseException as error:
                raised.append((n, type(error)))
    assert raised == [(2, ottla.RecordError if issubclass(kind, Exception) else kind)]
    assert stored_values(kafka_cluster, kafka_topic) == [b"%d" % n for n in range(50) if n // 10 != 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_function_holds_up_its_connection_only_until_it_gives_one(kind: type[BaseException]) -> None:
    calls = 0

    def give() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:  # the first one led to the broker that was asked for metadata
            raise kind("a careless function")
        return unsecured_token({"sub": "ada"}, time.time()).value

    listener = ottla.Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=("OAUTHBEARER",))
    given: Any = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    with ottla.Cluster(brokers=2, listeners={"SASL_PLAINTEXT": listener}) as cluster:
        cluster.create_topic("flights", partitions=2)
        with ottla.Producer(cluster.bootstrap_servers, sasl_oauthbearer_token_provider=give, **given) as producer:
            sent = [producer.send("flights", b"%d" % n, partition=n % 2) for n in range(100)]
            assert [delivery.result(60).offset for delivery in sent] == [n // 2 for n in range(100)]
    assert calls > 2
