"""Records that a broker refuses by name fail alone; the others of their batch are stored, in order (KIP-467)."""

from __future__ import annotations

import pytest

from ottla.producer.events import BatchAcked, BatchFailed, BatchSplit


def failures(world):
    return [output for output in world.outcomes if isinstance(output, BatchFailed)]


@pytest.mark.parametrize("code", [87, 32])
@pytest.mark.parametrize("idempotent", [True, False])
def test_the_neighbours_of_refused_records_are_stored_in_order(make_world, code, idempotent):
    # Without sequence numbers, records that are sent again come behind those that were in flight.
    under_way = 5 if idempotent else 1
    world = make_world(enable_idempotence=idempotent, max_in_flight_requests_per_connection=under_way)
    world.refused_code = code
    world.refused = {"bad one": "it has no key", "bad two": "nor has this"}
    world.send("first")
    world.ack()
    whole = world.send("a", "bad one", "b", "c", "bad two", "d")
    behind = world.send("e")
    world.settle()
    assert world.stored() == ["first", "a", "b", "c", "d", "e"]
    assert isinstance(world.outcome(behind), BatchAcked)
    assert [leaf.record_count for leaf in whole.leaves()] == [1, 1, 2, 1, 1]
    told = {leaf: world.outcome(leaf) for leaf in whole.leaves()}
    assert [type(outcome) for outcome in told.values()] == [
        BatchAcked,
        BatchFailed,
        BatchAcked,
        BatchFailed,
        BatchAcked,
    ]
    first, second = failures(world)
    assert "record 1 of 6 in its batch: it has no key" in str(first.error)
    assert "record 4 of 6 in its batch: nor has this" in str(second.error)
    assert (first.error.code, first.error.topic, first.error.partition, first.error.broker_id) == (
        code,
        "flights",
        0,
        1,
    )


@pytest.mark.parametrize("idempotent", [True, False])
def test_records_that_follow_in_flight_are_stored_behind_the_neighbours(make_world, idempotent):
    world = make_world(enable_idempotence=idempotent)
    world.refused = {"bad": "no"}
    world.send("first")
    world.ack()
    sent = [world.send(f"a{n}", "bad", f"b{n}") for n in range(4)]
    world.settle()
    assert world.stored() == ["first", *[f"{name}{n}" for n in range(4) for name in "ab"]]
    assert len(failures(world)) == 4
    assert all(len(batch.leaves()) == 3 for batch in sent)


def test_a_neighbour_that_is_never_sent_again_fails_with_what_was_refused(make_world):
    world = make_world(max_in_flight_requests_per_connection=1)
    world.refused = {"bad": "it has no key"}
    whole = world.send("a", "bad", "b")
    world.ack()
    last = whole.leaves()[-1]
    # The part with "a" is in flight, and the one with "b" waits behind it.
    world.down = {1}
    world.hang_up()
    world.run_until(lambda: world.outcome(last))
    error = str(world.outcome(last).error)
    assert "the last attempt ended with INVALID_RECORD" in error
    assert "record 1 of 3 in its batch: it has no key" in error


def test_a_batch_of_refused_records_alone_fails_record_by_record(world):
    world.refused = {"x": "one", "y": None}
    whole = world.send("x", "y")
    world.settle()
    assert world.stored() == []
    assert [str(output.error).rpartition(": ")[2].rstrip(")") for output in failures(world)] == [
        "one",
        "the broker does not say why",
    ]
    assert len(whole.leaves()) == 2


def test_a_single_refused_record_fails_with_what_is_said_of_it(world):
    world.refused = {"x": "it has no key"}
    world.send("x")
    world.settle()
    (failed,) = failures(world)
    assert "it has no key" in str(failed.error)
    assert not any(isinstance(output, BatchSplit) for output in world.outcomes)
