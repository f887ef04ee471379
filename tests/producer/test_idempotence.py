"""Producer id, sequence numbers, and starting afresh after a batch was given up."""

from __future__ import annotations

import itertools

import pytest

from ottla.errors import KafkaError
from ottla.producer.events import BatchAcked, BatchFailed, BatchUnknown
from ottla.producer.idempotence import EPOCH_MAX, TRANSITIONS, Idempotence, IdentityEvent, IdentityState
from ottla.records.plain import decode_batches


def identity(transmit):
    """(producer id, epoch, base sequence) of every batch in a request."""
    return [
        (header.producer_id, header.producer_epoch, header.base_sequence)
        for topic in transmit.message.topic_data
        for data in topic.partition_data
        for header, _ in decode_batches(b"".join(data.records))
    ]


def test_sequences_count_records_per_partition(make_world):
    world = make_world(partitions=2)
    world.send("a", "b", "c")
    assert identity(world.produces[0]) == [(4000, 0, 0)]
    world.ack()
    world.send("d", partition=1)
    assert identity(world.produces[0]) == [(4000, 0, 0)]
    world.ack()
    world.send("e", "f")
    assert identity(world.produces[0]) == [(4000, 0, 3)]


def test_a_batch_sent_again_keeps_its_number(world):
    world.send("a")
    world.ack()
    world.send("b")
    first = identity(world.produces[0])
    world.hang_up()
    world.run_until(lambda: world.produces)
    assert identity(world.produces[0]) == first == [(4000, 0, 1)]


def test_without_idempotence_batches_carry_no_identity_and_no_id_is_asked_for(make_world):
    world = make_world(acks=1)
    world.id_answers = False
    world.send("a")
    assert identity(world.produces[0]) == [(-1, -1, -1)]


def test_no_batch_leaves_before_the_id_is_there_and_a_late_id_is_asked_for_again(world):
    world.producer_id_error = 14
    world.send("a")
    assert not world.produces
    world.producer_id_error = 0
    world.settle()
    assert world.stored() == ["a"]


def test_a_refused_id_fails_every_batch_with_the_reason(world):
    world.producer_id_error = 31
    sealed = world.send("a")
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "CLUSTER_AUTHORIZATION_FAILED"
    later = world.send("b")
    assert isinstance(world.outcome(later), BatchFailed)


def test_an_id_that_never_comes_fails_the_batch_with_the_reason(world):
    world.producer_id_error = 14
    sealed = world.send("a")
    world.run_until(lambda: world.outcome(sealed), turns=1000)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(world.outcome(sealed).error)


def test_after_a_refused_batch_the_rest_goes_on_in_the_next_epoch(world):
    world.send("first")
    world.ack()
    too_large, *rest = world.send_each("a", "b", "c")
    world.answer(10)
    world.ack()  # the others are out of order now
    world.ack()
    assert isinstance(world.outcome(too_large), BatchFailed)
    assert [identity(t) for t in world.produces] == [[(4000, 1, 0)]]
    world.settle()
    assert world.stored() == ["first", "b", "c"]
    assert all(isinstance(world.outcome(b), BatchAcked) for b in rest)


def test_only_the_partition_with_the_hole_starts_afresh(make_world):
    world = make_world(partitions=2)
    world.send("a0")
    world.ack()
    world.send("b0", partition=1)
    world.ack()
    world.send("a1")
    world.answer(10)
    world.send("a2")
    assert identity(world.produces[0]) == [(4000, 1, 0)]
    world.ack()
    world.send("b1", partition=1)
    assert identity(world.produces[0]) == [(4000, 0, 1)]
    world.ack()
    assert world.stored(0) == ["a0", "a2"]
    assert world.stored(1) == ["b0", "b1"]


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_after_an_unknown_batch_those_that_may_be_stored_are_settled_under_their_old_numbers_first(make_world, stored):
    world = make_world(retries=1)
    world.send("first")
    world.ack()
    lost, behind = world.send_each("a", "b")
    # Both answers are lost; `stored` of the two batches had arrived.
    if stored:
        world.lose_ack(count=stored)
    else:
        world.hang_up()
    world.run_until(lambda: world.produces)
    world.hang_up()  # the second attempt of "a" is lost too: unknown for good
    assert isinstance(world.outcome(lost), BatchUnknown)
    world.send("c")
    world.settle()
    # Where "a" is missing, "b" can never be told from a request that is still on its way: unknown, and not sent anew.
    assert isinstance(world.outcome(behind), BatchAcked if stored else BatchUnknown)
    assert world.stored() == ["first", *(["a", "b"] if stored else []), "c"]


def test_a_batch_given_up_in_flight_leaves_a_hole_only_if_it_was_not_stored(make_world):
    for lost in (False, True):
        world = make_world(delivery_timeout_ms=31_000, request_timeout_ms=30_000, linger_ms=0)
        world.send("first")
        world.ack()
        given_up = world.send("a")
        world.pass_ms(15_000)
        world.hang_up()
        world.run_until(lambda world=world: world.produces)
        world.run_until(lambda world=world, sealed=given_up: world.outcome(sealed))
        assert isinstance(world.outcome(given_up), BatchUnknown)
        (transmit,) = world.produces
        later = world.send("b")
        if lost:
            world.hang_up(transmit.connection_id)
        else:
            world.ack(transmit)
        world.run_until(lambda world=world: world.produces)
        assert identity(world.produces[0]) == ([(4000, 1, 0)] if lost else [(4000, 0, 2)])
        world.settle()
        assert isinstance(world.outcome(later), BatchAcked)
        assert world.stored() == (["first", "b"] if lost else ["first", "a", "b"])


