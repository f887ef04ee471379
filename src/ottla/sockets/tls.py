"""TLS of a listener: its certificate, and sockets that encrypt; imported when a listener uses TLS.

`TlsSocket` is used like a plain non-blocking socket. The first reads do the handshake. `sendfile` does not work with
TLS: slices of files are read and encrypted a piece at a time.
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
# The alert "internal error" (fatal): Apache Kafka's listeners send it to a client that does not begin with TLS.
_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class HandshakeFailed(Exception):
    """The TLS handshake failed; the text says why."""


def server_context(name: str, listener: Listener) -> ssl.SSLContext:
    """The context that all connections of a TLS listener share; UserMistake if the certificate cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[listener.client_auth]
    certificate, key, trusted = listener.certificate, listener.private_key, listener.client_ca
    # Without a password OpenSSL would ask for one at the terminal.
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

    If a call would have to wait, it raises BlockingIOError, like a plain socket. A write that raised it must be
    repeated with the same bytes in front: the queue of what is to be sent does so.
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
        """How many decrypted bytes wait in memory; no selector reports those."""
        return self._socket.pending()

    def recv_into(self, buffer: memoryview) -> int:
        """As a plain socket's; if the buffer is not filled, no decrypted bytes are left (a selector reports others)."""
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
        """Send the first of the pieces' bytes; return how many were sent."""
        content = pieces[0]
        if len(content) < _PIECE_BYTES and len(pieces) > 1:
            content = b"".join(pieces)
        return self._send(memoryview(content)[:_PIECE_BYTES])

    def send_file(self, fd: int, position: int, size: int) -> int:
        """Send from a file; return how many bytes were sent, 0 if the file has become too short."""
        content = os.pread(fd, min(size, _PIECE_BYTES), position)
        return self._send(content) if content else 0

    def close(self) -> None:
        """Send TLS's close_notify, if the socket takes it at once, and close."""
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
            # By the base class: SSLSocket's recv does not allow flags.
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
        """Send a TLS alert to a client without TLS. Read its input first: else closing would reset the connection."""
        with contextlib.suppress(OSError):
            while socket.socket.recv(self._socket, _PIECE_BYTES):
                pass
        with contextlib.suppress(OSError):
            socket.socket.send(self._socket, _ALERT)
