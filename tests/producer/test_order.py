"""Batches of a partition are stored in the order they came in, with several requests in flight and retries."""

from __future__ import annotations

from ottla.producer.events import BatchAcked, BatchesAdded


def test_one_batch_goes_out_and_is_acked_with_its_offset(world):
    first = world.send("a", "b")
    world.ack()
    second = world.send("c")
    world.ack()
    assert world.stored() == ["a", "b", "c"]
    assert world.outcome(first) == BatchAcked(first, 0)
    assert world.outcome(second) == BatchAcked(second, 2)


def test_at_most_five_requests_are_in_flight(world):
    world.send("first")
    world.ack()
    world.send_each(*"abcdefgh")
    assert len(world.produces) == 5
    world.ack()
    assert len(world.produces) == 5
    world.settle()
    assert world.stored() == ["first", *"abcdefgh"]


def test_the_in_flight_limit_is_the_setting(make_world):
    world = make_world(max_in_flight_requests_per_connection=1)
    world.send_each(*"abc")
    assert len(world.produces) == 1
    world.settle()
    assert world.stored() == ["a", "b", "c"]


def test_nothing_follows_the_first_batch_of_an_identity_before_it_is_stored(world):
    # A broker that knows nothing of a producer takes any first sequence: "b" could overtake a refused "a".
    world.send_each("a", "b")
    assert len(world.produces) == 1
    world.answer(19)
    world.settle()
    assert world.stored() == ["a", "b"]


def test_nothing_follows_the_first_batch_after_a_pause_before_it_is_stored(world):
    # Meanwhile the broker may have forgotten the producer, and would take any first sequence again.
    world.send("first")
    world.ack()
    world.pass_ms(60_001)
    world.log().producers.clear()
    world.send_each("a", "b")
    assert len(world.produces) == 1
    world.answer(19)
    world.settle()
    assert world.stored() == ["first", "a", "b"]


def test_without_idempotence_five_leave_at_once(make_world):
    world = make_world(enable_idempotence=False)
    world.pass_ms(60_001)
    world.send_each(*"abcdefg")
    assert len(world.produces) == 5


def test_a_refused_batch_is_stored_before_those_that_were_in_flight_behind_it(world):
    world.send("first")
    world.ack()
    batches = world.send_each(*"abcde")
    world.answer(19)  # "a": not enough replicas
    while world.produces:
        world.ack()  # the rest: out of order
    assert world.stored() == ["first"]
    assert not world.produces
    world.settle()
    assert world.stored() == ["first", *"abcde"]
    assert [type(world.outcome(b)) for b in batches] == [BatchAcked] * 5


def test_a_batch_sent_again_goes_alone(world):
    world.send("first")
    world.ack()
    world.send_each(*"abcde")
    world.answer(19)
    world.store_all()
    world.run_until(lambda: world.produces)
    assert len(world.produces) == 1
    world.ack()
    assert len(world.produces) == 4


def test_being_refused_for_another_batchs_sake_costs_no_retry(make_world):
    world = make_world(retries=2)
    world.send("first")
    world.ack()
    batches = world.send_each(*"abc")
    for _ in range(2):
        world.answer(19)
        world.store_all()
        world.run_until(lambda: world.produces)
    world.settle()
    assert world.stored() == ["first", *"abc"]
    assert all(isinstance(world.outcome(b), BatchAcked) for b in batches)


def test_a_broken_connection_with_five_in_flight_keeps_the_order(world):
    world.send("first")
    world.ack()
    world.send_each(*"abcdefg")
    world.lose_ack(count=3)  # a, b, c were stored, d and e never arrived
    world.settle()
    assert world.stored() == ["first", *"abcdefg"]


def test_without_idempotence_a_retry_may_fall_behind_but_one_in_flight_keeps_the_order(make_world):
    loose = make_world(enable_idempotence=False)
    loose.send_each(*"abc")
    loose.answer(19)
    loose.settle()
    assert loose.stored() == ["b", "c", "a"]
    strict = make_world(enable_idempotence=False, max_in_flight_requests_per_connection=1)
    strict.send_each(*"abc")
    strict.answer(19)
    strict.settle()
    assert strict.stored() == ["a", "b", "c"]


def test_a_request_carries_one_batch_of_each_ready_partition(make_world, values):
    world = make_world(partitions=4)
    batches = [world.batch(f"p{p}-{n}", partition=p) for p in range(4) for n in range(2)]
    world.core.receive(BatchesAdded(batches), world.now_us)
    world.turn()
    assert values(world.produces[0]) == ["p0-0", "p1-0", "p2-0", "p3-0"]
    world.settle()
    assert [world.stored(p) for p in range(4)] == [[f"p{p}-0", f"p{p}-1"] for p in range(4)]


