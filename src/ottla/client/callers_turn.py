"""One record at a time: the thread that waits for a record sends it and takes its answer itself.

Otherwise one record needs three changes of threads: the I/O thread is woken to send, woken again by the answer, and
wakes the thread that waits. Each change needs the interpreter lock. If another thread computes, that takes 5 ms each
time. So once a thread has waited for `ALONE_AFTER` records in a row (`Appender.is_eager`), its `send` does what the I/O
thread would do, which sleeps on: `send` takes the turn (`IoLoop.turn`), feeds the core, sends, and gives the turn back.
Then the thread waits for the socket, without the interpreter lock, and takes the turn once more for the answer.
Meanwhile the I/O thread does not read this connection (`Channel.borrowed`), but all others.

A caller does only what a healthy connection needs, when nothing else is due: it sends Produce requests, and takes in
answers without an error for batches without callbacks. Everything else it leaves to the I/O thread, in order: other
work and other outputs of the core, other answers, the end of a connection. Python runs signal handlers on the main
thread wherever an interpreted function is called. The code here is compiled and calls none, so Ctrl+C cannot interrupt
the core; handlers of signals that come meanwhile run when the turn is over.

All this needs epoll, and one thread that is the only one to send and wait: where several do, the I/O thread puts their
records into common requests, which saves more. A record that nobody waited for, and a second thread, wake the I/O
thread as usual.

An event loop can do the same (`EventLoopsTurn`), but does not wait for one socket. The connections on which it sends
one by one stay borrowed. An epoll of their own watches them, and the event loop watches that epoll as one file. So a
record changes nothing in what is watched, the I/O thread may take a connection back or close it without the event
loop, and the event loop never keeps the number of a closed file. The condition is that each record has its outcome
before the next one is sent. When one is sent earlier, everything goes back to the I/O thread. The same happens after a
while without records, and where something else blocks the event loop: `thread_looks` takes the connections back within
two seconds, so answers are in time for every request with a longer timeout. Callbacks and waiting coroutines run in the
event loop as always, right after the turn.

Of all this the loop knows a `Guest` and which channels are `borrowed`. It offers the guest `is_idle`, `enqueue`,
`push_all`, `read`, `watch_again` and `fail`, tells it when it wakes (`wakes_us`), and lets it say for how long at most
it sleeps (`sleep_max_s`).
"""

from __future__ import annotations

from collections import deque
from contextvars import Context
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ottla.client.channel import Channel
from ottla.client.held_calls import await_readable, run_signal_handlers
from ottla.client.io_loop import IoLoop
from ottla.client.poller import GONE, READABLE, EpollPoller
from ottla.clock import SLEEP_MAX_S
from ottla.connection.events import Received, Transmit
from ottla.producer.events import BatchAcked
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    import asyncio

    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.producer_driver import ProducerDriver
    from ottla.records.delivery import SealedBatch

# How many waits in a row one thread must have made before it sends by itself.
ALONE_AFTER = 16
# How long the I/O thread sleeps meanwhile at most. Then it looks whether the thread still sends one by one.
LOOK_US = 1_000_000
# How long a caller waits for the socket itself. After that it waits as usual: only soon answers are worth the effort.
ANSWER_MS_MAX = 50
# The shortest request timeout with an event loop: the I/O thread needs time to take a connection back before that.
REQUEST_TIMEOUT_US_MIN = 5 * LOOK_US


