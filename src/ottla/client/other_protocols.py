"""Recognising a server of another protocol where a Kafka broker was expected.

A Kafka frame begins with its length in four bytes. A server of another protocol begins with text or with a TLS record:
read as a length, that is beyond the limit, and those four bytes show which protocol it is.
"""

from __future__ import annotations

from ottla.connection.loss import Loss, not_kafka

_BEGINNINGS = (
    (b"HTTP", "an HTTP server"),
    (b"SSH-", "an SSH server"),
    (b"\x15\x03", "a TLS listener (this client speaks plaintext: set security.protocol to SSL or SASL_SSL)"),
    (b"\x16\x03", "a TLS listener (this client speaks plaintext: set security.protocol to SSL or SASL_SSL)"),
    (b"220", "a mail or FTP server"),
    (b"-ERR", "a Redis server"),
    (b"+OK", "a POP3 server"),
    (b"RFB ", "a VNC server"),
)


def other_protocol(first_bytes: bytes) -> Loss:
    """The loss for an answer that begins with these four bytes."""
    for beginning, name in _BEGINNINGS:
        if first_bytes.startswith(beginning):
            return not_kafka(f": it looks like {name}")
    return not_kafka()
