"""A simulated producer and reader: the shipped cores, driven as `client/` drives them.

Tests use them like the real ones: `send` returns a `Delivery`, and its `result` lets simulated time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.connection.events import Transmit
from ottla.errors import BufferFull, KafkaError, OttlaError
from ottla.host.runner import Runner
from ottla.producer.core import ProducerCore
from ottla.producer.events import (
    BatchAcked,
    BatchesAdded,
    BatchesFilled,
    BatchFailed,
    BatchSplit,
    BatchUnknown,
    Closed,
    LoadKnown,
    OpenBatchesWanted,
    TopicForgotten,
    TopicKnown,
    TopicWanted,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.gate import Gate
from ottla.producer.settings import ProducerSettings
from ottla.reader.core import ReaderCore
from ottla.reader.events import Assign, Consumed, Fetched, Finished, Positioned, ReadFailed
from ottla.reader.settings import ReaderSettings
from ottla.records.append import Appender
from ottla.records.delivery import Delivery, SealedBatch
from ottla.records.memory import BlockedCall
from ottla.records.plain import Record, decode_batches
from ottla.simulation.transactions import SimulatedTransactions, committed_only

if TYPE_CHECKING:
    from ottla.simulation.world import World


# When the simulated I/O side would wake by itself: never, so the appender wakes it after every append.
FOR_EVER_US = 1 << 62


class _FedByAppender:
    """The producer's core; with each tick it also gets new batches from the appender."""

    def __init__(self, producer: SimulatedProducer) -> None:
        self._producer = producer

    def receive(self, event: Any, now_us: int) -> None:
        self._producer.core.receive(event, now_us)

    def outputs(self) -> list[Any]:
        return self._producer.core.outputs()

    def deadline_us(self) -> int | None:
        return self._producer.core.deadline_us()

    def tick(self, now_us: int) -> None:
        self._producer.feed()
        self._producer.core.tick(now_us)


class SimulatedProducer:
    """One `ProducerCore` with its `Appender`; it also has the hooks that the appender calls.

    `requests` are the requests that were sent, for tests that follow a record.
    """

    def __init__(self, world: World, number: int, settings: Mapping[str, Any], rng: Random) -> None:
        self.settings = ProducerSettings({"bootstrap_servers": world.bootstrap_servers, **settings})
        self.core = ProducerCore(self.settings, rng)
        self.requests: list[Transmit] = []
        # Its name in the trace.
        self.client_name = f"client-{number}"
        self._world = world
        self._number = number
        self._unsettled: dict[SealedBatch, None] = {}
        self._topic_errors: dict[str, KafkaError | None] = {}
        self._runner = Runner(world.scheduler, _FedByAppender(self), self._perform, world.clients.clock_of(number))
        self.appender = Appender(
            batch_size=self.settings.batch_size,
            max_request_size=self.settings.max_request_size,
            buffer_memory=self.settings.buffer_memory,
            linger_us=self.settings.linger_ms * 1000,
            compression=self.settings.compression_type,
            compression_level=self.settings.compression_level,
            partitioner=self.settings.partitioner,
            ignore_keys=self.settings.partitioner_ignore_keys,
            seed=rng.getrandbits(63),
            clock_us=lambda: self._runner.now_us,
            clock_ms=lambda: world.date_ms(self._runner.now_us),
            hooks=self,
        )
        self.appender.sleeping = True
        self.appender.wakes_us = FOR_EVER_US
        self.core.close_batches_by(self.appender)
        self.gate = Gate(self.appender, self.core.transaction_refusal)
        if self.settings.transactional_id is not None:
            self.transactions = SimulatedTransactions(self, world)

    def send(self, topic: str, value: Any = None, key: Any = None, **details: Any) -> Delivery:
        """As `Producer.send`."""
        return self.appender.send(topic, value, key, **details)

    def flush(self) -> None:
        """Let time pass until everything is settled; open batches are sent at once."""
        self.feed(flushes=True)
        self._runner.carry_out()
        if not self._world.run_until(lambda: not self._unsettled):
            raise OttlaError("the simulated producer did not settle its batches")

    def deliver(self, event: Any) -> None:
        """Give the core an event now."""
        self._runner.deliver(event)

    def look_again(self) -> None:
        """Look at the clock, which runs otherwise now."""
        self._runner.look_again()

    def is_settled(self) -> bool:
        """Whether everything that was sent has an outcome."""
        return not self._unsettled and not self.appender.buffered_bytes

    def may_go_on(self, topic: str) -> bool:
        """Whether the topic is known and buffer.memory has room."""
        room = self.appender.buffered_bytes < self.settings.buffer_memory
        return room and self.appender.partition_count(topic) > 0

    def die(self) -> None:
        """End the process: its connections are closed, and its records get no further outcomes.

        A real process would end with its batches. Here they must be settled: otherwise their deliveries, and with them
        the whole world, could not be garbage-collected (see `Delivery`).
        """
        self._runner.die()
        self._world.network.remove_client(self._number)
        for batch in (*self._unsettled, *self.appender.take_new()):
            self.appender.close(batch)
            batch.lose(OttlaError("the process that sent it has died"))
        self._unsettled.clear()

    def feed(self, *, flushes: bool = False) -> None:
        """Give the core new and full batches; with `flushes` open batches are ready at once."""
        now_us = self._runner.now_us
        appender = self.appender
        batches = appender.take_new()
        appender.sleeping = True
        if batches:
            self._unsettled.update(dict.fromkeys(batches))
            self.core.receive(BatchesAdded(batches), now_us)
        filled = appender.take_filled()
        if filled:
            self.core.receive(BatchesFilled(filled), now_us)
        if flushes or appender.is_short_of_memory:
            self.core.receive(OpenBatchesWanted(), now_us)

    # ---- the appender's hooks -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a tick: something was appended."""
        self._world.scheduler.after(0, self._runner.ring)

    def check_usable(self) -> None:
        """Raise if nothing can be sent any more."""
        self.gate.check_usable()

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """Let time pass until the topic is known."""
        self._runner.deliver(TopicWanted(topic))
        if not self._wait_to_go_on(lambda: self.appender.partition_count(topic) > 0):
            raise self._topic_errors.get(topic) or OttlaError(f"topic {topic!r} could not be used")

    def memory_wanted(self, call: BlockedCall) -> None:
        """Let time pass until the call gets its memory."""
        self.feed()
        self._runner.carry_out()
        if not self._wait_to_go_on(lambda: not call.is_waiting):
            raise BufferFull(f"buffer.memory ({self.settings.buffer_memory} bytes) stayed full")

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        """Let time pass until a batch is settled."""
        limit_s = 600.0 if timeout_s is None else timeout_s
        return self._world.run_until(lambda: batch.outcome != 0, limit_us=int(limit_s * 1_000_000))

    def _wait_to_go_on(self, reached: Any) -> bool:
        return self._world.run_until(reached, limit_us=self.settings.max_block_ms * 1000)

    # ---- the I/O side -------------------------------------------------------------------------------------------

    def _perform(self, output: Any) -> None:
        kind = type(output)
        if kind is Transmit:
            self.requests.append(output)
        if self._world.network.perform(self._number, self._runner.deliver, output):
            return
        if kind is TopicKnown:
            self._topic_errors[output.topic] = output.error
            if output.partition_count:
                self.appender.set_topic(output.topic, output.partition_count)
        elif kind is TopicForgotten:
            self.appender.forget_topic(output.topic)
        elif kind is TransactionAnswered or kind is TransactionChanged:
            self.transactions.perform(output)
        elif kind is LoadKnown:
            self.appender.set_load(output.topic, output.load)
        elif kind is not Closed:
            self._settle(output)

    def _settle(self, output: BatchAcked | BatchFailed | BatchSplit | BatchUnknown) -> None:
        batch = output.batch
        del self._unsettled[batch]
        self.appender.release(batch.buffer_bytes)
        if isinstance(output, BatchSplit):
            self._unsettled.update(dict.fromkeys(output.parts))
            self.appender.release(-sum(part.buffer_bytes for part in output.parts))
        elif isinstance(output, BatchAcked):
            batch.complete(output.base_offset, output.log_append_time_ms)
        elif isinstance(output, BatchUnknown):
            batch.lose(output.error)
        else:
            batch.fail(output.error)


