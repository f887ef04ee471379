"""Records without a key keep away from partitions that have no leader; others wait for theirs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ottla


@pytest.mark.parametrize("partitioner", ["default", "round_robin", "uniform_sticky", "consistent_random"])
def test_records_without_a_key_go_to_partitions_that_have_a_leader(partitioner: str) -> None:
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("flights", partitions=6, replication_factor=1)
        dead = cluster.leader("flights", 0)
        gone = {p for p in range(6) if cluster.leader("flights", p) == dead}
        cluster.kill(dead)
        settings: Any = {"partitioner_class": partitioner, "batch_size": 500, "linger_ms": 0}
        await_no_leader(cluster, gone)
        with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
            deliveries = [producer.send("flights", b"x" * 100) for _ in range(1000)]
            rows = producer.send_table("flights", pa.table({"v": ["x" * 100] * 1000}), value="v")
            producer.flush(60)
        sent = {delivery.result(0).partition for delivery in deliveries}
        assert sent == set(range(6)) - gone
        assert set(rows.result(0)["partition"].to_pylist()) == set(range(6)) - gone


def await_no_leader(cluster: ottla.Cluster, partitions: set[int]) -> None:
    """The brokers find out that one of them is dead when its session is over."""
    for _ in range(1_000_000):
        if all(cluster.leader("flights", partition) == -1 for partition in partitions):
            return
    raise AssertionError(f"partitions {partitions} still have a leader")
