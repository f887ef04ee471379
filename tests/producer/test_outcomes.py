"""What is said of a batch at the end: acked, certainly not stored, or nobody knows."""

from __future__ import annotations

import pytest

from ottla.errors import ClosedError, KafkaError
from ottla.producer.events import BatchAcked, BatchesAdded, BatchFailed, BatchUnknown


def plain(make_world, **settings):
    return make_world(enable_idempotence=False, **settings)


def test_lost_ack_then_retry_stores_one_copy(world):
    sealed = world.send("a")
    world.lose_ack()
    assert world.outcome(sealed) is None
    world.settle()
    assert world.stored() == ["a"]
    assert world.outcome(sealed) == BatchAcked(sealed, 0)


def test_lost_ack_then_retry_without_idempotence_stores_two_copies(make_world):
    world = plain(make_world)
    sealed = world.send("a")
    world.lose_ack()
    world.settle()
    assert world.stored() == ["a", "a"]
    assert world.outcome(sealed) == BatchAcked(sealed, 1)


def test_an_answer_that_calls_the_batch_a_duplicate_counts_as_acked(world):
    sealed = world.send("a")
    world.answer(46)
    assert world.outcome(sealed) == BatchAcked(sealed, -1)


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 100, 103])
def test_an_answer_that_shows_metadata_to_be_stale_has_it_asked_for_at_once(world, code):
    sealed = world.send("a")
    before = world.metadata_requests
    world.answer(code)
    world.pass_ms(100)
    assert world.metadata_requests == before + 1
    world.settle()
    assert world.outcome(sealed) == BatchAcked(sealed, 0)


def test_a_lost_request_is_sent_again(world):
    world.send("a")
    world.hang_up()
    world.settle()
    assert world.stored() == ["a"]


def test_without_retries_a_lost_ack_is_unknown_and_not_failed(make_world):
    world = make_world(retries=0)
    sealed = world.send("a")
    world.lose_ack()
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchUnknown)
    assert isinstance(outcome.error, KafkaError)
    assert "closed by the broker" in str(outcome.error)
    assert world.stored() == ["a"]


def test_without_retries_a_refusal_is_failed(make_world):
    world = make_world(retries=0)
    sealed = world.send("a")
    world.answer(19)
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "NOT_ENOUGH_REPLICAS"
    assert "flights-0" in str(outcome.error)


def test_retries_are_counted(make_world):
    world = plain(make_world, retries=2)
    sealed = world.send("a")
    for _ in range(3):
        assert world.outcome(sealed) is None
        world.answer(19)
        if world.outcome(sealed) is None:
            world.run_until(lambda: world.produces)
    assert isinstance(world.outcome(sealed), BatchFailed)


def test_once_in_doubt_a_later_refusal_does_not_take_the_doubt_away(make_world):
    world = plain(make_world, retries=1)
    sealed = world.send("a")
    world.lose_ack()
    world.run_until(lambda: world.produces)
    world.answer(19)
    assert isinstance(world.outcome(sealed), BatchUnknown)


def test_an_error_that_trying_again_cannot_help_ends_the_batch_at_once(world):
    sealed = world.send("a" * 100)
    world.answer(10)
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "MESSAGE_TOO_LARGE"
    assert not world.produces


@pytest.mark.parametrize("code", [7, 20, 56])
def test_answers_that_leave_it_open_are_tried_again_and_unknown_when_that_ends(make_world, code):
    world = plain(make_world, retries=1)
    sealed = world.send("a")
    world.answer(code)
    world.run_until(lambda: world.produces)
    world.answer(19)
    assert isinstance(world.outcome(sealed), BatchUnknown)


def test_a_server_error_without_a_code_of_its_own_is_unknown(world):
    sealed = world.send("a")
    world.answer(-1)
    assert isinstance(world.outcome(sealed), BatchUnknown)


@pytest.mark.parametrize("base_offset", [0, 17])
def test_a_leader_that_lost_its_leadership_after_the_append_leaves_it_open(make_world, base_offset):
    world = plain(make_world, retries=0)
    before = world.send("a")
    world.answer(6)
    after = world.send("b")
    world.run_until(lambda: world.produces)
    world.answer(6, base_offset=base_offset)
    assert isinstance(world.outcome(before), BatchFailed)
    assert isinstance(world.outcome(after), BatchUnknown)


def test_a_batch_that_never_left_fails_at_its_delivery_timeout(make_world):
    world = make_world(topics={"flights": [-1]})
    sealed = world.send("a")
    world.pass_ms(119_999)
    assert world.outcome(sealed) is None
    world.pass_ms(1)
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    told = "delivery.timeout.ms=120000 passed for 1 records; its leader is not known"
    assert f"(flights-0, never sent, 120000 ms old: {told})" in str(outcome.error)


def test_a_batch_whose_broker_cannot_be_reached_fails_with_the_reason(make_world):
    world = make_world()
    world.down.add(1)
    sealed = world.send("a")
    world.run_until(lambda: world.outcome(sealed))
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert "b1:9092 (connection refused)" in str(outcome.error)
    assert world.now_us == 121_000_000


