"""A disk that is full or read-only: the protocol's error, nothing half-acked, and going on once there is room."""

from __future__ import annotations

import errno

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest

from .world import TOPIC, World, batch_of, produce_request, records_of


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failed_append_is_told_and_changes_nothing(world: World, failure: int) -> None:
    world.produce(batch_of(b"a", producer_id=1, sequence=0))
    world.storages[1].failure = failure
    answer = world.produce(batch_of(b"b", producer_id=1, sequence=1))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert answer.error_message
    assert world.end_offset().offset == 1
    assert [r.value for r in records_of(world.fetch())] == [b"a"]
    world.storages[1].failure = None
    assert world.produce(batch_of(b"b", producer_id=1, sequence=1)).base_offset == 1
    assert [r.value for r in world.stored()] == [b"a", b"b"]


def test_acks_0_on_a_full_disk_closes_the_connection(world: World) -> None:
    world.storages[1].failure = errno.ENOSPC
    assert world.produce(batch_of(b"a"), acks=0) == "hung up"


def test_a_segment_that_cannot_be_made_is_made_later() -> None:
    world = World(1)
    world.create_topic(segment_bytes=1024)
    world.produce(batch_of(b"x" * 900))
    world.storages[1].failure = errno.ENOSPC
    assert world.produce(batch_of(b"y" * 900)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.storages[1].failure = None
    assert world.produce(batch_of(b"y" * 900)).base_offset == 1
    assert len(world.stored()) == 2


def test_a_log_that_cannot_be_opened_fails_its_partition_only_and_opens_later(world: World) -> None:
    world.storages[1].failure = errno.ENOSPC
    assert world.create_topic("weather") == 0
    assert world.produce(batch_of(b"a"), topic="weather").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.fetch(topic="weather").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.end_offset("weather").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.fetch().error_code == 0
    world.storages[1].failure = None
    assert world.produce(batch_of(b"a"), topic="weather").base_offset == 0
    assert len(records_of(world.fetch(topic="weather"))) == 1


def test_a_log_that_could_not_be_opened_is_opened_by_who_reads_it(world: World) -> None:
    world.storages[1].failure = errno.ENOSPC
    assert world.create_topic("weather") == 0
    assert world.fetch(topic="weather").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.storages[1].failure = None
    assert world.fetch(topic="weather").error_code == 0
    assert world.end_offset("weather").offset == 0


def test_a_log_that_cannot_be_opened_says_so_once_until_it_has_been_open(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if "cannot be opened" in each.getMessage()]

    storage = world.storages[1]
    storage.failure = errno.ENOSPC
    world.create_topic("weather")
    assert len(said()) == 1
    assert "broker 1: the log of weather-0 cannot be opened: No space left on device" in said()[0]
    assert [each.name for each in caplog.records if "weather-0" in each.getMessage()] == ["ottla.broker"]
    for _ in range(3):
        assert world.produce(batch_of(b"a"), topic="weather").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(said()) == 1
    storage.failure = None
    assert world.produce(batch_of(b"a"), topic="weather").error_code == 0
    partition = world.brokers[1].topics["weather"][0]
    partition.close()
    storage.contents["weather-0/partition.metadata"] = bytearray(b"scratched")
    assert not partition.open_log()
    assert not partition.open_log()
    assert len(said()) == 2
    assert "weather-0/partition.metadata" in said()[1]


def test_a_topic_that_cannot_be_noted_is_not_made(world: World) -> None:
    world.storages[0].failure = errno.ENOSPC
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=factor)
        for name, factor in (("weather", 1), ("planes", 9))
    ]
    response = world.ask(1, CreateTopicsRequest(topics=topics))
    assert [t.error_code for t in response.topics] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert list(world.controller.image.topics) == [TOPIC]
    assert world.storages[1].files("weather-0") == []
    deleted = world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC, "clouds"])).responses
    assert [each.error_code for each in deleted] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert world.produce(batch_of(b"a")).error_code == 0


def test_a_folder_that_cannot_be_removed_is_no_obstacle_to_a_new_topic_of_that_name(world: World) -> None:
    world.produce(batch_of(b"old"))
    world.storages[1].failure = errno.EROFS
    assert world.ask(1, DeleteTopicsRequest(topic_names=[TOPIC])).responses[0].error_code == 0
    world.storages[1].failure = None
    assert world.create_topic() == 0
    assert world.produce(batch_of(b"new")).base_offset == 0
    assert [r.value for r in world.stored()] == [b"new"]


def test_one_partition_of_a_request_may_fail_alone(world: World) -> None:
    world.create_topic("weather")
    world.storages[1].failure, world.storages[1].failing = errno.EIO, f"{TOPIC}-0/"
    response = world.ask(1, produce_request({(TOPIC, 0): batch_of(b"a"), ("weather", 0): batch_of(b"b")}))
    codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {TOPIC: ErrorCode.KAFKA_STORAGE_ERROR, "weather": 0}
    assert (len(world.stored()), len(world.stored("weather"))) == (0, 1)


@pytest.mark.parametrize("start_anew", [False, True])
def test_a_cut_that_fails_half_way_is_told_by_the_files_when_the_log_is_opened_again(
    world: World, start_anew: bool
) -> None:
    for sequence in range(4):
        world.produce(batch_of(b"%d" % sequence, producer_id=1, sequence=sequence))
    partition = world.brokers[1].topics[TOPIC][0]
    assert partition.log is not None
    partition.log.advance_log_start(1)
    assert partition.high_watermark == 4
    storage = world.storages[1]
    storage.failure, storage.failing = errno.ENOSPC, f"{TOPIC}-0/leader-epoch-checkpoint"
    # Its file's turn comes after the records are cut.
    with pytest.raises(OSError, match="No space left"):
        partition.start_anew(7) if start_anew else partition.truncate(2)
    storage.failure = None
    assert partition.open_log()
    log = partition.log
    end = 7 if start_anew else 2
    assert (log.log_start_offset, log.log_end_offset) == (end if start_anew else 1, end)
    assert partition.high_watermark == end
    assert log.epochs.end_of(partition.leader_epoch, end)[1] <= end
    states = {entry.producer_id: entry.last_sequence for entry in log.producers.entries()}
    assert states == ({} if start_anew else {1: 1})
