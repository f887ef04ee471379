"""Drives a reader's core: the I/O thread fetches ahead, the user's thread takes what has arrived.

The core's outputs are put into one queue, in their order; the user takes the oldest. The core gets an event for every
buffer taken, and so bounds how far it reads ahead.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from ottla.client.channel import SocketBuffers
from ottla.client.driver import Driver, prepare
from ottla.client.security import unguessable
from ottla.errors import OttlaError, Unreachable
from ottla.reader.core import ReaderCore
from ottla.reader.events import Consumed, Fetched, Finished, Positioned, ReadFailed, TopicAssigned
from ottla.reader.settings import ReaderSettings


class ReaderDriver(Driver):
    """Front of the reader's I/O loop, and the queue the user takes from."""

    KIND = "reader"
    THREAD = "ottla-reader"
    CLIENT = "consumer"
    CLOSED = "this reader is closed; make a new one to read on"
    AFTER_CRASH = "close this reader and make a new one"

    def __init__(self, settings: ReaderSettings, rng: Random, buffers: SocketBuffers) -> None:
        self.settings = settings
        self._arrived: deque[Any] = deque()
        prepare(settings.connection)
        core = ReaderCore(settings, unguessable(settings.connection.security, rng))
        super().__init__(core, settings.connection, buffers)

    def close(self) -> None:
        """Also let go of what was fetched ahead: megabytes that would stay until garbage is collected."""
        super().close()
        self._arrived.clear()

    def take(self, patience_s: float | None = None) -> Any:
        """Wait for the core's next output; None after `patience_s`. Raises the error if none can come any more."""
        self.standing.check_process()
        arrived = self._arrived
        if not arrived and not self._wait(patience_s):
            return None
        try:
            output = arrived.popleft()
        except IndexError:
            # Another thread has closed it at this very moment.
            self.standing.check_usable()
            raise
        kind = type(output)
        if kind is Fetched:
            self.loop.post(Consumed(output.topic, output.partition, len(output.records)))
        elif kind is ReadFailed:
            raise self._explained(output.error)
        return output

    def _wait(self, patience_s: float | None) -> bool:
        """Whether something has arrived in time."""
        addresses = self.loop.addresses

        def settled() -> bool:
            return bool(self._arrived) or self.cannot_go_on() or addresses.lasting_error() is not None

        while not self._arrived:
            self.standing.check_usable()
            error = addresses.lasting_error()
            if error is not None:
                raise error
            if not self.waiting.wait(settled, patience_s):
                return False
        return True

    def _explained(self, error: OttlaError) -> OttlaError:
        """The error to raise for one of the core: where no broker has answered, it says how long that was tried."""
        addresses = self.loop.addresses
        if isinstance(error, Unreachable) and not addresses.answered:
            told = addresses.error_after(self.settings.default_api_timeout_ms)
            told.topic, told.partition = error.topic, error.partition
            return told
        return error

    def perform(self, output: Any) -> None:
        """Queue the outputs that are for the user."""
        if isinstance(output, Fetched | Finished | Positioned | ReadFailed | TopicAssigned):
            self._arrived.append(output)
            self._changed = True
