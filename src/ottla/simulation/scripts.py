"""Scripts: generators that carry out parts of a plan on the simulated clock, any number at once; here the producers'.

A script yields a condition to wait for, and goes on when that is true or after a time limit. It never lets time pass by
itself, unlike `SimulatedProducer`'s own calls. What it does, and what its producer answers, goes into the chronicle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicles.chronicle import InstanceSeen, SentRecord, TransactionSeen
from ottla.errors import (
    OttlaError,
    TransactionUnfinished,
    TransactionUnknown,
)
from ottla.producer.events import TopicWanted
from ottla.simulation import plan as acts
from ottla.simulation.clients import SimulatedProducer
from ottla.simulation.plan import Act, ProducerPlan
from ottla.simulation.sent_records import contents, sent_record, take_down
from ottla.simulation.transactions import Steps

if TYPE_CHECKING:
    from ottla.records.memory import BlockedCall
    from ottla.simulation.run import Run

Reached = Callable[[], bool]
# Until when a script waits, and for which condition (None: for the time alone).
Wait = tuple[int, Reached | None]
_TRIES_TO_END = 40


class Script:
    """One generator with its waits; `is_over` when it has ended."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self.run = run
        self.is_over = False
        self._steps = self.steps()
        self._until_us = 0
        self._reached: Reached | None = None

    def steps(self) -> Iterator[Wait]:
        """The steps of the script; each `yield` is a wait."""
        raise NotImplementedError

    def wake(self) -> None:
        """Have the run look soon whether the script can go on."""
        self.run.stirred[self] = None

    def attend(self, producer: ScriptedProducer) -> None:
        """Wake whenever this producer has handled an event or a tick."""
        look = partial(self.run.states.look_at, producer)

        def acted() -> None:
            look()
            self.wake()

        producer.watch(acted)

    def poll(self, now_us: int) -> None:
        """Go on as far as possible."""
        while not self.is_over and (now_us >= self._until_us or (self._reached is not None and self._reached())):
            wait = next(self._steps, None)
            if wait is None:
                self.is_over = True
                return
            self._until_us, self._reached = wait
            self.run.world.scheduler.at(self._until_us, self.wake)

    def until(self, reached: Reached | None, limit_us: int) -> Wait:
        """A wait of `limit_us` at most."""
        return self.run.world.scheduler.now_us + limit_us, reached

    def each(self, steps: Steps) -> Iterator[Wait]:
        """The waits of a call that is done in steps; its exceptions are raised here."""
        for limit_us, reached in steps:
            yield self.until(reached, limit_us)

    def waits_for(self) -> str:
        """What the script waits for, to explain a run that does not end."""
        return f"{self.name} waits until {self._until_us} us"


class MustWait(Exception):
    """The call has to wait: the appender needs a topic or memory."""


class ScriptedProducer(SimulatedProducer):
    """As its base class, but calls that would let time pass raise MustWait; `life` is its entry in the chronicle."""

    life: InstanceSeen
    is_dead = False
    _wanted_bytes = 0

    def die(self) -> None:
        """End the process, and note when."""
        self.is_dead = True
        super().die()
        self.life.died_us = self._world.scheduler.now_us

    def watch(self, acted: Callable[[], None]) -> None:
        """Have this called whenever the core has handled an event or a tick."""
        self._runner.acted = acted

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """Request the topic's metadata; nothing is sent yet."""
        self._wanted_bytes = 0
        self._runner.deliver(TopicWanted(topic))
        raise MustWait

    def memory_wanted(self, call: BlockedCall) -> None:
        """Make the open batches ready, to free memory; this record is not sent yet."""
        self._wanted_bytes = call.wanted_bytes
        self.feed()
        self._runner.carry_out()
        raise MustWait

    def may_go_on(self, topic: str) -> bool:
        """Whether the topic is known and there is room for the record, as `Producer` would wait for."""
        buffered = self.appender.buffered_bytes
        room = not buffered or buffered + self._wanted_bytes <= self.settings.buffer_memory
        return room and self.appender.partition_count(topic) > 0


