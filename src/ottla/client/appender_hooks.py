"""What an `Appender` calls when it cannot go on by itself: the waits of `send` and of deliveries, on users' threads.

`send` needs the topic's partitions, memory, and a producer that is still at work. What is missing only the I/O thread
brings about: it is asked, and waited for, `max.block.ms` at most. The other half of it is `producer_driver.py`; in an
event loop the same things are awaited (`async_producer_driver.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.client import lifetime
from ottla.client.delivery_books import DeliveryBooks
from ottla.client.io_loop import IoLoop
from ottla.client.known_topics import KnownTopics
from ottla.client.spent_time import SpentTime
from ottla.client.waiting import Waiting
from ottla.connection.address_book import LastingTrouble
from ottla.errors import BufferFull, OttlaError, fresh
from ottla.producer.cluster_view import ClusterView
from ottla.producer.events import TopicWanted
from ottla.producer.gate import Gate
from ottla.producer.settings import ProducerSettings
from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall

if TYPE_CHECKING:
    from ottla.client.callers_turn import CallersTurn
    from ottla.client.partition_function import PartitionFunction

CLOSED = "this producer is closed; make a new one to send more"


class AppenderHooks:
    """The `hooks` of an `Appender`; the driver that they belong to sets what is only declared here."""

    appender: Appender
    gate: Gate
    loop: IoLoop
    topics: KnownTopics
    books: DeliveryBooks

    def __init__(self, settings: ProducerSettings, spent: SpentTime) -> None:
        self.settings = settings
        self.spent = spent
        self.meter = spent.meter
        self.clock = settings.connection.clock
        self._waiting = Waiting(self.clock)
        self.callers_turn: CallersTurn | None = None
        self.partition_function: PartitionFunction | None = None
        if settings.partition_function is not None:
            from ottla.client.partition_function import PartitionFunction

            self.partition_function = PartitionFunction(settings.partition_function)

    def wake(self) -> None:
        """A batch is ready, or the first record of one has come, while the loop sleeps."""
        self.appender.sleeping = False
        self.loop.wake()

    def send_at_once(self) -> bool:
        """Send the first record of a batch on the caller's thread; False where the loop must be woken."""
        return self.callers_turn is not None and self.callers_turn.send_at_once()

    def check_usable(self) -> None:
        """Raise where nothing can be sent any more."""
        self.gate.check_usable()

    def is_awaited(self, batch: SealedBatch) -> None:
        """Somebody begins to await it; raise where nobody would let go who does: in a child of the process."""
        if self.gate.has_forked:
            raise lifetime.forked("producer")

    def time_left_s(self, call: BlockedCall) -> float:
        """How long the call may still wait: `max.block.ms` is counted from its first wait."""
        now_us = self.loop.now_us()
        if call.deadline_us < 0:
            call.deadline_us = now_us + self.settings.max_block_ms * 1000
        return max(0, call.deadline_us - now_us) / 1_000_000

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """Wait until the topic's partitions are known, `max.block.ms` at most."""
        self.check_usable()
        if self.topics.partition_count(topic):
            return
        self.refuse_own_thread("sending to a topic for the first time")
        with self.spent.on("metadata_wait_ns"):
            trouble = self.lasting_trouble()
            self._waiting.wait(self.ask_for_topic(topic, trouble), self.time_left_s(call))
        self.check_topic(topic, trouble)

    def lasting_trouble(self) -> LastingTrouble:
        """Where one wait for a topic keeps what it saw of the bootstrap addresses."""
        return LastingTrouble(self.loop.addresses)

    def ask_for_topic(self, topic: str, trouble: LastingTrouble) -> Callable[[], bool]:
        """Have the topic looked up; what is returned says whether there is an answer, good or bad."""
        self.loop.post(TopicWanted(topic))
        return lambda: self._cannot_go_on() or self.topics.is_answered(topic) or trouble.seen()

    def check_topic(self, topic: str, trouble: LastingTrouble) -> None:
        """Raise what keeps the topic from being known; nothing when it is."""
        if self.topics.partition_count(topic):
            return
        self.check_usable()
        max_block_ms = self.settings.max_block_ms
        refusal = self.topics.refusal(topic, max_block_ms)
        if refusal is not None:
            raise refusal
        if trouble.error is not None:
            raise fresh(trouble.error)
        raise self.loop.addresses.error(max_block_ms)

    def place(self, topic: Any, key: bytes | None, call: BlockedCall) -> int | None:
        """What the user's partitioner makes of a key; None leaves it to the default one."""
        if self.partition_function is None or not isinstance(topic, str) or not topic:
            return None  # what is no topic is refused where all records are looked at
        return self.partition_function.place(key, self.view(topic, call))

    def view(self, topic: str, call: BlockedCall) -> ClusterView:
        """The topic's partitions as the user's partitioner sees them; waited for as `topic_missing` does."""
        view = self.topics.view(topic)
        while view is None:
            self.topic_missing(topic, call)
            view = self.topics.view(topic)
        return view

    def memory_wanted(self, call: BlockedCall) -> None:
        """Wait until the call gets its memory; BufferFull after `max.block.ms`."""
        self.check_usable()
        self.refuse_own_thread("sending while buffer.memory is full")
        # The appender has woken the I/O thread, which sends the open batches that hold the memory.
        with self.spent.on("buffer_wait_ns"):
            self._waiting.wait(self.given(call), self.time_left_s(call))
        self.check_usable()
        if call.is_waiting:
            raise self.buffer_full()

    def given(self, call: BlockedCall) -> Callable[[], bool]:
        """A function: whether the call has got its memory, or never will."""
        return lambda: not call.is_waiting or self._cannot_go_on()

    def buffer_full(self) -> BufferFull:
        """The error of whoever has waited for memory in vain, which is counted."""
        self.spent.add("buffer_exhausted")
        settings = self.settings
        return BufferFull(
            f"buffer.memory ({settings.buffer_memory} bytes) stayed full for max.block.ms ({settings.max_block_ms} "
            "ms): the brokers take records more slowly than they are sent; slow down, or raise buffer_memory"
        )

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        """Wait for a batch's outcome; False when there is none after `timeout_s`."""
        self.count_wait()
        if self.callers_turn is not None and not self.gate.has_forked and not self.loop.is_own_thread():
            began_us = self.loop.now_us()
            self.callers_turn.await_answer(batch, timeout_s)
            if batch.outcome:
                return True
            if timeout_s is not None:
                timeout_s = max(0, timeout_s - (self.loop.now_us() - began_us) / 1_000_000)
        return self.wait_for(lambda: batch.outcome != 0, timeout_s)

    def count_wait(self) -> None:
        """Somebody begins to wait for one record."""
        meter = self.meter
        meter.waits += 1
        if self.appender.records_appended - self.books.records_settled <= 1:
            meter.lone_waits += 1

    def wait_for(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait for what settling batches brings about; False when it is not so after `timeout_s`."""
        if self.gate.has_forked:
            raise lifetime.forked("producer")
        if not done():
            self.refuse_own_thread("waiting for a delivery")
        return self._waiting.wait(done, timeout_s)

    def _cannot_go_on(self) -> bool:
        return self.gate.why_over is not None

    def refuse_own_thread(self, doing: str) -> None:
        if self.loop.is_own_thread():
            raise OttlaError(
                f"{doing} inside a delivery callback would wait for itself: callbacks run on the producer's "
                "I/O thread; hand the work to another thread"
            )
