"""How coroutines wait for their producer: nothing blocks the event loop, and it is woken once for many deliveries.

The I/O thread works as for users' threads (`thread_waits.py`). A coroutine that sends one record at a time and awaits
it may do the I/O itself (`callers_turn.py`). The I/O thread puts what it has for the event loop (callbacks of
settled batches, futures of waiting coroutines) on `landing`, and wakes the event loop once at the end of a round of
I/O. The event loop then runs and removes what is on `landing`.

If `send` would have to wait, the appender returns `send_later`, a coroutine. Appending is its last step: a coroutine
that is cancelled before has not sent its record. Coroutines that wait for memory wait one behind the other for the lock
`_line`. The one that has it waits in the producer's queue for memory (`records/memory.py`). So memory is given in
order.

Invariants: the event loop is woken after everything that is put on `landing` (`_is_rung` is set back before `landing`
is emptied). A producer belongs to the event loop it was first used in; callbacks run there and nowhere else. Threads
without an event loop may use the same producer: they wait as they do for any.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ottla.client.async_timeout import due_in, timeout_at
from ottla.client.callers_turn import REQUEST_TIMEOUT_US_MIN, EventLoopsTurn
from ottla.client.thread_waits import GRACE_S, ThreadWaits
from ottla.errors import OttlaError
from ottla.records.awaiting import MustWait
from ottla.records.delivery import Delivery, SealedBatch, run_callbacks
from ottla.records.memory import BlockedCall
from ottla.records.record_parts import checked_topic, header_pairs, text_or_bytes
from ottla.timeouts import seconds

if TYPE_CHECKING:
    from ottla.client.leaving import LongWaits
    from ottla.client.producer_driver import ProducerDriver


class CoroutineWaits:
    """The waits of one producer's users, who are coroutines of one event loop."""

    def __init__(self) -> None:
        self.landing: deque[list[Any]] = deque()
        self._threads = ThreadWaits()
        self._pauses: deque[asyncio.Future[None]] = deque()
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._line = asyncio.Lock()
        self._is_rung = False
        self._event_loops_turn: EventLoopsTurn | None = None

    def serve(self, driver: ProducerDriver) -> None:
        """Belong to this driver."""
        self._driver = driver
        self._threads.serve(driver)
        # As for threads, and compiled: no signal handler may run just after a record was appended.
        self.wake: Callable[[], None] = self._threads.wake
        self.send_at_once: Callable[[], bool] = self._threads.send_at_once
        self.place: Callable[[Any, bytes | None, BlockedCall], int | None] = self._threads.place

    @property
    def long(self) -> LongWaits:
        """How long waits are logged, and cut short."""
        return self._threads.long

    def make_turn(self, request_timeout_us: int) -> EventLoopsTurn | None:
        """What sends one record at a time in the event loop; None if `request.timeout.ms` is too short for that."""
        if request_timeout_us >= REQUEST_TIMEOUT_US_MIN:
            driver = self._driver
            self._event_loops_turn = EventLoopsTurn(self, driver, driver.loop, driver.core, request_timeout_us)
        return self._event_loops_turn

    # ---- what the appender calls ------------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise where nothing can be sent any more."""
        self._driver.gate.check_usable()

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """In an event loop raise MustWait if the topic is not known; on another thread wait for it."""
        if not _in_event_loop():
            self._threads.topic_missing(topic, call)
        self._driver.gate.check_usable()
        if not self._driver.topics.partition_count(topic):
            raise MustWait

    def memory_wanted(self, call: BlockedCall) -> None:
        """In an event loop raise MustWait; on another thread wait for the memory."""
        if not _in_event_loop():
            self._threads.memory_wanted(call)
            return
        self._driver.gate.check_usable()
        raise MustWait(call.wanted_bytes)

    def is_awaited(self, batch: SealedBatch) -> None:
        """A coroutine awaits a record: OttlaError in another event loop than the producer's, which runs callbacks."""
        event_loop = self.bind(
            ". The record of this delivery is sent all the same: delivery.result() in a thread says what becomes of it"
        )
        self._driver.count_wait()
        if self._event_loops_turn is not None:
            self._event_loops_turn.begin_to_await(batch, event_loop)

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        """Wait for a batch's outcome; OttlaError in an event loop, which this would block."""
        if _in_event_loop():
            raise OttlaError("result() and exception() would hold up the event loop; await the delivery instead")
        return self._threads.wait(batch, timeout_s)

    def send_later(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
        on_delivery: Callable[[Delivery], object] | None,
    ) -> Coroutine[Any, Any, Delivery]:
        """Copy a record as it is now; the coroutine returned appends it once topic and memory are there."""
        value, key = _as_it_is("value", value), _as_it_is("key", key)
        if headers is not None:
            headers = [(name, _as_it_is("header value", content)) for name, content in header_pairs(headers)]
        if timestamp_ms is None:
            timestamp_ms = self._driver.clock.wall_ms()

        def append(call: BlockedCall) -> Delivery:
            return self._driver.appender.send_blocked(
                call, topic, value, key, headers, partition, timestamp_ms, on_delivery
            )

        return self._send_later(topic, append)

    async def _send_later(self, topic: Any, append: Callable[[BlockedCall], Delivery]) -> Delivery:
        self.bind()
        deadline_us = self._driver.clock.now_us() + self._driver.settings.max_block_ms * 1000
        if self._driver.appender.memory_waiters == 0:
            await self._pause()
        while True:
            try:
                return await self._append_in_order(append, deadline_us)
            except MustWait:
                pass
            await self.topic_known(topic, deadline_us)

    async def _append_in_order(self, append: Callable[[BlockedCall], Delivery], deadline_us: int) -> Delivery:
        """Append when earlier calls have appended and there is memory; MustWait if the topic is not known."""
        call = BlockedCall()
        try:
            if self._driver.appender.memory_waiters == 0 and not self._line.locked():
                try:
                    return append(call)
                except MustWait as wait:
                    if not wait.nbytes:
                        raise
                # Leave the queue for memory until `_line` is held: memory given to this call would be missing for the
                # call that holds it.
                self._driver.appender.end(call)
            async with timeout_at(self._driver.clock, deadline_us), self._line:
                while True:
                    if call.is_waiting:
                        with self._driver.spent.on("buffer_wait_ns"):
                            await self.until(self._driver.wants.memory(call))
                    try:
                        return append(call)
                    except MustWait as wait:
                        if not wait.nbytes:
                            raise
        except TimeoutError:
            pass
        finally:
            self._driver.appender.end(call)
        self._driver.gate.check_usable()
        raise self._driver.wants.buffer_full()

    async def _pause(self) -> None:
        """Let other tasks run; if many bytes are in full batches, wait until the I/O thread has taken them."""
        if not self._driver.appender.pause_is_due():
            await asyncio.sleep(0)
            return
        future = self.bind().create_future()
        self._pauses.append(future)
        self._driver.appender.pause_is_asked = True
        # The I/O thread may have taken the batches, or have ended, before the future was in `_pauses`.
        if self._driver.appender.pause_is_due() and not self._driver.cannot_go_on():
            await future

    # ---- what the producer calls, in the event loop -----------------------------------------------------------------

    def bind(self, what_of_it: str = "") -> asyncio.AbstractEventLoop:
        """The event loop that runs here; the first one is the producer's, and another one gets an OttlaError.

        `what_of_it` is added to that error.
        """
        self._driver.gate.check_process()
        event_loop = asyncio.get_running_loop()
        if self._event_loop is None:
            self._event_loop = event_loop
        elif self._event_loop is not event_loop:
            raise OttlaError(
                f"this AsyncProducer is used in another event loop than before; make one in each event loop{what_of_it}"
            )
        return event_loop

    async def topic_known(self, topic: str, deadline_us: int) -> None:
        """Wait until the topic's partitions are known; raise as `topic_missing` does."""
        self._driver.gate.check_usable()
        if not self._driver.topics.partition_count(topic):
            lasting = self._driver.wants.lasting_error()
            try:
                with self._driver.spent.on("metadata_wait_ns"):
                    async with timeout_at(self._driver.clock, deadline_us):
                        await self.until(self._driver.wants.topic(topic, lasting))
            except TimeoutError:
                pass
            self._driver.wants.check_topic(topic, lasting)

    async def partitions(self, topic: str) -> int:
        """The topic's partition count, waited for `max.block.ms` at most; RecordError for what is no topic."""
        checked_topic(topic)
        self.bind()
        await self.topic_known(topic, self._driver.clock.now_us() + self._driver.settings.max_block_ms * 1000)
        return self._driver.topics.partition_count(topic)

    async def flush(self, timeout: float | None) -> None:
        """`flush`, awaited; cancelling it ends only the wait."""
        timeout_s = seconds(timeout)
        self.bind()
        flush_number = self._driver.ask_for_flush()
        try:
            with self._driver.spent.on("flush_ns"):
                async with timeout_at(self._driver.clock, due_in(self._driver.clock, timeout_s)):
                    await self._until_landed(lambda: self._driver.is_flushed(flush_number))
        except TimeoutError:
            raise TimeoutError(
                f"records are still on their way after {timeout_s} s; flush again to wait for the rest"
            ) from None
        self._driver.books.report()

    async def close(self, timeout: float | None) -> None:
        """`close`, awaited; cancelling it ends only the wait, the closing goes on."""
        timeout_s = seconds(timeout)
        if self._driver.gate.has_forked:
            return
        self.bind()
        self._driver.begin_to_close(timeout_s)
        try:
            due_us = due_in(self._driver.clock, None if timeout_s is None else timeout_s + GRACE_S)
            async with timeout_at(self._driver.clock, due_us):
                await self._until_landed(lambda: self._driver.has_ended)
        except TimeoutError:
            raise TimeoutError(f"the producer could not be closed within {timeout_s} s") from None
        # This blocks, but only for a moment: the I/O thread is at the end of its last turn.
        self._driver.loop.join()
        if self._event_loops_turn is not None:
            self._event_loops_turn.end()
        if self._driver.reporting is not None:
            await asyncio.to_thread(self._driver.join_reporting)
        self._driver.books.report()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done()`, which the I/O thread checks after its turns."""
        if done():
            return
        future = self.bind().create_future()
        told = False

        def tell() -> None:
            nonlocal told
            if not told:
                told = True
                self.landing.append([future, _let_go])

        waiter = self._driver.waiting.watch(done, tell)
        try:
            if not done():
                # Schedule `land` again: Ctrl+C may have prevented its last run. An additional run does no harm.
                self._is_rung = False
                self.ring()
                await future
        finally:
            self._driver.waiting.forget(waiter)

    async def within(self, timeout_s: float | None, done: Callable[[], bool]) -> None:
        """Wait until `done()`, `timeout_s` at most; the caller checks afterwards whether it is so."""
        clock = self._driver.clock
        with contextlib.suppress(TimeoutError):
            async with timeout_at(clock, due_in(clock, timeout_s)):
                await self.until(done)

    async def _until_landed(self, done: Callable[[], bool]) -> None:
        """Wait until `done()`, and until the callbacks that are on `landing` by then have run."""
        await self.until(done)
        if self.landing:
            future = self.bind().create_future()
            self.landing.append([future, _let_go])
            self.ring()
            await future

    # ---- what the producer calls, on a thread without an event loop -------------------------------------------------

    def wait_for(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """As `ThreadWaits.wait_for`."""
        return self._threads.wait_for(done, timeout_s)

    def close_at_exit(self, timeout_s: float) -> None:
        """As `ThreadWaits.close_at_exit`: there may be no event loop any more."""
        self._threads.close_at_exit(timeout_s)

    # ---- what the driver calls, on the I/O thread -------------------------------------------------------------------

    def batches_taken(self) -> None:
        """New and full batches were given to the core: wake the coroutines that waited for that."""
        while self._pauses:
            self.landing.append([self._pauses.popleft(), _let_go])

    def ring(self) -> None:
        """Wake the event loop once for all that is on `landing`."""
        if not self.landing or self._is_rung or self._event_loop is None:
            return
        self._is_rung = True
        if not _call_soon(self._event_loop, self.land):
            # The event loop is closed: no callbacks run. Deliveries, flush and close still have the outcomes.
            self._is_rung = False
            self.landing.clear()

    def ended(self) -> None:
        """The I/O thread ends: have the event loop watch the connections no longer."""
        turn = self._event_loops_turn
        if turn is not None and self._event_loop is not None and not _call_soon(self._event_loop, turn.end):
            turn.end()

    # ---- what the I/O thread has the event loop call ----------------------------------------------------------------

    def land(self) -> None:
        """In the event loop: run all that is on `landing`."""
        self._is_rung = False
        landing = self.landing
        try:
            # Only what is there now: what is added meanwhile wakes the event loop again, after other tasks have run.
            for _ in range(len(landing)):
                run_callbacks(landing.popleft())
        finally:
            self.ring()


def _in_event_loop() -> bool:
    return asyncio._get_running_loop() is not None


def _call_soon(event_loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> bool:
    """Call it in the event loop; False where the event loop is closed."""
    try:
        event_loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not event_loop.is_closed():
            raise
        return False
    return True


def _let_go(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _as_it_is(what: str, data: Any) -> Any:
    # A copy of what may change before it is appended.
    return data if data is None or isinstance(data, bytes) else text_or_bytes(what, data)
