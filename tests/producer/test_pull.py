"""An open batch is closed when it can be sent with the next request, and grows until then."""

from __future__ import annotations

import threading

import pytest

from ottla.producer.events import BatchAcked, BatchesAdded, BatchesFilled, BatchFailed, OpenBatchesWanted


@pytest.fixture
def paced(make_world):
    """A producer that waits for nothing, whose first record is stored."""
    world = make_world(partitions=3, linger_ms=0)
    world.append("first")
    world.ack()
    return world


def sent(world, values):
    return [values(transmit) for transmit in world.produces]


def test_records_wait_in_one_growing_batch_while_the_broker_is_busy(paced, values):
    paced.append("a")
    for value in "bcd":
        paced.pass_ms(10)
        paced.append(value)
    assert sent(paced, values) == [["a"]]
    paced.ack()
    assert sent(paced, values) == [["b", "c", "d"]]


def test_a_full_batch_leaves_beside_the_request_in_flight(make_world, values):
    world = make_world(linger_ms=0, batch_size=200)
    world.append("first")
    world.ack()
    world.append("a" * 100)
    world.append("b" * 100)
    world.append("c" * 100)
    assert [each[0][0] for each in sent(world, values)] == ["a", "b"]
    world.settle()
    assert [each[0] for each in world.stored()] == ["f", "a", "b", "c"]


def test_an_open_batch_leaves_when_linger_is_over(make_world, values):
    world = make_world(linger_ms=50)
    world.append("a")
    world.pass_ms(30)
    world.append("b")
    world.pass_ms(19)
    assert sent(world, values) == []
    world.pass_ms(1)
    assert sent(world, values) == [["a", "b"]]


def test_batches_that_still_linger_leave_in_the_request_of_a_ready_one(make_world, values):
    world = make_world(partitions=3, linger_ms=50)
    world.append("a", partition=0)
    world.pass_ms(40)
    world.append("b", partition=1)
    world.append("c", partition=2)
    world.pass_ms(10)
    assert sent(world, values) == [["a", "b", "c"]]
    assert world.core.metrics()["ottla-batches-unsettled"] == 3


def test_batches_that_linger_leave_with_a_full_one_if_nothing_is_in_flight(make_world, values):
    world = make_world(partitions=2, linger_ms=50, batch_size=200)
    world.append("a", partition=0)
    world.append("b" * 100, partition=1)
    world.append("c" * 100, partition=1)
    assert sent(world, values) == [["b" * 100, "a"]]


def test_a_quiet_partition_goes_along_with_the_full_batches_of_a_busy_one(make_world, values):
    """The busy partition keeps more requests in flight than are useful for open batches."""
    world = make_world(partitions=2, linger_ms=0, batch_size=200)
    world.append("first", partition=0)
    world.ack()
    for value in "abc":
        world.append(value * 100, partition=0)
    assert len(world.produces) == 2
    world.append("quiet", partition=1)
    world.append("d" * 100, partition=0)
    assert [each[-1] for each in sent(world, values)] == ["a" * 100, "b" * 100, "quiet"]


def test_a_quiet_partition_is_not_kept_waiting_by_full_batches_that_fill_every_request(make_world, values):
    world = make_world(partitions=8, linger_ms=0, batch_size=200, max_request_size=450)
    world.append("first", partition=7)
    world.ack()
    for value in range(6):
        for partition in range(6):
            world.append(str(value) * 100, partition=partition)
    world.append("quiet", partition=7)
    for _ in range(8):
        if any("quiet" in each for each in sent(world, values)):
            break
        world.ack()
        for partition in range(6):
            world.append("x" * 100, partition=partition)
    assert any("quiet" in each for each in sent(world, values))


