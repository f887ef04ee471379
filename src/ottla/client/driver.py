"""The front of an I/O loop for clients that ask and wait: `AdminDriver` and `ReaderDriver` build on it.

It holds what is the same for both: starting and ending the thread, what a fork and a crash leave behind, and waking
whoever waits. What is asked and what is handed over is theirs. The producer's driver has books of its own to close and
does not use it.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from ottla.client import lifetime
from ottla.client.channel import SocketBuffers
from ottla.client.client_ids import client_id_of
from ottla.client.io_loop import IoLoop
from ottla.client.security import Security
from ottla.client.waiting import Waiting
from ottla.connection.node import address_of
from ottla.connection.settings import ConnectionSettings
from ottla.errors import ClosedError, OttlaError, fresh

_log = logging.getLogger("ottla.client")


def addresses_of(connection: ConnectionSettings) -> str:
    """The bootstrap addresses in one text, "host:port,host:port"."""
    return ",".join(address_of(host, port) for host, port in connection.bootstrap_servers)


class Driver:
    """Drives `core`; subclasses say who they are and what `perform` does with the core's own outputs."""

    KIND: ClassVar[str]
    """In sentences: "the {KIND}'s I/O thread stopped"."""
    THREAD: ClassVar[str]
    CLIENT: ClassVar[str] = "adminclient"
    """What brokers call it where it was given no client.id, with a number."""
    CLOSED: ClassVar[str]
    """What who uses a closed one is told."""
    AFTER_CRASH: ClassVar[str]
    """What to do when the thread has died of an error of ours."""

    def __init__(self, core: Any, connection: ConnectionSettings, buffers: SocketBuffers) -> None:
        for warning in connection.warnings:
            _log.warning("%s", warning)
        self.clock = connection.clock
        self._waiting = Waiting(self.clock)
        # Set by `perform` when something has come that somebody may be waiting for.
        self._changed = False
        self._forked = False
        self._closed = False
        self._crash: OttlaError | None = None
        client_id = connection.client_id = client_id_of(self.CLIENT, connection.client_id)
        self.loop = IoLoop(
            core,
            self,
            client_id=client_id,
            thread_name=f"{self.THREAD}-{client_id}",
            buffers=buffers,
            security=Security.of(connection.security, self.clock),
            clock=self.clock,
        )

    # ---- the user's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        lifetime.began(self)
        self.loop.start()

    @property
    def state(self) -> str:
        """For a repr: open, closed, or why it is neither."""
        if self._forked:
            return "made before a fork"
        if self._crash is not None:
            return "stopped by an error"
        return "closed" if self._closed else "open"

    def close(self) -> None:
        """End the thread; whoever waits gets a ClosedError."""
        if self._forked or self._closed:
            return
        self._closed = True
        self.loop.stop()
        if not self.loop.is_own_thread():
            self.loop.join()
        self._waiting.look()
        lifetime.ended(self)

    def at_exit(self) -> None:
        """The interpreter ends."""
        self.close()

    def after_fork_in_child(self) -> None:
        """Make everything in the child say that it cannot use its parent's client."""
        self._forked = True
        self.loop.abandon_in_child()

    def _is_over(self) -> bool:
        return self._closed or self._forked or self._crash is not None

    def _check_usable(self) -> None:
        if self._forked:
            raise lifetime.forked(self.KIND)
        if self._crash is not None:
            raise fresh(self._crash)
        if self._closed:
            raise ClosedError(self.CLOSED)

    # ---- the I/O thread -----------------------------------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Everything there is to say is posted to the loop."""

    def set_sleeping(self, sleeping: bool) -> None:
        """Nothing to do here: no other thread needs to know."""

    def sleeps_until(self, wakes_us: int) -> None:
        """Nothing to do here: no other thread needs to know."""

    def deadline_us(self) -> int | None:
        """Nothing is due by itself."""
        return None

    def perform(self, output: Any) -> None:
        """Take in an output of the core that is not the connections'."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """Let go whoever waits for what has come."""
        if self._changed or not self.loop.addresses.answered:
            self._changed = False
            self._waiting.look()

    def crashed(self, error: BaseException) -> None:
        """Nothing will come any more."""
        crash = OttlaError(
            f"the {self.KIND}'s I/O thread stopped because of an internal error ({type(error).__name__}: {error}); "
            f"{self.AFTER_CRASH}, and please report it"
        )
        crash.__cause__ = error
        self._crash = crash
        self._waiting.look()
        lifetime.ended(self)
