"""`Connection`: uvicorn's connection of HTTP/1.1, with limits on what a client can hold by doing nothing.

- A whole request must come within `head_s`, also the second one of a connection; bytes now and then do not help.
- A client that takes no byte of an answer for `taken_s` is cut off.
- At most CONNECTIONS_MAX are open. For a further one, that which has waited longest for a request is closed: so those
  who hold connections and ask for nothing keep nobody out. Where all are being answered, it is refused with 503.

An answer that goes on, such as a live view, has no limit of time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ottla.console.answers import Answer

# A browser has six; streams are fewer (`streams.py`).
CONNECTIONS_MAX = 200


class Connection(H11Protocol):
    """One connection."""

    head_s = 10.0
    taken_s = 60.0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._since = self.loop.time()
        self._until_request: asyncio.TimerHandle | None = None
        self._until_taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, if need be in the place of one that only waits."""
        super().connection_made(transport)
        self._expect_request()
        if len(self.connections) <= CONNECTIONS_MAX:
            return
        others: set[Any] = self.connections - {self}
        waiting = [each for each in others if not each.is_answering]
        if waiting:
            given_up = min(waiting, key=lambda each: each._since)
            # `connection_lost` removes it only later: it must not be chosen a second time until then.
            self.connections.discard(given_up)
            given_up.transport.abort()
        else:
            self.app = _refuse

    @property
    def is_answering(self) -> bool:
        """Whether a request has come whose answer has not ended."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; what is left of a body that was refused counts as time for the next."""
        if not self.is_answering and self._until_request is None:
            self._expect_request()
        super().data_received(data)
        if self.is_answering:
            _cancel(self._until_request)
            self._until_request = None

    def on_response_complete(self) -> None:
        """From now on it waits for a request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client takes less than there is."""
        super().pause_writing()
        self._look_whether_taken(-1)

    def resume_writing(self) -> None:
        """It has taken nearly all."""
        super().resume_writing()
        _cancel(self._until_taken)
        self._until_taken = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        _cancel(self._until_request)
        self._until_request = None
        _cancel(self._until_taken)
        self._until_taken = None
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        self._since = self.loop.time()
        self._until_request = self.loop.call_later(self.head_s, self._give_up_request)

    def _give_up_request(self) -> None:
        self._until_request = None
        if not self.is_answering:
            self.transport.close()

    def _look_whether_taken(self, before: int) -> None:
        # Nothing is added while it is paused: it can only become less.
        left = self.transport.get_write_buffer_size()
        if left == before:
            self.transport.abort()
            return
        self._until_taken = self.loop.call_later(self.taken_s, self._look_whether_taken, left)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    told = f"{CONNECTIONS_MAX} requests are being answered already: try again soon."
    await Answer({"error": told}, 503, headers={"connection": "close"})(scope, receive, send)
