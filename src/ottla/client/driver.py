"""The life of a client with an I/O loop: start, fork, crash and end.

The drivers of producer, reader, admin client and transaction handle derive from it. They add what they post to the
loop, what they do with the core's outputs, and what has to be done before the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar

from ottla.client import lifetime
from ottla.client.channel import SocketBuffers
from ottla.client.client_ids import client_id_of
from ottla.client.io_loop import IoLoop
from ottla.client.resolve import expand_bootstrap
from ottla.client.security import Security
from ottla.client.waiting import Waiting
from ottla.connection.settings import ConnectionSettings
from ottla.connection.standing import Standing
from ottla.connection.traffic import LoopMeter
from ottla.errors import ClosedError, OttlaError


def prepare(
    connection: ConnectionSettings, warnings: Iterable[str] | None = None, log_name: str = "ottla.client"
) -> None:
    """Before a client is made of settings: expand its bootstrap names (KIP-235) and log the settings' warnings."""
    expand_bootstrap(connection)
    for warning in connection.warnings if warnings is None else warnings:
        logging.getLogger(log_name).warning("%s", warning)


class Driver:
    """Drives `core`; subclasses set the names below, and `perform` carries out the core's own outputs."""

    KIND: ClassVar[str]
    """The client's name in errors: "the {KIND}'s I/O thread stopped"."""
    THREAD: ClassVar[str]
    CLIENT: ClassVar[str] = "adminclient"
    """The beginning of its client id where `client.id` is not given; a number follows."""
    CLOSED: ClassVar[str]
    """The error's text for every use of a closed client."""
    AFTER_CRASH: ClassVar[str]
    """What the user is to do when the I/O thread has ended by an internal error."""

    def __init__(
        self,
        core: Any,
        connection: ConnectionSettings,
        buffers: SocketBuffers,
        *,
        standing: Standing | None = None,
        meter: LoopMeter | None = None,
    ) -> None:
        self.clock = connection.clock
        self.standing = Standing() if standing is None else standing
        self.waiting = Waiting(self.clock)
        # Set by `perform` when something has come that a thread may be waiting for.
        self._changed = False
        client_id = connection.client_id = client_id_of(self.CLIENT, connection.client_id)
        self.loop = IoLoop(
            core,
            self,
            client_id=client_id,
            thread_name=f"{self.THREAD}-{client_id}",
            buffers=buffers,
            meter=meter,
            security=Security.of(connection.security, self.clock),
            clock=self.clock,
        )

    # ---- the user's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; OttlaError where the process can have no more threads."""
        lifetime.began(self)
        try:
            self.loop.start()
        except BaseException as error:
            # Ctrl+C may come while the thread begins: then it ends at once.
            self.standing.close(ClosedError(self.CLOSED))
            self.loop.stop()
            lifetime.ended(self)
            if not isinstance(error, RuntimeError):
                raise
            raise OttlaError(
                f"the {self.KIND}'s I/O thread cannot be started ({error}): this process has as many threads as it may "
                "have, or is about to end; end other threads or raise the limit (ulimit -u, a container's pids limit)"
            ) from error

    @property
    def state(self) -> str:
        """For a repr: open, closed, or why it is neither."""
        standing = self.standing
        if standing.has_forked:
            return "made before a fork"
        if standing.crash is not None:
            return "stopped by an error"
        return "closed" if standing.is_closed else "open"

    def close(self) -> None:
        """End the thread; calls that wait raise ClosedError. (A producer first delivers: `waits.close`.)

        Every call does all of it: one before may have been interrupted, or be under way in another thread.
        """
        if self.standing.has_forked:
            return
        self.standing.close(ClosedError(self.CLOSED))
        self.loop.stop()
        if not self.loop.is_own_thread():
            self.loop.join()
        self.waiting.look()
        lifetime.ended(self)

    def at_exit(self) -> None:
        """The interpreter ends."""
        self.close()

    def after_fork_in_child(self) -> None:
        """In a forked child: make every call raise ForkError from now on."""
        self.standing.fork(lifetime.forked(self.KIND))
        self.loop.abandon_in_child()

    def cannot_go_on(self) -> bool:
        """Whether the client is closed, crashed or forked: no answer will come any more."""
        return self.standing.why_over is not None

    # ---- the I/O thread -----------------------------------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Nothing to do here: all events are posted to the loop."""

    def set_sleeping(self, sleeping: bool) -> None:
        """Nothing to do here: no other thread needs to know."""

    def sleeps_until(self, wakes_us: int) -> None:
        """Nothing to do here: no other thread needs to know."""

    def deadline_us(self) -> int | None:
        """Nothing is due by itself."""
        return None

    def perform(self, output: Any) -> None:
        """Carry out an output of the core that is not about connections."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """Wake the threads that have what they wait for."""
        if self._changed or not self.loop.addresses.answered:
            self._changed = False
            self.waiting.look()

    def crashed(self, error: BaseException) -> None:
        """The I/O thread ends by an internal error: every call raises it from now on."""
        crash = OttlaError(
            f"the {self.KIND}'s I/O thread stopped because of an internal error ({type(error).__name__}: {error}); "
            f"{self.AFTER_CRASH}, and please report it"
        )
        crash.__cause__ = error
        self.standing.die(crash)
        self.settle_all(crash)
        self.waiting.look()
        lifetime.ended(self)

    def settle_all(self, crash: OttlaError) -> None:
        """After a crash: give everything its outcome. Nothing to do here."""
