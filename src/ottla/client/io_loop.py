"""The I/O thread: it drives one client-side core with real sockets and a real clock.

A turn: give the core what other threads posted and what the owner (`Front`) has, let it decide, carry out its outputs
(one `sendmsg` for all that goes to one broker), then wait for sockets, the core's deadline or the doorbell. Only the
thread that holds the lock `turn` may use the core: this thread, except while it waits. In between a `Guest` may take a
turn on a user's thread (`callers_turn.py`). Outputs that it leaves are carried out before all others in this thread's
next turn.

Waking up. A thread that has something for the loop first appends it and then looks whether the loop sleeps; the loop
first sets that it sleeps and then looks once more for something to do. In whatever order these four steps happen, one
thread sees what the other did: no wake-up is lost, and no system call is made for a loop that is awake.

Invariants: outputs to sockets go out before the owner gets results, so that brokers work while callbacks run. Every
exception that ends the thread is given to the owner by `crashed`; a loop that has ended stays ended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any, Protocol

from ottla.addresses import address_of
from ottla.client.channel import Channel, SocketBuffers
from ottla.client.connecting import Connecting
from ottla.client.connection_log import ConnectionLog
from ottla.client.poller import GONE, READABLE, WRITABLE, Doorbell, Gone, is_readable, new_poller
from ottla.client.security import Security
from ottla.clock import MACHINE, SLEEP_MAX_S, MachineClock
from ottla.connection.address_book import AddressBook
from ottla.connection.events import (
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Received,
    TokenGiven,
    TokenWanted,
    Transmit,
    Transmitted,
    Unsendable,
)
from ottla.connection.loss import CLOSED_BY_BROKER, Loss, LossKind, Lost
from ottla.connection.traffic import LoopMeter
from ottla.protocol.errors import ProtocolError

_log = logging.getLogger("ottla.client")


class Core(Protocol):
    """What every core offers its driver."""

    addresses: AddressBook

    def receive(self, event: Any, now_us: int) -> None: ...
    def outputs(self) -> list[Any]: ...
    def deadline_us(self) -> int | None: ...
    def tick(self, now_us: int) -> None: ...


class Front(Protocol):
    """What the loop calls of its owner, on the thread that has the turn; most of it on the I/O thread only."""

    def feed(self, now_us: int) -> None:
        """Give the core what users have sent since the last call."""
        ...

    def set_sleeping(self, sleeping: bool) -> None:
        """The loop is about to wait (then new work must wake it), or has woken up."""
        ...

    def sleeps_until(self, wakes_us: int) -> None:
        """The loop wakes by itself at this time: work that is due later need not wake it."""
        ...

    def deadline_us(self) -> int | None:
        """When `feed` is due at the latest; a time in the past when there is something already."""
        ...

    def perform(self, output: Any) -> None:
        """Carry out an output that is not about sockets."""
        ...

    def turn_ended(self) -> None:
        """All outputs so far are carried out: wake the threads that wait for them."""
        ...

    def crashed(self, error: BaseException) -> None:
        """The thread ends because of this error; nothing will happen any more."""
        ...


class Guest(Protocol):
    """What takes turns of the loop on users' threads, while the loop's own thread sleeps.

    The loop's thread calls its methods. Only `has_left` is read on any thread that has the turn, and `close` is called
    in a forked child.
    """

    @property
    def has_left(self) -> bool:
        """Whether something is left for the loop's thread to do."""
        ...

    def resume(self) -> None:
        """The loop's thread has the turn again: watch connections that were given back; raise what broke a turn."""
        ...

    def take_left(self) -> list[Any]:
        """Outputs of the core that a turn did not carry out, in their order."""
        ...

    def removed(self, channel: Channel) -> None:
        """A borrowed connection is closed."""
        ...

    def close(self) -> None:
        """After a fork, in the child: close a poller of its own."""
        ...


