"""The reader's two sides: the I/O thread fetches ahead, the user's thread takes what has arrived.

What the core says comes into one queue in the order of arrival; the user takes from its left. Every buffer taken is
reported back to the core, which bounds how far it reads ahead by that.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from ottla.client import lifetime
from ottla.client.bootstrap import all_refused, lasting_trouble, unreachable
from ottla.client.channel import SocketBuffers
from ottla.client.io_loop import IoLoop
from ottla.client.waiting import Waiting
from ottla.errors import ClosedError, OttlaError, Unreachable
from ottla.reader.core import ReaderCore
from ottla.reader.events import Consumed, Fetched, Finished, Positioned, ReadFailed, TopicAssigned
from ottla.reader.settings import ReaderSettings


class ReaderDriver:
    """Front of the reader's I/O loop, and the queue the user takes from."""

    def __init__(self, settings: ReaderSettings, rng: Random, buffers: SocketBuffers) -> None:
        self.settings = settings
        self._waiting = Waiting()
        self._arrived: deque[Any] = deque()
        self._changed = False
        self._forked = False
        self._closed = False
        self._crash: OttlaError | None = None
        connection = settings.connection
        self.loop = IoLoop(
            ReaderCore(settings, rng),
            self,
            client_id=connection.client_id,
            thread_name=f"ottla-reader-{connection.client_id}",
            buffers=buffers,
        )

    # ---- the user's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        lifetime.began(self)
        self.loop.start()

    def take(self) -> Any:
        """The next output of the core; waits for it. Raises what keeps it from ever coming."""
        if self._forked:
            raise lifetime.forked("reader")
        arrived = self._arrived
        if not arrived:
            self._wait()
        output = arrived.popleft()
        kind = type(output)
        if kind is Fetched:
            self.loop.post(Consumed(output.topic, output.partition, len(output.records)))
        elif kind is ReadFailed:
            raise self._explained(output.error)
        return output

    def _wait(self) -> None:
        addresses = self.settings.connection.bootstrap_servers

        def settled() -> bool:
            return (
                bool(self._arrived)
                or self._closed
                or self._forked
                or self._crash is not None
                or lasting_trouble(self.loop, addresses) is not None
            )

        while not self._arrived:
            if self._forked:
                raise lifetime.forked("reader")
            if self._crash is not None:
                raise self._crash
            if self._closed:
                raise ClosedError("this reader is closed; make a new one to read on")
            trouble = lasting_trouble(self.loop, addresses)
            if trouble is not None:
                raise trouble
            self._waiting.wait(settled, None)

    def _explained(self, error: OttlaError) -> OttlaError:
        """The core knows that no broker came within reach; the loop knows what happened at each address."""
        if isinstance(error, Unreachable) and not self.loop.answered:
            addresses, timeout_ms = self.settings.connection.bootstrap_servers, self.settings.default_api_timeout_ms
            return unreachable(self.loop, addresses, None if all_refused(self.loop, addresses) else timeout_ms)
        return error

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
        """Make everything in the child say that it cannot use its parent's reader."""
        self._forked = True
        self.loop.abandon_in_child()

    # ---- the I/O thread -----------------------------------------------------------------------------------------

    def feed(self, now_us: int) -> None:
        """Everything a reader is told is posted to the loop."""

    def set_sleeping(self, sleeping: bool) -> None:
        """Nobody but the loop itself needs to know."""

    def deadline_us(self) -> int | None:
        """Nothing is due by itself."""
        return None

    def perform(self, output: Any) -> None:
        """Queue what the user is to hear of."""
        if isinstance(output, Fetched | Finished | Positioned | ReadFailed | TopicAssigned):
            self._arrived.append(output)
            self._changed = True

    def turn_ended(self) -> None:
        """Let go whoever waits for what has come."""
        if self._changed or not self.loop.answered:
            self._changed = False
            self._waiting.look()

    def crashed(self, error: BaseException) -> None:
        """Nothing will arrive any more."""
        crash = OttlaError(
            f"the reader's I/O thread stopped because of an internal error ({type(error).__name__}: {error}); "
            "close this reader and make a new one, and please report it"
        )
        crash.__cause__ = error
        self._crash = crash
        self._waiting.look()
        lifetime.ended(self)
