"""The producer's two sides: users' threads on one, the I/O thread that drives the producer core on the other.

Records reach the I/O thread as sealed batches only. A batch is on the books (`_label_of`) from the moment it is taken
from the appender until its outcome is known; the label is the number of flushes seen before, so that a flush is over
when no batch with an older label is left, however many records others send meanwhile.

Invariants: every batch that was taken is settled exactly once, also when the I/O thread dies of an exception: what
the core had been given is then unknown, what it had not is failed. Nobody waits for a thread that has ended. A
child process after a fork gets an error from everything it calls and touches neither socket nor lock of its parent.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.client import lifetime
from ottla.client.bootstrap import LastingTrouble, unreachable
from ottla.client.channel import SocketBuffers
from ottla.client.io_loop import IoLoop
from ottla.client.resolve import expand_bootstrap
from ottla.client.security import Security, unguessable
from ottla.client.spent_time import SpentTime
from ottla.client.transaction_verbs import TransactionVerbs
from ottla.client.waiting import Waiting
from ottla.errors import BufferFull, ClosedError, DeliveryError, KafkaError, OttlaError
from ottla.producer.cluster_view import ClusterView
from ottla.producer.core import ProducerCore
from ottla.producer.events import (
    BatchAcked,
    BatchesReady,
    BatchFailed,
    BatchSplit,
    BatchUnknown,
    Closed,
    CloseRequested,
    LoadKnown,
    MetricsRead,
    MetricsWanted,
    TelemetryBegun,
    TopicForgotten,
    TopicKnown,
    TopicWanted,
    TransactionAnswered,
    TransactionChanged,
)
from ottla.producer.figures import Metrics
from ottla.producer.settings import ProducerSettings
from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.partitions import PartitionLoad

if TYPE_CHECKING:
    from ottla.client.interceptors import Interceptors
    from ottla.client.metric_reporting import MetricReporting
    from ottla.client.partition_function import PartitionFunction

# Failed batches that are remembered one by one until somebody flushes; older ones are only counted.
_UNHAPPY_MAX = 1000
_log = logging.getLogger("ottla.producer")

_AT_EXIT_S = 30
# How long closing waits for metric reporters to take the last figures.
LAST_REPORT_S = 5
_FOR_EVER_US = 10**15
_CLOSED = "this producer is closed; make a new one to send more"
_DROPPED = (
    "this Producer was dropped, which closes it; keep a name for it while you send, best: "
    "with ottla.Producer(...) as producer:"
)


class ProducerDriver:
    """Front of the producer's I/O loop, and what its `Appender` calls when it cannot go on by itself."""

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
        self.settings = settings
        self.crash: OttlaError | None = None
        self._forked = False
        self._core = ProducerCore(settings, unguessable(settings.connection.security, rng))
        self.spent = SpentTime(self._core.meters.client)
        self._waiting = Waiting()
        self._topics: dict[str, TopicKnown] = {}
        self._loads: dict[str, PartitionLoad | None] = {}
        self._views: dict[str, ClusterView] = {}
        self.partition_function: PartitionFunction | None = None
        if settings.partition_function is not None:
            from ottla.client.partition_function import PartitionFunction

            self.partition_function = PartitionFunction(settings.partition_function)
        self._label_of: dict[SealedBatch, int] = {}
        self._outstanding: dict[int, int] = {}
        # Held for one addition, never while something happens.
        self._counting = threading.Lock()
        self._flushes_asked = 0
        # (flush, event): what the core is to be told once it has all that was sent before.
        self._behind_flushes: deque[tuple[int, Any]] = deque()
        self._flushes_noticed = 0
        self._flushes_seen = 0
        self._records_taken = 0
        self._records_to_take = 0
        self._unhappy: deque[tuple[SealedBatch, OttlaError, bool]] = deque()
        self._unhappy_before = _Unhappy()
        self._changed = False
        self._closing = False
        self._abandoned = False
        self._close_deadline_us: int | None = None
        self._ended = False
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
        )
        self.transactions = TransactionVerbs(self)
        if settings.transactional_id is not None:
            self.set_gate(self._core.transaction_refusal)
        self.loop = IoLoop(
            self._core,
            self,
            client_id=settings.connection.client_id,
            thread_name=f"ottla-producer-{settings.connection.client_id}",
            buffers=buffers,
            meter=self._core.meters.loop,
            security=Security.of(settings.connection.security),
        )
        self._reporting = self._make_reporting()

    # ---- what the appender calls, on a user's thread ------------------------------------------------------------

    def wake(self) -> None:
        """A batch is ready, or the first record of one has come, while the loop sleeps."""
        self.appender.sleeping = False
        self.loop.wake()

    def check_usable(self) -> None:
        """Raise where nothing can be sent any more."""
        if self._forked or self.crash is not None or self._closing:
            raise self._why_unusable()

    def _why_unusable(self) -> OttlaError:
        if self._forked:
            return lifetime.forked("producer")
        return self.crash if self.crash is not None else ClosedError(_CLOSED)

    def topic_missing(self, topic: str) -> None:
        """Wait until the topic's partitions are known, `max.block.ms` at most."""
        self.check_usable()
        if self._known_count(topic):
            return
        self.refuse_own_thread("sending to a topic for the first time")
        with self.spent.on("metadata_wait_ns"):
            trouble = self.lasting_trouble()
            self._waiting.wait(self.ask_for_topic(topic, trouble), self.settings.max_block_ms / 1000)
        self.check_topic(topic, trouble)

    def lasting_trouble(self) -> LastingTrouble:
        """Where one wait for a topic keeps what it saw of the bootstrap addresses."""
        return LastingTrouble(self.loop, self.settings.connection.bootstrap_servers)

    def ask_for_topic(self, topic: str, trouble: LastingTrouble) -> Callable[[], bool]:
        """Have the topic looked up; what is returned says whether there is an answer, good or bad."""
        self.loop.post(TopicWanted(topic))

        def settled() -> bool:
            known = self._topics.get(topic)
            return (
                self._cannot_go_on()
                or (known is not None and (known.partition_count > 0 or _is_final(known.error)))
                or trouble.seen()
            )

        return settled

    def check_topic(self, topic: str, trouble: LastingTrouble) -> None:
        """Raise what keeps the topic from being known; nothing when it is."""
        if self._known_count(topic):
            return
        self.check_usable()
        max_block_ms = self.settings.max_block_ms
        known = self._topics.get(topic)
        if known is not None and known.error is not None:
            raise _no_topic(topic, known.error, max_block_ms)
        if trouble.error is not None:
            raise trouble.error
        raise unreachable(self.loop, self.settings.connection.bootstrap_servers, max_block_ms)

    def place(self, topic: Any, key: bytes | None) -> int | None:
        """What the user's partitioner makes of a key; None leaves it to the default one."""
        if self.partition_function is None or not isinstance(topic, str) or not topic:
            return None  # what is no topic is refused where all records are looked at
        return self.partition_function.place(key, self.view(topic))

    def memory_wanted(self, nbytes: int) -> None:
        """Wait until `nbytes` fit into `buffer.memory`, `max.block.ms` at most; BufferFull after that."""
        self.check_usable()
        self.refuse_own_thread("sending while buffer.memory is full")
        # The appender has rung already, and has the loop seal the open batches that hold the memory.
        with self.spent.on("buffer_wait_ns"):
            room = self._waiting.wait(self.room_for(nbytes), self.settings.max_block_ms / 1000)
        self.check_usable()
        if not room:
            raise self.buffer_full()

    def room_for(self, nbytes: int) -> Callable[[], bool]:
        """What is returned says whether `nbytes` fit into `buffer.memory`, or never will."""
        appender, limit = self.appender, self.settings.buffer_memory

        def settled() -> bool:
            buffered = appender.buffered_bytes
            return buffered + nbytes <= limit or buffered == 0 or self._cannot_go_on()

        return settled

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
        return self.wait_for(lambda: batch.outcome != 0, timeout_s)

    def wait_for(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait for what settling batches brings about; False when it is not so after `timeout_s`."""
        if self._forked:
            raise lifetime.forked("producer")
        if not done():
            self.refuse_own_thread("waiting for a delivery")
        return self._waiting.wait(done, timeout_s)

    # ---- what the producer calls, on a user's thread ------------------------------------------------------------

    def partition_count(self, topic: str) -> int:
        """The topic's partition count, waited for as `topic_missing` does."""
        self.topic_missing(topic)
        return self._known_count(topic)

    def view(self, topic: str) -> ClusterView:
        """The topic's partitions as the user's partitioner sees them; waited for as `topic_missing` does."""
        view = self._views.get(topic)
        while view is None:
            self.topic_missing(topic)
            view = self._views.get(topic)
        return view

    def load(self, topic: str) -> PartitionLoad | None:
        """Where the topic's keyless records should go now; None: to all partitions alike."""
        return self._loads.get(topic)

    def flush(self, timeout_s: float | None) -> None:
        """Wait until everything sent so far is settled; TimeoutError, or DeliveryError for what went wrong."""
        if self._forked:
            raise lifetime.forked("producer")
        self.refuse_own_thread("flushing")
        ticket = self._ask_for_flush()
        with self.spent.on("flush_ns"):
            flushed = self._waiting.wait(lambda: self._is_flushed(ticket), timeout_s)
        if not flushed:
            raise TimeoutError(f"records are still on their way after {timeout_s} s; flush again to wait for the rest")
        self.report_unhappy()

    def close(self, timeout_s: float | None) -> None:
        """Deliver what was sent, end the thread; TimeoutError where that took longer, DeliveryError as in flush."""
        if self._forked:
            return
        self.refuse_own_thread("closing")
        self._begin_to_close(timeout_s)
        # The core gives up at its deadline by itself; a second on top for carrying that out.
        if not self._waiting.wait(lambda: self._ended, None if timeout_s is None else timeout_s + 1):
            raise TimeoutError(f"the producer could not be closed within {timeout_s} s")
        self.loop.join()
        if self._reporting is not None:
            self._reporting.join(LAST_REPORT_S)
        self.report_unhappy()

    def abandon(self) -> None:
        """The producer object is gone without `close`: deliver what was sent, then end; what fails is logged."""
        if not self._forked:
            self._abandoned = True
            self._begin_to_close(None)
            self.appender.closed_error = ClosedError(_DROPPED)

    @property
    def core(self) -> ProducerCore:
        """The core, of which other threads may only read single figures and words."""
        return self._core

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self._ended or self._forked or self.crash is not None

    def flush_before(self, event: Any) -> None:
        """Give the core everything sent so far, and then this event."""
        self._ask_for_flush(event)

    def set_gate(self, refusal: OttlaError | None) -> None:
        """Take records (None), or refuse them with this error; for a transactional producer."""
        self.appender.closed_error = refusal
        # Whoever closes says so first: one of the two sees the other.
        if self._forked or self.crash is not None or self._closing:
            self.appender.closed_error = self._why_unusable()

    def forget_unhappy(self) -> None:
        """Somebody knows that the records so far are lost."""
        self._unhappy.clear()
        self._unhappy_before = _Unhappy()

    def _begin_to_close(self, timeout_s: float | None) -> None:
        if self._ended:
            return
        # In this order: once the deadline is seen, no record can come any more.
        self._closing = True
        self.appender.closed_error = ClosedError(_CLOSED)
        given_us = _FOR_EVER_US if timeout_s is None else max(0, int(timeout_s * 1_000_000))
        self._close_deadline_us = time.monotonic_ns() // 1000 + given_us
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
        if self._ended or self._forked:
            return True
        # A copy: the I/O thread changes it meanwhile. There are as many labels as flushes under way.
        return self._flushes_seen >= ticket and all(label >= ticket for label in list(self._outstanding))

    def start(self) -> None:
        """Start the thread."""
        lifetime.began(self)
        self.loop.start()
        if self._reporting is not None:
            self._reporting.start()

    def at_exit(self) -> None:
        """The interpreter ends and nobody has closed: deliver what was sent, as far as that goes in a while."""
        try:
            self.close(_AT_EXIT_S)
        except (OttlaError, TimeoutError) as error:
            _log.error("records were lost at the end of the process: %s; call flush() or close() before", error)

    def after_fork_in_child(self) -> None:
        """Make everything in the child say that it cannot use its parent's producer."""
        self._forked = True
        self.appender.closed_error = lifetime.forked("producer")
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
            time.monotonic_ns() // 1000,
            buffer_total_bytes=memory,
            buffer_available_bytes=max(0, memory - self.appender.buffered_bytes),
            waiting_threads=self.appender.memory_waiters,
            ottla_interceptor_error_total=0 if self.interceptors is None else self.interceptors.errors,
        )

    # ---- what the loop calls, on the I/O thread -----------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Take sealed batches from the appender; all open ones too where somebody flushes."""
        closing_us = self._close_deadline_us
        asked = self._flushes_asked
        if asked != self._flushes_noticed:
            self._flushes_noticed = asked
            self._records_to_take = self.appender.records_appended
        flushing = asked != self._flushes_seen
        batches = self.appender.take_ready(now_us, flushing)
        if batches:
            label_of, label = self._label_of, self._flushes_seen
            records = 0
            for batch in batches:
                label_of[batch] = label
                records += batch.record_count
            self._records_taken += records
            self._outstanding[label] = self._outstanding.get(label, 0) + len(batches)
            if self.interceptors is not None:
                self.interceptors.on_batch(batches)
            self._core.receive(BatchesReady(batches), now_us)
        # A batch that another thread is still compressing comes a little later, and rings.
        if flushing and self._records_taken >= self._records_to_take:
            self._flushes_seen = asked
            self._changed = True
            while self._behind_flushes and self._behind_flushes[0][0] <= asked:
                self._core.receive(self._behind_flushes.popleft()[1], now_us)
            if closing_us is not None:
                self._close_deadline_us = None
                self._core.receive(CloseRequested(closing_us), now_us)

    def set_sleeping(self, sleeping: bool) -> None:
        """Tell the appender whether it must ring."""
        self.appender.sleeping = sleeping

    def deadline_us(self) -> int | None:
        """When `feed` is due: at once for a flush nobody has noticed, else when a batch has lingered long enough."""
        return 0 if self._flushes_asked != self._flushes_noticed else self.appender.linger_deadline_us()

    def perform(self, output: Any) -> None:
        """Settle a batch, or learn about a topic."""
        kind = type(output)
        self._changed = True
        if kind is BatchAcked:
            batch = output.batch
            self._strike_off(batch)
            if self.interceptors is not None:
                self.interceptors.on_ack(batch, "acked", output.base_offset)
            batch.complete(output.base_offset, output.log_append_time_ms)
        elif kind is BatchFailed or kind is BatchUnknown:
            batch = output.batch
            self._strike_off(batch)
            self._make_unhappy(batch, output.error, unknown=kind is BatchUnknown)
        elif kind is BatchSplit:
            self._book_parts(output)
        elif kind is TopicKnown:
            if output.partition_count or not self._known_count(output.topic):
                self._topics[output.topic] = output
            if output.partition_count:
                self.appender.set_topic(output.topic, output.partition_count)
        elif kind is TopicForgotten:
            # In this order: who finds no view waits for the topic.
            self._topics.pop(output.topic, None)
            self._views.pop(output.topic, None)
            self._loads.pop(output.topic, None)
            self.appender.forget_topic(output.topic)
        elif kind is TransactionAnswered or kind is TransactionChanged:
            self.transactions.perform(output)
        elif kind is ClusterView:
            self._views[output.topic] = output
        elif kind is LoadKnown:
            self._loads[output.topic] = output.load
            self.appender.set_load(output.topic, output.load)
        elif kind is MetricsWanted:
            self._core.receive(MetricsRead(self.metrics(), time.time_ns()), time.monotonic_ns() // 1000)
        elif kind is TelemetryBegun:
            _log.info(
                "brokers take this producer's metrics every %d ms, as those of client instance %s; "
                "enable_metrics_push=False keeps them here",
                output.interval_ms,
                output.client_instance_id,
            )
        elif kind is Closed:
            for batch in self.appender.take_ready(time.monotonic_ns() // 1000, True):
                self._settle_at_last(batch, ClosedError(_CLOSED), unknown=False)
            self._end()
            self.loop.stop()

    def turn_ended(self) -> None:
        """Let go the threads that have what they waited for."""
        if self._changed or not self.loop.answered:
            self._changed = False
            self._waiting.look()

    def crashed(self, error: BaseException) -> None:
        """Settle everything there is: given to the core means unknown, still in the appender means failed."""
        crash = OttlaError(
            f"the producer's I/O thread stopped because of an internal error ({type(error).__name__}: {error}); "
            "close this producer and make a new one, and please report it"
        )
        crash.__cause__ = error
        self.crash = crash
        self.appender.closed_error = crash
        for batch in list(self._label_of):
            self._strike_off(batch)
            for leaf in batch.leaves():
                self._settle_at_last(leaf, crash, unknown=True)
        for batch in self.appender.take_ready(time.monotonic_ns() // 1000, True):
            self._settle_at_last(batch, crash, unknown=False)
        self._end()
        self._waiting.look()

    # ---- books --------------------------------------------------------------------------------------------------

    def _strike_off(self, batch: SealedBatch) -> None:
        label = self._label_of.pop(batch)
        left = self._outstanding[label] - 1
        if left:
            self._outstanding[label] = left
        else:
            del self._outstanding[label]
        self.appender.release(batch.buffer_bytes)

    def _book_parts(self, output: BatchSplit) -> None:
        label = self._label_of.pop(output.batch)
        for part in output.parts:
            self._label_of[part] = label
        self._outstanding[label] += len(output.parts) - 1
        # Two batches may be a little larger than one; what they take beyond is only counted.
        self.appender.release(output.batch.buffer_bytes - sum(part.buffer_bytes for part in output.parts))

    def _make_unhappy(self, batch: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        self._unhappy.append((batch, error, unknown))
        if len(self._unhappy) > _UNHAPPY_MAX:
            self._unhappy_before.add(*self._unhappy.popleft())
        if self.interceptors is not None:
            self.interceptors.on_ack(batch, "unknown" if unknown else "failed", error=error)
        if unknown:
            batch.lose(error)
        else:
            batch.fail(error)

    def _settle_at_last(self, batch: SealedBatch, error: OttlaError, *, unknown: bool) -> None:
        """Nothing comes after this, so not even a callback that raises Ctrl+C may leave a delivery without outcome."""
        if not batch.outcome:
            with contextlib.suppress(BaseException):
                self._make_unhappy(batch, error, unknown=unknown)

    def report_unhappy(self) -> None:
        """Raise DeliveryError for the failed and unknown records nobody has looked at; each is reported once."""
        told, self._unhappy_before = self._unhappy_before, _Unhappy()
        while self._unhappy:
            told.add(*self._unhappy.popleft())
        if told.first is not None:
            raise told.as_error() from told.first

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
                self.report_unhappy()
            except DeliveryError as error:
                _log.error("a producer was dropped without close(): %s", error)

    def _known_count(self, topic: str) -> int:
        known = self._topics.get(topic)
        return 0 if known is None else known.partition_count

    def _cannot_go_on(self) -> bool:
        return self._closing or self._forked or self.crash is not None

    def refuse_own_thread(self, doing: str) -> None:
        if self.loop.is_own_thread():
            raise OttlaError(
                f"{doing} inside a delivery callback would wait for itself: callbacks run on the producer's "
                "I/O thread; hand the work to another thread"
            )


class _Unhappy:
    """Failed and unknown records, counted."""

    __slots__ = ("failed", "first", "unknown")

    def __init__(self) -> None:
        self.failed = 0
        self.unknown = 0
        self.first: OttlaError | None = None

    def add(self, batch: SealedBatch, error: OttlaError, unknown: bool) -> None:
        unlooked = batch.unlooked()
        if not unlooked:
            return
        if unknown:
            self.unknown += unlooked
        else:
            self.failed += unlooked
        if self.first is None:
            self.first = error

    def as_error(self) -> DeliveryError:
        parts = []
        if self.failed:
            parts.append(f"{self.failed} records were not delivered")
        if self.unknown:
            parts.append(f"of {self.unknown} records nobody knows whether they are stored")
        return DeliveryError(
            f"{' and '.join(parts)}; the first cause: {self.first}",
            failed=self.failed,
            unknown=self.unknown,
            first=self.first,
        )


def _is_final(error: KafkaError | None) -> bool:
    return error is not None and not error.retriable


def _no_topic(topic: str, error: KafkaError, waited_ms: int) -> KafkaError:
    """Why the topic cannot be had; `error` is the last that metadata had to say of it."""
    told = f"topic {topic!r}: {error}"
    if error.retriable:
        told = (
            f"topic {topic!r} could not be had within max.block.ms ({waited_ms} ms): {error}; "
            "create it first, or check its name"
        )
    return KafkaError(error.code, error.name, told, retriable=error.retriable, fatal=error.fatal, topic=topic)
