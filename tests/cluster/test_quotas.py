"""Producers that are beyond their quotas over real sockets: held back, and told so where they wait for answers."""

from __future__ import annotations

from typing import Any

from tests.wire import Wire

import ottla
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)

_PATIENCE_S = 30


def limit(bootstrap_servers: str, client_id: str | None, **limits: float) -> None:
    """Set quotas of a client id; None: of all that have none of their own."""
    entity = [RequestEntityData(entity_type="client-id", entity_name=client_id)]
    ops = [OpData(key=key, value=value) for key, value in limits.items()]
    wire = Wire(bootstrap_servers)
    request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=entity, ops=ops)])
    assert wire.ask(request, 1).entries[0].error_code == 0
    wire.close()


def test_a_producer_beyond_its_quota_waits_and_loses_nothing(own_kafka_cluster: ottla.Cluster) -> None:
    cluster = own_kafka_cluster
    cluster.create_topic("orders", partitions=1)
    limit(cluster.bootstrap_servers, "busy", producer_byte_rate=119_000)
    figures = {}
    for client_id in ("busy", "calm"):
        with ottla.Producer(cluster.bootstrap_servers, client_id=client_id, linger_ms=0) as producer:
            # 1,190,000 bytes are allowed in ten seconds: a little more is a tenth of a second of waiting.
            for number in range(6):
                producer.send("orders", b"%d" % number + bytes(200_000)).result(_PATIENCE_S)
            producer.send("orders", b"the last").result(_PATIENCE_S)
            figures[client_id] = producer.metrics()["produce-throttle-time-max"]
    assert 0 < figures["busy"] < 1000
    assert figures["calm"] == 0
    values = ottla.read_table(cluster.bootstrap_servers, "orders").column("value").to_pylist()
    assert [value[:8] for value in values] == [*[b"%d" % number + bytes(7) for number in range(6)], b"the last"] * 2


def test_what_is_sent_beyond_a_quota_without_acks_waits_in_the_clients_own_buffers(
    own_kafka_cluster: ottla.Cluster, wire_to: Any, make: Any
) -> None:
    cluster = own_kafka_cluster
    cluster.create_topic("orders", partitions=1)
    limit(cluster.bootstrap_servers, None, producer_byte_rate=1_000)
    wire = wire_to(cluster.bootstrap_servers.split(",")[cluster.leader("orders", 0) - 1])
    # The first request uses up what is allowed in a quarter of an hour.
    count, _ = wire.send_what_is_taken(make.frame(make.produce("orders", bytes(1_000_000), acks=0), 9))
    assert count > 1
