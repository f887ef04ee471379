"""Three replicas: followers copy the leader byte for byte, acks=all waits for them, consumers see what all have."""

from __future__ import annotations

from typing import Any

from ottla.broker.replica import next_batches
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData

from .world import TOPIC, World, batch_of, fetch_request, produce_request, records_of


def log_bytes(world: World, broker_id: int, folder: str = f"{TOPIC}-0") -> bytes:
    storage = world.storages[broker_id]
    return b"".join(bytes(storage.contents[f"{folder}/{n}"]) for n in storage.files(folder) if n.endswith(".log"))


def followers(world: World) -> set[int]:
    return {1, 2, 3} - {world.leader()}


def partition_of(world: World, broker_id: int) -> Any:
    return world.brokers[broker_id].topics[TOPIC][0]


def test_every_replica_holds_the_same_bytes(replicated: World) -> None:
    for number in range(20):
        assert replicated.produce(batch_of(b"v%d" % number)).base_offset == number
    copies = {log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}
    assert len(copies) == 1
    assert len(replicated.stored()) == 20


def test_acks_all_waits_for_every_replica_in_sync(replicated: World) -> None:
    replicated.unreachable = {min(followers(replicated))}
    request = produce_request({(TOPIC, 0): batch_of(b"a")}, timeout_ms=30_000)
    connection = replicated.send(replicated.leader(), request)
    assert connection not in replicated.answers
    replicated.pass_time(1000)
    assert connection not in replicated.answers
    replicated.unreachable = set()
    replicated.pass_time(1000)
    assert replicated.answers[connection][0].responses[0].partition_responses[0].base_offset == 0


def test_acks_1_waits_for_nobody(replicated: World) -> None:
    replicated.unreachable = followers(replicated)
    assert replicated.produce(batch_of(b"a"), acks=1).base_offset == 0


def test_acks_all_times_out_and_the_records_stay(replicated: World) -> None:
    replicated.unreachable = followers(replicated)
    request = produce_request({(TOPIC, 0): batch_of(b"a")}, timeout_ms=2000)
    connection = replicated.send(replicated.leader(), request)
    replicated.pass_time(1990)
    assert connection not in replicated.answers
    replicated.pass_time(20)
    answer = replicated.answers[connection][0].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert [r.value for r in replicated.stored()] == [b"a"]
    replicated.unreachable = set()
    replicated.pass_time(1000)
    assert len(replicated.answers[connection]) == 1


