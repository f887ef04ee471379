"""Fetch sessions (KIP-227): what changed is asked for and answered, for followers and for clients; work is counted."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.broker.events import AskPeer, PeerAnswered
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import FETCH
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

from .world import TOPIC, World, batch_of, records_of

LATEST = 18


class Carried(World):
    """A world that counts what followers ask for and what they are answered with."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        self.asked: list[FetchRequest] = []
        self.answered: list[FetchResponse] = []
        self.lose_answers = False
        super().__init__(*given, **settings)

    def _from_broker(self, broker_id: int, output: Any) -> None:
        if isinstance(output, AskPeer) and output.message.API_KEY == FETCH:
            self.asked.append(output.message)
        elif isinstance(getattr(output, "message", None), FetchResponse) and output.connection_id < 0:
            self.answered.append(output.message)
            if self.lose_answers and output.connection_id in self.questions:
                asker, peer, token = self.questions.pop(output.connection_id)
                self._deliver(asker, PeerAnswered(peer, token, None))
                return
        super()._from_broker(broker_id, output)

    def forget(self) -> None:
        """Count from here on."""
        self.asked, self.answered = [], []

    def partitions_asked(self) -> int:
        """Partitions named in followers' requests."""
        named = sum(len(topic.partitions) for request in self.asked for topic in request.topics)
        return named + sum(len(each.partitions) for request in self.asked for each in request.forgotten_topics_data)

    def partitions_answered(self) -> int:
        """Partitions named in answers to followers."""
        return sum(len(topic.partitions) for response in self.answered for topic in response.responses)


def wide_world(partitions: int, **settings: Any) -> Carried:
    world = Carried(3, **settings)
    world.create_topic(partitions=partitions, replicas=3)
    world.pass_time(2000)
    return world


@pytest.mark.parametrize("partitions", [3, 60])
def test_a_replicated_record_names_its_own_partition_alone(partitions: int) -> None:
    world = wide_world(partitions)
    world.produce(batch_of(b"first"))
    world.forget()
    for number in range(10):
        assert world.produce(batch_of(b"%d" % number)).error_code == 0
    # Both followers ask once for each record, and are answered with it.
    assert (world.partitions_asked(), world.partitions_answered()) == (20, 20)


def test_idle_partitions_are_neither_asked_for_nor_answered() -> None:
    world = wide_world(60)
    world.forget()
    world.pass_time(5000)
    assert len(world.asked) >= 6 * 10
    assert (world.partitions_asked(), world.partitions_answered()) == (0, 0)


