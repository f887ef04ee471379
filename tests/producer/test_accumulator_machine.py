"""Random lives of the accumulator: whatever happens, each partition with something to send is awaited by something.

Records are appended to open batches and fill them; others come in batches that another thread compresses; requests are
answered, refused, lost or never answered; leaders move, vanish and come back; time passes in small and large steps.
After each step every partition is looked at. In the end all is well again, and all must be drained.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.producer.conftest import World
from tests.records.test_append import appender

from ottla.producer.batch import BatchState
from ottla.producer.events import (
    BatchAcked,
    BatchClosed,
    BatchesAdded,
    BatchesFilled,
    BatchFailed,
    BatchSplit,
    OpenBatchesWanted,
)
from ottla.producer.idempotence import IdentityState

PARTITIONS = 6
# Batches for this one come closed, and another thread compresses them.
LENT = PARTITIONS - 1
BATCH = 300
NOT_ENOUGH_REPLICAS = 19
NOT_LEADER = 6


class Told(World):
    """Gives memory back as the client does, and keeps what was told of each batch."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.core._accumulator._tells_closed = True
        self.closed_batches: Counter[Any] = Counter()

    def _do(self, output: Any) -> None:
        if isinstance(output, BatchClosed):
            assert self.outcome(output.batch) is None, "it is closed after its outcome"
            self.closed_batches[output.batch] += 1
            return
        known = len(self.outcomes)
        super()._do(output)
        if len(self.outcomes) > known:
            freed = output.batch.buffer_bytes
            if isinstance(output, BatchSplit):
                freed -= sum(part.buffer_bytes for part in output.parts)
            self._appender.release(freed)


