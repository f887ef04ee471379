"""A small application: a shop that writes its orders to Kafka, and the ledger that reads them."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition


class Shop:
    """Takes orders; `settings` are those of the Kafka client."""

    def __init__(self, bootstrap_servers: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})

    def place(self, order_id: str, item: str) -> bool:
        """Write an order; True once Kafka has acknowledged it."""
        acked: list[bool] = []
        self._producer.produce(
            self._topic,
            key=order_id,
            value=json.dumps({"order": order_id, "item": item}),
            on_delivery=lambda error, _message: acked.append(error is None),
        )
        self._producer.flush(30)
        return acked == [True]


class CarefulShop(Shop):
    """A shop that does not trust its client: it places an order again until it is acknowledged."""

    def place(self, order_id: str, item: str) -> bool:
        """Write an order, three times at most."""
        return any(super(CarefulShop, self).place(order_id, item) for _ in range(3))


def read_orders(bootstrap_servers: str, topic: str) -> list[dict[str, str]]:
    """Every order in the topic, as often as it is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "ledger"})
    try:
        orders: list[dict[str, str]] = []
        for partition in consumer.list_topics(topic, 30).topics[topic].partitions:
            begin, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
            consumer.assign([TopicPartition(topic, partition, begin)])
            for _ in range(begin, end):
                message = consumer.poll(30)
                assert message is not None, "an order that is there was not delivered"
                orders.append(json.loads(message.value()))
        return orders
    finally:
        consumer.close()