def test_flush_makes_open_batches_ready_at_once(make_world, values):
    world = make_world(partitions=2, linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    world.append("a", partition=0)
    world.append("b", partition=1)
    world.pass_ms(1000)
    assert sent(world, values) == []
    world.core.receive(OpenBatchesWanted(), world.now_us)
    world.turn()
    assert sent(world, values) == [["a", "b"]]


def test_an_open_batch_is_given_up_at_its_delivery_timeout(make_world):
    world = make_world(linger_ms=0, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
    world.leaders["flights"] = [-1]
    first = world.append("a")
    world.pass_ms(29_000)
    world.append("b")
    world.run_until(lambda: world.outcomes)
    [failed] = world.outcomes
    assert isinstance(failed, BatchFailed)
    assert failed.batch.record_count == 2
    assert "delivery.timeout.ms" in str(failed.error)
    assert world.core.metrics()["ottla-batches-unsettled"] == 0
    assert first.partition == 0
    # What comes afterwards has a batch and a time of its own.
    world.leaders["flights"] = [1]
    world.append("c")
    world.settle()
    assert world.stored() == ["c"]


def test_closing_sends_open_batches_and_gives_up_those_that_cannot_be_sent(make_world):
    world = make_world(partitions=2, linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    world.leaders["flights"] = [1, -1]
    world.append("a", partition=0)
    world.append("b", partition=1)
    world.core.receive(OpenBatchesWanted(), world.now_us)
    world.close(1000)
    world.ack()
    world.run_until(lambda: world.closed)
    assert [type(outcome) for outcome in world.outcomes] == [BatchAcked, BatchFailed]


def test_a_topic_with_an_open_batch_is_not_forgotten(make_world):
    world = make_world(
        linger_ms=3_600_000, delivery_timeout_ms=7_200_000, metadata_max_idle_ms=5_000, metadata_max_age_ms=4_000
    )
    world.append("a")
    for _ in range(5):
        world.pass_ms(4_000)
    assert world.topics_forgotten == []
    world.core.receive(OpenBatchesWanted(), world.now_us)
    world.turn()
    world.settle()
    assert world.stored() == ["a"]


def test_a_broker_far_away_gets_several_requests_in_flight(make_world, values):
    """The network takes 20 ms, so any number of requests may be in flight; a record comes every 2 ms."""
    world = make_world(linger_ms=0)
    in_flight = most = 0
    answers: list[tuple[int, object]] = []
    known: list[object] = []
    for number in range(400):
        world.append(str(number))
        for transmit in world.produces:
            if transmit not in known:
                known.append(transmit)
                answers.append((world.now_us + 20_000, transmit))
        while answers and answers[0][0] <= world.now_us:
            world.ack()
            answers.pop(0)
        in_flight = len(world.produces)
        most = max(most, in_flight)
        world.pass_ms(2)
    assert most == 5
    world.settle()
    assert world.stored() == [str(number) for number in range(400)]


@pytest.mark.parametrize("linger_ms", [0, 3_600_000])
def test_a_refused_batch_is_sent_again_although_a_younger_one_is_open(make_world, values, linger_ms):
    world = make_world(linger_ms=linger_ms, delivery_timeout_ms=7_200_000)
    for value in ("first", "a"):
        world.append(value)
        world.core.receive(OpenBatchesWanted(), world.now_us)
        world.turn()
        if value == "first":
            world.ack()
    world.append("b")
    world.answer(19)  # NOT_ENOUGH_REPLICAS, which says nothing against the leader
    world.pass_ms(1000)
    assert sent(world, values) == [["a"]]


def test_what_is_remembered_of_lingering_batches_does_not_grow_with_those_that_left(make_world):
    world = make_world(partitions=2, linger_ms=3_600_000, delivery_timeout_ms=7_200_000, batch_size=200)
    world.append("quiet", partition=1)
    for _ in range(300):
        world.append("x" * 100, partition=0)
        while world.produces:
            world.ack()
    assert len(world.core._accumulator._lingers) < 100


def test_what_is_remembered_of_lingering_batches_does_not_grow_with_metadata(make_world):
    """Each metadata answer lists all partitions again; going through all timers of many would take minutes."""
    world = make_world(partitions=40, linger_ms=3_600_000, delivery_timeout_ms=7_200_000, metadata_max_age_ms=1_000)
    for partition in range(40):
        world.append("a", partition=partition)
    before = world.metadata_requests
    for _ in range(100):
        world.pass_ms(1_000)
    assert world.metadata_requests > before + 50
    assert len(world.core._accumulator._lingers) == 40
    world.pass_ms(3_600_000)
    world.settle()
    assert [world.stored(partition) for partition in range(40)] == [["a"]] * 40


@pytest.mark.parametrize("ends", ["its delivery timeout", "the deadline of closing"])
def test_nothing_is_due_while_another_thread_compresses_a_batch_that_is_too_late(make_world, ends):
    world = make_world(linger_ms=0, delivery_timeout_ms=30_000, request_timeout_ms=20_000, metadata_max_age_ms=600_000)
    world.leaders["flights"] = [-1]
    sealed = world.batch("a")
    taker = threading.Thread(target=world._appender.take_new)
    taker.start()
    taker.join()
    assert world._appender.lend(sealed)
    world.core.receive(BatchesAdded([sealed]), world.now_us)
    if ends == "its delivery timeout":
        world.pass_ms(30_000)
    else:
        world.close(1_000)
        world.pass_ms(1_000)
    assert world.outcome(sealed) is None
    # Else the I/O thread would loop without a pause, and keep the interpreter from the thread that compresses.
    due = world.core.deadline_us()
    assert due is None or due > world.now_us
    world._appender.take_new()
    assert sealed.is_finished
    world.core.receive(BatchesFilled([sealed]), world.now_us)
    world.turn()
    assert isinstance(world.outcome(sealed), BatchFailed)
    assert world.closed == (ends == "the deadline of closing")


def test_a_leader_that_an_older_view_of_the_cluster_does_not_know_is_asked_for_soon(make_world):
    """The metadata of a broker that has just started has older leaders and fewer brokers."""
    world = make_world(brokers=2, linger_ms=0, metadata_max_age_ms=60_000)
    world.leaders["flights"], world.epoch = [2], 5
    world.append("a")
    world.settle()
    world.epoch, world.down = 4, {2}
    world.pass_ms(60_000)
    world.append("b")
    assert world.produces == []
    world.epoch, world.down = 5, set()
    began_us = world.now_us
    world.run_until(lambda: world.produces)
    assert world.now_us - began_us < 5_000_000
    world.settle()
    assert world.stored() == ["a", "b"]


def test_a_batch_that_had_no_leader_for_a_moment_leaves_when_linger_is_over(make_world, values):
    world = make_world(linger_ms=10_000)
    world.append("a")
    # The next metadata, which would have all partitions looked at, is five minutes away.
    for leader in (-1, 1):
        world.move_leader("flights", 0, leader)
        world.core._connection.refresh_metadata(world.now_us)
        world.pass_ms(1_000)
        assert bool(world.core._accumulator.leaderless) == (leader == -1)
        # As its driver asks after each turn.
        world.core.deadline_us()
    world.pass_ms(7_999)
    assert sent(world, values) == []
    world.pass_ms(1)
    assert sent(world, values) == [["a"]]


def test_the_fast_way_is_refused_where_there_are_transactions(make_world):
    with pytest.raises(RuntimeError, match="transactions"):
        make_world(transactional_id="billing").core.usual_outputs()
