"""`ottla groups` with Apache Kafka: a group of each protocol is described, moved and deleted."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer

import ottla
from ottla.cli import main

PATIENCE_S = 60
pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_of_apache_kafka_is_described_moved_and_deleted(
    apache_kafka: str, kafka_name: str, capfd: pytest.CaptureFixture[str], protocol: str
) -> None:
    def groups(*arguments: str, status: int = 0) -> str:
        assert main(["groups", *arguments, "-b", apache_kafka]) == status
        shown = capfd.readouterr()
        return shown.err if status else shown.out

    with ottla.Admin(apache_kafka) as admin, ottla.Producer(apache_kafka) as producer:
        admin.create_topics(kafka_name, partitions=1)
        for _ in range(5):
            producer.send(kafka_name, b"x")
    settings = {"group.id": kafka_name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": apache_kafka, "enable.auto.commit": False, **settings})
    consumer.subscribe([kafka_name])
    try:
        give_up, read = time.monotonic() + PATIENCE_S, 0
        while read < 5:
            assert time.monotonic() < give_up
            message = consumer.poll(0.2)
            read += message is not None and message.error() is None
        consumer.commit(asynchronous=False)
        assert f"{kafka_name}: Stable, 1 member, {protocol} protocol" in groups(kafka_name)
        assert "has 1 member" in groups("reset", kafka_name, "--to", "earliest", status=2)
        assert "NON_EMPTY_GROUP" in groups("delete", kafka_name, status=2)
    finally:
        consumer.close()
    [told] = json.loads(groups("reset", kafka_name, "--to", "2", "--execute", "--json"))["offsets"]
    assert (told["committed"], told["new"], told["first_offset"], told["end_offset"]) == (5, 2, 0, 5)
    [row] = [each for each in json.loads(groups("--json")) if each["id"] == kafka_name]
    assert (row["protocol"], row["state"], row["lag"]) == (protocol, "Empty", 3)
    groups("delete", kafka_name)
    assert kafka_name not in groups()