@pytest.mark.parametrize("code", [45, 59])
def test_a_log_that_lost_acknowledged_batches_takes_the_next_in_the_next_epoch(world, code):
    world.send("a")
    world.ack()
    world.send("b")
    world.ack()
    # What an unclean election does: the log is back where "a" was the last batch.
    log = world.log()
    del log.values[1:]
    log.producers[4000] = (0, log.producers[4000][1][:1])
    world.send_each("c", "d", "e")
    assert [identity(t) for t in world.produces] == [[(4000, 0, 2)], [(4000, 0, 3)], [(4000, 0, 4)]]
    for _ in range(3):
        world.answer(code)
    world.settle()
    assert world.stored() == ["a", "c", "d", "e"]
    assert log.producers[4000][0] == 1
    assert all(isinstance(outcome, BatchAcked) for outcome in world.outcomes)


def test_a_batch_in_doubt_is_not_stored_again_under_another_number(world):
    world.send("a")
    world.ack()
    lost = world.send("b")
    world.hang_up()  # its request may reach the log any time
    world.run_until(lambda: world.produces)
    world.answer(45)
    assert isinstance(world.outcome(lost), BatchUnknown)
    assert "does not continue where the last acknowledged batch ended" in str(world.outcome(lost).error)
    world.send("c")
    world.settle()
    assert world.stored() == ["a", "c"]


def test_a_batch_that_stays_out_of_order_is_given_up_after_its_retries(make_world):
    world = make_world(retries=2)
    world.send("a")
    world.ack()
    victim = world.send("b")
    for _ in range(3):
        world.run_until(lambda: world.produces)
        world.answer(45)
    outcome = world.outcome(victim)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert outcome.error.attempts == 3
    world.send("c")
    world.settle()
    assert world.stored() == ["a", "c"]


def test_a_topic_made_anew_gets_its_first_batch_alone(make_world):
    world = make_world(metadata_max_age_ms=1000)
    world.send("a")
    world.ack()
    world.topic_ids["flights"] = bytes([7] * 16)
    world.logs.clear()
    world.pass_ms(1000)  # has metadata asked for
    world.send_each("b", "c", "d")
    # A log that knows no producer takes any first sequence: "c" could overtake a refused "b".
    assert len(world.produces) == 1
    world.answer(19)
    world.settle()
    assert world.stored() == ["b", "c", "d"]


def test_used_up_epochs_are_followed_by_a_new_producer_id(make_world):
    world = make_world(partitions=2)
    world.send("a")
    world.ack()
    world.send("x", partition=1)
    world.ack()
    queue = world.core._accumulator.queues["flights", 0]
    queue.producer_epoch = EPOCH_MAX
    world.log().producers[4000] = (EPOCH_MAX, [])
    refused = world.send("b")
    world.answer(87)
    assert isinstance(world.outcome(refused), BatchFailed)
    world.producer_id = 4001
    world.send_each("c", "d")
    world.send("y", partition=1)
    world.settle()
    assert world.stored() == ["a", "c", "d"]
    assert world.stored(1) == ["x", "y"]
    assert world.log().producers[4001] == (0, [(0, 0, 1), (1, 1, 2)])
    assert world.log(1).producers.keys() == {4000}, "only the partition whose epochs are used up changes its id"


def test_an_id_is_asked_of_another_broker_after_a_failure(make_world):
    world = make_world(brokers=3)
    world.hold_ids = True
    world.want("flights")
    world.send("a")
    asked = []
    for _ in range(4):
        world.run_until(lambda: world.ids_asked)
        transmit = world.ids_asked.pop()
        asked.append(world.lines[transmit.connection_id])
        world.refuse_id(transmit, 14)
    assert all(one != next_one for one, next_one in itertools.pairwise(asked))


def test_an_id_is_asked_of_the_same_broker_again_where_there_is_no_other(make_world):
    world = make_world(brokers=3)
    world.down = {2, 3}
    world.hold_ids = True
    world.want("flights")
    world.send("a")
    for _ in range(3):
        world.run_until(lambda: world.ids_asked)
        world.refuse_id(world.ids_asked.pop(), 14)
    world.hold_ids = False
    world.settle()
    assert world.stored() == ["a"]


def test_brokers_without_producer_ids_fail_the_batch_at_once(make_world):
    world = make_world(versions={0: (3, 12), 3: (0, 12), 18: (0, 4)})
    sealed = world.send("a")
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "UNSUPPORTED_VERSION"
    assert outcome.error.fatal
    assert "does not know InitProducerId" in str(outcome.error)


def test_sequence_numbers_wrap_to_zero(world):
    world.send("a")
    world.ack()
    world.core._accumulator.queues["flights", 0].next_sequence = 0x7FFFFFFE
    world.send("b", "c", "d")
    assert identity(world.produces[0]) == [(4000, 0, 0x7FFFFFFE)]
    world.answer(0, base_offset=1)
    world.send("e")
    assert identity(world.produces[0]) == [(4000, 0, 1)]


def test_identity_states_follow_their_table():
    for state in IdentityState:
        for event in IdentityEvent:
            identity = Idempotence(True, None, lambda failures: 0)
            identity.state = state
            if (state, event) in TRANSITIONS:
                identity._move(event)
                assert identity.state is TRANSITIONS[state, event]
            else:
                with pytest.raises(RuntimeError, match="cannot happen"):
                    identity._move(event)
