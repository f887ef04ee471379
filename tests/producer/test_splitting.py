"""A batch the broker calls too large is split until what is too large is a single record, and only that fails."""

from __future__ import annotations

import pytest
from tests.producer.conftest import values_of

from ottla.errors import KafkaError
from ottla.producer.events import BatchAcked, BatchesAdded, BatchFailed, BatchSplit, BatchUnknown
from ottla.records.plain import decode_batches


def identity(transmit):
    """(epoch, base sequence, records) of every batch in a request."""
    return [
        (header.producer_epoch, header.base_sequence, header.record_count)
        for topic in transmit.message.topic_data
        for data in topic.partition_data
        for header, _ in decode_batches(b"".join(data.records))
    ]


def split_of(world, sealed):
    (found,) = [o for o in world.outcomes if isinstance(o, BatchSplit) and o.batch is sealed]
    return found.parts


@pytest.mark.parametrize("code", [10, 18])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_too_large_is_stored_in_parts_and_in_order(make_world, code, idempotent):
    world = make_world(enable_idempotence=idempotent)
    world.too_large_code, world.batch_bytes_max = code, 200
    world.send("first")
    world.ack()
    values = [f"value {n:20}" for n in range(40)]
    whole = world.send(*values)
    world.settle()
    assert world.stored() == ["first", *values]
    parts = split_of(world, whole)
    assert [part.record_count for part in parts] == [20, 20]
    assert len(whole.leaves()) == 16
    assert all(isinstance(world.outcome(leaf), BatchAcked) for leaf in whole.leaves())
    assert world.core.metrics()["batch-split-total"] == 15


def test_a_single_record_that_is_too_large_fails_alone(world):
    world.batch_bytes_max = 150
    world.send("first")
    world.ack()
    whole = world.send("a", "b", "c" * 200, "d")
    behind = world.send("e")
    world.settle()
    assert world.stored() == ["first", "a", "b", "d", "e"]
    assert isinstance(world.outcome(behind), BatchAcked)
    (failed,) = [o for o in world.outcomes if isinstance(o, BatchFailed)]
    assert failed.batch.record_count == 1
    assert isinstance(failed.error, KafkaError)
    assert failed.error.name == "MESSAGE_TOO_LARGE"
    assert (failed.error.topic, failed.error.partition, failed.error.broker_id) == ("flights", 0, 1)
    assert failed.batch in whole.leaves()


def test_each_record_keeps_its_sequence_number_and_no_attempt_is_counted(make_world):
    world = make_world(retries=1)
    world.send("first")
    world.ack()
    world.send("a", "b", "c", "d")
    assert identity(world.produces[0]) == [(0, 1, 4)]
    world.answer(10)
    assert [identity(t) for t in world.produces] == [[(0, 1, 2)], [(0, 3, 2)]]
    assert [values_of(t) for t in world.produces] == [["a", "b"], ["c", "d"]]
    world.answer(19)  # the one retry that there is
    world.settle()
    assert world.stored() == ["first", "a", "b", "c", "d"]


def test_those_in_flight_behind_it_follow_its_parts(world):
    world.send("first")
    world.ack()
    world.batch_bytes_max = 110
    world.send("a" * 20, "b" * 20, "c" * 20)
    world.send_each("d", "e", "f")
    world.settle()
    assert world.stored() == ["first", "a" * 20, "b" * 20, "c" * 20, "d", "e", "f"]


def test_a_batch_that_may_be_stored_as_a_whole_is_not_split_with_sequences(world):
    world.send("first")
    world.ack()
    whole = world.send("a", "b")
    world.lose_ack()
    world.run_until(lambda: world.produces)
    world.answer(10)
    assert isinstance(world.outcome(whole), BatchUnknown)
    world.send("c")
    world.settle()
    assert world.stored() == ["first", "a", "b", "c"]


def test_without_sequences_the_parts_of_a_batch_in_doubt_stay_in_doubt(make_world):
    world = make_world(enable_idempotence=False, retries=5)
    whole = world.send("a", "b")
    world.hang_up()
    world.run_until(lambda: world.produces)
    world.answer(10)
    for _ in range(2):
        world.run_until(lambda: world.produces)
        world.answer(87)
    assert [type(world.outcome(leaf)) for leaf in whole.leaves()] == [BatchUnknown, BatchUnknown]


def test_a_batch_given_up_in_flight_is_not_split(make_world):
    world = make_world(delivery_timeout_ms=31_000, request_timeout_ms=30_000, linger_ms=0)
    world.send("first")
    world.ack()
    given_up = world.send("a", "b")
    world.pass_ms(15_000)
    world.hang_up()
    world.run_until(lambda: world.produces)
    world.run_until(lambda: world.outcome(given_up))
    world.answer(10)
    assert isinstance(world.outcome(given_up), BatchUnknown)
    world.send("c")
    world.settle()
    assert world.stored() == ["first", "c"]


def test_parts_expire_with_the_batch(make_world):
    world = make_world()
    world.send("first")
    world.ack()
    whole = world.send("a", "b")
    world.pass_ms(20_000)
    world.answer(10)
    first, second = split_of(world, whole)
    world.hang_up()
    world.down = {1}
    world.run_until(lambda: world.outcome(first) and world.outcome(second))
    assert world.now_us - whole.created_us == 120_000_000


def test_two_partitions_of_one_request_are_split_apart(make_world):
    world = make_world(partitions=2)
    world.batch_bytes_max = 80
    batches = [world.batch("a", "b", "c", partition=0), world.batch("x", partition=1)]
    world.core.receive(BatchesAdded(batches), world.now_us)
    world.turn()
    world.settle()
    assert (world.stored(0), world.stored(1)) == (["a", "b", "c"], ["x"])