def test_a_batch_whose_leader_alone_cannot_be_reached_fails_with_the_reason(make_world):
    """The other brokers are well, so nothing is wrong with the cluster; with this batch there is."""
    world = make_world(partitions=2, brokers=2)
    world.shut.add(2)
    sealed = world.send("a", partition=1)
    world.run_until(lambda: world.outcome(sealed))
    assert "its leader, b2:9092, cannot be used: connection refused" in str(world.outcome(sealed).error)


def test_a_batch_in_flight_at_its_delivery_timeout_is_unknown(make_world):
    world = plain(make_world, delivery_timeout_ms=40_000, request_timeout_ms=30_000)
    sealed = world.send("a")
    world.pass_ms(20_000)
    world.hang_up()
    world.run_until(lambda: world.produces)
    world.run_until(lambda: world.outcome(sealed))
    assert world.now_us == 41_000_000
    assert isinstance(world.outcome(sealed), BatchUnknown)


def test_a_late_ack_after_the_delivery_timeout_changes_nothing_and_harms_nothing(make_world):
    world = make_world(delivery_timeout_ms=40_000, request_timeout_ms=39_000)
    world.send("first")
    world.ack()
    world.pass_ms(5_000)
    first = world.send("a")
    world.now_us += 38_000_000
    later = world.batch("b")
    world.core.receive(BatchesAdded([later]), world.now_us)
    world.turn()
    world.now_us += 500_000
    assert isinstance(world.outcome(first), type(None))
    world.settle()
    assert world.stored() == ["first", "a", "b"]


def test_a_batch_refused_before_its_delivery_timeout_is_failed(make_world):
    world = plain(make_world, delivery_timeout_ms=31_000)
    sealed = world.send("a")
    while world.outcome(sealed) is None:
        if world.produces:
            world.answer(19)
        else:
            world.run_to_deadline()
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert "NOT_ENOUGH_REPLICAS" in str(outcome.error)
    assert "attempts" in str(outcome.error)


def test_a_silent_broker_is_left_after_the_request_timeout_and_the_batch_sent_again(world):
    sealed = world.send("a")
    connection_id = world.produces[0].connection_id
    world.store(world.produces[0])
    assert world.run_to_deadline() == 30_000_000
    assert connection_id not in world.lines
    world.settle()
    assert world.stored() == ["a"]
    assert isinstance(world.outcome(sealed), BatchAcked)


def test_an_answer_without_the_partition_is_tried_again(world):
    from ottla.protocol.messages.produce import ProduceResponse

    sealed = world.send("a")
    world.reply(world.produces.pop(0), ProduceResponse())
    world.turn()
    assert world.outcome(sealed) is None
    world.settle()
    assert isinstance(world.outcome(sealed), BatchAcked)


def test_an_answer_without_the_partition_leaves_the_outcome_open(make_world):
    from ottla.protocol.messages.produce import ProduceResponse

    world = make_world(retries=0, enable_idempotence=False)
    sealed = world.send("a")
    world.reply(world.produces.pop(0), ProduceResponse())
    world.turn()
    assert isinstance(world.outcome(sealed), BatchUnknown)
    assert "the broker's answer leaves out the partition" in str(world.outcome(sealed).error)


def test_each_pause_before_another_attempt_is_longer(make_world):
    world = plain(make_world)
    world.send("a")
    pauses_ms = []
    for _ in range(6):
        world.answer(19)
        before = world.now_us
        world.run_until(lambda: world.produces)
        pauses_ms.append((world.now_us - before) / 1000)
    for pause_ms, middle_ms in zip(pauses_ms, [100, 200, 400, 800, 1000, 1000], strict=True):
        assert 0.8 * middle_ms <= pause_ms <= 1.2 * middle_ms


# --- acks


def test_acks_are_asked_for_as_set(make_world):
    for acks, expected in (("all", -1), ("1", 1), (0, 0)):
        world = make_world(acks=acks)
        world.send("a")
        (transmit,) = world.produces
        assert transmit.message.acks == expected
        assert transmit.answered is (expected != 0)


def test_acks_0_counts_as_done_once_transmitted(make_world):
    world = make_world(acks=0)
    sealed = world.send("a")
    assert world.outcome(sealed) is None
    world.transmitted()
    assert world.outcome(sealed) == BatchAcked(sealed, -1)


@pytest.mark.parametrize("limit", [1, 5])
def test_acks_0_knows_no_in_flight_limit(make_world, limit):
    world = make_world(acks=0, max_in_flight_requests_per_connection=limit)
    world.send_each(*"abcdefgh")
    assert len(world.produces) == 8
    while world.produces:
        world.transmitted()
    assert world.stored() == [*"abcdefgh"]


