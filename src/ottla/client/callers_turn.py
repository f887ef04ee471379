"""One record at a time: the thread that waits for a record sends it and takes its answer itself.

Otherwise three threads take turns for one record: the I/O thread is woken to send, woken again by the answer, and
wakes the thread that waits. Each of them needs the interpreter, which beside a thread that computes means 5 ms each
time. A caller that waits for a record the I/O thread has not taken yet does with it what that thread would do: it
takes the turn (`IoLoop.turn`), feeds the core, sends, gives the turn back, waits for the socket without the
interpreter, and takes the turn once more for the answer. While it waits, its connection is not the I/O thread's to
read (`Channel.borrowed`); all else is.

It does only what a healthy connection needs, when nothing else is due: it sends Produce requests, and takes in answers
without an error for batches without callbacks. Everything else it leaves to the I/O thread, in order: other work and
other outputs of the core, other answers, the end of a connection. Python runs signal handlers on the main thread
wherever an interpreted function is called; what is done here is compiled and calls none, so that Ctrl+C cannot strike
inside the core, and signals that come meanwhile are heard as soon as the turn is over.

Only for a thread that is alone: where several send and wait, the I/O thread puts their records into common requests,
which is worth more.
"""

from __future__ import annotations

import time
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ottla.client.channel import Channel
from ottla.client.held_calls import await_readable, run_signal_handlers
from ottla.client.io_loop import IoLoop
from ottla.connection.events import Received, Transmit
from ottla.producer.events import BatchAcked
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver
    from ottla.records.delivery import SealedBatch

# How many waits in a row one thread must have made before it counts as alone.
ALONE_AFTER = 16
# Longer than that nobody waits here: the turn was worth taking for an answer that comes soon.
ANSWER_MS_MAX = 50


class CallersTurn:
    """The turns of a producer's callers."""

    def __init__(self, driver: ProducerDriver, loop: IoLoop, core: Any) -> None:
        self._driver = driver
        self._loop = loop
        self._core = core
        self._caller = 0
        self._waits = 0
        # How many there were.
        self.taken = 0

    def take(self, batch: SealedBatch, timeout_s: float | None) -> None:
        """Send `batch` and wait for its answer a while, where the I/O thread sleeps and there is nothing unusual."""
        ident = get_ident()
        if ident != self._caller:
            self._caller = ident
            self._waits = 0
        self._waits += 1
        if self._waits <= ALONE_AFTER or not self._driver.is_at_ease or not self._loop.turn.acquire(False):
            return
        channel = None
        try:
            if self._loop.is_idle(time.monotonic_ns() // 1000):
                self.taken += 1
                channel = self._send(batch)
        except BaseException as error:
            self._loop.break_down(error)
            raise
        finally:
            self._loop.turn.release()
        if channel is not None:
            self._await(channel, ANSWER_MS_MAX if timeout_s is None else min(ANSWER_MS_MAX, int(timeout_s * 1000)))

    def _send(self, batch: SealedBatch) -> Channel | None:
        """Feed the core and send what it says; the connection, borrowed, on which an answer is awaited, if any is."""
        loop = self._loop
        now_us = time.monotonic_ns() // 1000
        self._driver.feed(now_us)
        channel = self._carry_out(now_us)
        if channel is None or batch.outcome or not channel.connected or not channel.awaited:
            return None
        channel.borrowed = True
        loop.watch_again(channel)
        return channel

    def _await(self, channel: Channel, timeout_ms: int) -> None:
        loop = self._loop
        is_readable = await_readable(channel.fd, timeout_ms)
        if not loop.turn.acquire(False):
            loop.give_back(channel, "")
        else:
            try:
                if channel.connected and channel.borrowed:
                    self._pull(channel, is_readable)
            except BaseException as error:
                loop.break_down(error)
                raise
            finally:
                loop.turn.release()
        if self._driver.is_waited_for:
            loop.wake()
        run_signal_handlers()

    def _pull(self, channel: Channel, is_readable: bool) -> None:
        """Take in the answers that have come, and give the connection back."""
        loop, core = self._loop, self._core
        now_us = time.monotonic_ns() // 1000
        if not loop.is_idle(now_us):
            loop.give_back(channel, "")
            return
        answers, lost = loop.read(channel) if is_readable else ([], "")
        is_left = False
        for correlation_id, message in answers:
            received = Received(channel.connection_id, correlation_id, message)
            is_left = is_left or not _is_good(message)
            if is_left:
                loop.post(received)
            else:
                core.receive(received, now_us)
        if lost:
            loop.give_back(channel, lost)
        else:
            channel.borrowed = False
            loop.watch_again(channel)
        self._carry_out(now_us)

    def _carry_out(self, now_us: int) -> Channel | None:
        """Carry out what the core says as far as it is usual, and leave the rest; the one connection written to."""
        loop, driver = self._loop, self._driver
        written: Channel | None = None
        is_sent = False
        while True:
            outputs = self._core.usual_outputs()
            if not outputs:
                return written
            acked = []
            count = 0
            for output in outputs:
                kind = type(output)
                if kind is Transmit and type(output.message) is ProduceRequest:
                    loop.enqueue(output, now_us)
                elif kind is BatchAcked and not output.batch.has_callbacks:
                    acked.append(output)
                else:
                    break
                count += 1
            pushed = loop.push_all(now_us)
            if pushed is not None:
                # One of several could keep the caller waiting for the wrong answer.
                written = pushed if written is None and not is_sent else None
                is_sent = True
            for output in acked:
                driver.perform(output)
            if count < len(outputs):
                loop.leave(outputs[count:])
                return None


def _is_good(message: Any) -> bool:
    """Whether it says of every batch that it is stored."""
    if type(message) is not ProduceResponse or message.throttle_time_ms:
        return False
    for topic in message.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                return False
    return True
