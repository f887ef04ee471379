"""A proxy in front of Apache Kafka, and Java's clients through it: they stay inside, and faults fire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.markers import await_markers

import ottla

pytestmark = pytest.mark.kafka

_TOOLS = "org.apache.kafka.tools"
_RECORDS = 2_000
_PATIENCE_S = 60


@pytest.fixture
def proxy(apache_kafka: str) -> Iterator[ottla.Proxy]:
    with ottla.Proxy(apache_kafka) as proxy:
        yield proxy


@pytest.fixture
def topic(apache_kafka: str, kafka_name: str) -> str:
    with ottla.Admin(apache_kafka) as admin:
        admin.create_topics(kafka_name, partitions=3, replication_factor=1)
        # Apache Kafka names a leader before that has opened its log.
        admin.end_offsets(kafka_name)
    return kafka_name


@pytest.mark.sample
@pytest.mark.parametrize("idempotent", [False, True])
def test_lost_ack_of_apache_kafka_stores_two_copies_unless_the_producer_is_idempotent(
    apache_kafka: str, proxy: ottla.Proxy, topic: str, idempotent: bool
) -> None:
    with (
        proxy.faults.lose_ack(topic=topic, nth=3) as fault,
        ottla.Producer(proxy.bootstrap_servers, linger_ms=0, enable_idempotence=idempotent) as producer,
    ):
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0).result(_PATIENCE_S)
    assert fault.fired == 1
    values = sorted(ottla.read_table(apache_kafka, topic).column("value").to_pylist())
    assert values == [b"0", b"1", b"2", *([] if idempotent else [b"2"]), b"3", b"4"]


@pytest.mark.parametrize("idempotent", [False, True])
def test_javas_producer_through_the_proxy(
    apache_kafka: str, proxy: ottla.Proxy, topic: str, java: Any, idempotent: bool
) -> None:
    arguments = ["--topic", topic, "--num-records", str(_RECORDS), "--record-size", "100", "--throughput", "-1"]
    settings = [
        f"bootstrap.servers={proxy.bootstrap_servers}",
        "acks=all",
        f"enable.idempotence={str(idempotent).lower()}",
        "batch.size=4096",
    ]
    # One request can take a batch of each of three partitions, so there may be as few as a third of the batches.
    with proxy.faults.lose_ack(topic=topic, every=3, times=3) as fault:
        said = java.run(f"{_TOOLS}.ProducerPerformance", *arguments, "--producer-props", *settings)
    assert f"{_RECORDS} records sent".encode() in said
    assert fault.fired == 3
    stored = ottla.read_table(apache_kafka, topic).num_rows
    assert stored == _RECORDS if idempotent else stored > _RECORDS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_javas_consumer_groups_through_the_proxy(
    apache_kafka: str, proxy: ottla.Proxy, topic: str, java: Any, protocol: str
) -> None:
    with ottla.Producer(apache_kafka) as producer:
        for number in range(_RECORDS):
            producer.send(topic, b"%d" % number)
    arguments = ["--bootstrap-server", proxy.bootstrap_servers, "--topic", topic, "--from-beginning"]
    arguments += ["--max-messages", str(_RECORDS), "--timeout-ms", str(_PATIENCE_S * 1000)]
    arguments += ["--command-property", f"group.protocol={protocol}", "--group", f"{topic}-{protocol}"]
    with proxy.faults.lose_ack(api="Fetch", topic=topic, times=1) as fault:
        said = java.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    assert sorted(map(int, said.split())) == list(range(_RECORDS))
    assert fault.fired == 1


def test_librdkafka_in_a_transaction_through_the_proxy(apache_kafka: str, proxy: ottla.Proxy, topic: str) -> None:
    config = {"bootstrap.servers": proxy.bootstrap_servers}
    with proxy.faults.lose_ack(topic=topic, nth=1) as fault:
        producer = Producer({**config, "transactional.id": topic})
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d" % number)
        producer.commit_transaction(_PATIENCE_S)
    assert fault.fired == 1
    await_markers(apache_kafka, topic)
    found = ottla.read_table(apache_kafka, topic, isolation_level="read_committed").column("value").to_pylist()
    assert sorted(found) == [b"%d" % number for number in range(10)]
    admin = AdminClient(config)
    brokers = admin.list_topics(timeout=_PATIENCE_S).brokers.values()
    assert {f"{each.host}:{each.port}" for each in brokers} <= {each["local"] for each in proxy.describe()["nodes"]}
