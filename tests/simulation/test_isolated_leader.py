"""A leader that is cut off from the other brokers, and not from its clients: they find the new leader all the same."""

from __future__ import annotations

from ottla.faults.fault import make_fault
from ottla.simulation.world import World

TOPIC = "flights"
SETTINGS = {"broker_session_timeout_ms": 1500, "broker_heartbeat_interval_ms": 300, "replica_lag_time_max_ms": 2000}


def test_a_producer_that_knows_only_an_isolated_leader_finds_the_new_one() -> None:
    for seed in range(8):
        world = World(seed, **SETTINGS)
        world.create_topic(TOPIC, min_insync_replicas=2)
        leader = world.controller.core.image.topics[TOPIC].partitions[0].leader  # type: ignore[attr-defined]
        address = world.bootstrap_servers.split(",")[leader]
        producer = world.producer(bootstrap_servers=address, request_timeout_ms=1_000, delivery_timeout_ms=60_000)
        producer.send(TOPIC, b"before").result()
        world.faults.add(make_fault("isolate", broker_id=leader))
        began_us = world.scheduler.now_us
        producer.send(TOPIC, b"since").result()
        assert world.scheduler.now_us - began_us < 30_000_000, f"seed {seed}"
