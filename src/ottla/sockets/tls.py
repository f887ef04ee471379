"""TLS on a listener: its certificate, and sockets that encrypt; imported when a listener wants it.

`TlsSocket` stands in for a plain non-blocking socket. The handshake happens with the first reads. There is no
`sendfile` through TLS: slices of files are read and encrypted a piece at a time.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Sequence
from typing import Any

from ottla.errors import UserMistake
from ottla.sockets.listener import Listener

_PIECE_BYTES = 65_536
_HANDSHAKE = 0x16
# Fatal, internal error: what Apache Kafka's listeners answer to whoever does not begin with TLS.
_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class HandshakeFailed(Exception):
    """This client and this listener do not come to terms; the text says why."""


def server_context(name: str, listener: Listener) -> ssl.SSLContext:
    """What all connections of a TLS listener share; UserMistake where the certificate cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[listener.client_auth]
    certificate, key, trusted = listener.certificate, listener.private_key, listener.client_ca
    # A password that is missing is not asked for at the terminal.
    password = listener.private_key_password or ""
    try:
        assert certificate is not None
        context.load_cert_chain(certificate, key, password=lambda: password)
        if trusted is not None:
            context.load_verify_locations(trusted)
    except OSError as error:
        files = ", ".join(str(path) for path in (certificate, key, trusted) if path is not None)
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise UserMistake(
            f"listener {name} cannot use its certificate ({(reason or str(error)).lower().replace('_', ' ')}): "
            f"look at {files}; each must be a PEM file, the key that of the certificate."
        ) from error
    return context


class TlsSocket:
    """A non-blocking connection through TLS, with the few methods that servers call.

    Where nothing can be done now, BlockingIOError is raised, as by a plain socket. A write that was put off must be
    repeated with the same bytes at its head, which a queue of what is to be sent does by itself.
    """

    __slots__ = ("_first_byte", "_socket", "established")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._first_byte: int | None = None
        self.established = False

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def pending(self) -> int:
        """How many decrypted bytes wait in memory, where no selector sees them."""
        return self._socket.pending()

    def recv_into(self, buffer: memoryview) -> int:
        """As a plain socket's; less than the buffer holds only where nothing is left to be had without waiting."""
        try:
            if not self.established:
                self._shake_hands()
            size = filled = self._socket.recv_into(buffer)
            while size and filled < len(buffer) and self._socket.pending():
                size = self._socket.recv_into(buffer[filled:])
                filled += size
            return filled
        except ssl.SSLWantReadError:
            raise BlockingIOError from None

    def sendmsg(self, pieces: Sequence[Any], _ancillary: Any = (), _flags: int = 0) -> int:
        """Send what is at the head of the pieces; return how many bytes went."""
        content = pieces[0]
        if len(content) < _PIECE_BYTES and len(pieces) > 1:
            content = b"".join(pieces)
        return self._send(memoryview(content)[:_PIECE_BYTES])

    def send_file(self, fd: int, position: int, size: int) -> int:
        """Send from a file; return how many bytes went, 0 where the file has become too short."""
        content = os.pread(fd, min(size, _PIECE_BYTES), position)
        return self._send(content) if content else 0

    def close(self) -> None:
        """Say goodbye, as far as the other end takes it, and close."""
        if self.established:
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()
        self._socket.close()

    def _send(self, content: bytes | memoryview) -> int:
        try:
            return self._socket.send(content)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def _shake_hands(self) -> None:
        if self._first_byte is None:
            # Behind SSLSocket's back, which knows no flags.
            first = socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
            if not first:
                raise ConnectionResetError("closed before the TLS handshake")
            self._first_byte = first[0]
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError as error:
            if self._first_byte != _HANDSHAKE:
                self._send_alert()
                raise HandshakeFailed(
                    "the client does not begin with TLS; is it set to a plaintext protocol?"
                ) from None
            reason = (error.reason or str(error)).lower().replace("_", " ")
            raise HandshakeFailed(f"the TLS handshake failed ({reason})") from None
        self.established = True

    def _send_alert(self) -> None:
        """Tell a client without TLS what it has met; what it sent is read first, or closing would undo that."""
        with contextlib.suppress(OSError):
            while socket.socket.recv(self._socket, _PIECE_BYTES):
                pass
        with contextlib.suppress(OSError):
            socket.socket.send(self._socket, _ALERT)