class ProducerScript(Script):
    """Carries out one `ProducerPlan`, with all the instances of its producer."""

    def __init__(self, plan: ProducerPlan, run: Run) -> None:
        super().__init__(plan.name, run)
        self.plan = plan
        self.instance = 0
        self.producer = self._born()
        self._open: TransactionSeen | None = None

    @property
    def is_transactional(self) -> bool:
        """Whether its records are in transactions."""
        return "transactional_id" in self.plan.settings

    def steps(self) -> Iterator[Wait]:
        """All acts in order; then wait until everything is settled."""
        for act in self.plan.acts:
            yield from self._act(act)
        yield from self._finish()

    def _act(self, act: Act) -> Iterator[Wait]:
        if act.do == acts.SEND:
            yield from self._send(self.producer, self._open, act)
        elif act.do == acts.PAUSE:
            yield self.until(None, act.pause_us)
        elif act.do == acts.FLUSH:
            self.producer.feed(flushes=True)
            yield self.until(self.producer.is_settled, 10_000_000)
        elif act.do == acts.BEGIN:
            yield from self._begin()
        elif act.do == acts.OFFSETS:
            yield from self._send_offsets(act)
        elif act.do in (acts.COMMIT, acts.ABORT):
            yield from self._end(self.producer, act.do == acts.COMMIT)
        elif act.do == acts.CRASH:
            self._die()
            yield self.until(None, act.pause_us)
            self.producer = self._born()
        elif act.do == acts.REPLACE:
            self._replace(act.pause_us)

    # ---- instances ----------------------------------------------------------------------------------------------

    def _born(self) -> ScriptedProducer:
        self.instance += 1
        producer = self.run.new_producer(self.plan)
        self.attend(producer)
        producer.life = InstanceSeen(self.name, self.instance, self.run.world.scheduler.now_us)
        assert self.run.chronicle.instances is not None
        self.run.chronicle.instances.append(producer.life)
        self.run.names[producer.client_name] = self.name if self.instance == 1 else f"{self.name}.{self.instance}"
        return producer

    def _die(self) -> None:
        self.producer.die()
        self._forget_transaction()

    def _replace(self, pause_us: int) -> None:
        """Start a new instance; the old one goes on with its transaction later, as a zombie."""
        old, transaction = self.producer, self._open
        self._open = None
        self.producer = self._born()
        if transaction is not None:
            transaction.is_zombie = True
            self.run.add(ZombieScript(self, old, transaction, pause_us))

    def _forget_transaction(self) -> None:
        if self._open is not None:
            self._open.ended_us = self.run.world.scheduler.now_us
            if not self._open.commit_asked:
                self._open.outcome = "aborted"
        self._open = None

    # ---- sending ------------------------------------------------------------------------------------------------

    def _send(self, producer: ScriptedProducer, transaction: TransactionSeen | None, act: Act) -> Iterator[Wait]:
        """Send the record, or leave it out if there is no topic or memory in time."""
        if self.is_transactional and transaction is None:
            return  # its transaction could not be begun
        record = contents(act)
        key, value, headers = record
        deadline_us = self.run.world.scheduler.now_us + producer.settings.max_block_ms * 1000
        while True:
            try:
                delivery = producer.send(act.topic, value, key, partition=act.partition, headers=headers)
                break
            except MustWait:
                left_us = deadline_us - self.run.world.scheduler.now_us
                if left_us <= 0:
                    return
                yield self.until(lambda: producer.may_go_on(act.topic), min(left_us, 1_000_000))
            except OttlaError:
                return  # the record was not taken: `send` raised
        number = -1 if transaction is None else transaction.number
        now_us = self.run.world.scheduler.now_us
        sent = sent_record(act, self.name, self.instance, number, delivery, record, now_us)
        self.run.chronicle.sent.append(sent)
        delivery.add_done_callback(lambda done: self._told(producer, sent, done))

    def _told(self, producer: ScriptedProducer, sent: SentRecord, delivery: Any) -> None:
        if not producer.is_dead:
            take_down(sent, delivery, self.run.world.scheduler.now_us)

    # ---- transactions -------------------------------------------------------------------------------------------

    def _begin(self) -> Iterator[Wait]:
        if self._open is not None:
            yield from self._end(self.producer, False)
        for _ in range(5):
            try:
                yield from self.each(self.producer.transactions.begin_steps())
            except TransactionUnfinished:
                continue
            except OttlaError as error:
                self.run.expect(error.fatal, f"{self.name} could not begin, and not for good: {error}")
                self.producer.die()
                self.producer = self._born()
                continue
            self._open = self.run.new_transaction(self.name, self.instance)
            return

    def _send_offsets(self, act: Act) -> Iterator[Wait]:
        if self._open is None:
            return
        assert act.partition is not None
        self._open.offsets = f"group-{self.name}", act.topic, act.partition, act.number
        try:
            offsets = {(act.topic, act.partition): act.number}
            steps = self.producer.transactions.send_offsets_steps(offsets, f"group-{self.name}")
            yield from self.each(steps)
        except OttlaError:
            return
        self._open.offsets_taken = True

    def _end(self, producer: ScriptedProducer, committed: bool) -> Iterator[Wait]:
        transaction, self._open = self._open, None
        if transaction is None:
            return
        yield from self.end_transaction(producer, transaction, committed)
        if transaction.ended_us < 0:
            # The outcome is not known, and no later instance learns it.
            producer.die()
            self.producer = self._born()

    def end_transaction(
        self, producer: ScriptedProducer, transaction: TransactionSeen, committed: bool
    ) -> Iterator[Wait]:
        """Commit or abort, again until there is an answer, and put the outcome into the chronicle."""
        if committed and not transaction.commit_asked:
            transaction.commit_asked = True
            transaction.commit_asked_us = self.run.world.scheduler.now_us
        for _ in range(_TRIES_TO_END):
            try:
                yield from self.each(producer.transactions.end_steps(committed))
            except TransactionUnfinished:
                continue
            except TransactionUnknown:
                break
            except OttlaError as error:
                if error.fatal or not committed:
                    self.run.expect(error.fatal, f"{self.name} could not abort, and not for good: {error}")
                    transaction.outcome = "aborted"
                    break
                # It was not committed, and never will be.
                transaction.commit_asked = committed = False
                continue
            transaction.outcome = "committed" if committed else "aborted"
            break
        else:
            return
        transaction.ended_us = self.run.world.scheduler.now_us

    def _finish(self) -> Iterator[Wait]:
        if self._open is not None:
            yield from self._end(self.producer, True)
        self.producer.feed(flushes=True)
        while not self.producer.is_settled():
            yield self.until(self.producer.is_settled, 60_000_000)


class ZombieScript(Script):
    """An instance that was replaced, and later tries to commit its transaction."""

    def __init__(
        self, owner: ProducerScript, producer: ScriptedProducer, transaction: TransactionSeen, pause_us: int
    ) -> None:
        self._owner = owner
        self._producer = producer
        self._transaction = transaction
        self._pause_us = pause_us
        super().__init__(f"{owner.name} (replaced)", owner.run)
        self.attend(producer)

    def steps(self) -> Iterator[Wait]:
        """Wait, then commit."""
        yield self.until(None, self._pause_us)
        yield from self._owner.end_transaction(self._producer, self._transaction, True)
        self._producer.die()
