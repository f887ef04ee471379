"""The registry's server: a port, its connections, and the topic behind them, in one event loop.

What is read from the topic is applied in the loop's thread, so that nothing that is answered needs a lock.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ottla.embedded_registry.api import Api
from ottla.embedded_registry.changes import Decide
from ottla.embedded_registry.http_connection import HttpConnection, Respond, TlsConnection
from ottla.embedded_registry.store import Store
from ottla.embedded_registry.topic import open_topic
from ottla.embedded_registry.topic_reader import Read, TopicReader
from ottla.embedded_registry.topic_writer import TopicWriter
from ottla.errors import OttlaError
from ottla.sockets.event_loop import EventLoop
from ottla.sockets.listening import ListeningSocket, NoRoom

logger = logging.getLogger("ottla.registry")

CONNECTIONS_MAX = 1000
# This many further clients are told that there are too many connections; beyond these, connections are only closed.
_REFUSED_MAX = 100
_SWEEP_S = 5.0
_NO_ROOM_PAUSE_S = 0.1
_COPY_S = 10.0


class Mailbox:
    """Calls from other threads, made in the loop's thread in the order in which they were put."""

    def __init__(self, loop: EventLoop) -> None:
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._loop = loop
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        loop.add_reader(self._ours, self._open)

    def put(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Have this called soon; may be called from any thread."""
        self._calls.append((callback, arguments))
        # If the socket is full, the loop will wake anyway; if it is closed, the registry has ended.
        with contextlib.suppress(OSError):
            self._theirs.send(b"!")

    def close(self) -> None:
        """Call nothing more."""
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()

    def _open(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._ours.recv(4096)
        while self._calls:
            callback, arguments = self._calls.popleft()
            callback(*arguments)


class NoConnectionLeft:
    """Answers what comes on connections that are too many; see `Handler`."""

    def quick(self, head: bytes) -> bytes | None:
        """Nothing is known here."""
        return None

    def is_let_in(self, headers: dict[str, str]) -> bool:
        """No body is waited for."""
        return False

    def handle_request(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes, respond: Respond
    ) -> None:
        """Refuse it, for now."""
        told = f"there are {CONNECTIONS_MAX} connections already, no more are taken: close some, or try again later."
        respond(503, f'{{"error_code":503,"message":"{told}"}}'.encode())


class RegistryServer:
    """Commands for the holder of a registry; `start` opens it, `stop` ends it. Lives in the loop."""

    def __init__(self, loop: EventLoop, ended: Callable[[], None]) -> None:
        self._loop, self._ended = loop, ended
        self._store = Store()
        self._api = Api(self._store, self._write)
        self._mailbox = Mailbox(loop)
        self._connections: dict[HttpConnection, None] = {}
        self._refused: dict[HttpConnection, None] = {}
        self._listening: ListeningSocket | None = None
        self._context: Any = None
        self._credentials: tuple[bytes, ...] = ()
        self._reader: TopicReader | None = None
        self._writer: TopicWriter | None = None
        self._starting: threading.Thread | None = None
        self._is_stopping = False

    def later(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call this in the loop's thread; from any thread."""
        self._mailbox.put(callback, *arguments)

    def handle(self, command: str, fields: dict[str, Any], answer: Callable[[Any], None]) -> None:
        """Carry out a command of the control channel."""
        if command == "start":
            self._start(answer, **fields)
        else:
            answer(OttlaError(f"a registry knows no command {command}"))

    # ---- start and end ------------------------------------------------------------------------------------------

    def _start(
        self,
        answer: Callable[[Any], None],
        *,
        servers: str,
        topic: str,
        replication_factor: int | None,
        settings: dict[str, Any],
        patience_s: float,
        listener: dict[str, Any],
        users: Mapping[str, str],
        token: str | None,
    ) -> None:
        self._credentials = tuple(
            b"Basic " + base64.b64encode(f"{name}:{password}".encode()) for name, password in users.items()
        ) + (() if token is None else (b"Bearer " + token.encode(),))
        self._context = _tls_context(listener)
        self._listening = ListeningSocket(listener["host"], listener["port"])
        # Who comes before all is read is refused.
        self._listening.shut()

        def read_all() -> None:
            try:
                record_bytes_max = open_topic(servers, topic, replication_factor, settings, patience_s)
                self._reader = TopicReader(servers, topic, settings, self._took, self._lost)
                self._writer = TopicWriter(
                    servers, topic, settings, self._reader, self._copy, record_bytes_max=record_bytes_max
                )
                self._writer.start()
            except Exception as error:
                told = error if isinstance(error, OttlaError) else OttlaError(f"the registry cannot start: {error!r}")
                self._mailbox.put(answer, told)
                return
            self._mailbox.put(self._open, answer)

        self._starting = threading.Thread(target=read_all, name="ottla-registry-start", daemon=True)
        self._starting.start()

    def _open(self, answer: Callable[[Any], None]) -> None:
        if self._is_stopping or self._listening is None:
            return
        try:
            self._listening.reopen()
        except OttlaError as error:
            answer(error)
            return
        self._loop.add_reader(self._listening, self._acceptable)
        self._loop.call_later(_SWEEP_S, self._sweep)
        answer({"port": self._listening.port})

    def stop(self) -> None:
        """Close connections and threads, then call `ended`. Stopping twice is allowed."""
        if self._is_stopping:
            return
        self._is_stopping = True
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()

        def end() -> None:
            # In this order: without its reader the writer learns nothing, and would try again for seconds.
            if self._writer is not None:
                self._writer.end()
            if self._reader is not None:
                self._reader.close()
            if self._starting is not None:
                self._starting.join()
            if self._reader is not None:
                self._reader.close()
            if self._writer is not None:
                self._writer.close()
            self._mailbox.put(self._end)

        threading.Thread(target=end, name="ottla-registry-end", daemon=True).start()

    def _end(self) -> None:
        for connection in [*self._connections, *self._refused]:
            connection.close()
        self._ended()

    def close(self) -> None:
        """After the loop has ended."""
        self._mailbox.close()

    # ---- clients ------------------------------------------------------------------------------------------------

    def _acceptable(self) -> None:
        assert self._listening is not None
        try:
            accepted = self._listening.accept()
        except NoRoom as error:
            logger.warning("nobody can connect to the registry for now: %s", error)
            self._loop.remove_reader(self._listening)
            self._loop.call_later(_NO_ROOM_PAUSE_S, self._accept_again)
            return
        if accepted is None:
            return
        sock: Any = accepted[0]
        is_refused = len(self._connections) >= CONNECTIONS_MAX
        if is_refused and len(self._refused) >= _REFUSED_MAX:
            sock.close()
            return
        if self._context is not None:
            from ottla.sockets.tls import TlsSocket

            sock = TlsConnection(TlsSocket(sock, self._context))
        if is_refused:
            # It is refused when its request is there. If the connection were closed before that, the request would be
            # answered by a reset, and the client would lose the refusal.
            refused = HttpConnection(self._loop, sock, NoConnectionLeft(), self._forget, is_brief=True)
            self._refused[refused] = None
            return
        self._connections[HttpConnection(self._loop, sock, self, self._forget)] = None

    def _accept_again(self) -> None:
        if not self._is_stopping and self._listening is not None:
            self._loop.add_reader(self._listening, self._acceptable)

    def _forget(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        self._refused.pop(connection, None)

    def _sweep(self) -> None:
        if self._is_stopping:
            return
        now_s = self._loop.time()
        for connection in [*self._connections, *self._refused]:
            if connection.is_late(now_s):
                connection.close()
        self._loop.call_later(_SWEEP_S, self._sweep)

    def quick(self, head: bytes) -> bytes | None:
        """See `Handler`; not if there are passwords or a token, which must be checked first."""
        return None if self._credentials else self._api.quick(head)

    def is_let_in(self, headers: dict[str, str]) -> bool:
        """See `Handler`."""
        return not self._credentials or self._is_known(headers.get("authorization", ""))

    def handle_request(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes, respond: Respond
    ) -> None:
        """See `Handler`."""
        if not self.is_let_in(headers):
            respond(401, b'{"error_code":401,"message":"Unauthorized: name and password are missing or wrong."}')
            return
        if "origin" in headers and method not in ("GET", "HEAD"):
            # Which a page from anywhere may send to this machine.
            told = "pages in a browser may not change schemas; programs send no header Origin."
            respond(403, f'{{"error_code":403,"message":"{told}"}}'.encode())
            return
        self._api.handle(method, path, query, body, respond)

    def _is_known(self, given: str) -> bool:
        kind, _, rest = given.partition(" ")
        shown = f"{kind.capitalize()} {rest.strip()}".encode("utf-8", "replace")
        # All are compared, so that time tells nothing.
        return sum(hmac.compare_digest(shown, known) for known in self._credentials) > 0

    # ---- the topic ----------------------------------------------------------------------------------------------

    def _took(self, records: list[Read]) -> None:
        """In the reader's thread."""
        self._mailbox.put(self._apply, records)
        writer = self._writer
        if writer is not None:
            writer.took(records)

    def _lost(self) -> None:
        """In the reader's thread."""
        writer = self._writer
        if writer is not None:
            writer.lost()
        self._mailbox.put(self._store.forget)
        self._mailbox.put(self._api.changed)

    def _apply(self, records: list[Read]) -> None:
        for _, key, value in records:
            self._store.apply(key, value)
        self._api.changed()

    def _copy(self) -> Store:
        """In the writer's thread: what has been read by now."""
        found: list[Store] = []
        there = threading.Event()

        def copy() -> None:
            found.append(self._store.copy())
            there.set()

        self._mailbox.put(copy)
        if not there.wait(_COPY_S):
            raise OttlaError("the registry is being closed.")
        return found[0]

    def _write(self, decide: Decide, done: Callable[[Any], None]) -> None:
        assert self._writer is not None
        self._writer.ask(decide, partial(self._mailbox.put, done))


def _tls_context(listener: Mapping[str, Any]) -> Any:
    if not listener["protocol"].endswith("SSL"):
        return None
    from ottla.sockets.listener import Listener
    from ottla.sockets.tls import server_context

    return server_context("of the registry", Listener(**listener))
