"""The simulated world: the same seed gives the same run, and the three guarantees show themselves under lost acks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.drawn import fixed_seeds

from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.ledgers.partition import Audit, add_audits, audit_partition
from ottla.audit.ledgers.verdict import judge
from ottla.audit.promises import PROMISES
from ottla.broker.controller.state import CHANGES_FILE
from ottla.errors import DeliveryFailed, DeliveryUnknown
from ottla.faults.fault import make_fault
from ottla.faults.fields import CONTROLLER
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import (
    ACKED,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    FAILED,
    SEQUENCE_HEADER,
    UNKNOWN,
    pack_sequence,
    unpack_sequence,
)
from ottla.simulation.world import World

TOPIC = "flights"
RECORDS = 120
SEEDS = fixed_seeds(60, soak=2_000)


def run(seed: int, guarantee: str, *, through_bytes: bool = False, in_flight: int = 5) -> tuple[Audit, World]:
    """A workload under lost acknowledgements and lost requests, audited."""
    world = World(seed, through_bytes=through_bytes)
    world.create_topic(TOPIC, partitions=3)
    faults = [
        world.faults.add(make_fault("lose_ack", topic=TOPIC, every=4)),
        world.faults.add(make_fault("lose_request", topic=TOPIC, every=7)),
    ]
    producer = world.producer(
        batch_size=300, max_in_flight_requests_per_connection=in_flight, **PROMISES[guarantee].settings
    )
    records = [(b"N%05d" % (number % 40), b"value %d" % number) for number in range(RECORDS)]
    deliveries = [
        producer.send(TOPIC, value, key, headers=[(SEQUENCE_HEADER, pack_sequence(number))])
        for number, (key, value) in enumerate(records)
    ]
    producer.flush()
    # Answers to acks=0 never come; what was sent still has to arrive before anybody looks.
    world.run_until(lambda: False, limit_us=1_000_000)
    assert all(fault.fired > 0 for fault in faults), "a fault that never fired voids the run"
    reader = world.reader()
    audits = []
    for partition in range(3):
        mine = [number for number, delivery in enumerate(deliveries) if delivery.partition == partition]
        stored = reader.read(TOPIC, partition)
        start, end = reader.bounds[TOPIC, partition]
        assert end is not None
        told = [outcome(deliveries[number]) for number in mine]
        history = PartitionHistory(
            TOPIC,
            partition,
            Sent(
                mine,
                [word for word, _ in told],
                [record_crc(records[number][0]) for number in mine],
                [record_crc(records[number][1]) for number in mine],
                [offset for _, offset in told],
            ),
            Stored(
                [record.offset for record in stored],
                [unpack_sequence(dict(record.headers)[SEQUENCE_HEADER]) or 0 for record in stored],
                [record_crc(record.key) for record in stored],
                [record_crc(record.value) for record in stored],
                [record.timestamp_ms for record in stored],
            ),
            start,
            end,
        )
        audits.append(audit_partition(history))
    return add_audits(audits), world


def outcome(delivery: Any) -> tuple[str, int]:
    error = delivery.exception(0)
    if isinstance(error, DeliveryUnknown):
        return UNKNOWN, -1
    if isinstance(error, DeliveryFailed):
        return FAILED, -1
    offset = delivery.result(0).offset
    return (ACKED, offset) if offset >= 0 else (UNKNOWN, -1)


@pytest.mark.parametrize("guarantee", list(PROMISES))
def test_the_same_seed_gives_the_same_trace(guarantee: str) -> None:
    first, again, other = (run(seed, guarantee)[1].trace for seed in (11, 11, 12))
    assert first.digest() == again.digest()
    assert first.messages == again.messages > 50
    assert first.digest() != other.digest()


@pytest.mark.parametrize("guarantee", list(PROMISES))
def test_bytes_on_the_wire_change_nothing(guarantee: str) -> None:
    assert run(5, guarantee)[1].trace.digest() == run(5, guarantee, through_bytes=True)[1].trace.digest()


@pytest.mark.parametrize("seed", SEEDS)
def test_idempotence_stores_each_record_once_whatever_acks_are_lost(seed: int) -> None:
    audit, _ = run(seed, EXACTLY_ONCE, through_bytes=seed % 20 == 0)
    assert judge(EXACTLY_ONCE, audit).passed, judge(EXACTLY_ONCE, audit).seen
    assert audit.figures.acked == RECORDS


@pytest.mark.parametrize("seed", SEEDS)
def test_without_idempotence_lost_acks_duplicate_and_lose_nothing(seed: int) -> None:
    audit, _ = run(seed, AT_LEAST_ONCE, through_bytes=seed % 20 == 0)
    assert judge(AT_LEAST_ONCE, audit).passed, judge(AT_LEAST_ONCE, audit).seen
    # The control: the judge of exactly-once does catch a producer that is not.
    assert not judge(EXACTLY_ONCE, audit).kept


@pytest.mark.parametrize("seed", SEEDS)
def test_without_acks_lost_requests_are_lost_and_nothing_is_stored_twice(seed: int) -> None:
    audit, _ = run(seed, AT_MOST_ONCE, through_bytes=seed % 20 == 0)
    assert judge(AT_MOST_ONCE, audit).passed, judge(AT_MOST_ONCE, audit).seen
    assert audit.figures.acked == 0
    assert audit.figures.unknown == RECORDS
    assert not judge(AT_LEAST_ONCE, audit).kept


def test_a_full_disk_is_an_error_and_not_a_loss() -> None:
    world = World(3)
    world.create_topic(TOPIC, partitions=1)
    for disk in world.disks:
        disk.capacity = disk.used
    producer = world.producer(delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0)
    delivery = producer.send(TOPIC, b"value")
    with pytest.raises((DeliveryFailed, DeliveryUnknown), match=r"(?i)storage|disk"):
        delivery.result(60)


def test_a_topic_that_was_idle_for_long_is_found_again_when_somebody_sends_to_it() -> None:
    world = World(3)
    world.create_topic("busy", partitions=1)
    world.create_topic("quiet", partitions=2)
    producer = world.producer(metadata_max_idle_ms=60_000, metadata_max_age_ms=20_000)
    producer.send("quiet", b"first", b"key")
    for _ in range(12):
        producer.send("busy", b"more")
        producer.flush()
        world.run_until(lambda: False, limit_us=10_000_000)
    assert producer.appender.partition_count("busy") == 1
    assert producer.appender.partition_count("quiet") == 0
    delivery = producer.send("quiet", b"late", b"key")
    producer.flush()
    assert delivery.result().offset == 1


def test_a_controller_goes_on_from_its_disk_among_brokers_that_went_on_without_it() -> None:
    world = World(7)
    world.create_topic(TOPIC, partitions=3)
    producer = world.producer(acks="all")
    before = world.controller.core.image  # type: ignore[attr-defined]
    world.kill_controller()
    world.kill(0)
    world.start(0)
    delivery = producer.send(TOPIC, b"meanwhile", partition=1)
    world.run_until(lambda: False, limit_us=2_000_000)
    world.start_controller()
    resumed = world.controller.core.image  # type: ignore[attr-defined]
    assert resumed.version > before.version
    assert resumed.topics[TOPIC].partitions == before.topics[TOPIC].partitions
    assert delivery.result(60).offset == 0

    def is_whole() -> bool:
        image = world.controller.core.image  # type: ignore[attr-defined]
        return image.broker_epochs[0] == 2 and all(
            len(part.isr) == 3 and part.leader >= 0 for part in image.topics[TOPIC].partitions
        )

    assert world.run_until(is_whole)
    # What it knows of the brokers' starts it still knows after the next time.
    world.kill_controller()
    world.start_controller()
    assert world.controller.core.image.broker_epochs == {0: 2, 1: 1, 2: 1}  # type: ignore[attr-defined]


def test_a_controller_that_begins_anew_lets_partitions_be_led_again_whose_last_replica_was_silent() -> None:
    world = World(8, broker_session_timeout_ms=1500, broker_heartbeat_interval_ms=500)
    world.create_topic(TOPIC, partitions=3)

    def led() -> list[bool]:
        image = world.controller.core.image  # type: ignore[attr-defined]
        return [part.leader >= 0 for part in image.topics[TOPIC].partitions]

    cuts = []
    for broker_id in range(3):
        cuts.append(world.links.cut(broker_id, CONTROLLER))
    assert world.run_until(lambda: not any(led()))
    world.kill_controller()
    for cut in cuts:
        cut.end()
    world.start_controller()
    assert not any(led())
    assert world.run_until(lambda: all(led()), limit_us=5_000_000)


def test_a_controller_that_lost_power_in_the_midst_of_writing_goes_on_from_the_change_before() -> None:
    world = World(1)
    for name in ("one", "two"):
        world.create_topic(name)
    before = (world.controller_disk.read_file(CHANGES_FILE) or b"").splitlines()
    world.kill_controller()
    *whole, torn = (world.controller_disk.read_file(CHANGES_FILE) or b"").splitlines()
    assert whole == before
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(torn)
    world.start_controller()
    world.create_topic("three")
    assert [*world.controller.core.image.topics] == ["one", "two", "three"]  # type: ignore[attr-defined]
    for line in (world.controller_disk.read_file(CHANGES_FILE) or b"").splitlines():
        json.loads(line)
