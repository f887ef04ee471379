"""One client with a schema registry in a process of its own: sends or reads the same orders as the others.

python -m benchmarks.schema_worker CLIENT BOOTSTRAP REGISTRY TOPIC RECORDS

Prints what it took as JSON: seconds and processor seconds from the first record to the last acknowledgement (or the
last record read). Imports, connecting, making the records and registering the schema are outside. `raw` sends bytes
that are as long as the others' payloads, without a serializer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.avro_payloads import PREFIX, SCHEMA, orders
from benchmarks.worker import cpu_s

# A program has just made what it sends: so few of them stay in the processor's cache.
DRAWN = 1_000
_LINGER_S = 60
SCHEMA_TEXT = json.dumps(SCHEMA)


def ottla_send(task: argparse.Namespace, *, is_raw: bool) -> Callable[[], None]:
    import ottla
    from ottla.schemas.avro.encode_rows import AvroRowEncoder

    values: list[Any] = list(orders(DRAWN))
    serializer = None
    if is_raw:
        encoder = AvroRowEncoder(SCHEMA_TEXT)
        values = [encoder.encode_one(value, PREFIX) for value in values]
    else:
        serializer = ottla.AvroSerializer(task.registry, SCHEMA_TEXT)
    producer = ottla.Producer(task.bootstrap, value_serializer=serializer)
    producer.send(task.topic, values[0]).result(_LINGER_S)

    def send() -> None:
        topic, send_one = task.topic, producer.send
        sent = [send_one(topic, value) for value in itertools.islice(itertools.cycle(values), task.records)]
        producer.flush()
        assert all(each.result(0).offset >= 0 for each in (sent[0], sent[-1]))

    return send


def confluent_send(task: argparse.Namespace) -> Callable[[], None]:
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    values = list(orders(DRAWN))
    serialize = AvroSerializer(SchemaRegistryClient({"url": task.registry}), SCHEMA_TEXT)
    context = SerializationContext(task.topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": task.bootstrap, "queue.buffering.max.messages": 2_000_000})
    failed: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer.produce(task.topic, serialize(values[0], context), on_delivery=delivered)
    producer.flush()

    def send() -> None:
        topic, produce = task.topic, producer.produce
        for number, value in enumerate(itertools.islice(itertools.cycle(values), task.records)):
            produce(topic, serialize(value, context), on_delivery=delivered)
            if not number % 1_000:
                producer.poll(0)
        assert producer.flush() == 0
        assert not failed, failed[0]

    return send


def ottla_read(task: argparse.Namespace) -> Callable[[], None]:
    import ottla

    reader = ottla.Reader(task.bootstrap, task.topic, value_deserializer=ottla.AvroDeserializer(task.registry))
    records = iter(reader.records())

    def read() -> None:
        assert all(record.value["id"] >= 0 for record in itertools.islice(records, task.records))

    return read


def confluent_read(task: argparse.Namespace) -> Callable[[], None]:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    deserialize = AvroDeserializer(SchemaRegistryClient({"url": task.registry}))
    context = SerializationContext(task.topic, MessageField.VALUE)
    consumer = Consumer({"bootstrap.servers": task.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    partitions = consumer.list_topics(task.topic, timeout=_LINGER_S).topics[task.topic].partitions
    consumer.assign([TopicPartition(task.topic, number, 0) for number in partitions])

    def read() -> None:
        left = task.records
        while left:
            for message in consumer.consume(min(left, 10_000), _LINGER_S):
                value: Any = deserialize(message.value(), context)
                assert value["id"] >= 0
                left -= 1

    return read


CLIENTS: dict[str, Callable[[argparse.Namespace], Callable[[], None]]] = {
    "ottla": lambda task: ottla_send(task, is_raw=False),
    "raw": lambda task: ottla_send(task, is_raw=True),
    "confluent": confluent_send,
    "ottla-read": ottla_read,
    "confluent-read": confluent_read,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=CLIENTS)
    for name in ("bootstrap", "registry", "topic"):
        parser.add_argument(name)
    parser.add_argument("records", type=int)
    task = parser.parse_args()
    work = CLIENTS[task.client](task)
    used, began = cpu_s(), time.perf_counter()
    work()
    print(json.dumps({"s": time.perf_counter() - began, "cpu_s": cpu_s() - used, "records": task.records}))


if __name__ == "__main__":
    main()
