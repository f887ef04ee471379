"""One record at a time: from `send` until its outcome is known, in a process of its own; prints p50 and p99 as JSON.

python -m benchmarks.latency_worker CLIENT BOOTSTRAP TOPIC RECORDS [busy]

Nobody lingers (`linger.ms=0`), acks=all, 100-byte values to one partition. With `busy` another thread of the
application computes in Python all the while, so that whoever wants the interpreter has to wait for it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

VALUE = b"v" * 100
_WARM_UP = 200


def confluent(bootstrap: str, topic: str) -> Callable[[], None]:
    """By a callback, waited for with `poll`, which returns as soon as it was called."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    told: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        told.append(error)

    def send_one() -> None:
        producer.produce(topic, VALUE, partition=0, on_delivery=delivered)
        while not told:
            producer.poll(1)
        assert told.pop() is None

    return send_one


def kafka_python(bootstrap: str, topic: str) -> Callable[[], None]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    return lambda: producer.send(topic, VALUE, partition=0).get(30)


def ottla(bootstrap: str, topic: str) -> Callable[[], None]:
    import ottla

    producer = ottla.Producer(bootstrap, linger_ms=0)
    return lambda: producer.send(topic, VALUE, partition=0).result(30)


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "send": ottla}


def timed(send_one: Callable[[], Any], records: int) -> list[float]:
    """Seconds of each record after the warm-up, sorted."""
    clock = time.perf_counter
    took = []
    for _ in range(records + _WARM_UP):
        begin = clock()
        send_one()
        took.append(clock() - begin)
    return sorted(took[_WARM_UP:])


async def _timed_async(client: str, bootstrap: str, topic: str, records: int) -> list[float]:
    producer: Any
    if client == "aiokafka":
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
        await producer.start()
        try:
            return await _each(lambda: producer.send_and_wait(topic, VALUE, partition=0), records)
        finally:
            await producer.stop()
    import ottla

    async with ottla.AsyncProducer(bootstrap, linger_ms=0) as producer:

        async def send_one() -> None:
            await (await producer.send(topic, VALUE, partition=0))

        return await _each(send_one, records)


async def _each(send_one: Callable[[], Any], records: int) -> list[float]:
    clock = time.perf_counter
    took = []
    for _ in range(records + _WARM_UP):
        begin = clock()
        await send_one()
        took.append(clock() - begin)
    return sorted(took[_WARM_UP:])


def _keep_busy() -> None:
    number = 0
    while True:
        number = (number * 31 + 7) % 1_000_003


def main() -> None:
    client, bootstrap, topic, records = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    if "busy" in sys.argv[5:]:
        threading.Thread(target=_keep_busy, daemon=True).start()
    if client in CLIENTS:
        took = timed(CLIENTS[client](bootstrap, topic), records)
    else:
        took = asyncio.run(_timed_async(client, bootstrap, topic, records))
    figures = {"p50_ms": took[len(took) // 2] * 1000, "p99_ms": took[len(took) * 99 // 100] * 1000}
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