class SimulatedReader:
    """One `ReaderCore` that reads partitions to their end. `bounds` has the offsets between which it read."""

    def __init__(self, world: World, number: int, settings: Mapping[str, Any], rng: Random) -> None:
        self._settings = ReaderSettings({"bootstrap_servers": world.bootstrap_servers, **settings})
        self.core = ReaderCore(self._settings, rng)
        # Its name in the trace.
        self.client_name = f"client-{number}"
        self.bounds: dict[tuple[str, int], tuple[int, int | None]] = {}
        self._world = world
        self._number = number
        self._runner = Runner(world.scheduler, self.core, self._perform, world.clients.clock_of(number))
        self._fetched: dict[tuple[str, int], list[Fetched]] = {}
        self._finished: dict[tuple[str, int], OttlaError | None] = {}

    def read(self, topic: str, partition: int) -> list[Record]:
        """All records of a partition up to its present end, in offset order; with read_committed those committed."""
        fetched = self.fetch(topic, partition)
        if self._settings.read_committed:
            return committed_only(fetched)
        return [
            record
            for buffer in fetched
            for header, records in decode_batches(buffer.records)
            for record in records
            if record.offset >= buffer.fetch_offset and not header.is_control
        ]

    def fetch(self, topic: str, partition: int) -> list[Fetched]:
        """All that is fetched of a partition up to its present end, not decoded."""
        place = topic, partition
        self._fetched[place] = []
        self._runner.deliver(Assign(topic, partition, start=-2, end=-1))
        if not self._world.run_until(lambda: place in self._finished):
            raise OttlaError(f"the simulated reader did not reach the end of {topic}-{partition}")
        error = self._finished.pop(place)
        if error is not None:
            raise error
        return self._fetched.pop(place)

    def die(self) -> None:
        """End the process."""
        self._runner.die()
        self._world.network.remove_client(self._number)

    def _perform(self, output: Any) -> None:
        kind = type(output)
        if self._world.network.perform(self._number, self._runner.deliver, output):
            return
        if kind is Fetched:
            self._fetched[output.topic, output.partition].append(output)
            taken = Consumed(output.topic, output.partition, len(output.records))
            self.core.receive(taken, self._runner.now_us)
        elif kind is Positioned:
            self.bounds[output.topic, output.partition] = output.start, output.end
        elif kind is Finished:
            self._finished[output.topic, output.partition] = None
        elif kind is ReadFailed:
            self._finished[output.topic, output.partition] = output.error

    def look_again(self) -> None:
        """Look at the clock, which runs otherwise now."""
        self._runner.look_again()

    def when_acted(self, acted: Callable[[], None]) -> None:
        """Have this called whenever the core has done something."""
        self._runner.acted = acted
