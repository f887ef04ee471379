"""One producer in a process of its own: sends the same records as the others and prints what it took, as JSON.

python -m benchmarks.worker CLIENT BOOTSTRAP TOPIC RECORDS

The clock and the processor time run from the first send to the last acknowledgement; imports, connecting and making
the data are outside. A record is an 8-byte key and a 92-byte value.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

DISTINCT = 100_000
KEYS = [b"%08d" % (i * 7919 % 100_000_000) for i in range(DISTINCT)]
VALUES = [b"%092d" % i for i in range(DISTINCT)]


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def confluent(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": 2_000_000})

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    def send() -> None:
        produce, poll = producer.produce, producer.poll
        for _ in range(records // DISTINCT):
            for key, value in zip(KEYS, VALUES, strict=True):
                try:
                    produce(topic, value, key, on_delivery=delivered)
                except BufferError:
                    poll(0.1)
                    produce(topic, value, key, on_delivery=delivered)
            poll(0)
        producer.flush()
        assert not failed, failed[0]

    producer.produce(topic, b"warm", b"up")
    producer.flush()
    return send


def confluent_bare(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    """As fast as it goes: no callback per record."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "queue.buffering.max.messages": 2_000_000})

    def send() -> None:
        produce, poll = producer.produce, producer.poll
        for _ in range(records // DISTINCT):
            for key, value in zip(KEYS, VALUES, strict=True):
                try:
                    produce(topic, value, key)
                except BufferError:
                    poll(0.1)
                    produce(topic, value, key)
            poll(0)
        assert producer.flush() == 0

    producer.produce(topic, b"warm", b"up")
    producer.flush()
    return send


def ottla_send(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    import ottla

    # confluent's own batch size; Kafka's default of 16 KiB is measured apart.
    producer = ottla.Producer(bootstrap, batch_size=1_000_000)
    producer.send(topic, b"warm", b"up").result(30)

    def send() -> None:
        send = producer.send
        for _ in range(records // DISTINCT):
            for key, value in zip(KEYS, VALUES, strict=True):
                send(topic, value, key)
        producer.flush()

    return send


def ottla_send_default(bootstrap: str, topic: str, records: int) -> Callable[[], None]:
    import ottla

    producer = ottla.Producer(bootstrap)
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


CLIENTS = {
    "confluent": confluent,
    "confluent-bare": confluent_bare,
    "send": ottla_send,
    "send-16k": ottla_send_default,
    "send_table": ottla_send_table,
}


def main() -> None:
    client, bootstrap, topic, records = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    send = CLIENTS[client](bootstrap, topic, records)
    cpu, wall = cpu_s(), time.perf_counter()
    send()
    print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": cpu_s() - cpu}))


main()