class IoLoop:
    """Runs one core on one thread; the headings below say which threads may call what."""

    def __init__(
        self,
        core: Core,
        front: Front,
        *,
        client_id: str,
        thread_name: str,
        buffers: SocketBuffers,
        meter: LoopMeter | None = None,
        security: Security | None = None,
        clock: MachineClock = MACHINE,
    ) -> None:
        """`meter` is for the turns; each node's meter comes with the core's `Connect`."""
        self.clock = clock
        self._by_machine = clock is MACHINE
        self._meter = LoopMeter() if meter is None else meter
        # When the last wait was over.
        self._woke_ns = 0
        self._core = core
        self._front = front
        self.addresses = core.addresses
        self._client_id = client_id
        self._security = security
        self._connecting = Connecting(buffers, security, core.addresses)
        self._resolved, self._explained = self._connecting.resolved, self._connecting.explained
        self._poller = new_poller()
        doorbell = Doorbell()
        self._poller.watch_doorbell(doorbell)
        self._doorbell: Doorbell | Gone = doorbell
        self._sleeping = False
        self._posted: deque[Any] = deque()
        self.turn = threading.Lock()
        # What else takes the turn, if anything does.
        self.guest: Guest | None = None
        # Connections found to be lost while sending, or by a guest while reading, and why.
        self._failed: deque[tuple[Channel, Loss]] = deque()
        self._ident = 0
        self._core_due_us: int | None = 0
        # How long a sleep may be at most, and when the present one ends at the latest.
        self.sleep_max_s = SLEEP_MAX_S
        self.wakes_us = 0
        self._channels: dict[int, Channel] = {}
        self._by_fd: dict[int, Channel] = {}
        self._dirty: list[Channel] = []
        self._stopping = False
        self._connection_log = ConnectionLog(client_id)
        # Connections that got an answer from an address for which a warning was logged.
        self._came_back: list[Channel] = []
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    # ---- any thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; RuntimeError where that cannot be: then nothing stays open."""
        self.clock.watch(self.wake)
        try:
            self._thread.start()
        except RuntimeError:
            self._let_go()
            raise

    def now_us(self) -> int:
        """What the clock shows; calls nothing interpreted where that is the machine's (see `callers_turn.py`)."""
        return time.monotonic_ns() // 1000 if self._by_machine else self.clock.now_us()

    def post(self, event: Any) -> None:
        """Give the core an event in the thread's next turn."""
        self._posted.append(event)
        self.wake()

    def wake(self) -> None:
        """End the present wait, if there is one; cheap when there is none."""
        if self._sleeping:
            self._sleeping = False
            self._doorbell.ring()

    # ---- the thread that holds the turn -------------------------------------------------------------------------

    @property
    def is_at_ease(self) -> bool:
        """Whether nothing is left for the I/O thread to do."""
        return not (
            self._posted
            or self._resolved
            or self._explained
            or self._failed
            or self._came_back
            or self._stopping
            or (self.guest is not None and self.guest.has_left)
        )

    def is_idle(self, now_us: int) -> bool:
        """Whether nothing is left to do, and the core's deadline has not come."""
        return self.is_at_ease and (self._core_due_us is None or now_us < self._core_due_us)

    def enqueue(self, output: Transmit, now_us: int) -> None:
        """Put a request behind what waits to be sent, until `push_all`."""
        # None: the connection was lost a moment ago. The core gets that event next, and settles its requests.
        channel = self._channels.get(output.connection_id)
        if channel is None:
            return
        try:
            size_bytes = channel.enqueue(
                output.correlation_id, self._client_id, output.message, output.version, output.answered
            )
        except ProtocolError as error:
            unsendable = Unsendable(output.connection_id, output.correlation_id, f"it cannot be sent: {error}")
            self._core.receive(unsendable, now_us)
            return
        channel.meter.request_written(size_bytes)
        if channel not in self._dirty:
            self._dirty.append(channel)

    def push_all(self, now_us: int) -> Channel | None:
        """Send what waits, as far as the sockets take it; return the connection if it was only one."""
        dirty = self._dirty
        only = dirty[0] if len(dirty) == 1 else None
        for channel in dirty:
            loss = self._push(channel, now_us)
            if loss is not None:
                self.fail(channel, loss)
        dirty.clear()
        return only

    def read(self, channel: Channel) -> tuple[list[tuple[int, Any]], Loss | None]:
        """Return what has come on a connection, as `Channel.pull` does, and count it."""
        had_served, received_before = channel.served, channel.received_bytes
        answers, loss = channel.pull()
        channel.meter.incoming_bytes += channel.received_bytes - received_before
        channel.meter.network_operations += 1
        if channel.served and not had_served and self._connection_log.is_missed(channel.host, channel.port):
            # Logged by the I/O thread: a thread that has borrowed the connection must not run Python code for long.
            self._came_back.append(channel)
            self.wake()
        return answers, loss

    def watch_again(self, channel: Channel) -> None:
        """Change what the poller watches on a connection to its `events`."""
        self._poller.change(channel.fd, channel.events)

    def fail(self, channel: Channel, loss: Loss) -> None:
        """Let the thread close a connection that was found to be lost."""
        self._failed.append((channel, loss))
        self.wake()

    # ---- any thread -------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the thread after this turn."""
        self._stopping = True
        self.wake()

    def is_own_thread(self) -> bool:
        """Whether the caller runs on the I/O thread, in a delivery callback for instance."""
        return threading.get_ident() == self._ident

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread's end; False when it still runs."""
        # It has no number where it could not be started.
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def abandon_in_child(self) -> None:
        """After a fork, in the child: give the copies of the parent's descriptors back, touching nothing shared."""
        self._sleeping = False
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        self._by_fd.clear()
        self._poller.close()
        if self.guest is not None:
            self.guest.close()

    # ---- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._woke_ns = time.monotonic_ns()
        self._ident = threading.get_ident()
        try:
            self.turn.acquire()
            while not self._stopping:
                self._turn()
        except BaseException as error:
            _log.exception("the I/O thread %s stopped", self._thread.name)
            self._front.crashed(error)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """The thread has ended, or could not be started: close all that is open."""
        self._sleeping = False
        self.clock.forget(self.wake)
        for channel in self._channels.values():
            channel.close()
        self._poller.close()
        # Loop and owner hold each other: without this, descriptors would stay open until garbage is collected.
        self._doorbell = GONE
        self._front = None  # type: ignore[assignment]

    def _turn(self) -> None:
        core, front = self._core, self._front
        now_us = self.now_us()
        self._take_posted(now_us)
        self._take_resolved(now_us)
        self._take_explained(now_us)
        self._take_failed(now_us)
        if self._came_back:
            self._tell_who_came_back(now_us)
        front.feed(now_us)
        core.tick(now_us)
        self._carry_out(now_us)
        front.turn_ended()
        if self._stopping:
            return
        # Read once. While the thread sleeps, a caller's turn adds requests only, and checks their timeouts against
        # `wakes_us`; all else changes `front.deadline_us()`.
        self._core_due_us = core.deadline_us()
        due_now = self._timeout_s(now_us) == 0
        meter, idle_ns = self._meter, time.monotonic_ns()
        meter.work_ns += idle_ns - self._woke_ns
        events = self._poller.wait(0) if due_now else self._sleep()
        self._woke_ns = woke_ns = time.monotonic_ns()
        meter.wait_ns += woke_ns - idle_ns
        meter.selects += 1
        if self.guest is not None:
            self.guest.resume()
        if events:
            # First what a caller posted: those answers came before these.
            now_us = self.now_us()
            self._take_posted(now_us)
            self._handle(events, now_us)

    def _take_posted(self, now_us: int) -> None:
        while self._posted:
            self._core.receive(self._posted.popleft(), now_us)

    def _sleep(self) -> list[tuple[int, int]]:
        """Set that the loop sleeps, look once more for something to do, and only then wait."""
        self._sleeping = True
        self._front.set_sleeping(True)
        try:
            # What other threads added before they saw that the loop sleeps is seen here.
            now_us = self.now_us()
            timeout_s = self._timeout_s(now_us) if self.is_at_ease else 0
            self.wakes_us = now_us + int(timeout_s * 1_000_000)
            self._front.sleeps_until(self.wakes_us)
            self.turn.release()
            try:
                return self._poller.wait(self.clock.sleep_s(timeout_s))
            finally:
                self.turn.acquire()
        finally:
            self._sleeping = False
            self._front.set_sleeping(False)

    def _timeout_s(self, now_us: int) -> float:
        """How long to wait at most: until the core's deadline or the front's, whichever is first."""
        due_us, front_due_us = self._core_due_us, self._front.deadline_us()
        if due_us is None or (front_due_us is not None and front_due_us < due_us):
            due_us = front_due_us
        if due_us is None:
            return self.sleep_max_s
        return min(max(0, due_us - now_us) / 1_000_000, self.sleep_max_s)

    def _carry_out(self, now_us: int) -> None:
        """Carry out the core's outputs until there are none."""
        core, front = self._core, self._front
        while True:
            outputs = core.outputs()
            if self.guest is not None and self.guest.has_left:
                outputs = self.guest.take_left() + outputs
            if not outputs:
                return
            results = []
            for output in outputs:
                kind = type(output)
                if kind is Transmit:
                    self.enqueue(output, now_us)
                elif kind is Connect:
                    self._connect(output, now_us)
                elif kind is Disconnect:
                    self._disconnect(output, now_us)
                elif kind is TokenWanted:
                    self._get_token(output.connection_id)
                else:
                    results.append(output)
            self.push_all(now_us)
            for output in results:
                front.perform(output)

    def _push(self, channel: Channel, now_us: int) -> Loss | None:
        """Send what waits on a connection; return why it is lost, if it is."""
        if not channel.connected:
            return None
        meter, sent_before = channel.meter, channel.sent_bytes
        try:
            empty = channel.push()
        except Lost as lost:
            self._report_transmitted(channel, now_us)
            return lost.loss
        meter.outgoing_bytes += channel.sent_bytes - sent_before
        meter.network_operations += 1
        self._report_transmitted(channel, now_us)
        if empty == channel.waits_to_write:
            channel.waits_to_write = not empty
            self.watch_again(channel)
        return None

    def _report_transmitted(self, channel: Channel, now_us: int) -> None:
        for correlation_id in channel.take_transmitted():
            self._core.receive(Transmitted(channel.connection_id, correlation_id), now_us)

    def _handle(self, events: list[tuple[int, int]], now_us: int) -> None:
        for fd, mask in events:
            channel = self._by_fd.get(fd)
            if channel is None:
                if fd == self._doorbell.fd:
                    self._doorbell.heard()
                continue
            if not channel.connected:
                if channel.shaking_hands:
                    self._shake_hands(channel, now_us)
                else:
                    self._finish_connecting(channel, now_us)
                continue
            if mask & WRITABLE:
                loss = self._push(channel, now_us)
                if loss is not None:
                    self._lose(channel, loss, now_us)
            # On a borrowed connection this thread reads only an end or error, also when the event is an old one.
            if is_readable(mask) and channel.connected and not (channel.borrowed and mask == READABLE):
                self._pull(channel, now_us)

    def _pull(self, channel: Channel, now_us: int) -> None:
        core, connection_id = self._core, channel.connection_id
        answers, loss = self.read(channel)
        for correlation_id, message in answers:
            core.receive(Received(connection_id, correlation_id, message), now_us)
        if loss is not None:
            self._lose(channel, loss, now_us)

    # ---- connections ------------------------------------------------------------------------------------------

    def _connect(self, output: Connect, now_us: int) -> None:
        self._channels[output.connection_id] = self._connecting.begin(output, self.wake)
        self._take_resolved(now_us)

    def _take_resolved(self, now_us: int) -> None:
        while self._resolved:
            channel, addresses, loss = self._resolved.popleft()
            if channel.connection_id not in self._channels:
                continue
            if loss is None:
                loss = self._connecting.connect(channel, addresses)
            if loss is None:
                self._watch(channel)
            else:
                self._lose(channel, loss, now_us)

    def _watch(self, channel: Channel) -> None:
        self._by_fd[channel.fd] = channel
        self._poller.watch(channel.fd, WRITABLE)

    def _finish_connecting(self, channel: Channel, now_us: int) -> None:
        del self._by_fd[channel.fd]
        self._poller.forget(channel.fd)
        try:
            connected = channel.finish_connecting()
        except Lost as lost:
            self._lose(channel, lost.loss, now_us)
            return
        self._watch(channel)
        if connected:
            self._shake_hands(channel, now_us)

    def _shake_hands(self, channel: Channel, now_us: int) -> None:
        """Go on with the TLS handshake, if there is one; at its end the core gets `Connected`."""
        try:
            wanted = channel.shake_hands()
        except Lost as lost:
            self._lose(channel, lost.loss, now_us)
            return
        self._poller.change(channel.fd, wanted or READABLE)
        if not wanted:
            self._core.receive(Connected(channel.connection_id), now_us)

    def _get_token(self, connection_id: int) -> None:
        def given(token: Any, failure: str) -> None:
            self.post(TokenGiven(connection_id, token, failure))

        assert self._security is not None
        self._security.get_token(given)

    def _lose(self, channel: Channel, loss: Loss, now_us: int) -> None:
        """The connection is lost or could not be made: close it, and give the core `Disconnected`."""
        self._remove(channel)
        if loss.kind is LossKind.CLOSED_EARLY and self.addresses.answered:
            # A broker has served this client: its security.protocol is not to blame.
            loss = CLOSED_BY_BROKER
        if not self._connecting.asks_why(channel, loss, self.wake):
            self._tell_of_loss(channel, loss, now_us)

    def _tell_of_loss(self, channel: Channel, loss: Loss, now_us: int) -> None:
        self._log_loss(channel, loss, now_us)
        self._core.receive(Disconnected(channel.connection_id, loss), now_us)
        _log.debug(
            "connection %d to %s: %s", channel.connection_id, address_of(channel.host, channel.port), loss.detail
        )

    def _log_loss(self, channel: Channel, loss: Loss, now_us: int) -> None:
        if not channel.is_idle:
            self._connection_log.lost(channel.host, channel.port, loss.detail, now_us)

    def _tell_who_came_back(self, now_us: int) -> None:
        came_back, self._came_back = self._came_back, []
        for channel in came_back:
            self._connection_log.back(channel.host, channel.port, now_us)

    def _take_explained(self, now_us: int) -> None:
        while self._explained:
            channel, loss = self._explained.popleft()
            self._tell_of_loss(channel, loss, now_us)

    def _take_failed(self, now_us: int) -> None:
        while self._failed:
            channel, loss = self._failed.popleft()
            if channel.connection_id in self._channels:
                self._lose(channel, loss, now_us)

    def _disconnect(self, output: Disconnect, now_us: int) -> None:
        """Close a connection for the core."""
        channel = self._channels.get(output.connection_id)
        loss = output.loss
        if loss is not None and loss.kind is LossKind.SASL_FAILED and self._security is not None:
            self._security.forget_token()
        if channel is None:
            return
        self._connecting.given_up(channel)
        if loss is not None:
            self._log_loss(channel, loss, now_us)
        self._remove(channel)

    def _remove(self, channel: Channel) -> None:
        del self._channels[channel.connection_id]
        if channel.borrowed and self.guest is not None:
            self.guest.removed(channel)
        if self._by_fd.pop(channel.fd, None) is not None:
            self._poller.forget(channel.fd)
        channel.close()
