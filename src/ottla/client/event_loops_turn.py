"""One record at a time in an event loop: its thread sends the record and takes the answer in itself (compiled).

What `CallersTurn` is to a thread that waits, with this difference: an event loop does not wait for one socket. The
connections on which it sends one by one stay borrowed, and are watched by an epoll of their own, which the event loop
watches as one more file it reads. So a record costs no change of what anybody watches, the I/O thread may take a
connection back or close it without asking the event loop, and no number of a closed file stays with the event loop.

Alone is an event loop whose records are awaited before the next one is sent. With the first that overtakes another
everything goes back to the I/O thread, and so it does after a while without records, or where the event loop is held
up by something else: `thread_looks` sees to that within two seconds, so answers are in time for any request whose
timeout is longer.

Callbacks and those who await are let go in the event loop as ever, right after the turn.
"""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Any

from ottla.client.callers_turn import LOOK_US, CallersTurn
from ottla.client.channel import Channel
from ottla.client.io_loop import IoLoop
from ottla.client.poller import EpollPoller

if TYPE_CHECKING:
    import asyncio

    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.producer_driver import ProducerDriver
    from ottla.records.delivery import SealedBatch

# What leaves the I/O thread time to take a connection back before a request on it times out.
REQUEST_TIMEOUT_US_MIN = 5 * LOOK_US


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
        self._poller = loop.borrower = EpollPoller()
        # Where `take_answers` is called; whether it can be.
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._can_be_called = True

    def send_at_once(self) -> bool:
        """Send what was just appended; False where the I/O thread must be woken, to do it or for its deadline."""
        # Somebody gave way for the I/O thread to come.
        if self._driver.appender.turn_is_asked:
            return False
        is_sent = CallersTurn.send_at_once(self)
        if self._landing:
            # With acks=0 it is settled by being sent. Here nothing interpreted may run.
            self._loop.wake()
        return is_sent

    def begin_to_await(self, batch: SealedBatch, event_loop: asyncio.AbstractEventLoop) -> None:
        """Somebody in the event loop awaits a record of this batch, which is on its way."""
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
        """Have the event loop read what is lent; False where it reads no files."""
        try:
            # Callbacks run in no context of whoever happens to be the first to await.
            Context().run(event_loop.add_reader, self._poller.fileno(), self.take_answers)
        except NotImplementedError:
            self._can_be_called = False
            self._leave_to_thread()
            return False
        self._event_loop = event_loop
        return True

    def take_answers(self) -> None:
        """Take in what has come on the borrowed connections, and let go who awaited it."""
        loop = self._loop
        # The thread is at it. What has come is still there in the event loop's next turn.
        if not loop.turn.acquire(False):
            return
        try:
            self._take_answers(loop.now_us())
        except BaseException as error:
            loop.break_down(error)
            raise
        finally:
            loop.turn.release()
        self._land()

    def await_answer(self, batch: SealedBatch, timeout_s: float | None) -> None:
        """Leave it to a thread that is not the event loop's to wait: it has no turn of its own."""

    def thread_looks(self) -> None:
        """On the I/O thread, after a turn of its own: take connections back where an event loop does not need them."""
        CallersTurn.thread_looks(self)
        # Who closes may well have no event loop any more.
        if self._lent and not (self._driver.appender.is_eager and self._driver.is_at_ease):
            self._take_all_back()

    def end(self) -> None:
        """In the event loop, once the I/O thread has ended: nothing will come any more."""
        if self._event_loop is not None and not self._event_loop.is_closed():
            self._event_loop.remove_reader(self._poller.fileno())

    def _lend(self, channel: Channel) -> None:
        CallersTurn._lend(self, channel)
        self._lent = [each for each in self._lent if each.borrowed]
        self._lent.append(channel)

    def _is_alone(self) -> bool:
        for channel in self._lent:
            if channel.borrowed and channel.awaited:
                return False
        return CallersTurn._is_alone(self)

    def _take_answers(self, now_us: int) -> None:
        if not self._loop.is_idle(now_us):
            self._take_all_back()
            return
        # Answers are due on one connection at most while it is alone; what else can come is the end of another one.
        if not self._hear(True, now_us):
            self._hear(False, now_us)
        self._carry_out(now_us)

    def _hear(self, is_awaited: bool, now_us: int) -> bool:
        """Take in what has come where answers are awaited, or where none are; whether anything has."""
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
                self._loop.take_back(channel)
        self._lent = []
