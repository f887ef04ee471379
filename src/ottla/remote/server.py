"""`ControlServer`: the address at which a served cluster is told what to do.

It lives in the process that holds the `Cluster`, as threads: one that takes connections, and one for each connection,
so that a client that waits for a fault to fire keeps nobody else waiting. The port is taken before the cluster is
started, and answers once there is a cluster.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from ottla.addresses import address_of
from ottla.remote.address import is_loopback
from ottla.remote.api import ROUTES, carry_out
from ottla.remote.http_connection import HttpConnection
from ottla.remote.route import Held, Refusal, Route
from ottla.remote.token import check_token
from ottla.sockets.listening import ListeningSocket, NoRoom

logger = logging.getLogger("ottla.remote")

# At most this many clients may be connected. Requests of clients that have left do not count, until there are too many
# threads.
CONNECTIONS_MAX = 100
_THREADS_MAX = 1000
# How long answers that are under way may take when all is closed.
_LAST_ANSWERS_S = 5.0
_NAME = "ottla-control"
_NO_ROOM_PAUSE_S = 0.1
_FULL = json.dumps({"error": f"{CONNECTIONS_MAX} requests are being answered already: try again soon."}).encode()


class ControlServer:
    """Use it in a `with` statement around the cluster's own, and `serving` within.

    `port` 0 takes a free one. `token`: requests without it are refused; None: none is needed. Raises UserMistake where
    the port cannot be had or the token is none.
    """

    def __init__(self, host: str, port: int, *, token: str | None = None) -> None:
        self._token = None if token is None else check_token(token, "token=")
        self._host = host
        self._listening = ListeningSocket(host, port)
        # A client that comes too soon is refused.
        self._listening.shut()
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._is_closing = False

    @property
    def address(self) -> str:
        """ "host:port"."""
        return address_of(self._host, self._listening.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def serving(self, held: Held, routes: Sequence[Route] = ROUTES) -> Iterator[None]:
        """Carry out for this cluster or proxy what is asked for, within the block.

        What is still waited for at the end of the block is refused when the cluster is closed.
        """
        ours, theirs = socket.socketpair()
        self._listening.reopen()
        accepting = threading.Thread(target=self._accept, args=(held, routes, theirs), name=_NAME, daemon=True)
        accepting.start()
        try:
            yield
        finally:
            self._is_closing = True
            ours.close()
            accepting.join()
            theirs.close()
            self._listening.close()
            with self._lock:
                for sock in self._connections:
                    # Clients that have not sent their request yet are not waited for.
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Give the port back, and wait for the last answers; close the cluster first. Closing twice is allowed."""
        self._listening.close()
        with self._lock:
            threads = list(self._connections.values())
        until = time.monotonic() + _LAST_ANSWERS_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _accept(self, held: Held, routes: Sequence[Route], ending: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            selector.register(ending, selectors.EVENT_READ)
            while all(key.fileobj is not ending for key, _ in selector.select()):
                try:
                    accepted = self._listening.accept()
                except NoRoom as error:
                    logger.warning("nobody can control the cluster for now: %s", error)
                    # It is asked for again and again until there is room.
                    ending.settimeout(_NO_ROOM_PAUSE_S)
                    with contextlib.suppress(TimeoutError):
                        if not ending.recv(1):
                            return
                    continue
                if accepted is not None:
                    self._welcome(held, routes, *accepted)

    def _welcome(self, held: Held, routes: Sequence[Route], sock: socket.socket, peer: str) -> None:
        with self._lock:
            if not self._has_room():
                _refuse_for_now(sock)
                return
            thread = threading.Thread(
                target=self._answer, args=(held, routes, sock, peer), name=f"{_NAME}-{peer}", daemon=True
            )
            self._connections[sock] = thread
        thread.start()

    def _has_room(self) -> bool:
        count = len(self._connections)
        if CONNECTIONS_MAX <= count < _THREADS_MAX:
            count = sum(map(_is_there, self._connections))
        return count < CONNECTIONS_MAX

    def _answer(self, held: Held, routes: Sequence[Route], sock: socket.socket, peer: str) -> None:
        def do(method: str, target: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
            try:
                return carry_out(held, method, target, body, routes)
            except Refusal:
                if self._is_closing:
                    raise Refusal(503, f"the {type(held).__name__.lower()} is being closed.") from None
                raise

        try:
            # A client that has left, or stops in the middle, is no error here.
            with contextlib.suppress(OSError):
                HttpConnection(sock, peer, self._token, do, local_only=is_loopback(self._host))
        finally:
            sock.close()
            with self._lock:
                del self._connections[sock]


def _is_there(sock: socket.socket) -> bool:
    """Whether the client may still send; one that has only ended its sending is answered all the same."""
    poll = select.poll()
    try:
        poll.register(sock, select.POLLIN)
        return not poll.poll(0) or bool(sock.recv(1, socket.MSG_PEEK))
    except (OSError, ValueError):
        # Reset by its client, or closed by its thread at this very moment.
        return False


def _refuse_for_now(sock: socket.socket) -> None:
    """Refuse a connection without a thread for it."""
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nServer: ottla\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(_FULL)}\r\n"
    )
    with sock, contextlib.suppress(OSError):
        # What was sent already is read: unread, it would make the answer be lost.
        with contextlib.suppress(BlockingIOError):
            sock.recv(65_536)
        sock.sendall(f"{head}Connection: close\r\n\r\n".encode() + _FULL)
