"""Leaders that die, come back, fall behind and are taken for dead: what is acked stays, and zombies do no harm."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.controller.core import ControllerCore
from ottla.broker.events import BrokerAddress
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .world import TOPIC, MemoryStorage, World, batch_of, fetch_request, produce_request, records_of


def log_bytes(world: World, broker_id: int) -> bytes:
    storage = world.storages[broker_id]
    names = [name for name in storage.files(f"{TOPIC}-0") if name.endswith(".log")]
    return b"".join(storage.contents[f"{TOPIC}-0/{name}"] for name in names)


def values(world: World) -> list[bytes | None]:
    return [record.value for record in records_of(world.fetch(0))]


def followers(world: World) -> list[int]:
    return [broker_id for broker_id in (1, 2, 3) if broker_id != world.leader()]


def heal(world: World) -> None:
    world.cut.clear()
    world.off_controller.clear()
    world.pass_time(3000)


def test_a_silent_leader_is_replaced_from_the_replicas_in_sync(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    old, before = replicated.leader(), replicated.partition()
    replicated.kill(old)
    replicated.pass_time(1400)
    assert replicated.leader() == old
    replicated.pass_time(700)
    after = replicated.partition()
    assert after.leader in before.isr
    assert after.leader != old
    assert (after.leader_epoch, old in after.isr) == (before.leader_epoch + 1, False)
    assert replicated.produce(batch_of(b"b")).base_offset == 1
    assert values(replicated) == [b"a", b"b"]


def test_clients_are_told_of_living_brokers_only(replicated: World) -> None:
    replicated.kill(2)
    replicated.pass_time(2000)
    answer = replicated.ask(1, MetadataRequest(topics=None))
    assert [broker.node_id for broker in answer.brokers] == [1, 3]
    assert answer.controller_id in (1, 3)


def test_a_broker_that_comes_back_catches_up_and_is_in_sync_again(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    old = replicated.leader()
    replicated.kill(old)
    replicated.pass_time(2000)
    replicated.produce(batch_of(b"b"))
    replicated.start(old)
    replicated.pass_time(1000)
    assert sorted(replicated.partition().isr) == [1, 2, 3]
    assert replicated.leader() != old
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1


def test_a_leader_that_restarts_faster_than_its_session_ends_loses_its_leadership_all_the_same(
    replicated: World,
) -> None:
    """It may have lost what was not synced: nobody may take it for what it was."""
    replicated.produce(batch_of(b"a"))
    old = replicated.leader()
    replicated.power_off(old)
    replicated.start(old)
    assert replicated.leader() not in (old, -1)
    heal(replicated)
    assert values(replicated) == [b"a"]
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1


def test_a_follower_that_restarts_with_less_is_in_sync_only_when_it_has_caught_up(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    follower = followers(replicated)[0]
    replicated.power_off(follower)
    replicated.cut = {follower}
    replicated.start(follower)
    replicated.pass_time(1000)
    assert follower not in replicated.partition().isr
    heal(replicated)
    assert follower in replicated.partition().isr


def test_where_all_replicas_in_sync_are_gone_nobody_leads(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    first, second = followers(replicated)
    replicated.kill(first)
    replicated.kill(second)
    replicated.pass_time(2000)
    last = replicated.leader()
    replicated.produce(batch_of(b"b"), acks=1)
    replicated.cut = {first}
    replicated.start(first)
    replicated.pass_time(500)
    replicated.kill(last)
    replicated.pass_time(2000)
    partition = replicated.partition()
    assert (partition.leader, partition.isr) == (-1, (last,))
    answer = replicated.ask(first, MetadataRequest(topics=None))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    replicated.start(last)
    heal(replicated)
    assert replicated.leader() == last
    assert values(replicated) == [b"a", b"b"]


def test_where_all_die_within_one_session_the_one_heard_of_last_stays_in_sync(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    for broker_id in (3, 2, 1):
        replicated.pass_time(350)
        replicated.kill(broker_id)
    replicated.pass_time(5000)
    assert (replicated.leader(), replicated.partition().isr) == (-1, (1,))


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_an_unclean_election_takes_a_living_replica_and_loses_what_it_never_had(where: str) -> None:
    unclean = {"unclean_leader_election_enable": True}
    world = World(2, **(unclean if where == "broker" else {}))
    world.create_topic(replicas=2, **({"unclean_leader_election_enable": "true"} if where == "topic" else {}))
    world.produce(batch_of(b"a"))
    leader = world.leader()
    other = 3 - leader
    world.kill(other)
    world.pass_time(2000)
    for value in (b"b", b"c"):
        world.produce(batch_of(value))
    world.kill(leader)
    world.start(other)
    world.pass_time(2000)
    assert (world.leader(), world.partition().isr) == (other, (other,))
    world.produce(batch_of(b"d"))
    world.start(leader)
    world.pass_time(2000)
    assert values(world) == [b"a", b"d"]
    assert log_bytes(world, 1) == log_bytes(world, 2)
    assert sorted(world.partition().isr) == [1, 2]


def test_a_follower_that_stays_behind_is_dropped_and_comes_back(replicated: World) -> None:
    late = followers(replicated)[0]
    replicated.pass_time(15_000)
    replicated.cut = {late}
    connection = replicated.send(replicated.leader(), produce_request({(TOPIC, 0): batch_of(b"a")}, timeout_ms=120_000))
    replicated.pass_time(28_000)
    assert (connection in replicated.answers, late in replicated.partition().isr) == (False, True)
    replicated.pass_time(20_000)
    assert late not in replicated.partition().isr
    assert replicated.answers[connection][0].responses[0].partition_responses[0].error_code == 0
    replicated.cut.clear()
    replicated.pass_time(1000)
    assert late in replicated.partition().isr


def test_an_idle_follower_of_an_idle_partition_is_in_sync_however_long_it_is_silent(replicated: World) -> None:
    replicated.cut = set(followers(replicated))
    replicated.pass_time(120_000)
    assert len(replicated.partition().isr) == 3


def test_with_too_few_in_sync_nothing_is_acked_and_nothing_committed() -> None:
    world = World(3)
    world.create_topic(replicas=3, min_insync_replicas=2)
    world.produce(batch_of(b"a"))
    waiting = produce_request({(TOPIC, 0): batch_of(b"b")}, timeout_ms=5000)
    gone = followers(world)
    for broker_id in gone:
        world.kill(broker_id)
    connection = world.send(world.leader(), waiting)
    world.pass_time(2000)
    assert world.partition().isr == (world.leader(),)
    assert world.produce(batch_of(b"c")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.fetch(0).high_watermark == 1
    world.pass_time(4000)
    answer = world.answers[connection][0].responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    world.start(gone[0])
    world.pass_time(1000)
    assert world.produce(batch_of(b"d")).base_offset == 2
    assert values(world) == [b"a", b"b", b"d"]


def test_a_leader_that_wakes_from_a_pause_acks_nothing_and_gives_way(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    zombie = replicated.leader()
    replicated.pause(zombie)
    safe = replicated.send(zombie, produce_request({(TOPIC, 0): batch_of(b"lost")}))
    replicated.pass_time(2000)
    assert replicated.leader() != zombie
    assert replicated.produce(batch_of(b"b")).base_offset == 1
    replicated.resume(zombie)
    heal(replicated)
    answer = replicated.answers[safe][0].responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert values(replicated) == [b"a", b"b"]
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1


def test_what_a_leader_cut_off_from_the_others_takes_with_acks_1_is_lost(replicated: World) -> None:
    """As with Apache Kafka: it believes that it leads until it hears otherwise."""
    replicated.produce(batch_of(b"a"))
    zombie = replicated.leader()
    replicated.cut = {zombie}
    replicated.off_controller = {zombie}
    replicated.frozen_images = {zombie}
    assert replicated.produce(batch_of(b"lost"), acks=1, broker_id=zombie).error_code == 0
    alone = replicated.send(zombie, produce_request({(TOPIC, 0): batch_of(b"unsafe")}, timeout_ms=60_000))
    replicated.pass_time(50_000)
    assert replicated.leader() != zombie
    assert alone not in replicated.answers
    assert replicated.produce(batch_of(b"b")).base_offset == 1
    replicated.frozen_images = set()
    heal(replicated)
    assert values(replicated) == [b"a", b"b"]
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1
    assert sorted(replicated.partition().isr) == [1, 2, 3]


def test_consumers_with_an_old_leader_epoch_are_fenced(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    old = replicated.leader()
    replicated.kill(old)
    replicated.pass_time(2000)
    stale = fetch_request(0, max_wait_ms=0, current_leader_epoch=0)
    answer: Any = replicated.ask(replicated.leader(), stale).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_broker_that_shuts_down_hands_over_first(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    leaving = replicated.leader()
    replicated.brokers[leaving].shut_down(replicated.now_us)
    replicated.drain()
    assert replicated.let_go == [leaving]
    assert replicated.leader() not in (leaving, -1)
    assert replicated.produce(batch_of(b"b")).base_offset == 1
    replicated.brokers[leaving].close()
    replicated.kill(leaving)
    replicated.start(leaving)
    replicated.pass_time(1000)
    assert sorted(replicated.partition().isr) == [1, 2, 3]


def test_leaders_and_replicas_in_sync_survive_a_restart_of_the_controller(replicated: World) -> None:
    replicated.kill(replicated.leader())
    replicated.pass_time(2000)
    before = replicated.partition()
    replicated.controller.close()
    addresses = [BrokerAddress(broker_id, "localhost", 9090 + broker_id) for broker_id in (1, 2, 3)]
    again = ControllerCore(addresses, replicated.storages[0], replicated.settings, random.Random(1))
    after = again.image.topics[TOPIC].partitions[0]
    assert (after.leader, after.isr) == (before.leader, before.isr)
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.partition_epoch > before.partition_epoch


def test_an_unsaved_controller_knows_every_change_it_told(replicated: World) -> None:
    replicated.create_topic("weather", partitions=2, replicas=2)
    replicated.kill(replicated.leader())
    replicated.pass_time(2000)
    replicated.storages[0].contents["controller.changes"] += b'{"version": 99, "topi'
    addresses = [BrokerAddress(broker_id, "localhost", 9090 + broker_id) for broker_id in (1, 2, 3)]
    again = ControllerCore(addresses, replicated.storages[0], replicated.settings, random.Random(1))
    assert [*again.image.topics] == [TOPIC, "weather"]
    assert again.image.topics[TOPIC].partitions[0].leader == replicated.leader()


def elected(world: World, broker_id: int, kind: int, *, topic: str = TOPIC) -> tuple[int, int]:
    """(error code, leader afterwards) of an election of partition 0."""
    wanted = [TopicPartitions(topic=topic, partitions=[0])]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=1000)
    result = world.ask(broker_id, request, version=2).replica_election_results[0].partition_result[0]
    return result.error_code, world.leader() if topic == TOPIC else -1


def test_the_preferred_leader_is_elected_where_it_is_in_sync(replicated: World) -> None:
    preferred = replicated.leader()
    other = followers(replicated)[0]
    assert elected(replicated, other, 0) == (ErrorCode.ELECTION_NOT_NEEDED, preferred)
    replicated.kill(preferred)
    replicated.pass_time(2000)
    assert elected(replicated, other, 0) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, replicated.leader())
    replicated.start(preferred)
    replicated.pass_time(1000)
    assert elected(replicated, other, 0) == (0, preferred)
    assert elected(replicated, other, 0, topic="nowhere")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replicated.produce(batch_of(b"a")).base_offset == 0


def test_leadership_goes_back_to_preferred_leaders_now_and_then() -> None:
    world = World(3, leader_imbalance_check_interval_seconds=10)
    world.create_topic(replicas=3)
    preferred = world.leader()
    world.kill(preferred)
    world.pass_time(2000)
    world.start(preferred)
    world.pass_time(2000)
    assert world.leader() != preferred
    world.pass_time(10_000)
    assert world.leader() == preferred


def test_an_unclean_election_can_be_asked_for_where_nobody_leads(replicated: World) -> None:
    first, second = followers(replicated)
    last = replicated.leader()
    assert elected(replicated, first, 1)[0] == ErrorCode.ELECTION_NOT_NEEDED
    replicated.kill(second)
    replicated.cut = {first}
    replicated.kill(first)
    replicated.pass_time(2000)
    replicated.start(first)
    replicated.kill(last)
    replicated.pass_time(2000)
    assert replicated.leader() == -1
    assert elected(replicated, first, 1) == (0, first)
    assert replicated.partition().isr == (first,)


def test_where_epochs_ended_is_told(replicated: World) -> None:
    for value in (b"a", b"b"):
        replicated.produce(batch_of(value))
    replicated.kill(replicated.leader())
    replicated.pass_time(2000)
    replicated.produce(batch_of(b"c"))

    def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])])
        answer = replicated.ask(replicated.leader(), request, version=4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end_of(0) == (0, 0, 2)
    assert end_of(1) == (0, 1, 3)
    assert end_of(9) == (0, -1, -1)
    assert end_of(0, current=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert end_of(0, current=5) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


def test_a_leader_whose_log_is_empty_keeps_followers_from_cutting_theirs(replicated: World) -> None:
    """Retention took all there was, and with it the epochs; the one that begins is known without a record."""
    replicated.produce(batch_of(b"a"))
    replicated.pass_time(1000)
    old, (_, following, other) = replicated.leader(), replicated.partition().replicas
    for broker_id in (following, other):
        log = replicated.brokers[broker_id].topics[TOPIC][0].log
        assert log is not None
        log.advance_log_start(1)
    log = replicated.brokers[following].topics[TOPIC][0].log
    assert log is not None
    log.epochs.truncate(0)
    assert not log.epochs.entries()
    replicated.kill(old)
    replicated.pass_time(3000)
    assert replicated.leader() == following
    copy = replicated.brokers[other].topics[TOPIC][0].log
    assert copy is not None
    assert (copy.cuts, copy.log_end_offset) == (0, 1)
    assert replicated.produce(batch_of(b"b")).base_offset == 1


def test_a_leader_that_appended_nothing_in_its_epoch_follows_the_next_one(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    preferred = replicated.leader()
    replicated.kill(preferred)
    replicated.pass_time(2000)
    for_a_while = replicated.leader()
    replicated.start(preferred)
    replicated.pass_time(1000)
    assert elected(replicated, for_a_while, 0) == (0, preferred)
    assert replicated.produce(batch_of(b"b")).base_offset == 1
    replicated.pass_time(1000)
    assert sorted(replicated.partition().isr) == [1, 2, 3]
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1
    log = replicated.brokers[for_a_while].topics[TOPIC][0].log
    assert log is not None
    assert [entry.epoch for entry in log.epochs.entries()] == [0, replicated.partition().leader_epoch]


class Died(BaseException):
    """The machine had no power any more."""


class DyingStorage(MemoryStorage):
    """Dies in front of the write behind so many."""

    def __init__(self, contents: dict[str, bytearray], writes: int) -> None:
        super().__init__()
        self.contents = {path: bytearray(content) for path, content in contents.items()}
        self.writes = writes

    def check_writable(self, path: str) -> None:
        if not self.writes:
            raise Died
        self.writes -= 1


@pytest.mark.parametrize("torn", [b'{"version": 99, "topi', b'{"version": 99\0\0\0\0\0\0\0\0\0{}}}\n', bytes(30)])
def test_a_controller_that_dies_again_while_it_starts_behind_a_torn_line_starts_the_next_time(
    replicated: World, torn: bytes
) -> None:
    replicated.kill(replicated.leader())
    replicated.pass_time(2000)
    contents = replicated.storages[0].contents
    contents["controller.changes"] += torn
    addresses = [BrokerAddress(broker_id, "localhost", 9090 + broker_id) for broker_id in (1, 2, 3)]
    has_died = True
    writes = 0
    while has_died:
        storage = DyingStorage(contents, writes)
        has_died = False
        try:
            ControllerCore(addresses, storage, replicated.settings, random.Random(1))
        except Died:
            has_died = True
        again = ControllerCore(addresses, DyingStorage(storage.contents, 99), replicated.settings, random.Random(1))
        assert [*again.image.topics] == [TOPIC], writes
        writes += 1
    assert writes > 3