class CallersTurn:
    """A producer's callers call `send_at_once` and `await_answer`, its I/O thread `thread_looks`.

    Invariant: if the I/O thread sleeps while a request is sent, it wakes up before that request's timeout.
    """

    def __init__(
        self, driver: ProducerDriver, loop: IoLoop, core: Any, request_timeout_us: int, *, settles_all: bool = False
    ) -> None:
        """`settles_all`: callbacks run later, in an event loop, so batches with callbacks may be settled here, too."""
        self._driver = driver
        self._loop = loop
        self._core = core
        self._request_timeout_us = request_timeout_us
        # The thread that waited last, and how often in a row.
        self._caller = 0
        self._waits = 0
        # The connection of the record sent last, until a thread waits for it.
        self._begun: Channel | None = None
        self._settles_all = settles_all
        # For the I/O thread: outputs of the core, connections to be watched again, and the exception that ended a turn:
        # after that the core's state is not known.
        self._left: list[Any] = []
        self._given_back: deque[Channel] = deque()
        self._broken: BaseException | None = None
        # How many turns there were (for tests), and when the last one was taken, or the mode began.
        self.taken = 0
        self._used_us = 0
        loop.guest = self

    def send_at_once(self) -> bool:
        """Send what was just appended; False where the I/O thread must be woken, to send it or for its timeout."""
        loop = self._loop
        if get_ident() != self._caller or not self._is_alone():
            self._begun = None
            self._leave_to_thread()
            return False
        self._begun = None
        if not self._driver.is_at_ease or not loop.turn.acquire(False):
            return False
        try:
            now_us = loop.now_us()
            if not loop.is_idle(now_us):
                return False
            self.taken += 1
            self._used_us = now_us
            self._driver.take_batches(now_us)
            self._begun = self._carry_out(now_us)
            return self._begun is not None and loop.wakes_us <= now_us + self._request_timeout_us
        except BaseException as error:
            self._break_down(error)
            raise
        finally:
            loop.turn.release()

    def await_answer(self, batch: SealedBatch, timeout_s: float | None) -> None:
        """Wait a while for a record that `send_at_once` sent; return at once for any other."""
        channel = self._waits_now()
        if channel is None or batch.outcome or not self._borrow(channel):
            return
        self._await(channel, ANSWER_MS_MAX if timeout_s is None else min(ANSWER_MS_MAX, int(timeout_s * 1000)))

    def thread_looks(self) -> None:
        """On the I/O thread, after its own turn: stop this mode if no caller has taken a turn for a while."""
        if self._driver.appender.is_eager and self._loop.now_us() - self._used_us > LOOK_US:
            self._leave_to_thread()
        # In this order: a caller that becomes eager meanwhile sets `sleep_max_s` after that.
        self._loop.sleep_max_s = SLEEP_MAX_S
        if self._driver.appender.is_eager:
            self._loop.sleep_max_s = LOOK_US / 1_000_000

    def _is_alone(self) -> bool:
        """Whether every record that `send_at_once` has sent is answered."""
        return self._begun is None or not self._begun.awaited

    def _waits_now(self) -> Channel | None:
        """Count a wait for a record; return the record's connection if `send_at_once` has sent it."""
        channel, self._begun = self._begun, None
        ident = get_ident()
        if ident != self._caller:
            self._leave_to_thread()
            self._caller, channel = ident, None
        self._waits += 1
        if self._waits == ALONE_AFTER:
            self._used_us = self._loop.now_us()
            self._driver.appender.is_eager = True
            self._loop.sleep_max_s = LOOK_US / 1_000_000
            self._loop.wake()
        return channel

    def _borrow(self, channel: Channel) -> bool:
        """Leave the answer to this thread; False where the I/O thread takes it, or there is none."""
        loop = self._loop
        if not loop.turn.acquire(False):
            return False
        try:
            # The I/O thread checks borrowed connections only while the appender is eager.
            if not channel.connected or not channel.awaited or not self._driver.appender.is_eager:
                return False
            self._lend(channel)
            return True
        finally:
            loop.turn.release()

    def _lend(self, channel: Channel) -> None:
        """Leave a connection's answers to the caller, until `_take_back`."""
        channel.borrowed = True
        self._loop.watch_again(channel)

    def _take_back(self, channel: Channel) -> None:
        channel.borrowed = False
        self._loop.watch_again(channel)

    def _leave_to_thread(self) -> None:
        self._waits = 0
        self._driver.appender.is_eager = False

    def _await(self, channel: Channel, timeout_ms: int) -> None:
        loop = self._loop
        is_readable = await_readable(channel.fd, timeout_ms)
        if not loop.turn.acquire(False):
            self._give_back(channel)
        else:
            try:
                if channel.borrowed:
                    self._pull(channel, is_readable)
            except BaseException as error:
                self._break_down(error)
                raise
            finally:
                loop.turn.release()
        run_signal_handlers()

    def _pull(self, channel: Channel, is_readable: bool) -> None:
        """Take in the answers that have come, and let the I/O thread read the connection again."""
        loop = self._loop
        now_us = loop.now_us()
        if not loop.is_idle(now_us):
            self._give_back(channel)
            return
        if not is_readable or self._take_in(channel, now_us):
            self._take_back(channel)
        self._carry_out(now_us)

    def _take_in(self, channel: Channel, now_us: int) -> bool:
        """Give the core the answers that have come; False if the connection is lost: the I/O thread closes it."""
        loop, core = self._loop, self._core
        answers, loss = loop.read(channel)
        is_left = False
        for correlation_id, message in answers:
            received = Received(channel.connection_id, correlation_id, message)
            is_left = is_left or not _is_good(message)
            if is_left:
                loop.post(received)
            else:
                core.receive(received, now_us)
        if loss is not None:
            loop.fail(channel, loss)
            return False
        return True

    def _carry_out(self, now_us: int) -> Channel | None:
        """Carry out the usual outputs, leave the others to the I/O thread; return the one connection written to."""
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
                elif kind is BatchAcked and (self._settles_all or not output.batch.has_callbacks):
                    acked.append(output)
                else:
                    break
                count += 1
            pushed = loop.push_all(now_us)
            if pushed is not None:
                # With several connections the caller could wait for the wrong one's answer.
                written = pushed if written is None and not is_sent else None
                is_sent = True
            left = outputs[count:]
            for at, output in enumerate(acked):
                # Another thread may have added a callback while this one sent.
                if output.batch.has_callbacks and not self._settles_all:
                    left = acked[at:] + left
                    break
                driver.perform(output)
            if acked and (driver.is_waited_for or not driver.is_at_ease):
                loop.wake()
            if left:
                self._left += left
                loop.wake()
                return None

    def _give_back(self, channel: Channel) -> None:
        """Without the turn: have the I/O thread watch the connection again."""
        self._given_back.append(channel)
        self._loop.wake()

    def _break_down(self, error: BaseException) -> None:
        """Have the I/O thread end, as after an exception of its own."""
        self._broken = error
        self._loop.wake()

    # ---- what the loop calls (`Guest`) -----------------------------------------------------------------------------

    @property
    def has_left(self) -> bool:
        """As `Guest`."""
        return bool(self._left or self._given_back or self._broken is not None)

    def resume(self) -> None:
        """As `Guest`."""
        if self._broken is not None:
            raise self._broken
        while self._given_back:
            channel = self._given_back.popleft()
            if channel.borrowed:
                self._take_back(channel)

    def take_left(self) -> list[Any]:
        """As `Guest`."""
        left, self._left = self._left, []
        return left

    def removed(self, channel: Channel) -> None:
        """As `Guest`."""
        channel.borrowed = False

    def close(self) -> None:
        """As `Guest`: the loop's poller watches all there is."""