def test_topics_share_a_request(make_world):
    world = make_world(topics={"flights": [1], "weather": [1]})
    batches = [world.batch("f"), world.batch("w", topic="weather")]
    world.core.receive(BatchesAdded(batches), world.now_us)
    world.turn()
    assert [t.name for t in world.produces[0].message.topic_data] == ["flights", "weather"]
    world.settle()
    assert world.stored(topic="weather") == ["w"]


def test_a_request_stays_within_max_request_size_but_takes_one_batch_in_any_case(make_world, values):
    world = make_world(partitions=4, max_request_size=1000)
    sizes = {0: 400, 1: 400, 2: 400, 3: 2000}
    batches = [world.batch("x" * size, partition=p) for p, size in sizes.items()]
    world.core.receive(BatchesAdded(batches), world.now_us)
    world.turn()
    assert [[len(v) for v in values(t)] for t in world.produces] == [[400, 400], [400], [2000]]


def test_every_leader_gets_requests_of_its_own(make_world):
    world = make_world(partitions=3, brokers=3)
    batches = [world.batch(f"p{p}", partition=p) for p in range(3)]
    world.core.receive(BatchesAdded(batches), world.now_us)
    world.run_until(lambda: len(world.produces) == 3)
    assert sorted(world.lines[t.connection_id] for t in world.produces) == [1, 2, 3]
    world.settle()
    assert [world.stored(p) for p in range(3)] == [["p0"], ["p1"], ["p2"]]


def test_a_partition_that_waits_does_not_hold_up_the_others(make_world):
    world = make_world(partitions=2)
    world.send("a0")
    world.ack()
    world.send("a1")
    world.answer(19)
    world.send("b0", partition=1)
    world.ack()
    assert world.stored(0) == ["a0"]
    assert world.stored(1) == ["b0"]


def test_a_moved_leader_gets_the_batch_after_a_refresh(make_world):
    world = make_world(brokers=2)
    world.send("a")
    world.ack()
    world.move_leader("flights", 0, 2)
    sealed = world.send("b")
    asked = world.metadata_requests
    world.ack()  # NOT_LEADER_OR_FOLLOWER
    world.settle()
    assert world.metadata_requests > asked
    assert world.stored() == ["a", "b"]
    assert isinstance(world.outcome(sealed), BatchAcked)


def test_batches_behind_a_moved_leader_wait_until_the_old_one_has_answered(make_world):
    world = make_world(brokers=2)
    world.send("first")
    world.ack()
    world.send_each("a", "b", "c")
    world.move_leader("flights", 0, 2)
    world.ack()  # "a": not the leader
    world.pass_ms(2000)  # metadata is new by now
    assert {world.lines[t.connection_id] for t in world.produces} == {1}
    world.settle()
    assert world.stored() == ["first", "a", "b", "c"]


def test_a_leader_that_dies_is_replaced(make_world):
    world = make_world(brokers=2)
    world.send("a")
    world.ack()
    world.send_each("b", "c")
    world.down.add(1)
    world.move_leader("flights", 0, 2)
    world.hang_up()
    world.settle()
    assert world.stored() == ["a", "b", "c"]


def test_a_partition_that_moved_quietly_is_not_sent_to_two_brokers_at_once(make_world, values):
    world = make_world(partitions=2, brokers=2, enable_idempotence=False, topics={"flights": [1, 1]})
    world.send("a", partition=0)
    world.send("x", partition=1)
    world.move_leader("flights", 0, 2)
    world.move_leader("flights", 1, 2)
    first, other = world.produces
    world.ack(other)  # not the leader: metadata is refreshed, and tells that partition 0 moved too
    world.run_until(lambda: world.core.metadata.leader("flights", 0) == 2)
    world.send("b", partition=0)
    assert ["b"] not in [values(t) for t in world.produces]
    world.answer(0, transmit=first)  # it was stored just before the move
    world.run_until(lambda: ["b"] in [values(t) for t in world.produces])


def test_a_refused_batch_keeps_its_pause_though_its_partition_was_ready_to_send_more(make_world, values):
    world = make_world(partitions=2, enable_idempotence=False, max_in_flight_requests_per_connection=2)
    world.send("a", partition=0)
    world.send("x", partition=1)
    world.send("b", partition=0)
    world.answer(19)
    assert [values(t) for t in world.produces] == [["x"]]
    assert world.run_to_deadline() >= 80_000
    assert [values(t) for t in world.produces] == [["x"], ["a"]]
