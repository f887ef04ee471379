"""The same quotas asked of the embedded cluster and of Apache Kafka: error codes, what is told, how long one waits."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tools.apache_kafka import ApacheKafka
from tools.kafka_jars import JarsUnavailable

from ottla.cluster.cluster import Cluster
from ottla.protocol.frames import encode_request
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from ..needs import lacking
from ..wire import Wire

pytestmark = pytest.mark.kafka

_TOPIC = "quotas"
_METRICS = 16
_PATIENCE_S = 120
EXACT, DEFAULT, ANY = range(3)
# Entity, limits, limits to remove.
ALTERED: list[tuple[list[tuple[str, str | None]], dict[str, float], list[str]]] = [
    ([("client-id", "a")], {"producer_byte_rate": 1000.0}, []),
    ([("client-id", None)], {"consumer_byte_rate": 2000.0, "request_percentage": 12.5}, []),
    ([("user", "u"), ("client-id", "a")], {"producer_byte_rate": 3000.0}, []),
    ([("user", "u")], {"controller_mutation_rate": 2.5}, []),
    ([("user", None)], {"consumer_byte_rate": 5.0}, []),
    ([("ip", "10.0.0.1")], {"connection_creation_rate": 7.0}, []),
    ([("user", "u")], {"producer_byte_rate": 4.0}, ["controller_mutation_rate"]),
    ([("user", None)], {}, ["consumer_byte_rate"]),
    ([("user", "nobody")], {}, ["consumer_byte_rate"]),
    ([], {"producer_byte_rate": 1.0}, []),
    ([("group", "g")], {"producer_byte_rate": 1.0}, []),
    ([("user", "")], {"producer_byte_rate": 1.0}, []),
    ([("user", "u"), ("ip", "10.0.0.1")], {"producer_byte_rate": 1.0}, []),
    ([("ip", "10.0.0.1")], {"producer_byte_rate": 1.0}, []),
    ([("user", "u")], {"connection_creation_rate": 1.0}, []),
    ([("user", "u")], {"bytes": 1.0}, []),
    ([("user", "u")], {"producer_byte_rate": 0.0}, []),
    ([("user", "u")], {"producer_byte_rate": -1.0}, []),
    ([("user", "u")], {"producer_byte_rate": 1.5}, []),
    ([("user", "u")], {"request_percentage": 1.5}, []),
]
FILTERS: list[tuple[list[tuple[str, int, str | None]], bool]] = [
    ([], False),
    ([("client-id", EXACT, "a")], False),
    ([("client-id", EXACT, "a")], True),
    ([("client-id", DEFAULT, None)], False),
    ([("client-id", ANY, None)], False),
    ([("user", ANY, None), ("client-id", ANY, None)], True),
    ([("user", EXACT, "u")], False),
    ([("ip", ANY, None)], True),
    ([("user", ANY, None), ("ip", ANY, None)], False),
    ([("user", ANY, None), ("user", ANY, None)], False),
    ([("group", ANY, None)], False),
    ([("", ANY, None)], False),
]
# Settings of a subscription to clients' metrics.
SUBSCRIPTIONS = [
    ("one", "metrics", "*"),
    ("one", "interval.ms", "100"),
    ("two", "match", "client_id=a.*,client_software_name=b"),
    ("", "metrics", "*"),
    ("three", "interval.ms", "99"),
    ("three", "interval.ms", "3600001"),
    ("three", "interval.ms", "often"),
    ("three", "period", "1"),
    ("three", "match", "colour=red"),
    ("three", "match", "client_id"),
    ("three", "match", "client_id=("),
]


def alter_quotas(wire: Wire) -> list[Any]:
    seen: list[Any] = []
    for entity, limits, removed in ALTERED:
        ops = [OpData(key=key, value=value) for key, value in limits.items()]
        ops += [OpData(key=key, remove=True) for key in removed]
        parts = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        told = wire.ask(AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=ops)]), 1)
        seen.append((entity, limits, told if told == "hung up" else [entry.error_code for entry in told.entries]))
    return seen


def described_quotas(wire: Wire) -> list[Any]:
    seen: list[Any] = []
    for components, strict in FILTERS:
        asked = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
        told = wire.ask(DescribeClientQuotasRequest(components=asked, strict=strict), 1)
        entries = [
            (
                sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
                sorted((value.key, value.value) for value in entry.values),
            )
            for entry in told.entries or ()
        ]
        seen.append((components, strict, told.error_code, sorted(entries)))
    return seen


def alter_subscriptions(wire: Wire) -> list[Any]:
    seen: list[Any] = []
    for name, key, value in SUBSCRIPTIONS:
        config = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=_METRICS, resource_name=name, configs=[config])
        (told,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        seen.append((name, key, value, told.error_code))
    return seen


def described_subscriptions(wire: Wire) -> list[Any]:
    seen: list[Any] = []
    told = wire.ask(ListConfigResourcesRequest(resource_types=[_METRICS]), 1)
    seen.append(sorted(each.resource_name for each in told.config_resources))
    for name in ("one", "two", "none", ""):
        resource = DescribeConfigsResource(resource_type=_METRICS, resource_name=name, configuration_keys=None)
        (result,) = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
        configs = [(each.name, each.value, each.config_source, each.read_only) for each in result.configs]
        seen.append((name, result.error_code, sorted(configs)))
    return seen


class Probe(Wire):
    """A client of another id."""

    def send(self, message: Any, version: int) -> None:
        """Ask as `probe`."""
        self._socket.sendall(b"".join(bytes(chunk) for chunk in encode_request(1, "probe", message, version)))


def produce(wire: Wire, size: int) -> Any:
    """The answer to a record of so many bytes."""
    records = encode_batch([Record(0, 1_700_000_000_000, None, bytes(size))])
    topic = TopicProduceData(name=_TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
    return wire.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), 9)


def throttled(wire: Wire, address: str) -> int:
    """How long a producer is to wait that has sent 40,000 bytes where 20,000 are allowed in ten seconds."""
    wire.ask(CreateTopicsRequest(topics=[CreatableTopic(name=_TOPIC, num_partitions=1, replication_factor=1)]), 7)
    give_up = time.monotonic() + _PATIENCE_S
    while produce(Wire(address), 1).responses[0].partition_responses[0].error_code:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    entries = [
        RequestEntryData(
            entity=[RequestEntityData(entity_type="client-id", entity_name=client_id)],
            ops=[OpData(key="producer_byte_rate", value=limit)],
        )
        for client_id, limit in (("wire", 2000.0), ("probe", 1.0))
    ]
    told = wire.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert [entry.error_code for entry in told.entries] == [0, 0]
    # The broker goes by both at once, which in Apache Kafka is some time after the answer.
    while not produce(Probe(address), 1).throttle_time_ms:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    answer = produce(Wire(address), 40_000)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def test_quotas_and_subscriptions_are_those_of_apache_kafka() -> None:
    try:
        kafka = ApacheKafka()
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka, Cluster(brokers=1) as cluster:
        ours, theirs = Wire(cluster.bootstrap_servers), Wire(kafka.bootstrap_servers)
        for alter, described in (
            (alter_quotas, described_quotas),
            (alter_subscriptions, described_subscriptions),
        ):
            assert alter(ours) == alter(theirs)
            expected, give_up = described(theirs), time.monotonic() + _PATIENCE_S
            # Apache Kafka answers before its brokers go by what was changed.
            while described(ours) != expected and time.monotonic() < give_up:
                time.sleep(0.05)
                expected = described(theirs)
            assert described(ours) == expected
        waits = throttled(ours, cluster.bootstrap_servers), throttled(theirs, kafka.bootstrap_servers)
    # The last second of the quota's window is not complete, and it began at another moment in each cluster. And Apache
    # Kafka also counts what was sent before there was a quota: a few hundred bytes, which are a tenth of a second.
    assert waits[0] == pytest.approx(waits[1], abs=1200)