def test_too_few_in_sync_before_the_append_refuses_it_and_after_it_let_it_wait() -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND is what a broker would say who let the high watermark pass with too few in sync;
    neither Apache Kafka nor this one does.
    """
    world = World(3, replica_lag_time_max_ms=1000)
    world.create_topic(replicas=3, min_insync_replicas=2)
    world.unreachable = followers(world)
    request = produce_request({(TOPIC, 0): batch_of(b"a")}, timeout_ms=10_000)
    late = world.send(world.leader(), request)
    waiting = world.send(world.leader(), produce_request({(TOPIC, 0): batch_of(b"b")}, timeout_ms=60_000))
    world.pass_time(5000)
    assert world.partition().isr == (world.leader(),)
    assert late not in world.answers
    refused = world.produce(batch_of(b"c"))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    world.pass_time(6000)
    answer = world.answers[late][0].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert records_of(world.fetch()) == []
    world.unreachable = set()
    world.pass_time(5000)
    answer = world.answers[waiting][0].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert [record.value for record in records_of(world.fetch())] == [b"a", b"b"]


def test_a_request_of_several_partitions_is_answered_when_all_are_replicated() -> None:
    world = World(3)
    world.create_topic(partitions=3, replicas=1)
    world.create_topic("safe", partitions=3, replicas=3)
    leader = world.leader(TOPIC, 0)
    safe = next(index for index in range(3) if world.leader("safe", index) == leader)
    world.unreachable = {1, 2, 3} - {leader}
    batches = {(TOPIC, 0): batch_of(b"a"), ("safe", safe): batch_of(b"b"), ("missing", 0): batch_of(b"c")}
    connection = world.send(leader, produce_request(batches, timeout_ms=1000))
    assert connection not in world.answers
    world.pass_time(1005)
    found = {
        (t.name, p.index): p.error_code for t in world.answers[connection][0].responses for p in t.partition_responses
    }
    assert found == {
        (TOPIC, 0): 0,
        ("safe", safe): ErrorCode.REQUEST_TIMED_OUT,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_consumers_do_not_see_what_is_not_replicated(replicated: World) -> None:
    replicated.produce(batch_of(b"a"))
    replicated.unreachable = followers(replicated)
    replicated.produce(batch_of(b"b"), acks=1)
    answer = replicated.fetch(0)
    assert answer.high_watermark == 1
    assert [r.value for r in records_of(answer)] == [b"a"]
    beyond = replicated.fetch(1)
    assert (beyond.error_code, len(beyond.records)) == (0, 0)
    assert replicated.end_offset().offset == 1
    replicated.unreachable = set()
    replicated.pass_time(1000)
    assert [r.value for r in records_of(replicated.fetch(1))] == [b"b"]


def test_a_consumers_long_poll_ends_when_the_high_watermark_moves(replicated: World) -> None:
    replicated.unreachable = followers(replicated)
    poll = replicated.send(replicated.leader(), fetch_request(max_wait_ms=60_000))
    replicated.produce(batch_of(b"a"), acks=1)
    assert poll not in replicated.answers
    replicated.unreachable = set()
    replicated.pass_time(1000)
    assert len(records_of(replicated.answers[poll][0].responses[0].partitions[0])) == 1


def test_followers_read_recent_batches_from_memory(replicated: World) -> None:
    leader = replicated.leader()
    reads = replicated.storages[leader].reads
    for _ in range(5):
        replicated.produce(batch_of(b"x" * 1000))
    assert replicated.storages[leader].reads == reads
    assert len(partition_of(replicated, leader).recent) == 0


def test_what_memory_does_not_hold_is_read_from_the_file() -> None:
    world = World(2, recent_batches_bytes=3000, replica_fetch_max_bytes=2500)
    world.create_topic(replicas=2)
    leader = world.leader()
    world.unreachable = {1, 2} - {leader}
    for number in range(10):
        world.produce(batch_of(b"%d" % number * 900), acks=1)
    assert len(partition_of(world, leader).recent) == 3
    world.unreachable = set()
    world.pass_time(1000)
    assert log_bytes(world, 1) == log_bytes(world, 2)
    assert world.fetch(0).high_watermark == 10


def test_memory_for_recent_batches_is_bounded_over_all_partitions() -> None:
    world = World(2, recent_batches_bytes=5000)
    world.create_topic(partitions=6, replicas=2)
    world.unreachable = {2}
    led = [index for index in range(6) if world.leader(TOPIC, index) == 1]
    for _ in range(4):
        for index in led:
            world.produce(batch_of(b"x" * 900), acks=1, partition=index)
    held = [p.recent for p in world.brokers[1].topics[TOPIC].values()]
    assert sum(len(batch) for recent in held for _, _, batch in recent) <= 5000
    world.unreachable = set()
    world.pass_time(1000)
    for index in led:
        assert log_bytes(world, 1, f"{TOPIC}-{index}") == log_bytes(world, 2, f"{TOPIC}-{index}")


def test_many_partitions_share_one_fetch() -> None:
    world = World(2)
    world.create_topic(partitions=40, replicas=2)
    asked = world.last_question
    world.produce(batch_of(b"a"))
    assert world.last_question - asked == 1
    for partition in range(40):
        assert world.produce(batch_of(b"a"), partition=partition).base_offset == (1 if partition == 0 else 0)


def test_a_new_topic_is_replicated_without_waiting_for_the_long_poll_of_the_old_ones(replicated: World) -> None:
    replicated.pass_time(100)
    assert replicated.create_topic("weather", partitions=3, replicas=3) == 0
    for partition in range(3):
        assert replicated.produce(batch_of(b"a"), topic="weather", partition=partition).base_offset == 0
    assert replicated.produce(batch_of(b"a")).base_offset == 0


def test_idle_followers_ask_again_after_each_long_poll(replicated: World) -> None:
    replicated.pass_time(5000)
    assert replicated.produce(batch_of(b"a")).base_offset == 0


def test_an_unreachable_leader_is_asked_again_after_a_backoff(replicated: World) -> None:
    replicated.unreachable = {replicated.leader()}
    replicated.pass_time(600)
    asked = replicated.last_question
    replicated.pass_time(1000)
    assert replicated.last_question == asked
    replicated.unreachable = set()
    replicated.pass_time(100)
    assert replicated.produce(batch_of(b"a")).base_offset == 0


def test_a_follower_that_cannot_write_catches_up_later(replicated: World) -> None:
    follower = min(followers(replicated))
    replicated.storages[follower].failure = 28
    connection = replicated.send(replicated.leader(), produce_request({(TOPIC, 0): batch_of(b"a")}))
    replicated.pass_time(1000)
    assert connection not in replicated.answers
    replicated.storages[follower].failure = None
    replicated.pass_time(1000)
    assert replicated.answers[connection][0].responses[0].partition_responses[0].error_code == 0
    assert log_bytes(replicated, follower) == log_bytes(replicated, replicated.leader())


def fetched(records: Any, **more: Any) -> FetchResponse:
    data = PartitionData(partition_index=0, records=records, high_watermark=0, **more)
    return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[data])])


def answer_question(world: World, follower: int, response: FetchResponse) -> None:
    """Slip an answer to a follower's last question in before the leader's."""
    from ottla.broker.events import PeerAnswered

    token = world.brokers[follower].replicas._fetchers[world.leader()]._token
    world.brokers[follower].receive(PeerAnswered(world.leader(), token, response), world.now_us)
    world.drain()


def test_a_follower_appends_nothing_damaged_and_nothing_out_of_order(replicated: World) -> None:
    follower = min(followers(replicated))
    replicated.produce(batch_of(b"a"))
    before = log_bytes(replicated, follower)
    damaged = bytearray(batch_of(b"b", base_offset=1))
    damaged[-1] ^= 1
    for records in (bytes(damaged), b"\0" * 80, batch_of(b"b", base_offset=1)[:-1]):
        answer_question(replicated, follower, fetched(records))
        assert log_bytes(replicated, follower) == before
    answer_question(replicated, follower, fetched(before))
    assert log_bytes(replicated, follower) == before
    replicated.pass_time(1000)
    assert replicated.produce(batch_of(b"b")).base_offset == 1


def test_next_batches_passes_over_what_compaction_took() -> None:
    first, later = batch_of(b"x", base_offset=1), batch_of(b"x", base_offset=5)
    _, headers = next_batches([first + later], 1)
    assert [h.base_offset for h in headers] == [1, 5]


def test_next_batches_skips_what_is_there_already() -> None:
    first, second, third = (batch_of(b"x", base_offset=offset) for offset in range(3))
    buffers, headers = next_batches([first + second, third], 1)
    assert b"".join(bytes(b) for b in buffers) == second + third
    assert [h.base_offset for h in headers] == [1, 2]
    assert next_batches(None, 0) == ([], [])
    assert next_batches([b""], 0) == ([], [])


def test_a_follower_cuts_what_its_leader_never_had(replicated: World) -> None:
    """An unclean end took the leader's last batches; what followers had beyond gives way (elections come later)."""
    for value in (b"a", b"b", b"c"):
        replicated.produce(batch_of(value))
    leader = replicated.leader()
    name = f"{TOPIC}-0/{0:020d}.log"
    del replicated.storages[leader].contents[name][-10:]
    world = World(3, replicated.storages)
    assert world.leader() == leader
    world.pass_time(1000)
    assert world.produce(batch_of(b"d")).base_offset == 2
    assert [r.value for r in world.stored()] == [b"a", b"b", b"d"]
    assert len({log_bytes(world, broker_id) for broker_id in (1, 2, 3)}) == 1


