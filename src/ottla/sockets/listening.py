"""A listening port, and the connections that it accepts.

A port that cannot be used is a `UserMistake` that names it. Accepted sockets are non-blocking, with TCP_NODELAY.
"""

from __future__ import annotations

import errno
import socket

from ottla.addresses import address_of
from ottla.errors import UserMistake

_BACKLOG = 512
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class NoRoom(Exception):
    """The system has no descriptor or memory left for another connection; the text is the system's."""


class ListeningSocket:
    """Listens on `port`, or on a free one if that is 0; UserMistake if it cannot."""

    __slots__ = ("_host", "_socket", "port")

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        try:
            self.reopen()
        except UserMistake:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def accept(self) -> tuple[socket.socket, str] | None:
        """The next connection and its peer ("host:port", "[::1]:port"); None if there is none. Raises NoRoom."""
        try:
            sock, address = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise NoRoom(error.strerror) from None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock, address_of(address[0], address[1])

    def shut(self) -> None:
        """Refuse connections, but keep the port."""
        self._socket.close()
        self._socket = _bound(self._host, self.port)

    def reopen(self) -> None:
        """Listen again; UserMistake if another program has the port now."""
        try:
            self._socket.listen(_BACKLOG)
        except OSError as error:
            raise _unusable(self._host, self.port, error) from None

    def close(self) -> None:
        """Release the port; closing twice is allowed."""
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to this port and does not listen: connections are refused."""
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise _unusable(host, port, error) from None
    sock.setblocking(False)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise _unusable(host, port, error) from None
    return sock


def _unusable(host: str, port: int, error: OSError) -> UserMistake:
    if error.errno in _NO_ROOM:
        return UserMistake(f"no port can be opened on {host} ({(error.strerror or str(error)).lower()}).")
    if error.errno == errno.EADDRINUSE:
        return UserMistake(
            f"port {port} on {host} is in use by another program: "
            "stop that program, choose another port, or port 0 for a free one."
        )
    return UserMistake(
        f"port {port} on {host} cannot be used ({(error.strerror or str(error)).lower()}): "
        "choose another port, or port 0 for a free one."
    )
