"""A producer and a reader that act out their plan: coroutines on the simulated clock, any number of them at once.

A script yields what it waits for, and goes on when that is so or has taken too long. It never lets time pass by
itself, unlike `SimulatedProducer`'s own calls. Everything it does and is told goes into the chronicle.
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
# Until when, and for what, a script waits; no condition: the time alone.
Wait = tuple[int, Reached | None]
_TRIES_TO_END = 40


class Script:
    """One coroutine; `is_over` once it has nothing more to do."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self.run = run
        self.is_over = False
        self._steps = self.steps()
        self._until_us = 0
        self._reached: Reached | None = None

    def steps(self) -> Iterator[Wait]:
        """What the script does; each `yield` is a wait."""
        raise NotImplementedError

    def wake(self) -> None:
        """Look soon whether it can go on."""
        self.run.stirred[self] = None

    def attend(self, producer: ScriptedProducer) -> None:
        """Wake whenever this producer has done something."""
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
        """The waits of what is done in steps; what it raises comes out here."""
        for limit_us, reached in steps:
            yield self.until(reached, limit_us)

    def waits_for(self) -> str:
        """What keeps it, for whoever asks why a run does not end."""
        return f"{self.name} waits until {self._until_us} us"


class MustWait(Exception):
    """What the appender asked for cannot be had without letting time pass."""


class ScriptedProducer(SimulatedProducer):
    """As its base, but for the calls that would let time pass: they say so instead. `life` is what was seen of it."""

    life: InstanceSeen
    is_dead = False
    _wanted_bytes = 0

    def die(self) -> None:
        """End the process, and note when."""
        self.is_dead = True
        super().die()
        self.life.died_us = self._world.scheduler.now_us

    def watch(self, acted: Callable[[], None]) -> None:
        """Have this called whenever it has done something."""
        self._runner.acted = acted

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """Ask for the topic; nothing is sent yet."""
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
        """Whether the topic is known and there is room for what was to be sent, as `Producer` waits for it."""
        buffered = self.appender.buffered_bytes
        room = not buffered or buffered + self._wanted_bytes <= self.settings.buffer_memory
        return room and self.appender.partition_count(topic) > 0


class ProducerScript(Script):
    """Acts out one `ProducerPlan`, over all the instances of its producer."""

    def __init__(self, plan: ProducerPlan, run: Run) -> None:
        super().__init__(plan.name, run)
        self.plan = plan
        self.instance = 0
        self.producer = self._born()
        self._open: TransactionSeen | None = None

    @property
    def is_transactional(self) -> bool:
        """Whether its records lie in transactions."""
        return "transactional_id" in self.plan.settings

    def steps(self) -> Iterator[Wait]:
        """All acts in turn, then everything is settled."""
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

    # ---- lives and deaths ---------------------------------------------------------------------------------------

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
        """A new instance takes over, and the old one wakes up later and goes on with its transaction."""
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
        """Send the record, or leave it where its topic or memory cannot be had in time."""
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
                return  # nothing was taken, and that was told at once
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
            # Nobody has heard how it ended: whoever takes over does not, either.
            producer.die()
            self.producer = self._born()

    def end_transaction(
        self, producer: ScriptedProducer, transaction: TransactionSeen, committed: bool
    ) -> Iterator[Wait]:
        """Commit or abort, ask again until an answer is heard, and write down what was told."""
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
    """An instance that has been replaced, wakes up, and asks for its transaction to be committed."""

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
        """Sleep, wake up, commit."""
        yield self.until(None, self._pause_us)
        yield from self._owner.end_transaction(self._producer, self._transaction, True)
        self._producer.die()
