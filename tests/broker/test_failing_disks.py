"""Disks that fail reads and syncs: no hole in what followers get, no record twice, nothing built on lost pages."""

from __future__ import annotations

import gc

import pytest

from ottla.broker.events import ConnectionLost
from ottla.broker.log.directory import RECOVERY_POINTS, SYNC_FAILED
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from .transaction_world import Producer
from .world import TOPIC, World, batch_of, produce_request

LOG = f"{TOPIC}-0/{0:020d}.log"


@pytest.fixture
def synced() -> World:
    """Three replicas that sync every message."""
    world = World(3)
    assert world.create_topic(replicas=3, flush_messages=1, min_insync_replicas=2) == 0
    assert world.produce(batch_of(b"0", producer_id=1, sequence=0)).error_code == 0
    return world


def values(world: World, broker_id: int) -> list[bytes | None]:
    return [record.value for record in world.stored(broker_id=broker_id)]


def test_followers_get_what_the_leader_could_not_sync_or_nothing_behind_it(synced: World) -> None:
    leader = synced.leader()
    synced.storages[leader].sync_failures = 1
    assert synced.produce(batch_of(b"1", producer_id=1, sequence=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    synced.pass_time(20_000)
    for sequence in (1, 2, 3):
        assert synced.produce(batch_of(b"%d" % sequence, producer_id=1, sequence=sequence)).error_code == 0
    for broker_id in synced.brokers:
        assert values(synced, broker_id) == [b"0", b"1", b"2", b"3"]


def test_a_partition_forgets_its_recent_batches_with_one_that_could_not_be_synced(synced: World) -> None:
    leader = synced.leader()
    partition = synced.brokers[leader].topics[TOPIC][0]
    for each in synced.brokers:
        if each != leader:
            synced.pause(each)
    synced.produce(batch_of(b"1", producer_id=1, sequence=1))
    synced.storages[leader].sync_failures = 1
    core = synced.brokers[leader]
    synced.send(leader, produce_request({(TOPIC, 0): batch_of(b"2", producer_id=1, sequence=2)}))
    assert core.is_halted
    assert partition.log is not None
    ends = [base_offset for base_offset, _, _ in partition.recent] + [partition.log.log_end_offset]
    assert not partition.recent or ends == list(range(ends[0], ends[-1] + 1)), "what is recent has no hole"


def test_a_broker_that_cannot_sync_ends_and_others_lead(synced: World) -> None:
    leader = synced.leader()
    synced.storages[leader].sync_failures = 1
    synced.produce(batch_of(b"1", producer_id=1, sequence=1))
    [(broker_id, reason)] = synced.halted
    assert broker_id == leader
    assert f"{TOPIC}-0 cannot be synced" in reason
    synced.pass_time(20_000)
    assert synced.leader() not in (leader, -1)
    assert leader not in synced.partition().isr


def test_a_follower_that_cannot_sync_ends_too(synced: World) -> None:
    follower = next(each for each in synced.brokers if each != synced.leader())
    synced.storages[follower].sync_failures = 1
    synced.send(synced.leader(), produce_request({(TOPIC, 0): batch_of(b"1", producer_id=1, sequence=1)}))
    assert [broker_id for broker_id, _ in synced.halted] == [follower]


def test_what_could_not_be_synced_is_written_again_at_the_next_start() -> None:
    world = World(1)
    world.create_topic(flush_messages=1)
    world.produce(batch_of(b"0"))
    world.pass_time(70_000)
    storage = world.storages[1]
    storage.sync_failures = 1
    assert world.produce(batch_of(b"1")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.exists(f"{TOPIC}-0/{SYNC_FAILED}")
    world.start(1)
    world.pass_time(20_000)
    assert not storage.exists(f"{TOPIC}-0/{SYNC_FAILED}")
    assert world.produce(batch_of(b"2")).error_code == 0
    world.power_off(1)
    world.start(1)
    world.pass_time(20_000)
    assert values(world, 1) == [b"0", b"1", b"2"]
    assert world.end_offset().offset == 3


def test_the_recovery_point_does_not_pass_what_a_sync_in_the_background_dropped() -> None:
    world = World(1, log_flush_scheduler_interval_ms=200, log_flush_offset_checkpoint_interval_ms=300)
    world.create_topic()
    storage = world.storages[1]
    storage.sync_failures = 1
    world.produce(batch_of(b"0"))
    world.pass_time(5_000)
    assert len(world.halted) == 1
    assert f"{TOPIC} 0 1" not in (storage.read_file(RECOVERY_POINTS) or b"").decode()


def test_a_marker_that_cannot_be_read_back_is_not_appended_twice() -> None:
    world = World(3)
    assert world.create_topic(replicas=3) == 0
    producer = Producer(world, version=2)
    producer.init()
    assert producer.send(b"a") == 0
    for broker_id, storage in world.storages.items():
        if broker_id not in (0, world.leader()):
            storage.failing, storage.read_failures = f"{TOPIC}-0/", 1
    assert producer.commit() == 0
    for storage in world.storages.values():
        storage.read_failures = 0
    world.pass_time(20_000)
    contents = {bytes(world.storages[each].contents[LOG]) for each in world.brokers}
    assert len(contents) == 1
    for core in world.brokers.values():
        log = core.topics[TOPIC][0].log
        assert log is not None
        assert log.producers.stable_end(log.log_end_offset) == log.log_end_offset, "the transaction has ended"


def test_a_produce_request_whose_client_has_gone_is_let_go(synced: World) -> None:
    leader = synced.leader()
    for each in synced.brokers:
        if each != leader:
            synced.pause(each)
    message = produce_request({(TOPIC, 0): batch_of(b"1", producer_id=1, sequence=1)}, timeout_ms=1_000_000)
    connection = synced.send(leader, message)
    core = synced.brokers[leader]
    assert core.purgatory.sizes()["PendingProduce"] == 1
    core.receive(ConnectionLost(connection), synced.now_us)
    assert "PendingProduce" not in core.purgatory.sizes()
    assert not core.topics[TOPIC][0]._waiting_acks
    assert not _is_kept(message)


def test_a_produce_request_that_has_been_answered_in_vain_is_let_go(synced: World) -> None:
    leader = synced.leader()
    for each in synced.brokers:
        if each != leader:
            synced.pause(each)
    message = produce_request({(TOPIC, 0): batch_of(b"1", producer_id=1, sequence=1)}, timeout_ms=500)
    connection = synced.send(leader, message)
    core = synced.brokers[leader]
    core.tick(synced.now_us + 600_000)
    synced.drain()
    [answer] = synced.answers[connection]
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not core.topics[TOPIC][0]._waiting_acks
    assert not _is_kept(message)


def test_markers_that_have_been_answered_in_vain_are_let_go(synced: World) -> None:
    leader = synced.leader()
    for each in synced.brokers:
        if each != leader:
            synced.pause(each)
    marker = WritableTxnMarker(producer_id=7, topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])])
    message = WriteTxnMarkersRequest(markers=[marker])
    connection = synced.send(leader, message, version=2)
    core = synced.brokers[leader]
    core.tick(synced.now_us + 31_000_000)
    synced.drain()
    [answer] = synced.answers[connection]
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert not core.topics[TOPIC][0]._waiting_acks
    assert not _is_kept(message)


def _is_kept(message: ProduceRequest | WriteTxnMarkersRequest) -> bool:
    """Whether a broker's request still holds the message."""
    gc.collect()
    return any(type(each).__name__ == "Request" for each in gc.get_referrers(message))