class AccumulatorLives(RuleBasedStateMachine):
    """One producer, two brokers, six partitions."""

    @initialize(
        linger_ms=st.sampled_from([0, 20, 3_600_000]),
        in_flight=st.sampled_from([1, 5]),
        request_bytes=st.sampled_from([400, 1 << 20]),
    )
    def begin(self, linger_ms: int, in_flight: int, request_bytes: int) -> None:
        self.world = Told(
            partitions=PARTITIONS,
            brokers=2,
            linger_ms=linger_ms,
            batch_size=BATCH,
            max_request_size=request_bytes,
            max_in_flight_requests_per_connection=in_flight,
            request_timeout_ms=3_000,
            delivery_timeout_ms=3_610_000 if linger_ms > 20 else 30_000,
            metadata_max_age_ms=60_000,
        )
        self.accumulator = self.world.core._accumulator
        self.sent: list[list[str]] = [[] for _ in range(PARTITIONS)]
        # Batches that are being compressed; and all that the core was given.
        self.lent: list[Any] = []
        self.added: list[Any] = []

    # ---- what users do

    @rule(
        partitions=st.sampled_from([[each] for each in range(LENT)] + [list(range(LENT))]),
        size=st.sampled_from([1, 90, 200]),
        count=st.integers(1, 3),
    )
    def append(self, partitions: list[int], size: int, count: int) -> None:
        world = self.world
        for partition in partitions * count:
            value = f"{len(self.sent[partition]):05d}" + "x" * size
            self.sent[partition].append(value)
            world._appender.set_topic("flights", PARTITIONS)
            world._appender.send("flights", value, partition=partition)
        new = world._appender.take_new()
        self.added += new
        world.core.receive(BatchesAdded(new), world.now_us)
        world.core.receive(BatchesFilled(world._appender.take_filled()), world.now_us)
        self.turn()

    @rule()
    def release(self) -> None:
        self.world.core.receive(OpenBatchesWanted(), self.world.now_us)
        self.turn()

    @precondition(lambda self: len(self.lent) < 2)
    @rule()
    def lend(self) -> None:
        value = f"{len(self.sent[LENT]):05d}"
        other = appender()
        other.set_topic("flights", PARTITIONS)
        other.send("flights", value, partition=LENT)
        [sealed] = other.take_new()
        other.close(sealed)
        # So that another thread counts as the one that compresses.
        thread = threading.Thread(target=self.world._appender.take_new)
        thread.start()
        thread.join()
        self.turn()
        if not self.world._appender.lend(sealed):
            return
        self.sent[LENT].append(value)
        self.lent.append(sealed)
        self.added.append(sealed)
        self.world._appender.release(-sealed.buffer_bytes)
        self.world.core.receive(BatchesAdded([sealed]), self.world.now_us)
        self.turn()

    @precondition(lambda self: self.lent)
    @rule()
    def compress(self) -> None:
        self.world._appender.take_new()
        self.turn()

    # ---- what brokers and networks do

    @precondition(lambda self: self.world.produces)
    @rule(which=st.integers(0, 9), bytes_max=st.sampled_from([1 << 30, 1 << 30, 150]))
    def ack(self, which: int, bytes_max: int) -> None:
        self.world.batch_bytes_max = bytes_max
        self.world.ack(self.oldest_of_some_connection(which))
        self.turn()

    @precondition(lambda self: self.world.produces)
    @rule(which=st.integers(0, 9), code=st.sampled_from([NOT_ENOUGH_REPLICAS, NOT_LEADER]))
    def refuse(self, which: int, code: int) -> None:
        self.world.answer(code, transmit=self.oldest_of_some_connection(which))
        self.turn()

    @precondition(lambda self: self.world.produces)
    @rule(stored=st.booleans())
    def cut(self, stored: bool) -> None:
        if stored:
            self.world.lose_ack()
        else:
            self.world.hang_up()
        self.turn()

    @rule(partition=st.integers(0, PARTITIONS - 1), broker=st.sampled_from([-1, 1, 2]), is_told=st.booleans())
    def move(self, partition: int, broker: int, is_told: bool) -> None:
        world = self.world
        world.move_leader("flights", partition, broker)
        if is_told:
            world.core._connection.refresh_metadata(world.now_us)
            world.pass_ms(0)
            self.turn()

    @rule(broker=st.sampled_from([1, 2]), is_shut=st.booleans())
    def shut(self, broker: int, is_shut: bool) -> None:
        """The broker is out of this client's reach, or within it again."""
        world = self.world
        if not is_shut:
            world.shut.discard(broker)
            return
        world.shut.add(broker)
        for connection_id in [line for line, there in world.lines.items() if there == broker]:
            world.hang_up(connection_id)
        self.turn()

    @rule(answers=st.booleans())
    def metadata(self, answers: bool) -> None:
        world = self.world
        world.metadata_answers = answers
        if answers:
            held, world.held = world.held, []
            for transmit in held:
                if transmit.connection_id in world.lines:
                    world._serve(transmit)
        self.turn()

    @rule(ms=st.sampled_from([1, 10, 100, 1_000, 4_000, 31_000, 31_000, 3_700_000]))
    def wait(self, ms: int) -> None:
        self.world.pass_ms(ms)
        self.turn()

    @rule()
    def wait_for_what_is_due(self) -> None:
        if self.world.core.deadline_us() is not None:
            self.world.run_to_deadline()
            self.turn()

    def oldest_of_some_connection(self, which: int) -> Any:
        """A broker answers the requests of one connection in order."""
        connections = list(dict.fromkeys(each.connection_id for each in self.world.produces))
        chosen = connections[which % len(connections)]
        return next(each for each in self.world.produces if each.connection_id == chosen)

    def turn(self) -> None:
        world = self.world
        finished = [batch for batch in self.lent if batch.is_finished]
        if finished:
            self.lent = [batch for batch in self.lent if not batch.is_finished]
            world.core.receive(BatchesFilled(finished), world.now_us)
        world.turn()

    # ---- what always holds

    def places(self, queue: Any) -> list[str]:
        accumulator = self.accumulator
        found = ["leaderless" for each in accumulator.leaderless if each is queue]
        found += ["resting" for _, _, each in accumulator._resting if each is queue]
        for node_id, node in accumulator.nodes.items():
            for name in ("sendable", "due", "lingering"):
                here = [name for each in getattr(node, name) if each is queue]
                assert not here or queue.node_id == node_id, "it is in the list of another node"
                found += here
        return found

    @invariant()
    def each_partition_is_in_one_place_and_is_awaited(self) -> None:
        if not hasattr(self, "world"):
            return
        world, accumulator = self.world, self.accumulator
        connection = world.core._connection
        due_us = world.core.deadline_us()
        assert due_us is None or due_us > world.now_us, "it turns without a pause"
        for queue in accumulator.queues.values():
            places = self.places(queue)
            assert len(places) == queue.listed, (str(queue), places)
            assert queue.lingers == (places == ["lingering"])
            assert queue.is_due == (places == ["due"])
            if not queue.waiting:
                continue
            first = queue.waiting[0]
            own_due_us = accumulator.deadline_us()
            is_compressed = not first.sealed.is_open and not first.sealed.is_finished
            assert is_compressed or own_due_us <= first.deadline_us
            if not places:
                assert queue.in_flight or is_compressed, f"{queue} waits for nothing"
            elif places == ["lingering"]:
                assert first.sealed.is_open
                assert world.now_us < first.ready_us
                assert own_due_us <= first.ready_us
            elif places == ["due"]:
                assert first.sealed.is_open
                assert first.ready_us <= world.now_us
            elif places == ["resting"]:
                assert own_due_us <= max(world.now_us, queue.blocked_until_us)
        for node_id, node in accumulator.nodes.items():
            if any(queue.waiting for queue in (*node.sendable, *node.due)):
                assert (
                    connection.in_flight(node_id)
                    or not connection.is_open(node_id, world.now_us)
                    or world.core._idempotence.state is not IdentityState.KNOWN
                ), "batches may leave, and nobody comes for them"

    @invariant()
    def each_batch_is_in_one_place_and_in_order(self) -> None:
        if not hasattr(self, "world"):
            return
        unsettled: list[Any] = []
        for queue in self.accumulator.queues.values():
            waiting = list(queue.waiting)
            numbers = [batch.number for batch in waiting]
            assert numbers == sorted(numbers)
            assert not any(batch.sealed.is_open for batch in waiting[:-1])
            unsettled += [batch.sealed for batch in waiting]
            unsettled += [batch.sealed for batch in queue.in_flight if batch.state < BatchState.ACKED]
        assert len(set(unsettled)) == len(unsettled) == self.world.core.metrics()["ottla-batches-unsettled"]

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.batch_bytes_max = 1 << 30
        for partition, leader in enumerate(world.leaders["flights"]):
            if leader < 0:
                world.move_leader("flights", partition, 1)
        world.shut.clear()
        self.metadata(True)
        self.compress_all()
        self.release()
        for _ in range(2_000):
            world.store_all()
            self.each_partition_is_in_one_place_and_is_awaited()
            if not world.core.metrics()["ottla-batches-unsettled"]:
                break
            world.run_to_deadline()
        else:
            raise AssertionError("it is not drained")
        assert world._appender.buffered_bytes == 0
        assert world.closed_batches == Counter(self.added), "each batch is closed once"
        for batch in self.added:
            assert world.outcome(batch) is not None
        for partition, sent in enumerate(self.sent):
            stored = world.stored(partition)
            assert stored == [value for value in sent if value in set(stored)], "out of order, or twice"
            if not any(each.batch.partition == partition for each in world.outcomes if type(each) is not BatchAcked):
                assert stored == sent
            counts = Counter[type]()
            for each in world.outcomes:
                if each.batch.partition == partition and not isinstance(each, BatchSplit):
                    counts[type(each)] += each.batch.record_count
            assert sum(counts.values()) == len(sent)
            assert counts[BatchAcked] <= len(stored) <= len(sent) - counts[BatchFailed]

    def compress_all(self) -> None:
        while self.lent:
            self.compress()


AccumulatorLives.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAccumulatorLives = AccumulatorLives.TestCase
