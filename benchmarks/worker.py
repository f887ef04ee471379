"""One client in a process of its own: sends or reads the same records as the others; prints what it took, as JSON.

python -m benchmarks.worker CLIENT BOOTSTRAP TOPIC RECORDS [--bytes 100] [--codec none] [--keyless]

The clock and the processor time run from the first send (or read) to the last acknowledgement (or record); imports,
connecting and making the data are outside. What a record looks like stands in payload.py. Every client asks for
acks=all and keeps its own defaults otherwise, but for compression.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks import payload

PARTITIONS = 6
_WARM_UP = b"warm up"
_BATCH = 10_000


class Task:
    """What is to be sent, where, and how."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.bootstrap: str = given.bootstrap
        self.topic: str = given.topic
        self.records: int = given.records
        self.codec: str = given.codec
        self.number: int = given.number
        self.of: int = given.of
        self.keyed = not given.keyless
        self.keys, self.values = payload.records(given.bytes, keyed=self.keyed)

    def pieces(self) -> Iterator[tuple[list[bytes | None], list[bytes]]]:
        """All records, in pieces of at most what payload.py made."""
        left = self.records
        while left > 0:
            piece = min(left, len(self.values))
            whole = piece == len(self.values)
            yield (self.keys, self.values) if whole else (self.keys[:piece], self.values[:piece])
            left -= piece

    def table(self) -> Any:
        """All records as Arrow columns; the pieces share their memory."""
        import pyarrow as pa

        def part(keys: list[bytes | None], values: list[bytes]) -> pa.Table:
            columns = {"value": pa.array(values, pa.binary())}
            return pa.table({"key": pa.array(keys, pa.binary()), **columns} if self.keyed else columns)

        whole = part(self.keys, self.values)
        return pa.concat_tables([whole.slice(0, len(values)) for _, values in self.pieces()])


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _confluent_producer(task: Task) -> Any:
    """librdkafka's, connected, with a queue that never makes it wait for room: 1 GiB, the default, is not enough."""
    from confluent_kafka import Producer

    settings = {"acks": "all", "compression.type": task.codec, "queue.buffering.max.messages": 2_000_000}
    producer = Producer({"bootstrap.servers": task.bootstrap, "queue.buffering.max.kbytes": 4 << 20, **settings})
    producer.produce(task.topic, _WARM_UP)
    producer.flush()
    return producer


def confluent(task: Task, *, with_callback: bool) -> Callable[[], None]:
    """With a callback each record's outcome is learned, as `send` tells it; without, it is as fast as it goes."""
    failed: list[Any] = []
    producer = _confluent_producer(task)

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    callback = delivered if with_callback else None

    def send() -> None:
        produce, poll, topic = producer.produce, producer.poll, task.topic
        for keys, values in task.pieces():
            for key, value in zip(keys, values, strict=True):
                try:
                    produce(topic, value, key, on_delivery=callback)
                except BufferError:
                    poll(0.1)
                    produce(topic, value, key, on_delivery=callback)
            poll(0)
        assert producer.flush() == 0
        assert not failed, failed[0]

    return send


def confluent_batch(task: Task) -> Callable[[], None]:
    """The fastest it goes: `produce_batch`, thousands of messages that are made beforehand, no callback."""
    producer = _confluent_producer(task)
    messages = [{"key": key, "value": value} for key, value in zip(task.keys, task.values, strict=True)]
    batches = [messages[first : first + _BATCH] for first in range(0, len(messages), _BATCH)]

    def send() -> None:
        left = task.records
        for batch in itertools.cycle(batches):
            waiting = batch[:left]
            left -= len(waiting)
            while waiting and producer.produce_batch(task.topic, waiting) < len(waiting):
                # Those that found no room are marked.
                waiting = [message for message in waiting if message.pop("_error", None) is not None]
                producer.poll(0.1)
            producer.poll(0)
            if not left:
                break
        assert producer.flush() == 0

    return send


def kafka_python(task: Task) -> Callable[[], None]:
    from kafka import KafkaProducer

    codec = None if task.codec == "none" else task.codec
    producer = KafkaProducer(bootstrap_servers=task.bootstrap, acks="all", compression_type=codec)
    producer.send(task.topic, _WARM_UP).get(30)

    def send() -> None:
        sent = [
            producer.send(task.topic, value, key)
            for keys, values in task.pieces()
            for key, value in zip(keys, values, strict=True)
        ]
        producer.flush()
        assert all(one.succeeded() for one in sent)

    return send


