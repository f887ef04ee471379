"""The reader core between the offsets it is given, through errors and moving leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reader.fetched import values

from ottla.errors import ConfigError, KafkaError, Unreachable
from ottla.protocol.error_codes import ErrorCode
from ottla.reader.events import (
    Assign,
    AssignTopic,
    Consumed,
    Fetched,
    Finished,
    Positioned,
    ReadFailed,
    TopicAssigned,
)
from ottla.reader.position import Position, PositionEvent
from ottla.reader.settings import ReaderSettings
from ottla.records.batch_header import CorruptBatch


def kinds(said: list[Any]) -> list[str]:
    return [type(output).__name__ for output in said]


def test_a_bounded_read_gives_everything_once_and_ends(world: Any) -> None:
    world.store(0, b"a", b"b")
    world.store(0, b"c")
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    said = world.run()
    assert said[0] == Positioned("flights", 0, 0, 3)
    assert values(said) == [b"a", b"b", b"c"]
    assert said[-1] == Finished("flights", 0, 3)
    assert world.core.deadline_us() is None or world.core.deadline_us() > world.now_us


def test_an_empty_partition_is_finished_without_a_fetch(world: Any) -> None:
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    assert world.run() == [Positioned("flights", 0, 0, 0), Finished("flights", 0, 0)]
    assert world.fetches == []


def test_given_offsets_need_no_question(world: Any) -> None:
    world.store(0, b"a", b"b", b"c")
    world.core.receive(Assign("flights", 0, 1, 2), 0)
    said = world.run()
    assert kinds(said) == ["Positioned", "Fetched", "Finished"]
    assert said[1].fetch_offset == 1
    assert world.questions == []


def test_batches_behind_the_end_are_left_out(world: Any) -> None:
    for value in (b"a", b"b", b"c"):
        world.store(0, value)
    world.core.receive(Assign("flights", 0, 0, 2), 0)
    said = world.run()
    assert values(said) == [b"a", b"b"]
    assert said[-1] == Finished("flights", 0, 2)


def test_batches_cut_by_the_size_limit_are_fetched_whole_later(make_world: Callable[..., Any]) -> None:
    world = make_world(max_partition_fetch_bytes=200)
    for number in range(5):
        world.store(0, b"%d" % number * 50)
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    said = world.run()
    assert values(said) == [b"%d" % number * 50 for number in range(5)]
    assert len(world.fetches) > 1


def test_a_topic_is_read_in_all_its_partitions(world: Any) -> None:
    world.store(0, b"a")
    world.store(1, b"b")
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    said = world.run()
    assert said[0] == TopicAssigned("flights", 2)
    assert sorted(values(said)) == [b"a", b"b"]
    assert kinds(said).count("Finished") == 2


def test_partitions_of_one_leader_share_a_fetch(world: Any) -> None:
    world.leaders = [1, 1, 1]
    for partition in range(3):
        world.store(partition, b"x")
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    world.run()
    assert [[len(topic.partitions) for topic in fetch.topics] for fetch in world.fetches] == [[3]]


def test_a_timestamp_is_looked_up_and_one_in_the_future_means_the_end(world: Any) -> None:
    world.store(0, b"a", b"b", b"c")
    world.core.receive(Assign("flights", 0, 1001, -1, start_is_timestamp=True), 0)
    assert world.run()[0] == Positioned("flights", 0, 1, 3)
    world.core.receive(Assign("flights", 1, 9999, -1, start_is_timestamp=True), 0)
    assert world.run() == [Positioned("flights", 1, 0, 0), Finished("flights", 1, 0)]


def test_reading_on_for_ever_hears_of_new_records(world: Any) -> None:
    world.store(0, b"a")
    world.core.receive(Assign("flights", 0, -2, None), 0)
    said = world.run()
    assert values(said) == [b"a"]
    assert "Finished" not in kinds(said)
    assert world.fetches[-1].topics[0].partitions[0].fetch_offset == 1


def test_what_comes_next_is_fetched_before_the_last_is_consumed(make_world: Callable[..., Any]) -> None:
    world = make_world(max_partition_fetch_bytes=1)
    for number in range(3):
        world.store(0, b"%d" % number)
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    found = world.run()
    assert len([output for output in found if isinstance(output, Fetched)]) == 3
    assert values(found) == [b"0", b"1", b"2"]


def test_what_is_not_consumed_is_not_fetched_further(make_world: Callable[..., Any]) -> None:
    world = make_world(prefetch_max_bytes=1, max_partition_fetch_bytes=1)
    for number in range(3):
        world.store(0, b"%d" % number)
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    first = world.run()
    assert values(first) == [b"0"]
    [fetched] = [output for output in first if isinstance(output, Fetched)]
    world.core.receive(Consumed("flights", 0, len(fetched.records)), 0)
    assert values(world.run()) == [b"1"]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE]
)
def test_a_passing_error_is_tried_again_after_a_pause(world: Any, code: int) -> None:
    world.store(0, b"a")
    world.fetch_errors[0] = [code]
    world.offset_errors[0] = [code]
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    assert world.run() == []
    assert values(world.later(200)) == []
    said = world.later(200)
    assert values(said) == [b"a"]
    assert kinds(said)[-1] == "Finished"


def test_a_leader_that_moved_is_followed(world: Any) -> None:
    world.store(0, b"a")
    world.fetch_errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.core.receive(Assign("flights", 0, 0, 1), 0)
    world.run()
    world.leaders = [2, 2]
    assert values(world.later(200) + world.later(200)) == [b"a"]


def test_a_lost_connection_loses_and_repeats_nothing(world: Any) -> None:
    world.store(0, b"a", b"b")
    world.lose_next_fetch = True
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    said = world.run()
    for _ in range(5):
        said += world.later(200)
    assert values(said) == [b"a", b"b"]
    assert kinds(said).count("Finished") == 1


def test_an_offset_out_of_range_names_what_is_there(world: Any) -> None:
    world.store(0, b"a")
    world.fetch_errors[0] = [ErrorCode.OFFSET_OUT_OF_RANGE]
    world.core.receive(Assign("flights", 0, 7, None), 0)
    [_, failed] = world.run()
    assert isinstance(failed, ReadFailed)
    assert isinstance(failed.error, KafkaError)
    assert "(flights-0, broker 1: offset 7 cannot be read; the partition holds 0 to 1" in str(failed.error)
    assert (failed.error.topic, failed.error.partition, failed.error.broker_id) == ("flights", 0, 1)


def test_a_final_error_fails_the_partition_alone(world: Any) -> None:
    world.store(0, b"a")
    world.store(1, b"b")
    world.fetch_errors[0] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    said = world.run()
    (failed,) = [output for output in said if isinstance(output, ReadFailed)]
    assert (failed.error.topic, failed.error.partition, failed.error.broker_id) == ("flights", 0, 1)
    assert "(flights-0, broker 1)" in str(failed.error)
    assert values(said) == [b"b"]


def test_a_topic_that_stays_unknown_fails_with_its_name(world: Any) -> None:
    world.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    said = world.run()
    for _ in range(5):
        said += world.later(600)
    assert [type(output) for output in said] == [ReadFailed, ReadFailed]
    assert [(output.error.topic, output.error.partition) for output in said] == [("flights", None), ("flights", 0)]
    assert "(topic 'flights': the topic does not exist; check its name" in str(said[0].error)
    assert "(flights-0: the topic does not exist; check its name" in str(said[1].error)


def test_a_topic_that_appears_in_time_is_read(world: Any) -> None:
    world.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.store(0, b"a")
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    said = world.run() + world.later(600)
    world.topic_error = 0
    said += world.later(600) + world.later(600)
    assert values(said) == [b"a"]


def test_a_partition_that_is_not_there_fails_at_once(world: Any) -> None:
    world.core.receive(Assign("flights", 9, -2, -1), 0)
    [failed] = world.run()
    assert "(flights-9: the topic has 2 partitions, numbered from 0)" in str(failed.error)
    assert (failed.error.topic, failed.error.partition) == ("flights", 9)


def test_nobody_reachable_fails_after_the_api_timeout(make_world: Callable[..., Any]) -> None:
    world = make_world(default_api_timeout_ms=5000)
    world.refuse_connections = True
    world.core.receive(AssignTopic("flights", -2, -1), 0)
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    said = world.run()
    for _ in range(12):
        said += world.later(500)
    assert [type(output) for output in said] == [ReadFailed, ReadFailed]
    assert all(isinstance(output.error, Unreachable) for output in said)


def test_bytes_that_are_no_batch_fail_the_partition(world: Any) -> None:
    world.store(0, b"a")
    world.logs[0][0] = world.logs[0][0][:16] + b"\x01" + world.logs[0][0][17:]
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    [_, failed] = world.run()
    assert isinstance(failed.error, CorruptBatch)
    assert str(failed.error).startswith("flights-0: ")
    assert (failed.error.topic, failed.error.partition, failed.error.broker_id) == ("flights", 0, 1)


def test_an_answer_without_a_whole_batch_fails_the_partition(world: Any) -> None:
    """Asking again would bring the same answer, thousands of times a second."""
    world.store(0, b"a")
    world.store(0, b"b")
    world.logs[0][1] = world.logs[0][1][:-1]
    world.core.receive(Assign("flights", 0, -2, -1), 0)
    [_, fetched, failed] = world.run()
    assert values([fetched]) == [b"a"]
    assert isinstance(failed.error, CorruptBatch)
    assert str(failed.error).startswith(
        f"flights-0: the broker's answer for offset 1 has {len(world.logs[0][1])} bytes, but no complete batch at "
    )
    assert "seek" in str(failed.error)
    assert (failed.error.topic, failed.error.partition, failed.error.broker_id) == ("flights", 0, 1)


def test_two_worlds_from_one_seed_say_the_same(make_world: Callable[..., Any]) -> None:
    def history() -> list[Any]:
        world = make_world()
        world.store(0, b"a")
        world.fetch_errors[0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
        world.core.receive(AssignTopic("flights", -2, -1), 0)
        said = world.run()
        for _ in range(20):
            said += world.later(97)
            said.append(world.core.deadline_us())
        return said

    assert history() == history()


def test_a_position_that_is_over_cannot_move_any_more() -> None:
    position = Position("flights", 0, 0, 0, False)
    position.move(PositionEvent.LOCATED)
    position.move(PositionEvent.REACHED_END)
    with pytest.raises(RuntimeError, match="BROKE cannot happen in FINISHED"):
        position.move(PositionEvent.BROKE)


def test_settings_are_checked() -> None:
    settings = ReaderSettings({"bootstrap.servers": "localhost:9092", "isolation.level": "read_committed"})
    assert settings.read_committed
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        ReaderSettings({"bootstrap.servers": "localhost:9092", "isolation.level": "read_all"})
    with pytest.raises(ConfigError, match=r"did you mean fetch\.max\.bytes"):
        ReaderSettings({"bootstrap.servers": "localhost:9092", "fetch.max.byte": 1})


@pytest.mark.parametrize("whole_topic", [False, True])
def test_nobody_listening_is_said_after_seconds_not_after_the_whole_timeout(world, whole_topic):
    world.refuse_connections = True
    world.core.receive(AssignTopic("flights", -2, -1) if whole_topic else Assign("flights", 0, -2, -1), world.now_us)
    said = world.run()
    while not said and world.now_us < 60_000_000:
        said = world.later(100)
    assert [type(output) for output in said] == [ReadFailed]
    assert "connection refused" in str(said[0].error)
    assert 5_000_000 <= world.now_us < 8_000_000


def test_how_long_brokers_may_refuse_at_first_is_a_setting(make_world: Callable[..., Any]) -> None:
    """Who begins while all brokers are down for a while reads once they are back."""
    world = make_world(bootstrap_refused_timeout_ms=60_000)
    world.store(0, b"a")
    world.refuse_connections = True
    world.core.receive(Assign("flights", 0, -2, -1), world.now_us)
    said = world.run()
    while world.now_us < 20_000_000:
        said += world.later(100)
    assert said == []
    world.refuse_connections = False
    while not said and world.now_us < 60_000_000:
        said = world.later(100)
    assert values(said) == [b"a"]
