"""What drives a producer's core: users' threads or coroutines on one side, the I/O thread on the other.

Users send and wait. The I/O thread takes batches from the appender, open ones too, settles them and wakes those who
wait. `delivery_books.py` has the batches without an outcome, and those that failed; `known_topics.py` has what is known
of topics. How users wait is in `ThreadWaits` or `CoroutineWaits`, one of which the driver is given.

Invariants: every batch that was taken is settled exactly once, also when an exception ends the I/O thread: batches that
are still open have then failed, the others on the books are unknown. No call waits for a thread that has ended. In a
forked child, calls that send or wait raise ForkError, `close` does nothing, and neither socket nor lock of the parent
is used.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.client import lifetime
from ottla.client.callers_turn import CallersTurn
from ottla.client.channel import SocketBuffers
from ottla.client.delivery_books import DeliveryBooks
from ottla.client.driver import Driver, prepare
from ottla.client.known_topics import KnownTopics
from ottla.client.poller import HAS_EPOLL
from ottla.client.security import unguessable
from ottla.client.spent_time import SpentTime
from ottla.client.transaction_verbs import TransactionVerbs
from ottla.client.wants import Wants
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

if TYPE_CHECKING:
    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.diagnosis_log import DiagnosisLog
    from ottla.client.interceptors import Interceptors
    from ottla.client.metric_reporting import MetricReporting
    from ottla.client.partition_function import PartitionFunction
    from ottla.client.thread_waits import ThreadWaits
    from ottla.producer.diagnosis import Diagnosis
    from ottla.records.append import ProducerHooks

_log = logging.getLogger("ottla.producer")

_AT_EXIT_S = 30
# How long closing waits for the last call of metric reporters.
LAST_REPORT_S = 5
_FOR_EVER_US = 10**15
_OF_TOPICS = (TopicKnown, TopicForgotten, ClusterView, LoadKnown)
_DROPPED = (
    "this Producer was dropped, which closes it; keep a name for it while you send, best: "
    "with ottla.Producer(...) as producer:"
)


class ProducerDriver(Driver):
    """Front of the producer's I/O loop."""

    KIND = "producer"
    THREAD = "ottla-producer"
    CLIENT = "producer"
    CLOSED = "this producer is closed; make a new one to send more"
    AFTER_CRASH = "close this producer and make a new one"

    def __init__(
        self, settings: ProducerSettings, rng: Random, buffers: SocketBuffers, waits: ThreadWaits | CoroutineWaits
    ) -> None:
        connection = settings.connection
        prepare(connection, settings.warnings, "ottla.producer")
        if settings.idempotence_off_by:
            # INFO, as in Java: the user may have chosen the setting for this reason.
            _log.info("enable.idempotence is on by default and off here because of %s", settings.idempotence_off_by)
        self.settings = settings
        self._core = core = ProducerCore(settings, unguessable(connection.security, rng))
        self.spent = SpentTime(core.meters.client)
        # Held for one addition only.
        self._counting = threading.Lock()
        self._flushes_asked = 0
        # (number of a flush, event): events for the core, once it has all batches that were sent before.
        self._behind_flushes: deque[tuple[int, Any]] = deque()
        self._flushes_seen = 0
        self._abandoned = False
        self._close_deadline_us: int | None = None
        self._ended = False
        # The id that a broker has given this producer for its metrics (KIP-714).
        self.client_instance_id: str | None = None
        self.interceptors: Interceptors | None = None
        if settings.interceptor_classes:
            from ottla.client.interceptors import Interceptors

            self.interceptors = Interceptors(settings.interceptor_classes)
        self.partition_function: PartitionFunction | None = None
        if settings.partition_function is not None:
            from ottla.client.partition_function import PartitionFunction

            self.partition_function = PartitionFunction(settings.partition_function)
        clock = connection.clock
        self.waits = waits
        hooks: ProducerHooks = waits
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
            landing=waits.landing,
            hooks=hooks,
            clock_us=None if clock is MACHINE else clock.now_us,
            clock_ms=None if clock is MACHINE else clock.wall_ms,
        )
        core.close_batches_by(self.appender)
        self.gate = Gate(self.appender, core.transaction_refusal)
        super().__init__(core, connection, buffers, standing=self.gate, meter=core.meters.loop)
        self.topics = KnownTopics(self.appender, connection.client_id)
        self.books = DeliveryBooks(self.appender, self.interceptors)
        self.transactions = TransactionVerbs(self)
        self.wants = Wants(self)
        waits.serve(self)
        self.callers_turn: CallersTurn | None = None
        if self._is_plain(settings):
            self.callers_turn = waits.make_turn(connection.request_timeout_ms * 1000)
        self.reporting = self._make_reporting()
        # Made at the end of a sample of the metrics: most producers have ended by then.
        self._diagnosis_log: DiagnosisLog | None = None
        self._sample_due_us = 0

    # ---- what users' threads call, and who waits for them -------------------------------------------------------

    @property
    def core(self) -> ProducerCore:
        """The core; other threads may only read single numbers and texts of it."""
        return self._core

    def _is_plain(self, settings: ProducerSettings) -> bool:
        """Whether a caller may take turns: no interpreted code runs to send records and take in answers."""
        return (
            HAS_EPOLL
            and settings.linger_ms == 0
            and settings.transactional_id is None
            and settings.compression_type == "none"
            and self.interceptors is None
            # Another clock is interpreted code, in which a signal handler could run in the middle of a turn.
            and self.clock is MACHINE
            and settings.connection.security.protocol == "PLAINTEXT"
        )

    def wake(self) -> None:
        """A batch is ready, or the first record of one has come, while the loop sleeps."""
        self.appender.sleeping = False
        self.loop.wake()

    def cannot_go_on(self) -> bool:
        """As `Driver.cannot_go_on`, but compiled: a caller's turn may run no interpreted code."""
        return self.gate.why_over is not None

    def refuse_own_thread(self, doing: str) -> None:
        """Raise OttlaError on the I/O thread, which would wait for itself."""
        if self.loop.is_own_thread():
            raise OttlaError(
                f"{doing} inside a delivery callback would wait for itself: callbacks run on the producer's "
                "I/O thread; hand the work to another thread"
            )

    def partition_count(self, topic: str) -> int:
        """The topic's partition count; waits for it on this thread. RecordError for what cannot be a topic's name."""
        checked_topic(topic)
        self.waits.topic_missing(topic, BlockedCall())
        return self.topics.partition_count(topic)

    def place(self, topic: Any, key: bytes | None, call: BlockedCall) -> int | None:
        """What the user's partitioner makes of a key; None leaves it to the default one."""
        if self.partition_function is None or not isinstance(topic, str) or not topic:
            return None  # the appender refuses the record: this is no topic's name
        return self.partition_function.place(key, self.view(topic, call))

    def view(self, topic: str, call: BlockedCall) -> ClusterView:
        """The topic's partitions as the user's partitioner sees them; waited for as `send` does."""
        view = self.topics.view(topic)
        while view is None:
            self.waits.topic_missing(topic, call)
            view = self.topics.view(topic)
        return view

    def count_wait(self) -> None:
        """Count a wait for one record."""
        meter = self.spent.meter
        meter.waits += 1
        if self.appender.records_appended - self.books.records_settled <= 1:
            meter.lone_waits += 1

    def abandon(self) -> None:
        """The producer object is gone without `close`: deliver what was sent, then end; what fails is logged."""
        if not self.gate.has_forked:
            self._abandoned = True
            self.begin_to_close(None)
            self.gate.close(ClosedError(_DROPPED))

    @property
    def records_settled(self) -> int:
        """How many of the appended records have an outcome; not exact while others send."""
        return self.books.records_settled

    @property
    def is_at_ease(self) -> bool:
        """Whether no flush or close is under way, and records can still be sent."""
        return self._flushes_asked == self._flushes_seen and not self.cannot_go_on()

    @property
    def is_waited_for(self) -> bool:
        """Whether a thread or coroutine waits in `waiting`."""
        return self.waiting.has_waiters

    @property
    def is_over(self) -> bool:
        """Whether no outcome and no answer will come any more."""
        return self._ended or self.gate.has_forked or self.gate.crash is not None

    def flush_before(self, event: Any) -> None:
        """Give the core everything sent so far, and then this event."""
        self.ask_for_flush(event)

    def begin_to_close(self, timeout_s: float | None) -> None:
        """Take no more records, and end once those sent are settled, at most after `timeout_s`."""
        if self._ended:
            return
        # In this order: once the I/O thread sees the deadline, no record can be added any more.
        self.gate.close(ClosedError(self.CLOSED))
        given_us = _FOR_EVER_US if timeout_s is None else int(timeout_s * 1_000_000)
        self._close_deadline_us = self.loop.now_us() + given_us
        self.ask_for_flush()

    def ask_for_flush(self, event: Any = None) -> int:
        """Have everything sent so far leave, and then give the core `event`; return the number of this flush."""
        with self._counting:
            self._flushes_asked += 1
            flush_number = self._flushes_asked
            if event is not None:
                self._behind_flushes.append((flush_number, event))
        self.loop.wake()
        return flush_number

    def is_flushed(self, flush_number: int) -> bool:
        """Whether everything sent before that flush is settled, or the thread has ended."""
        if self._ended or self.gate.has_forked:
            return True
        return self._flushes_seen >= flush_number and self.books.is_clear_before(flush_number)

    def start(self) -> None:
        """Start the thread."""
        super().start()
        if self.reporting is not None:
            self.reporting.start()

    def at_exit(self) -> None:
        """The process ends, and the producer was not closed: deliver what was sent, for a while at most."""
        try:
            self.waits.close_at_exit(_AT_EXIT_S)
        except (OttlaError, TimeoutError) as error:
            _log.error("records were lost at the end of the process: %s; call flush() or close() before", error)

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

    def join_reporting(self) -> None:
        """Wait a while for the last call of metric reporters."""
        if self.reporting is not None:
            self.reporting.join(LAST_REPORT_S)

    def metrics(self) -> Metrics:
        """The metrics of the core and the buffer, under Kafka's names."""
        memory = self.settings.buffer_memory
        return self._core.metrics(
            self.loop.now_us(),
            buffer_total_bytes=memory,
            buffer_available_bytes=max(0, memory - self.appender.buffered_bytes),
            waiting_threads=self.appender.memory_waiters,
            ottla_interceptor_error_total=0 if self.interceptors is None else self.interceptors.errors,
        )

    def diagnosis(self) -> Diagnosis:
        """What limits the producer, by the metrics of the core and the buffer."""
        from ottla.producer.diagnosis import diagnose

        appender = self.appender
        available = max(0, self.settings.buffer_memory - appender.buffered_bytes)
        return diagnose(self._core.observe(self.loop.now_us(), appender.memory_waiters, available), self.settings)

    # ---- what the loop calls, on the I/O thread -----------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Give the core what users have sent since the last call."""
        self.take_batches(now_us)
        self.waits.batches_taken()

    def take_batches(self, now_us: int) -> None:
        """Give the core new and full batches; have open ones sent, too, for a flush or when memory is short."""
        # Read before the batches are taken, so that these hold all records sent before the flush.
        asked = self._flushes_asked
        # Read after that: `close` sets the deadline before it asks for a flush, so a turn with the flush has it, too.
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
        """Carry out an output of the core: settle a batch, keep what is known of a topic, and others."""
        kind = type(output)
        self._changed = True
        if kind is BatchAcked:
            batch = output.batch
            self.books.give_back(batch)
            if self.interceptors is not None:
                self.interceptors.on_ack(batch, "acked", output.base_offset)
            batch.complete(output.base_offset, output.log_append_time_ms)
            self.books.take_off(batch)
        elif kind is BatchFailed or kind is BatchUnknown:
            batch = output.batch
            self.books.give_back(batch)
            self.books.settle_not_acked(batch, output.error, unknown=kind is BatchUnknown)
            self.books.take_off(batch)
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
            self.books.fail_at_last(self._take_the_rest(), ClosedError(self.CLOSED))
            self._end()
            self.loop.stop()

    def _take_the_rest(self) -> list[SealedBatch]:
        batches: list[SealedBatch] = self.appender.take_new()
        for batch in batches:
            self.appender.close(batch)
        return batches

    def turn_ended(self) -> None:
        """Wake the threads and coroutines that have what they wait for."""
        if self._core.meters.clock.due_us != self._sample_due_us:
            self._sample_is_over()
        memory = self.appender.memory
        if memory.has_served:
            memory.has_served = False
            self._changed = True
        super().turn_ended()
        if self.callers_turn is not None:
            self.callers_turn.thread_looks()
        self.waits.ring()

    def _sample_is_over(self) -> None:
        """Log what limits the producer, at the end of each sample of the metrics."""
        is_first, self._sample_due_us = self._sample_due_us == 0, self._core.meters.clock.due_us
        if is_first or not _log.isEnabledFor(logging.INFO):
            return
        if self._diagnosis_log is None:
            from ottla.client.diagnosis_log import DiagnosisLog

            self._diagnosis_log = DiagnosisLog(self.settings.connection.client_id)
        try:
            self._diagnosis_log.look(self.diagnosis())
        except Exception:  # an error in a log line must not end the I/O thread
            _log.exception("the figures of %s could not be diagnosed", self.settings.connection.client_id)

    def crashed(self, error: BaseException) -> None:
        """Settle everything, and wake all who wait."""
        super().crashed(error)
        self.waits.batches_taken()
        self.waits.ring()

    def settle_all(self, crash: OttlaError) -> None:
        """Batches on the books become failed if still open, else unknown; those not taken from the appender fail."""
        self.books.lose_all(crash)
        self.books.fail_at_last(self._take_the_rest(), crash)
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._changed = True
        lifetime.ended(self)
        if self.reporting is not None:
            self.reporting.end()
        if self.interceptors is not None:
            self.interceptors.close()
        self.waits.ended()
        if self._abandoned:
            try:
                self.books.report()
            except DeliveryError as error:
                _log.error("a producer was dropped without close(): %s", error)
