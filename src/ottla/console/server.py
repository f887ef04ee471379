"""`ConsoleServer`: the port, and uvicorn in a thread of its own, so that signals stay with the main thread."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import Any, Self

import uvicorn

from ottla.addresses import address_of
from ottla.console.app import make_app
from ottla.console.connection import Connection
from ottla.console.console import Console
from ottla.errors import OttlaError
from ottla.remote.address import is_loopback
from ottla.sockets.listening import ListeningSocket

_START_S = 10.0
# Seconds from the beginning of its end: connections still open are closed after the first (searches, live views),
# requests still running are cancelled after the second.
_LAST_ANSWERS_S = 1.0
_CUT_OFF_S = 5
# So many are accepted at once before it is looked whether there is room for them.
_BACKLOG = 128


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections: uvicorn alone would leave some open, and their clients would wait for an answer.

        Left open were those accepted while the others were told to end, and those whose client takes nothing.
        """
        asyncio.get_running_loop().call_later(_LAST_ANSWERS_S, self._cut_off)
        await super().shutdown(sockets)

    def _cut_off(self) -> None:
        connections: set[Any] = self.server_state.connections
        for connection in connections:
            connection.transport.abort()


class ConsoleServer:
    """Use it in a `with` statement. `port` 0 takes a free one; UserMistake where the port cannot be had.

    `token`: requests without it are refused. `read_only`: nothing can be changed.
    """

    def __init__(
        self, console: Console, host: str, port: int, *, token: str | None = None, read_only: bool = False
    ) -> None:
        self._host = host
        self._listening = ListeningSocket(host, port)
        app = make_app(console, token=token, read_only=read_only, local_only=is_loopback(host))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_CUT_OFF_S,
            ws="none",
            http=Connection,
            backlog=_BACKLOG,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="ottla-console", daemon=True)
        self._is_over = threading.Event()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{address_of(self._host, self._listening.port)}/"

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._is_over.wait(0.01)
        if not self._server.started:
            self._listening.close()
            raise OttlaError("the console's server did not start; its log says why.")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(_START_S)
        self._listening.close()

    def _run(self) -> None:
        with socket.socket(fileno=os.dup(self._listening.fileno())) as listening:
            self._server.run(sockets=[listening])
