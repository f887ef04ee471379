"""Asks a listener that closed a connection which protocol it has: so a wrong `security.protocol` is an error at once.

A listener without TLS closes the connection when a TLS handshake begins, and one with SASL at a request before
authentication. Both look like a broker that is stopping or starting, where waiting helps. A SaslHandshake with an empty
mechanism shows the difference: a listener without SASL answers ILLEGAL_SASL_STATE, one with SASL lists its mechanisms.
A short-lived thread sends it on a connection of its own. The request may go unencrypted although the client is set to
TLS, so it has neither the client's id nor a secret.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.client.resolve import Address
from ottla.connection.loss import Loss, sasl_failed, tls_failed
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import ssl

_PATIENCE_S = 2.0
# Its answer lists a few names.
_ANSWER_BYTES_MAX = 65_536
_CORRELATION_ID = 1


def ask_in_plaintext(address: Address, told: Callable[[Loss | None], None]) -> None:
    """Call `told` on another thread with why TLS fails at this address; with None where that stays unknown."""
    _aside(told, lambda: _why_not_tls(_ask(address, None, "")))


def ask_for_sasl(address: Address, tls: ssl.SSLContext | None, host: str, told: Callable[[Loss | None], None]) -> None:
    """The same for a client without SASL whose connection was closed."""
    _aside(told, lambda: _why_not_without_sasl(_ask(address, tls, host), tls is not None))


def _aside(told: Callable[[Loss | None], None], find_out: Callable[[], Loss | None]) -> None:
    def run() -> None:
        try:
            loss = find_out()
        except (OSError, ValueError, ProtocolError):
            loss = None
        told(loss)

    try:
        threading.Thread(target=run, name="ottla-listener-probe", daemon=True).start()
    except RuntimeError:
        # The process has as many threads as it may have: the cause stays unknown.
        told(None)


def _why_not_tls(answer: Any) -> Loss | None:
    if answer is None:
        return None
    wanted = _sasl_of(answer, "SASL_PLAINTEXT") or "PLAINTEXT"
    return tls_failed(f": this listener speaks no TLS; set security.protocol to {wanted}")


def _why_not_without_sasl(answer: Any, is_tls: bool) -> Loss | None:
    wanted = _sasl_of(answer, "SASL_SSL" if is_tls else "SASL_PLAINTEXT")
    if not wanted:
        return None
    return sasl_failed(f"this listener requires authentication; set security.protocol to {wanted}")


def _sasl_of(answer: Any, protocol: str) -> str:
    if answer is None or answer.error_code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return ""
    offered = ", ".join(answer.mechanisms)
    return f"{protocol} and sasl.mechanism to one of {offered}" if offered else protocol


def _ask(address: Address, tls: ssl.SSLContext | None, host: str) -> Any:
    """The answer to a SaslHandshake; None where it is not one of Kafka."""
    family, place = address
    with socket.socket(family, socket.SOCK_STREAM) as plain:
        plain.settimeout(_PATIENCE_S)
        plain.connect(place)
        sock = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        with sock:
            chunks = encode_request(_CORRELATION_ID, None, SaslHandshakeRequest(mechanism=""), 1)
            sock.sendall(b"".join(bytes(chunk) for chunk in chunks))
            with sock.makefile("rb") as stream:
                size = int.from_bytes(stream.read(4), "big")
                if not 4 < size < _ANSWER_BYTES_MAX:
                    return None
                frame = stream.read(size)
    correlation_id, answer = decode_response(memoryview(frame), SaslHandshakeRequest, 1)
    return answer if correlation_id == _CORRELATION_ID else None