def test_looking_at_a_partition_does_not_depend_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen by the storage and by what is noted of followers: nothing is touched but the one log."""
    counts = []
    for partitions in (3, 60):
        world = wide_world(partitions)
        world.produce(batch_of(b"first"))
        before = {id(each): each.fetched_us for each in followers_of(world)}
        world.pass_time(10)
        world.produce(batch_of(b"second"))
        counts.append(sum(before[id(each)] != each.fetched_us for each in followers_of(world)))
    assert counts == [2, 2]


def followers_of(world: World) -> list[Any]:
    """What the leaders know of each replica elsewhere."""
    return [
        follower
        for core in world.brokers.values()
        for partition in core.topics[TOPIC].values()
        if partition.is_leader
        for follower in partition.followers.values()
    ]


def test_followers_learn_the_high_watermark_without_another_record() -> None:
    world = wide_world(3)
    world.produce(batch_of(b"a"))
    world.pass_time(1100)
    assert [core.topics[TOPIC][0].high_watermark for core in world.brokers.values()] == [1, 1, 1]


def test_an_image_that_concerns_one_partition_names_that_one() -> None:
    world = wide_world(60)
    world.forget()
    world.create_topic("another", partitions=1, replicas=3)
    world.pass_time(100)
    assert world.partitions_asked() == 2


def test_a_lost_answer_makes_the_next_question_ask_in_full() -> None:
    world = wide_world(6)
    world.produce(batch_of(b"a"))
    world.lose_answers = True
    world.send(world.leader(), produce_all(b"b"))
    world.lose_answers = False
    world.forget()
    world.pass_time(2000)
    in_full = [request for request in world.asked if request.session_epoch == 0]
    assert [len(request.topics[0].partitions) for request in in_full] == [2, 2]
    assert world.produce(batch_of(b"c")).error_code == 0


def produce_all(value: bytes) -> Any:
    from .world import produce_request

    return produce_request({(TOPIC, 0): batch_of(value)})


def test_a_leader_that_forgot_the_session_is_asked_in_full() -> None:
    world = wide_world(6)
    for core in world.brokers.values():
        for session in list(core.replicas.fetch_sessions.of_followers.values()):
            core.replicas.fetch_sessions.close(session)
    for index in range(6):
        assert world.produce(batch_of(b"a"), partition=index).error_code == 0


@pytest.mark.parametrize("slots", [0, 1])
def test_without_room_for_sessions_followers_ask_in_full(slots: int) -> None:
    world = wide_world(6, max_incremental_fetch_session_cache_slots=slots)
    for index in range(6):
        assert world.produce(batch_of(b"a"), partition=index).error_code == 0
    assert all(len(core.replicas.fetch_sessions) <= slots for core in world.brokers.values())


def test_a_deleted_topic_is_forgotten_and_one_of_its_name_is_another() -> None:
    world = wide_world(3)
    for index in range(3):
        world.produce(batch_of(b"a"), partition=index)
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    world.create_topic(partitions=3, replicas=3)
    for index in range(3):
        answer = world.produce(batch_of(b"b"), partition=index)
        assert (answer.error_code, answer.base_offset) == (0, 0)
    world.pass_time(1000)
    assert all(
        core.topics[TOPIC][index].log.log_end_offset == 1 for core in world.brokers.values() for index in range(3)
    )


def test_a_question_about_a_topic_of_the_same_name_that_is_gone_moves_no_high_watermark() -> None:
    world = World(1)
    world.create_topic()
    for value in (b"a", b"b"):
        world.produce(batch_of(value))
    partition = world.brokers[1].topics[TOPIC][0]
    partition.isr, partition.replicas = (1, 2), (1, 2)
    from ottla.broker.partition import Follower

    partition.followers = {2: Follower(0)}
    asked = FetchTopic(topic=TOPIC, topic_id=b"\1" * 16, partitions=[FetchPartition(partition=0, fetch_offset=2)])
    answer = world.ask(1, FetchRequest(replica_id=2, topics=[asked]), version=LATEST)
    assert answer.responses[0].partitions[0].error_code
    assert partition.followers[2].end_offset == -1


def test_who_follows_keeps_being_in_sync_while_it_has_nothing_to_say() -> None:
    """Longer than replica.lag.time.max.ms without a record; then one that followers take a while for."""
    world = wide_world(3, replica_lag_time_max_ms=2000)
    world.produce(batch_of(b"a"))
    world.pass_time(9100)
    leader = world.leader()
    world.unreachable = {1, 2, 3} - {leader}
    world.produce(batch_of(b"b"), acks=1)
    world.pass_time(1400)
    assert sorted(world.partition().isr) == [1, 2, 3]
    world.unreachable = set()
    world.pass_time(3000)
    assert sorted(world.partition().isr) == [1, 2, 3]


def test_a_follower_that_was_put_out_of_sync_is_taken_in_again_though_it_has_nothing_new_to_say() -> None:
    world = wide_world(3)
    world.produce(batch_of(b"a"))
    out = next(each for each in (1, 2, 3) if each != world.leader())
    world.pause(out)
    world.pass_time(4000)
    assert out not in world.partition().isr
    world.resume(out)
    world.pass_time(4000)
    assert sorted(world.partition().isr) == [1, 2, 3]


def test_what_a_follower_said_while_the_leaders_log_could_not_be_opened_counts_when_it_is() -> None:
    world = World(3)
    world.storages[1].failing, world.storages[1].failure = f"{TOPIC}-0/", 28
    world.create_topic(replicas=3)
    assert world.leader() == 1
    world.pass_time(1000)
    world.pause(3)
    world.pass_time(3000)
    assert sorted(world.partition().isr) == [1, 2]
    world.storages[1].failure = None
    world.resume(3)
    world.pass_time(3000)
    assert sorted(world.partition().isr) == [1, 2, 3]


def test_a_leader_that_leads_again_is_told_to_forget_what_cannot_be_fetched_yet() -> None:
    """Its session has two partitions from before; the follower cannot open the log of one of them now."""
    world = wide_world(4)
    lost, other = (TOPIC, 0), (TOPIC, 3)
    assert world.leader(*lost) == world.leader(*other) == 1
    world.produce(batch_of(b"a"))
    world.cut = {2}
    world.produce(batch_of(b"b"), acks=1)  # broker 3 has it, and broker 2, which leads next, has not
    storage = world.storages[3]
    storage.failing, storage.failure, storage.read_failures = f"{TOPIC}-0/", errno.EIO, 1_000_000
    world.pause(1)
    world.cut = set()
    world.pass_time(4000)
    assert world.leader(*lost) == world.leader(*other) == 2
    assert world.brokers[3].topics[TOPIC][0].log is None
    world.resume(1)
    world.pass_time(4000)
    wanted = [TopicPartitions(topic=TOPIC, partitions=[0, 3])]
    world.ask(2, ElectLeadersRequest(topic_partitions=wanted, timeout_ms=1000), version=2)
    world.pass_time(4000)
    assert world.leader(*lost) == world.leader(*other) == 1
    assert world.produce(batch_of(b"c"), acks=1).error_code == 0
    storage.failure, storage.read_failures = None, 0
    world.pass_time(4000)
    assert sorted(world.partition(*lost).isr) == sorted(world.partition(*other).isr) == [1, 2, 3]
    assert [record.value for record in world.stored(broker_id=3)] == [b"a", b"c"]


# Clients.


def asked_for(places: dict[str, dict[int, int]], **more: Any) -> FetchRequest:
    """A Fetch of {topic: {partition: offset}}."""
    topics = [
        FetchTopic(
            topic=name,
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in partitions.items()
            ],
        )
        for name, partitions in places.items()
    ]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, **more}, topics=topics)


def told(response: FetchResponse) -> dict[int, tuple[int, int]]:
    """Partition -> (error code, records) of an answer about one topic."""
    return {
        data.partition_index: (data.error_code, len(records_of(data)))
        for topic in response.responses
        for data in topic.partitions
    }


@pytest.fixture
def world() -> World:
    world = World(1)
    world.create_topic(partitions=4)
    return world


def begin(world: World, **places: int) -> FetchResponse:
    wanted = {TOPIC: dict.fromkeys(range(4), 0)}
    return world.ask(1, asked_for(wanted, session_epoch=0))


def test_a_session_begins_in_full_and_goes_on_with_what_changed(world: World) -> None:
    world.produce(batch_of(b"a"), partition=2)
    first = begin(world)
    assert first.session_id != 0
    assert told(first) == {0: (0, 0), 1: (0, 0), 2: (0, 1), 3: (0, 0)}
    world.produce(batch_of(b"b"), partition=1)
    number = first.session_id
    second = world.ask(1, asked_for({TOPIC: {2: 1}}, session_id=number, session_epoch=1))
    assert (second.session_id, told(second)) == (number, {1: (0, 1)})
    third = world.ask(1, asked_for({TOPIC: {1: 1}}, session_id=number, session_epoch=2))
    assert (third.session_id, told(third)) == (number, {})


def test_what_was_answered_and_not_confirmed_is_answered_again(world: World) -> None:
    number = begin(world).session_id
    world.produce(batch_of(b"a"), partition=3)
    for epoch in (1, 2):
        assert told(world.ask(1, asked_for({}, session_id=number, session_epoch=epoch))) == {3: (0, 1)}


def test_a_wrong_epoch_or_an_unknown_session_is_told(world: World) -> None:
    number = begin(world).session_id
    for epoch in (0x7FFFFFFF, 2, -2):
        answer = world.ask(1, asked_for({}, session_id=number, session_epoch=epoch))
        assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    answer = world.ask(1, asked_for({}, session_id=number ^ 1, session_epoch=1))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world.ask(1, asked_for({}, session_id=number, session_epoch=1)).error_code == 0


def test_forgotten_partitions_are_not_answered_any_more(world: World) -> None:
    number = begin(world).session_id
    forgotten = [ForgottenTopic(topic=TOPIC, partitions=[0, 1])]
    world.ask(1, asked_for({}, session_id=number, session_epoch=1, forgotten_topics_data=forgotten))
    for index in range(4):
        world.produce(batch_of(b"a"), partition=index)
    answer = world.ask(1, asked_for({}, session_id=number, session_epoch=2))
    assert told(answer) == {2: (0, 1), 3: (0, 1)}


def test_a_session_without_partitions_ends(world: World) -> None:
    number = begin(world).session_id
    forgotten = [ForgottenTopic(topic=TOPIC, partitions=[0, 1, 2, 3])]
    answer = world.ask(1, asked_for({}, session_id=number, session_epoch=1, forgotten_topics_data=forgotten))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(world.brokers[1].replicas.fetch_sessions) == 0


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_request_in_full_ends_the_session_it_names(world: World, epoch: int) -> None:
    number = begin(world).session_id
    answer = world.ask(1, asked_for({TOPIC: {0: 0}}, session_id=number, session_epoch=epoch))
    assert (answer.error_code, told(answer)) == (0, {0: (0, 0)})
    assert (answer.session_id != 0) == (epoch == 0)
    gone = world.ask(1, asked_for({}, session_id=number, session_epoch=1))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    partition = world.brokers[1].topics[TOPIC][1]
    assert len(partition.consumers_waiting) == 0


def test_a_long_poll_of_a_session_ends_when_one_of_its_partitions_has_records(world: World) -> None:
    number = begin(world).session_id
    poll = world.send(1, asked_for({}, session_id=number, session_epoch=1, max_wait_ms=500))
    assert poll not in world.answers
    world.produce(batch_of(b"a"), partition=2)
    assert told(world.answers[poll][0]) == {2: (0, 1)}


def test_a_fetch_that_waits_when_the_next_one_of_its_session_comes_is_outdated(world: World) -> None:
    number = begin(world).session_id
    poll = world.send(1, asked_for({}, session_id=number, session_epoch=1, max_wait_ms=500))
    later = world.send(1, asked_for({}, session_id=number, session_epoch=2, max_wait_ms=500))
    assert world.answers[poll][0].error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    world.pass_time(600)
    assert world.answers[later][0].error_code == 0


def test_errors_are_told_again_until_they_are_over(world: World) -> None:
    number = world.ask(1, asked_for({TOPIC: {0: 0}, "later": {0: 0}}, session_epoch=0)).session_id
    for epoch in (1, 2):
        answer = world.ask(1, asked_for({}, session_id=number, session_epoch=epoch))
        assert told(answer) == {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    world.create_topic("later")
    answer = world.ask(1, asked_for({}, session_id=number, session_epoch=3))
    assert told(answer) == {0: (0, 0)}
    assert told(world.ask(1, asked_for({}, session_id=number, session_epoch=4))) == {}


def test_a_moved_log_start_is_told_without_records(world: World) -> None:
    from ottla.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    world.produce(batch_of(b"a"))
    number = begin(world).session_id
    world.ask(1, asked_for({TOPIC: {0: 1}}, session_id=number, session_epoch=1))
    wanted = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    world.ask(1, DeleteRecordsRequest(topics=[wanted], timeout_ms=1000), version=2)
    (topic,) = world.ask(1, asked_for({}, session_id=number, session_epoch=2)).responses
    assert [(data.partition_index, data.log_start_offset) for data in topic.partitions] == [(0, 1)]


def test_a_session_by_topic_ids_stays_one_by_topic_ids(world: World) -> None:
    topic_id = world.controller.image.topics[TOPIC].topic_id
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    begun = world.ask(1, FetchRequest(max_wait_ms=0, session_epoch=0, topics=[wanted]), version=LATEST)
    assert begun.responses[0].topic_id == topic_id
    by_name = world.ask(1, asked_for({}, session_id=begun.session_id, session_epoch=1), version=12)
    assert by_name.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC]))
    world.create_topic(partitions=4)
    answer = world.ask(1, asked_for({}, session_id=begun.session_id, session_epoch=1), version=LATEST)
    assert told(answer) == {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)}


def test_sessions_make_room_when_they_are_old_and_smaller(world: World) -> None:
    world = World(1, max_incremental_fetch_session_cache_slots=2)
    world.create_topic(partitions=4)
    small = world.ask(1, asked_for({TOPIC: {0: 0}}, session_epoch=0)).session_id
    large = begin(world).session_id
    assert 0 not in (small, large)
    assert begin(world).session_id == 0
    world.pass_time(121_000)
    # Both are used, so none is stale; both are old, and the one with fewer partitions is worth less.
    for number in (small, large):
        assert world.ask(1, asked_for({}, session_id=number, session_epoch=1)).error_code == 0
    assert begin(world).session_id != 0
    gone = world.ask(1, asked_for({}, session_id=small, session_epoch=2))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world.ask(1, asked_for({}, session_id=large, session_epoch=2)).error_code == 0
    assert world.brokers[1].replicas.fetch_sessions.evictions == 1


def test_a_partition_that_fills_every_answer_does_not_starve_the_others(world: World) -> None:
    size = len(batch_of(b"x" * 1000))
    for _ in range(4):
        for index in range(4):
            world.produce(batch_of(b"x" * 1000), partition=index)
    number = begin(world, max_bytes=size).session_id
    offsets = dict.fromkeys(range(4), 0)
    seen: list[int] = []
    changed: dict[int, int] = {}
    for epoch in range(1, 9):
        asked = asked_for({TOPIC: changed}, session_id=number, session_epoch=epoch, max_bytes=size)
        answer = world.ask(1, asked)
        changed = {}
        for index, (_, records) in told(answer).items():
            if records:
                seen.append(index)
                offsets[index] += records
                changed[index] = offsets[index]
    assert {seen.count(index) for index in range(4)} == {2}


def test_sessions_are_counted_under_apache_kafkas_names(world: World) -> None:
    from ottla.broker.metric_beans import read

    begin(world)
    world.ask(1, asked_for({TOPIC: {0: 0}}, session_epoch=0))
    beans, cache = read(world.brokers[1], 1.0), "kafka.server:type=FetchSessionCache,name="
    assert beans[f"{cache}NumIncrementalFetchSessions"] == {"Value": 2}
    assert beans[f"{cache}NumIncrementalFetchPartitionsCached"] == {"Value": 5}


def test_a_fault_applies_to_the_fetches_of_a_session_that_holds_its_partition(world: World) -> None:
    from ottla.faults.fault import make_fault

    number = world.ask(1, asked_for({TOPIC: {0: 0, 1: 0}}, session_epoch=0)).session_id
    rule = world.faults.add(make_fault(kind="lose_request", api="Fetch", topic=TOPIC, partition=1, nth=1))
    answer = world.ask(1, asked_for({TOPIC: {0: 0}}, session_id=number, session_epoch=1))
    assert answer == "hung up"
    assert world.faults.fired(rule) == 1
