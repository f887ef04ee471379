"""Producer ids and sequence numbers: a retry is stored once, a gap is refused, five batches are remembered."""

from __future__ import annotations

import pytest

from ottla.broker.log.producer_state import SEQUENCE_MODULO
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

from .world import TOPIC, World, batch_of, produce_request


def numbered(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 9) -> bytes:
    return batch_of(*(values or (b"v",)), producer_id=producer_id, sequence=sequence, producer_epoch=epoch)


def test_a_retry_is_stored_once_and_told_the_offset_it_has(world: World) -> None:
    world.produce(batch_of(b"other"))
    first = world.produce(numbered(0, b"a", b"b"))
    again = world.produce(numbered(0, b"a", b"b"))
    assert (first.error_code, first.base_offset) == (again.error_code, again.base_offset) == (0, 1)
    assert [r.value for r in world.stored()] == [b"other", b"a", b"b"]


def test_a_retry_is_told_the_largest_timestamp_of_what_is_stored(world: World) -> None:
    batch = batch_of(b"a", b"b", producer_id=9, sequence=0, producer_epoch=0, timestamp_ms=1000)
    assert world.produce(batch).log_append_time_ms == -1
    assert world.produce(batch).log_append_time_ms == 1001


def test_without_a_producer_id_a_retry_is_stored_twice(world: World) -> None:
    world.produce(batch_of(b"a"))
    world.produce(batch_of(b"a"))
    assert [r.value for r in world.stored()] == [b"a", b"a"]


def test_each_of_the_last_five_batches_is_known_again(world: World) -> None:
    for sequence in range(7):
        world.produce(numbered(sequence))
    for sequence in range(2, 7):
        assert world.produce(numbered(sequence)).base_offset == sequence
    assert world.produce(numbered(1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(world.stored()) == 7


def test_a_gap_is_refused_until_it_is_filled(world: World) -> None:
    world.produce(numbered(0))
    refused = world.produce(numbered(2))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert "sequence 2 after 0" in refused.error_message
    assert world.produce(numbered(1)).base_offset == 1
    assert world.produce(numbered(2)).base_offset == 2


def test_the_same_first_sequence_with_another_count_is_no_duplicate(world: World) -> None:
    world.produce(numbered(0, b"a", b"b"))
    assert world.produce(numbered(0, b"a")).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_partitions_count_for_themselves(world: World) -> None:
    world.create_topic("weather")
    world.produce(numbered(0))
    assert world.produce(numbered(0), topic="weather").base_offset == 0
    assert world.produce(numbered(1)).base_offset == 1


def test_producers_count_for_themselves(world: World) -> None:
    world.produce(numbered(0, producer_id=1))
    assert world.produce(numbered(0, producer_id=2)).base_offset == 1


def test_an_unknown_producer_may_begin_anywhere(world: World) -> None:
    assert world.produce(numbered(17)).error_code == 0
    assert world.produce(numbered(18)).error_code == 0


def test_sequences_wrap_around(world: World) -> None:
    world.produce(numbered(SEQUENCE_MODULO - 2, b"a", b"b", b"c"))
    assert world.produce(numbered(1)).base_offset == 3
    assert world.produce(numbered(SEQUENCE_MODULO - 2, b"a", b"b", b"c")).base_offset == 0


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(world: World) -> None:
    world.produce(numbered(0))
    assert world.produce(numbered(1, epoch=1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produce(numbered(0, epoch=1)).base_offset == 1
    assert world.produce(numbered(1, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.produce(numbered(1, epoch=1)).base_offset == 2


def test_a_refused_batch_leaves_no_trace(world: World) -> None:
    world.produce(numbered(0))
    damaged = bytearray(numbered(1))
    damaged[-1] ^= 1
    assert world.produce(bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert world.produce(numbered(1)).base_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_restarted_broker_knows_duplicates_from_its_log(world: World, clean: bool) -> None:
    for sequence in range(3):
        world.produce(numbered(sequence))
    if clean:
        world.close()
    world = World(1, world.storages)
    assert world.produce(numbered(2)).base_offset == 2
    assert world.produce(numbered(4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world.produce(numbered(3)).base_offset == 3
    assert len(world.stored()) == 4


def test_a_follower_knows_what_its_leader_knows(replicated: World) -> None:
    for sequence in range(3):
        replicated.produce(numbered(sequence))
    for core in replicated.brokers.values():
        log = core.topics[TOPIC][0].log
        from ottla.records.batch_header import read_header

        assert log.producers.check(read_header(numbered(1))).base_offset == 1
        assert log.producers.check(read_header(numbered(3))).error_code == 0


def test_acks_all_for_a_duplicate_waits_for_its_replication_too() -> None:
    world = World(2)
    world.create_topic(replicas=2)
    world.unreachable = {2} if world.leader() == 1 else {1}
    request = produce_request({(TOPIC, 0): numbered(0)})
    assert world.ask(world.leader(), request) == "waiting"
    again = world.send(world.leader(), produce_request({(TOPIC, 0): numbered(0)}))
    assert again not in world.answers
    world.unreachable = set()
    world.pass_time(1000)
    assert world.answers[again][0].responses[0].partition_responses[0].base_offset == 0
    assert len(world.stored()) == 1


def test_producer_ids_are_given_once_in_the_whole_cluster() -> None:
    world = World(3)
    given = [world.ask(broker_id, InitProducerIdRequest(transactional_id=None)) for broker_id in (1, 2, 3, 1)]
    assert [(a.error_code, a.producer_epoch) for a in given] == [(0, 0)] * 4
    ids = [answer.producer_id for answer in given]
    restarted = World(3, world.storages)
    ids.append(restarted.ask(2, InitProducerIdRequest(transactional_id=None)).producer_id)
    assert len(set(ids)) == len(ids)


def test_producer_ids_go_on_past_a_block() -> None:
    world = World(1)
    ids = [world.ask(1, InitProducerIdRequest(transactional_id=None)).producer_id for _ in range(2005)]
    assert len(set(ids)) == 2005


def test_half_an_identity_and_an_empty_transactional_id_are_refused(world: World) -> None:
    for request in (
        InitProducerIdRequest(transactional_id=""),
        InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=-1),
    ):
        answer = world.ask(1, request)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_no_controller_means_ask_again(world: World) -> None:
    world.without_controller = True
    answer = world.ask(1, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_no_producer_id_is_given_that_could_be_given_again(world: World) -> None:
    world.storages[0].failure = 28
    answer = world.ask(1, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.storages[0].failure = None
    assert world.ask(1, InitProducerIdRequest(transactional_id=None)).error_code == 0
