"""One client in a process of its own: sends or reads the same records as the others; prints what it took, as JSON.

python -m benchmarks.worker CLIENT BOOTSTRAP TOPIC RECORDS

The clock and the processor time run from the first send (or read) to the last acknowledgement (or record); imports,
connecting and making the data are outside. A record is an 8-byte key and a 92-byte value.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

DISTINCT = 100_000
KEYS = [b"%08d" % (i * 7919 % 100_000_000) for i in range(DISTINCT)]
VALUES = [b"%092d" % i for i in range(DISTINCT)]


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def confluent(bootstrap: str, topic: str, records: int, *, with_callback: bool) -> Callable[[], None]:
    """With a callback each record's outcome is learned, as `send` tells it; without, it is as fast as it goes."""
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": 2_000_000})

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    callback = delivered if with_callback else None

    def send() -> None:
        produce, poll = producer.produce, producer.poll
        for _ in range(records // DISTINCT):
            for key, value in zip(KEYS, VALUES, strict=True):
                try:
                    produce(topic, value, key, on_delivery=callback)
                except BufferError:
                    poll(0.1)
                    produce(topic, value, key, on_delivery=callback)
            poll(0)
        assert producer.flush() == 0
        assert not failed, failed[0]

    producer.produce(topic, b"warm", b"up")
    producer.flush()
    return send


def ottla_send(bootstrap: str, topic: str, records: int, **settings: Any) -> Callable[[], None]:
    import ottla

    producer = ottla.Producer(bootstrap, **settings)
    producer.send(topic, b"warm", b"up").result(30)

    def send() -> None:
        send = producer.send
        for _ in range(records // DISTINCT):
            for key, value in zip(KEYS, VALUES, strict=True):
                send(topic, value, key)
        producer.flush()

    return send


def ottla_send_table(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    import pyarrow as pa

    import ottla

    part = pa.table({"key": pa.array(KEYS, pa.binary()), "value": pa.array(VALUES, pa.binary())})
    table = pa.concat_tables([part] * (records // DISTINCT))
    producer = ottla.Producer(bootstrap)
    producer.send(topic, b"warm", b"up").result(30)

    def send() -> None:
        producer.send_table(topic, table, key="key", value="value")
        producer.flush()

    return send


def confluent_consume(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    """Reads a whole topic without a group; the records are made into Python objects, thousands at a time.

    By default librdkafka asks for nothing more for a second when it has 100,000 records in store: that would be
    measured, not the broker.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "not used", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions

    def read() -> None:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        left = records
        while left > 0:
            messages = consumer.consume(10_000, 30)
            assert messages, f"{left} records did not come"
            assert messages[0].error() is None, messages[0].error()
            left -= len(messages)

    return read


CLIENTS: dict[str, Callable[[str, str, int], Callable[[], None]]] = {
    "confluent": partial(confluent, with_callback=True),
    "confluent-bare": partial(confluent, with_callback=False),
    # confluent's own batch size; with Kafka's default of 16 KiB beside it.
    "send": partial(ottla_send, batch_size=1_000_000),
    "send-16k": ottla_send,
    "send_table": ottla_send_table,
    "confluent-consume": confluent_consume,
}


def main() -> None:
    client, bootstrap, topic, records = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    send = CLIENTS[client](bootstrap, topic, records)
    cpu, begin_s = cpu_s(), time.monotonic()
    send()
    end_s = time.monotonic()
    # Begin and end are by the machine's clock, so that workers that run at once can be counted together.
    print(json.dumps({"wall_s": end_s - begin_s, "cpu_s": cpu_s() - cpu, "begin_s": begin_s, "end_s": end_s}))


main()
