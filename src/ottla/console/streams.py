"""What goes on for a while: searches, exports, imports, downloads and live views, so many at once and no more.

Each has a slot, which is taken before anything is opened and given back when it has ended or its browser has left,
whether or not anything was sent. All that they do is done in threads of their own, one for each slot: ordinary views
never wait for a thread that a stream has.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import anyio
from anyio import from_thread, to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ottla.console.answers import Answer
from ottla.errors import OttlaError, UserMistake

STREAMS_MAX = 16
# A client that sends no byte of its file for so long is given up.
SILENCE_S = 60.0

Endpoint = Callable[[Request], Awaitable[Response]]
_Found = TypeVar("_Found")


class Streams:
    """The slots; used in one event loop."""

    def __init__(self) -> None:
        self._taken = 0

    def limited(self, endpoint: Endpoint) -> _Limited:
        """This endpoint, which begins only where a slot is free, and has it until its answer has ended."""
        return _Limited(self, endpoint)

    @contextlib.contextmanager
    def slot(self) -> Iterator[bool]:
        """Whether a slot was free; it is taken for as long as the block lasts."""
        is_free = self._taken < STREAMS_MAX
        self._taken += is_free
        try:
            yield is_free
        finally:
            self._taken -= is_free

    @cached_property
    def threads(self) -> anyio.CapacityLimiter:
        """A thread for each slot."""
        return anyio.CapacityLimiter(STREAMS_MAX)

    async def run(self, function: Callable[..., _Found], *given: Any) -> _Found:
        """Call this in a thread of the streams."""
        return await to_thread.run_sync(function, *given, limiter=self.threads)


class _Limited:
    """An ASGI application of its own: so it is there until the last byte of an answer has gone out."""

    def __init__(self, streams: Streams, endpoint: Endpoint) -> None:
        self._streams = streams
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.slot() as is_free:
            if is_free:
                answer = await self._endpoint(Request(scope, receive))
            else:
                what = "searches, exports, imports, downloads and live views"
                told = f"{STREAMS_MAX} {what} are open at this console: close one, then try again."
                answer = Answer({"error": told}, 503)
            await answer(scope, receive, send)


class Pieces(StreamingResponse):
    """What an iterator gives, each piece made in a thread; a generator is closed whatever happens.

    `first` is its first piece, None where there is none. An OttlaError is `written` as a piece, too.
    """

    def __init__(
        self, streams: Streams, first: Any, pieces: Iterator[Any], written: Callable[[Any], bytes], **how: Any
    ) -> None:
        super().__init__(self._all(first, written), **how)
        self._streams = streams
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; no piece is being made any more when it returns."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            close = getattr(self._pieces, "close", None)
            if close is not None:
                with anyio.CancelScope(shield=True):
                    await self._streams.run(close)

    async def _all(self, first: Any, written: Callable[[Any], bytes]) -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            yield written(piece)
            try:
                piece = await self._streams.run(next, self._pieces, None)
            except OttlaError as error:
                yield written({"error": str(error)})
                return


class Body:
    """The body of a request, read piece by piece by a thread: a browser is held back while that thread is busy."""

    def __init__(self, request: Request) -> None:
        self._coming = request.stream()

    def __iter__(self) -> Iterator[bytes]:
        """All pieces, for a thread of the streams. ClientDisconnect: its client has left; UserMistake: it is silent."""
        while piece := from_thread.run(self.piece):
            yield piece

    async def piece(self) -> bytes:
        """The next piece; none is left where it is empty."""
        try:
            with anyio.fail_after(SILENCE_S):
                return await anext(self._coming, b"")
        except TimeoutError:
            raise UserMistake(f"no more of the file came for {SILENCE_S:g} s: import the rest again.") from None

    async def leave(self) -> None:
        """Read what is left: a browser reads no answer before its file has gone out."""
        while await self.piece():
            pass