def aiokafka(task: Task, **settings: Any) -> Callable[[], None]:
    from aiokafka import AIOKafkaProducer

    runner = asyncio.Runner()

    async def begin() -> Any:
        codec = None if task.codec == "none" else task.codec
        producer = AIOKafkaProducer(bootstrap_servers=task.bootstrap, acks="all", compression_type=codec, **settings)
        await producer.start()
        await producer.send_and_wait(task.topic, _WARM_UP)
        return producer

    producer = runner.run(begin())

    async def send_all() -> None:
        sent = [
            await producer.send(task.topic, value, key)
            for keys, values in task.pieces()
            for key, value in zip(keys, values, strict=True)
        ]
        await producer.flush()
        assert all(one.done() and one.exception() is None for one in sent)

    return lambda: runner.run(send_all())


def ottla_async(task: Task, **settings: Any) -> Callable[[], None]:
    import ottla

    runner = asyncio.Runner()

    async def begin() -> Any:
        producer = ottla.AsyncProducer(task.bootstrap, compression_type=task.codec, **settings)
        await (await producer.send(task.topic, _WARM_UP))
        return producer

    producer = runner.run(begin())

    async def send_all() -> None:
        send, topic = producer.send, task.topic
        sent = [
            await send(topic, value, key)
            for keys, values in task.pieces()
            for key, value in zip(keys, values, strict=True)
        ]
        await producer.flush()
        assert all(one.done() and one.exception() is None for one in sent)

    return lambda: runner.run(send_all())


def ottla_send(task: Task, **settings: Any) -> Callable[[], None]:
    import ottla

    producer = ottla.Producer(task.bootstrap, compression_type=task.codec, **settings)
    producer.send(task.topic, _WARM_UP).result(30)

    def send() -> None:
        send, topic = producer.send, task.topic
        for keys, values in task.pieces():
            for key, value in zip(keys, values, strict=True):
                send(topic, value, key)
        producer.flush()

    return send


def ottla_send_table(task: Task) -> Callable[[], None]:
    import ottla

    table = task.table()
    producer = ottla.Producer(task.bootstrap, compression_type=task.codec)
    producer.send(task.topic, _WARM_UP).result(30)

    def send() -> None:
        producer.send_table(task.topic, table, key="key" if task.keyed else None, value="value")
        producer.flush()

    return send


def raw(task: Task, *, batch_size: int) -> Callable[[], None]:
    from benchmarks import raw_client

    return raw_client.raw(task.bootstrap, task.topic, task.table(), PARTITIONS, task.codec, batch_size)


def confluent_consume(task: Task) -> Callable[[], None]:
    """Reads its share of a topic's partitions without a group; records become Python objects, thousands at a time.

    By default librdkafka asks for nothing more for a second when it has 100,000 records in store: that would be
    measured, not the broker.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "not used", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({"bootstrap.servers": task.bootstrap, **settings})
    partitions = sorted(consumer.list_topics(task.topic, 30).topics[task.topic].partitions)
    mine = [TopicPartition(task.topic, partition, 0) for partition in partitions[task.number :: task.of]]

    def read() -> None:
        left = sum(consumer.get_watermark_offsets(each, 30)[1] for each in mine)
        consumer.assign(mine)
        while left > 0:
            messages = consumer.consume(min(10_000, left), 30)
            assert messages, f"{left} records did not come"
            assert messages[0].error() is None, messages[0].error()
            left -= len(messages)

    return read


CLIENTS: dict[str, Callable[[Task], Callable[[], None]]] = {
    "confluent": partial(confluent, with_callback=True),
    "confluent-bare": partial(confluent, with_callback=False),
    "confluent-batch": confluent_batch,
    "kafka-python": kafka_python,
    "aiokafka": partial(aiokafka, max_batch_size=1_000_000),
    "aiokafka-16k": aiokafka,
    # confluent's own batch size; with Kafka's default of 16 KiB beside it.
    "send": partial(ottla_send, batch_size=1_000_000),
    "send-16k": ottla_send,
    "send_table": ottla_send_table,
    "async": partial(ottla_async, batch_size=1_000_000),
    "async-16k": ottla_async,
    # What `send_table` makes where no batch.size is given, and Kafka's default.
    "raw": partial(raw, batch_size=1_000_000),
    "raw-16k": partial(raw, batch_size=16_384),
    "confluent-consume": confluent_consume,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.worker")
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--keyless", action="store_true")
    parser.add_argument("--number", type=int, default=0, help="of the processes that share the partitions, from 0")
    parser.add_argument("--of", type=int, default=1, help="how many these are")
    given = parser.parse_args()
    work = CLIENTS[given.client](Task(given))
    cpu, begin_s = cpu_s(), time.monotonic()
    work()
    end_s = time.monotonic()
    # Begin and end are by the machine's clock, so that workers that run at once can be counted together.
    print(json.dumps({"wall_s": end_s - begin_s, "cpu_s": cpu_s() - cpu, "begin_s": begin_s, "end_s": end_s}))


if __name__ == "__main__":
    main()