@pytest.mark.parametrize("produce", [None, (13, 14)])
@pytest.mark.parametrize("acks", ["all", 0])
def test_a_broker_that_speaks_no_version_of_produce_fails_the_batch_at_once(make_world, produce, acks):
    others = {3: (0, 12), 18: (0, 4), 22: (0, 5)}
    world = make_world(acks=acks, versions=others if produce is None else {0: produce, **others})
    batches = world.send_each("a", "b", "c")
    for sealed in batches:
        outcome = world.outcome(sealed)
        assert isinstance(outcome, BatchFailed)
        assert isinstance(outcome.error, KafkaError)
        assert outcome.error.name == "UNSUPPORTED_VERSION"
        assert outcome.error.fatal
        told = (
            "b1:9092 does not know Produce" if produce is None else "b1:9092 speaks Produce 13 to 14, this client 3 to"
        )
        assert told in str(outcome.error)


def test_acks_0_what_was_not_transmitted_is_sent_again_or_failed(make_world):
    world = make_world(acks=0)
    world.send_each("a", "b")
    world.transmitted()
    world.hang_up()
    world.run_until(lambda: world.produces)
    world.transmitted()
    assert world.stored() == ["a", "b"]
    once = make_world(acks=0, retries=0)
    first, second = once.send_each("a", "b")
    once.transmitted()
    once.hang_up()
    assert isinstance(once.outcome(first), BatchAcked)
    assert isinstance(once.outcome(second), BatchFailed)


# --- topics


def test_a_topic_is_announced_once_known_and_again_when_it_changes(make_world):
    world = make_world(metadata_max_age_ms=100_000)
    world.want("flights")
    assert [(t.topic, t.partition_count, t.error) for t in world.topics_known] == [("flights", 1, None)]
    world.leaders["flights"] = [1, 1]
    world.run_to_deadline()
    assert world.topics_known[-1].partition_count == 2
    world.want("flights")
    assert len(world.topics_known) == 3


def test_a_missing_topic_is_announced_with_a_retriable_error_and_then_with_its_partitions(make_world):
    world = make_world(topics={})
    world.want("flights")
    assert world.topics_known[-1].error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert world.topics_known[-1].error.retriable
    world.leaders["flights"] = [1, 1, 1]
    world.run_to_deadline()
    assert (world.topics_known[-1].partition_count, world.topics_known[-1].error) == (3, None)


def test_a_topic_that_may_not_be_written_is_announced_with_the_error(make_world):
    world = make_world(topics={"secret": 29})
    world.want("secret")
    assert world.topics_known[-1].error.name == "TOPIC_AUTHORIZATION_FAILED"
    assert not world.topics_known[-1].error.retriable


def test_batches_of_a_topic_that_turned_forbidden_fail(make_world):
    world = make_world(topics={"flights": 29})
    sealed = world.send("a")
    outcome = world.outcome(sealed)
    assert isinstance(outcome, BatchFailed)
    assert isinstance(outcome.error, KafkaError)
    assert outcome.error.name == "TOPIC_AUTHORIZATION_FAILED"


# --- closing


def test_closing_waits_for_what_is_under_way(world):
    sealed = world.send("a")
    world.close(within_ms=10_000)
    assert not world.closed
    world.ack()
    assert isinstance(world.outcome(sealed), BatchAcked)
    assert world.closed
    assert not world.lines
    assert world.core.deadline_us() is None


def test_closing_with_nothing_to_do_is_at_once(world):
    world.close(within_ms=10_000)
    assert world.closed


def test_closing_with_acks_0_waits_until_the_brokers_have_taken_in_what_was_transmitted(make_world):
    world = make_world(acks=0, partitions=2, brokers=2)
    world.send("a")
    world.transmitted()
    world.metadata_answers = False
    world.close(within_ms=10_000)
    assert not world.closed
    assert len(world.held) == 1  # of the one broker there is a connection to
    world.reply(world.held[0], world._metadata([]))
    world.turn()
    assert world.closed


@pytest.mark.parametrize("end", ["lost", "late"])
def test_closing_with_acks_0_does_not_wait_for_an_answer_that_will_not_come(make_world, end):
    world = make_world(acks=0)
    world.send("a")
    world.transmitted()
    world.metadata_answers = False
    world.close(within_ms=10_000)
    if end == "lost":
        world.hang_up(world.held[0].connection_id)
    else:
        assert world.run_to_deadline() == 10_000_000
    assert world.closed


def test_at_the_closing_deadline_what_never_left_failed_and_what_left_is_unknown(make_world):
    world = make_world(max_in_flight_requests_per_connection=1)
    left, stayed = world.send_each("a", "b")
    world.close(within_ms=3_000)
    assert world.run_to_deadline() == 3_000_000
    assert isinstance(world.outcome(left), BatchUnknown)
    assert isinstance(world.outcome(stayed), BatchFailed)
    assert isinstance(world.outcome(stayed).error, ClosedError)
    assert world.closed


def test_batches_that_come_after_closing_fail(world):
    world.close(within_ms=0)
    sealed = world.send("late")
    assert isinstance(world.outcome(sealed), BatchFailed)