class EventLoopsTurn(CallersTurn):
    """Its event loop calls `send_at_once`, `begin_to_await` and `take_answers`, the I/O thread `thread_looks`.

    Invariant: `_lent` changes only under the turn.
    """

    def __init__(
        self, waits: CoroutineWaits, driver: ProducerDriver, loop: IoLoop, core: Any, request_timeout_us: int
    ) -> None:
        super().__init__(driver, loop, core, request_timeout_us, settles_all=True)
        self._landing = waits.landing
        self._land = waits.land
        self._lent: list[Channel] = []
        # The batch that was awaited last.
        self._awaited: SealedBatch | None = None
        self._poller: Any = EpollPoller()
        # Where `take_answers` is called; whether it can be.
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._can_be_called = True

    def send_at_once(self) -> bool:
        """As `CallersTurn`."""
        # A coroutine waits until the I/O thread has taken batches: it must be woken.
        if self._driver.appender.pause_is_asked:
            return False
        is_sent = CallersTurn.send_at_once(self)
        if self._landing:
            # With acks=0 sending settles a batch. Its callbacks are interpreted and must not run here.
            self._loop.wake()
        return is_sent

    def begin_to_await(self, batch: SealedBatch, event_loop: asyncio.AbstractEventLoop) -> None:
        """A coroutine begins to await a record of this batch."""
        if not self._can_be_called:
            return
        channel = self._waits_now()
        before, self._awaited = self._awaited, batch
        if before is not None and not before.outcome:
            self._leave_to_thread()
            return
        if channel is None or channel.borrowed or batch.outcome:
            return
        if self._event_loop is None and not self._read_in(event_loop):
            return
        self._borrow(channel)

    def _read_in(self, event_loop: asyncio.AbstractEventLoop) -> bool:
        """Have the event loop watch the borrowed connections; False where it has no `add_reader`."""
        try:
            # In an empty context: callbacks must not get the context variables of the first coroutine that awaits.
            Context().run(event_loop.add_reader, self._poller.fileno(), self.take_answers)
        except NotImplementedError:
            self._can_be_called = False
            self._leave_to_thread()
            return False
        self._event_loop = event_loop
        return True

    def take_answers(self) -> None:
        """Take in what has come on the borrowed connections, and resume the coroutines that awaited it."""
        loop = self._loop
        # The I/O thread has the turn. What has come can still be read when the event loop calls this again.
        if not loop.turn.acquire(False):
            return
        try:
            self._take_answers(loop.now_us())
        except BaseException as error:
            self._break_down(error)
            raise
        finally:
            loop.turn.release()
        self._land()

    def await_answer(self, batch: SealedBatch, timeout_s: float | None) -> None:
        """Do nothing: threads that wait for an AsyncProducer's record take no turns."""

    def thread_looks(self) -> None:
        """On the I/O thread, after its own turn: take connections back that the event loop does not need."""
        CallersTurn.thread_looks(self)
        # A producer may be closed after its event loop has ended.
        if self._lent and not (self._driver.appender.is_eager and self._driver.is_at_ease):
            self._take_all_back()

    def end(self) -> None:
        """In the event loop, or when that is closed, at the I/O thread's end: nothing will come any more."""
        if self._event_loop is not None and not self._event_loop.is_closed():
            self._event_loop.remove_reader(self._poller.fileno())
        self._event_loop, self._can_be_called = None, False
        # Closed here, and not earlier: the event loop must not watch the number of a closed file.
        self._poller = GONE

    def _lend(self, channel: Channel) -> None:
        self._poller.watch(channel.fd, READABLE)
        CallersTurn._lend(self, channel)
        self._lent = [each for each in self._lent if each.borrowed]
        self._lent.append(channel)

    def _take_back(self, channel: Channel) -> None:
        self._poller.forget(channel.fd)
        CallersTurn._take_back(self, channel)

    def removed(self, channel: Channel) -> None:
        """As `Guest`."""
        self._poller.forget(channel.fd)
        CallersTurn.removed(self, channel)

    def close(self) -> None:
        """As `Guest`."""
        self._poller.close()

    def _is_alone(self) -> bool:
        for channel in self._lent:
            if channel.borrowed and channel.awaited:
                return False
        return CallersTurn._is_alone(self)

    def _take_answers(self, now_us: int) -> None:
        if not self._loop.is_idle(now_us):
            self._take_all_back()
            return
        # Answers are due on one connection at most; on the others only their end can come.
        if not self._hear(True, now_us):
            self._hear(False, now_us)
        self._carry_out(now_us)

    def _hear(self, is_awaited: bool, now_us: int) -> bool:
        """Read the connections where answers are due (or those where none are); whether anything has come."""
        is_heard = False
        for channel in self._lent:
            if channel.borrowed and bool(channel.awaited) == is_awaited:
                before = channel.received_bytes
                if not self._take_in(channel, now_us) or channel.received_bytes != before:
                    is_heard = True
        return is_heard

    def _take_all_back(self) -> None:
        for channel in self._lent:
            if channel.borrowed:
                self._take_back(channel)
        self._lent = []


def _is_good(message: Any) -> bool:
    """Whether it is a Produce answer without errors and without throttling."""
    if type(message) is not ProduceResponse or message.throttle_time_ms:
        return False
    for topic in message.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                return False
    return True