def test_diverging_epochs_are_told_and_obeyed(replicated: World) -> None:
    for value in (b"a", b"b", b"c"):
        replicated.produce(batch_of(value))
    follower = min(followers(replicated))
    answer_question(replicated, follower, fetched(b"", diverging_epoch=EpochEndOffset(epoch=0, end_offset=1)))
    replicated.pass_time(1000)
    assert len({log_bytes(replicated, broker_id) for broker_id in (1, 2, 3)}) == 1
    assert replicated.produce(batch_of(b"d")).base_offset == 3


def test_a_topic_with_fewer_replicas_than_brokers_lives_on_those_only() -> None:
    world = World(3)
    world.create_topic(replicas=2)
    world.produce(batch_of(b"a"))
    holders = [broker_id for broker_id in (1, 2, 3) if world.storages[broker_id].files(f"{TOPIC}-0")]
    assert sorted(world.controller.image.topics[TOPIC].partitions[0].replicas) == holders
    assert len(holders) == 2


def test_tools_that_read_like_replicas_move_no_high_watermark(replicated: World) -> None:
    """Kafka's own checking tools fetch with replica id -2; an unknown id counts for nothing either."""
    replicated.unreachable = followers(replicated)
    replicated.produce(batch_of(b"a"), acks=1)
    leader = replicated.leader()
    for replica_id in (-2, 99):
        replicated.ask(leader, fetch_request(1, replica_id=replica_id, max_wait_ms=0))
    assert replicated.fetch(0).high_watermark == 0
    seen = replicated.ask(leader, fetch_request(0, replica_id=-2, max_wait_ms=0)).responses[0].partitions[0]
    assert len(seen.records) == 0


def test_a_follower_that_names_no_broker_epoch_may_be_in_sync(replicated: World) -> None:
    """Before version 15 a Fetch has none (KIP-903)."""
    follower = min(followers(replicated))
    replicated.kill(follower)
    replicated.pass_time(2000)
    replicated.produce(batch_of(b"a"))
    replicated.cut = {follower}
    replicated.start(follower)
    replicated.pass_time(500)
    assert follower not in replicated.partition().isr
    replicated.ask(replicated.leader(), fetch_request(1, replica_id=follower, max_wait_ms=0), version=14)
    assert follower in replicated.partition().isr


def test_a_follower_whose_empty_log_lies_beyond_the_leaders_end_begins_where_the_leader_does(
    replicated: World,
) -> None:
    """As when records were cleaned away here, and the leader lost with its power that they ever were."""
    for value in (b"a", b"b", b"c"):
        replicated.produce(batch_of(value))
    broker_id = min(followers(replicated))
    partition_of(replicated, broker_id).start_anew(7)
    replicated.produce(batch_of(b"d"))
    replicated.pass_time(1000)
    assert [record.value for record in replicated.stored()] == [b"a", b"b", b"c", b"d"]
    assert len({log_bytes(replicated, each) for each in (1, 2, 3)}) == 1
    assert partition_of(replicated, broker_id).log.log_start_offset == 0
