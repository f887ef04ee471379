"""The producer's two sides: users' threads on one, the I/O thread that drives the producer core on the other.

Here the two meet: users' threads ask and wait, the I/O thread takes sealed batches, settles them and lets go those who
waited. What is under way and what came to nothing stands in `delivery_books.py`, what is known of topics in
`known_topics.py`; how `send` waits, when it has to, in `appender_hooks.py`.

Invariants: every batch that was taken is settled exactly once, also when the I/O thread dies of an exception: what
the core had been given is then unknown, what it had not is failed. Nobody waits for a thread that has ended. A
child process after a fork gets an error from everything it calls and touches neither socket nor lock of its parent.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.client import lifetime
from ottla.client.appender_hooks import CLOSED, AppenderHooks
from ottla.client.callers_turn import CallersTurn
from ottla.client.channel import SocketBuffers
from ottla.client.delivery_books import DeliveryBooks
from ottla.client.io_loop import IoLoop
from ottla.client.known_topics import KnownTopics
from ottla.client.leaving import LongWaits
from ottla.client.poller import HAS_EPOLL
from ottla.client.resolve import expand_bootstrap
from ottla.client.security import Security, unguessable
from ottla.client.spent_time import SpentTime
from ottla.client.transaction_verbs import TransactionVerbs
from ottla.clock import MACHINE
from ottla.errors import ClosedError, DeliveryError, OttlaError
from ottla.producer.cluster_view import ClusterView
from ottla.producer.core import ProducerCore
from ottla.producer.events import (
    BatchAcked,
    BatchClosed,
    BatchesAdded,
    BatchesFilled,
    BatchFailed,
    BatchSplit,
    BatchUnknown,
    ClientInstanceKnown,
    Closed,
    CloseRequested,
    LoadKnown,
    MetricsRead,
    MetricsWanted,
    OpenBatchesWanted,
    TelemetryBegun,
    TopicForgotten,
    TopicKnown,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.figures import Metrics
from ottla.producer.gate import Gate
from ottla.producer.settings import ProducerSettings
from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall
from ottla.records.record_parts import checked_topic
from ottla.timeouts import seconds

if TYPE_CHECKING:
    from ottla.client.diagnosis_log import DiagnosisLog
    from ottla.client.interceptors import Interceptors
    from ottla.client.metric_reporting import MetricReporting
    from ottla.producer.diagnosis import Diagnosis

_log = logging.getLogger("ottla.producer")

_AT_EXIT_S = 30
# How long closing waits for the I/O thread beyond its timeout: the core gives up at that by itself.
GRACE_S = 10
# How long closing waits for metric reporters to take the last figures.
LAST_REPORT_S = 5
_FOR_EVER_US = 10**15
_OF_TOPICS = (TopicKnown, TopicForgotten, ClusterView, LoadKnown)
_DROPPED = (
    "this Producer was dropped, which closes it; keep a name for it while you send, best: "
    "with ottla.Producer(...) as producer:"
)


class ProducerDriver(AppenderHooks):
    """Front of the producer's I/O loop."""

    def __init__(
        self,
        settings: ProducerSettings,
        rng: Random,
        buffers: SocketBuffers,
        landing: deque[list[Any]] | None = None,
    ) -> None:
        expand_bootstrap(settings.connection)
        for warning in settings.warnings:
            _log.warning("%s", warning)
        if settings.idempotence_off_by:
            # As loud as Java says it: whoever chose the setting may well have wanted this.
            _log.info("enable.idempotence is on by default and off here because of %s", settings.idempotence_off_by)
        self._core = ProducerCore(settings, unguessable(settings.connection.security, rng))
        super().__init__(settings, SpentTime(self._core.meters.client))
        # Held for one addition, never while something happens.
        self._counting = threading.Lock()
        self._flushes_asked = 0
        # (flush, event): what the core is to be told once it has all that was sent before.
        self._behind_flushes: deque[tuple[int, Any]] = deque()
        self._flushes_seen = 0
        self._changed = False
        self._abandoned = False
        self._close_deadline_us: int | None = None
        self._ended = False
        # What a broker calls this producer where it wants to hear its metrics (KIP-714).
        self.client_instance_id: str | None = None
        self.interceptors: Interceptors | None = None
        if settings.interceptor_classes:
            from ottla.client.interceptors import Interceptors

            self.interceptors = Interceptors(settings.interceptor_classes)
        self.appender = Appender(
            batch_size=settings.batch_size,
            max_request_size=settings.max_request_size,
            buffer_memory=settings.buffer_memory,
            linger_us=settings.linger_ms * 1000,
            compression=settings.compression_type,
            compression_level=settings.compression_level,
            partitioner=settings.partitioner,
            places=settings.partition_function is not None,
            ignore_keys=settings.partitioner_ignore_keys,
            seed=rng.getrandbits(63),
            landing=landing,
            hooks=self,
            clock_us=None if self.clock is MACHINE else self.clock.now_us,
            clock_ms=None if self.clock is MACHINE else self.clock.wall_ms,
        )
        self._core.close_batches_by(self.appender)
        self.gate = Gate(self.appender, self._core.transaction_refusal)
        self.topics = KnownTopics(self.appender, settings.connection.client_id)
        self.books = DeliveryBooks(self.appender, self.interceptors)
        self.transactions = TransactionVerbs(self)
        self.waits = LongWaits(self)
        self.loop = IoLoop(
            self._core,
            self,
            client_id=settings.connection.client_id,
            thread_name=f"ottla-producer-{settings.connection.client_id}",
            buffers=buffers,
            meter=self._core.meters.loop,
            security=Security.of(settings.connection.security, self.clock),
            clock=self.clock,
        )
        if self._is_plain(settings):
            self.callers_turn = self._make_callers_turn(settings.connection.request_timeout_ms * 1000)
        self._reporting = self._make_reporting()
        # Made when the first sample is over: most producers have ended by then.
        self._diagnosis_log: DiagnosisLog | None = None
        self._sample_due_us = 0

    # ---- what the producer calls, on a user's thread ------------------------------------------------------------

    def partition_count(self, topic: str) -> int:
        """The topic's partition count, waited for as `topic_missing` does; RecordError for what is no topic."""
        checked_topic(topic)
        self.topic_missing(topic, BlockedCall())
        return self.topics.partition_count(topic)

    def flush(self, timeout: float | None) -> None:
        """Wait until everything sent so far is settled; TimeoutError, or DeliveryError for what went wrong."""
        timeout_s = seconds(timeout)
        if self.gate.has_forked:
            raise lifetime.forked("producer")
        self.refuse_own_thread("flushing")
        ticket = self._ask_for_flush()
        with self.spent.on("flush_ns"):
            flushed = self.waits.wait(lambda: self._is_flushed(ticket), timeout_s, "flush")
        if not flushed:
            raise TimeoutError(f"records are still on their way after {timeout_s} s; flush again to wait for the rest")
        self.books.report()

    def close(self, timeout: float | None) -> None:
        """Deliver what was sent, end the thread; TimeoutError where that took longer, DeliveryError as in flush."""
        timeout_s = seconds(timeout)
        if self.gate.has_forked:
            return
        self.refuse_own_thread("closing")
        self._begin_to_close(timeout_s)
        if not self.waits.wait(lambda: self._ended, timeout_s, "close", GRACE_S):
            raise TimeoutError(f"the producer could not be closed within {timeout_s} s")
        self.loop.join()
        if self._reporting is not None:
            self._reporting.join(LAST_REPORT_S)
        self.books.report()

    def abandon(self) -> None:
        """The producer object is gone without `close`: deliver what was sent, then end; what fails is logged."""
        if not self.gate.has_forked:
            self._abandoned = True
            self._begin_to_close(None)
            self.gate.close(ClosedError(_DROPPED))

    @property
    def core(self) -> ProducerCore:
        """The core, of which other threads may only read single figures and words."""
        return self._core

    def _is_plain(self, settings: ProducerSettings) -> bool:
        """Whether records leave one by one, and nothing interpreted is called to send them and take in answers."""
        return (
            HAS_EPOLL
            and settings.linger_ms == 0
            and settings.transactional_id is None
            and settings.compression_type == "none"
            and self.interceptors is None
            # A caller calls nothing interpreted while it does the I/O: a signal would find it half done.
            and self.clock is MACHINE
            and settings.connection.security.protocol == "PLAINTEXT"
        )

    def _make_callers_turn(self, request_timeout_us: int) -> CallersTurn | None:
        return CallersTurn(self, self.loop, self._core, request_timeout_us)

    @property
    def records_settled(self) -> int:
        """How many of the appended records have an outcome; not exact while others send."""
        return self.books.records_settled

    @property
    def is_at_ease(self) -> bool:
        """Whether nobody flushes, closes, or cannot go on."""
        return self._flushes_asked == self._flushes_seen and not self._cannot_go_on()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for what settling batches brings about."""
        return self._waiting.has_waiters

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended or self.gate.has_forked or self.gate.crash is not None

    @property
    def has_forked(self) -> bool:
        """Whether this is a child of the process whose producer it is."""
        return self.gate.has_forked

    def flush_before(self, event: Any) -> None:
        """Give the core everything sent so far, and then this event."""
        self._ask_for_flush(event)

    def _begin_to_close(self, timeout_s: float | None) -> None:
        if self._ended:
            return
        # In this order: once the deadline is seen, no record can come any more.
        self.gate.close(ClosedError(CLOSED))
        given_us = _FOR_EVER_US if timeout_s is None else int(timeout_s * 1_000_000)
        self._close_deadline_us = self.loop.now_us() + given_us
        self._ask_for_flush()

    def _ask_for_flush(self, event: Any = None) -> int:
        with self._counting:
            self._flushes_asked += 1
            ticket = self._flushes_asked
            if event is not None:
                self._behind_flushes.append((ticket, event))
        self.loop.wake()
        return ticket

    def _is_flushed(self, ticket: int) -> bool:
        if self._ended or self.gate.has_forked:
            return True
        return self._flushes_seen >= ticket and self.books.is_clear_before(ticket)

    def start(self) -> None:
        """Start the thread."""
        lifetime.began(self)
        self.loop.start()
        if self._reporting is not None:
            self._reporting.start()

    def at_exit(self) -> None:
        """The interpreter ends and nobody has closed: deliver what was sent, as far as that goes in a while."""
        try:
            self.waits.close_at_exit(_AT_EXIT_S)
        except (OttlaError, TimeoutError) as error:
            _log.error("records were lost at the end of the process: %s; call flush() or close() before", error)

    def after_fork_in_child(self) -> None:
        """Make everything in the child say that it cannot use its parent's producer."""
        self.gate.fork(lifetime.forked("producer"))
        self.loop.abandon_in_child()

    @property
    def has_ended(self) -> bool:
        """Whether everything is settled and the thread has nothing more to do."""
        return self._ended

    def _make_reporting(self) -> MetricReporting | None:
        settings = self.settings
        if not settings.metric_reporters:
            return None
        from ottla.client.metric_reporting import MetricReporting

        name = f"ottla-metrics-{settings.connection.client_id}"
        return MetricReporting(settings.metric_reporters, self.metrics, settings.metrics_sample_window_ms, name)

    def metrics(self) -> Metrics:
        """The core's figures and the buffer's, under Kafka's names."""
        memory = self.settings.buffer_memory
        return self._core.metrics(
            self.loop.now_us(),
            buffer_total_bytes=memory,
            buffer_available_bytes=max(0, memory - self.appender.buffered_bytes),
            waiting_threads=self.appender.memory_waiters,
            ottla_interceptor_error_total=0 if self.interceptors is None else self.interceptors.errors,
        )

    def diagnosis(self) -> Diagnosis:
        """What limits the producer, by the core's figures and the buffer's."""
        from ottla.producer.diagnosis import diagnose

        appender = self.appender
        available = max(0, self.settings.buffer_memory - appender.buffered_bytes)
        return diagnose(self._core.observe(self.loop.now_us(), appender.memory_waiters, available), self.settings)

    # ---- what the loop calls, on the I/O thread -----------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Give the core what users have sent since."""
        self.take_batches(now_us)

    def take_batches(self, now_us: int) -> None:
        """Give the core the new and the full batches; make open ones ready if somebody flushes or lacks memory."""
        # Read before the batches are taken, so that these hold all records sent before the flush.
        asked = self._flushes_asked
        # Read after that: `close` sets it before it asks for a flush, so whoever sees the flush sees it, too.
        closing_us = self._close_deadline_us
        appender = self.appender
        batches = appender.take_new()
        if batches:
            self.books.enter(batches, self._flushes_seen)
            self._core.receive(BatchesAdded(batches), now_us)
        filled = appender.take_filled()
        if filled:
            self._core.receive(BatchesFilled(filled), now_us)
        flushing = asked != self._flushes_seen
        appender.is_released = flushing or appender.is_short_of_memory
        if appender.is_released:
            self._core.receive(OpenBatchesWanted(), now_us)
        if flushing:
            self._flushes_seen = asked
            self._changed = True
            while self._behind_flushes and self._behind_flushes[0][0] <= asked:
                self._core.receive(self._behind_flushes.popleft()[1], now_us)
            if closing_us is not None:
                self._close_deadline_us = None
                self._core.receive(CloseRequested(closing_us), now_us)

    def set_sleeping(self, sleeping: bool) -> None:
        """Tell the appender whether it must wake the loop: for any new batch, until `sleeps_until` says when."""
        self.appender.wakes_us = _FOR_EVER_US
        self.appender.sleeping = sleeping

    def sleeps_until(self, wakes_us: int) -> None:
        """Tell the appender that it need not wake the loop for batches that are due later."""
        self.appender.wakes_us = min(wakes_us, _FOR_EVER_US)

    def deadline_us(self) -> int | None:
        """When `feed` is due: at once for a new flush or new batches."""
        return 0 if self._flushes_asked != self._flushes_seen or self.appender.has_news() else None

    def perform(self, output: Any) -> None:
        """Settle a batch, or learn about a topic."""
        kind = type(output)
        self._changed = True
        if kind is BatchAcked:
            batch = output.batch
            self.books.give_back(batch)
            if self.interceptors is not None:
                self.interceptors.on_ack(batch, "acked", output.base_offset)
            batch.complete(output.base_offset, output.log_append_time_ms)
            self.books.strike_off(batch)
        elif kind is BatchFailed or kind is BatchUnknown:
            batch = output.batch
            self.books.give_back(batch)
            self.books.settle_unhappily(batch, output.error, unknown=kind is BatchUnknown)
            self.books.strike_off(batch)
        elif kind is BatchClosed:
            if self.interceptors is not None:
                self.interceptors.on_batch((output.batch,))
        elif kind is BatchSplit:
            self.books.enter_parts(output)
        elif kind is TransactionAnswered or kind is TransactionChanged:
            self.transactions.perform(output)
        elif kind in _OF_TOPICS:
            self.topics.perform(output)
        elif kind is MetricsWanted:
            self._core.receive(MetricsRead(self.metrics(), self.clock.wall_ms() * 1_000_000), self.loop.now_us())
        elif kind is ClientInstanceKnown:
            self.client_instance_id = output.client_instance_id
        elif kind is TelemetryBegun:
            _log.info(
                "brokers take this producer's metrics every %d ms, as those of client instance %s; "
                "enable_metrics_push=False keeps them here",
                output.interval_ms,
                output.client_instance_id,
            )
        elif kind is Closed:
            self.books.fail_at_last(self._take_the_rest(), ClosedError(CLOSED))
            self._end()
            self.loop.stop()

    def _take_the_rest(self) -> list[SealedBatch]:
        batches: list[SealedBatch] = self.appender.take_new()
        for batch in batches:
            self.appender.close(batch)
        return batches

    def turn_ended(self) -> None:
        """Let go the threads that have what they waited for."""
        if self._core.meters.clock.due_us != self._sample_due_us:
            self._sample_is_over()
        memory = self.appender.memory
        if memory.has_served:
            memory.has_served = False
            self._changed = True
        if self._changed or not self.loop.addresses.answered:
            self._changed = False
            self._waiting.look()
        if self.callers_turn is not None:
            self.callers_turn.thread_looks()

    def _sample_is_over(self) -> None:
        """Have a look at the figures and log what they say: once for each sample, and not before there is one."""
        is_first, self._sample_due_us = self._sample_due_us == 0, self._core.meters.clock.due_us
        if is_first or not _log.isEnabledFor(logging.INFO):
            return
        if self._diagnosis_log is None:
            from ottla.client.diagnosis_log import DiagnosisLog

            self._diagnosis_log = DiagnosisLog(self.settings.connection.client_id)
        try:
            self._diagnosis_log.look(self.diagnosis())
        except Exception:  # a sentence about the producer is not worth the records of the producer
            _log.exception("the figures of %s could not be diagnosed", self.settings.connection.client_id)

    def crashed(self, error: BaseException) -> None:
        """Settle everything there is: given to the core means unknown, still in the appender means failed."""
        crash = OttlaError(
            f"the producer's I/O thread stopped because of an internal error ({type(error).__name__}: {error}); "
            "close this producer and make a new one, and please report it"
        )
        crash.__cause__ = error
        self.gate.die(crash)
        self.books.lose_all(crash)
        self.books.fail_at_last(self._take_the_rest(), crash)
        self._end()
        self._waiting.look()

    def _end(self) -> None:
        self._ended = True
        self._changed = True
        lifetime.ended(self)
        if self._reporting is not None:
            self._reporting.end()
        if self.interceptors is not None:
            self.interceptors.close()
        if self._abandoned:
            try:
                self.books.report()
            except DeliveryError as error:
                _log.error("a producer was dropped without close(): %s", error)
