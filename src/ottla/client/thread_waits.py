"""How users' threads wait for their producer: in `send` for a topic or memory, for deliveries, `flush` and `close`.

The appender calls the methods of `ProducerHooks` (`records/append.pyi`) when it cannot go on by itself. Only the I/O
thread can get what is missing: these methods post a request to it, and wait `max.block.ms` at most. `CoroutineWaits`
does the same for an event loop; all else of a producer is the same for both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.client.callers_turn import CallersTurn
from ottla.client.leaving import LongWaits
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall
from ottla.timeouts import seconds

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver

# How much longer than its timeout closing waits for the I/O thread: the core gives up at the timeout, and the thread
# ends a moment later.
GRACE_S = 10


class ThreadWaits:
    """The waits of one producer's users, who are threads."""

    landing: deque[list[Any]] | None = None

    def serve(self, driver: ProducerDriver) -> None:
        """Belong to this driver."""
        self._driver = driver
        self.long = LongWaits(self, driver)

    def make_turn(self, request_timeout_us: int) -> CallersTurn | None:
        """What sends on the caller's thread when that waits for each record."""
        driver = self._driver
        return CallersTurn(driver, driver.loop, driver.core, request_timeout_us)

    # ---- what the appender calls ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """A batch is ready, or the first record of one has come, while the loop sleeps."""
        self._driver.wake()

    def send_at_once(self) -> bool:
        """Send the first record of a batch on the caller's thread; False where the I/O thread must be woken."""
        turn = self._driver.callers_turn
        return turn is not None and turn.send_at_once()

    def check_usable(self) -> None:
        """Raise where nothing can be sent any more."""
        self._driver.gate.check_usable()

    def place(self, topic: Any, key: bytes | None, call: BlockedCall) -> int | None:
        """What the user's partitioner makes of a key; None leaves it to the default one."""
        return self._driver.place(topic, key, call)

    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        """Wait until the topic's partitions are known, `max.block.ms` at most."""
        driver, wants = self._driver, self._driver.wants
        driver.gate.check_usable()
        if driver.topics.partition_count(topic):
            return
        driver.refuse_own_thread("sending to a topic for the first time")
        with driver.spent.on("metadata_wait_ns"):
            lasting = wants.lasting_error()
            driver.waiting.wait(wants.topic(topic, lasting), self._time_left_s(call))
        wants.check_topic(topic, lasting)

    def memory_wanted(self, call: BlockedCall) -> None:
        """Wait until the call gets its memory; BufferFull after `max.block.ms`."""
        driver, wants = self._driver, self._driver.wants
        driver.gate.check_usable()
        driver.refuse_own_thread("sending while buffer.memory is full")
        # The appender has woken the I/O thread: it sends open batches, which frees their memory.
        with driver.spent.on("buffer_wait_ns"):
            driver.waiting.wait(wants.memory(call), self._time_left_s(call))
        driver.gate.check_usable()
        if call.is_waiting:
            raise wants.buffer_full()

    def _time_left_s(self, call: BlockedCall) -> float:
        """How long the call may still wait: `max.block.ms` begins with its first wait."""
        now_us = self._driver.loop.now_us()
        if call.deadline_us < 0:
            call.deadline_us = now_us + self._driver.settings.max_block_ms * 1000
        return max(0, call.deadline_us - now_us) / 1_000_000

    def is_awaited(self, batch: SealedBatch) -> None:
        """A coroutine begins to await a record; raise in a forked child, where its outcome would never come."""
        self._driver.gate.check_process()

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        """Wait for a batch's outcome; False when there is none after `timeout_s`."""
        driver = self._driver
        driver.count_wait()
        turn = driver.callers_turn
        if turn is not None and not driver.gate.has_forked and not driver.loop.is_own_thread():
            began_us = driver.loop.now_us()
            turn.await_answer(batch, timeout_s)
            if batch.outcome:
                return True
            if timeout_s is not None:
                timeout_s = max(0, timeout_s - (driver.loop.now_us() - began_us) / 1_000_000)
        return self.wait_for(lambda: batch.outcome != 0, timeout_s)

    # ---- what the producer calls ------------------------------------------------------------------------------------

    def wait_for(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until `done()`, which the I/O thread checks after its turns; False after `timeout_s`."""
        driver = self._driver
        driver.gate.check_process()
        if not done():
            driver.refuse_own_thread("waiting for a delivery")
        return driver.waiting.wait(done, timeout_s)

    def flush(self, timeout: float | None) -> None:
        """Wait until everything sent so far is settled; TimeoutError, DeliveryError for failed or unknown records."""
        driver, timeout_s = self._driver, seconds(timeout)
        driver.gate.check_process()
        driver.refuse_own_thread("flushing")
        flush_number = driver.ask_for_flush()
        with driver.spent.on("flush_ns"):
            flushed = self.long.wait(lambda: driver.is_flushed(flush_number), timeout_s, "flush")
        if not flushed:
            raise TimeoutError(f"records are still on their way after {timeout_s} s; flush again to wait for the rest")
        driver.books.report()

    def close(self, timeout: float | None) -> None:
        """Deliver what was sent, end the thread; TimeoutError where that took longer, DeliveryError as in flush."""
        driver, timeout_s = self._driver, seconds(timeout)
        if driver.gate.has_forked:
            return
        driver.refuse_own_thread("closing")
        driver.begin_to_close(timeout_s)
        if not self.long.wait(lambda: driver.has_ended, timeout_s, "close", GRACE_S):
            raise TimeoutError(f"the producer could not be closed within {timeout_s} s")
        driver.loop.join()
        driver.join_reporting()
        driver.books.report()

    def close_at_exit(self, timeout_s: float) -> None:
        """Close when the process ends: as `close`, but an interruption ends the wait."""
        self.long.close_at_exit(timeout_s)

    # ---- what the driver calls, on the I/O thread -------------------------------------------------------------------

    def batches_taken(self) -> None:
        """New and full batches were given to the core: no thread waits for that alone."""

    def ring(self) -> None:
        """Nothing to do: `Waiting` has woken the threads."""

    def ended(self) -> None:
        """Nothing to do when the I/O thread ends."""
