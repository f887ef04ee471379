"""Recognising what answers where a Kafka broker was expected.

A Kafka frame begins with its length in four bytes; a server of another protocol begins with text or with a TLS
record, which read as a length beyond every limit. Those four bytes say who it was.
"""

from __future__ import annotations

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

NOT_KAFKA = "answered with something that is not the Kafka protocol"


def stranger(first_bytes: bytes) -> str:
    """A clause for the reason of a `Disconnected`: what these first four bytes of an answer look like."""
    for beginning, name in _BEGINNINGS:
        if first_bytes.startswith(beginning):
            return f"{NOT_KAFKA}: it looks like {name}"
    return NOT_KAFKA
