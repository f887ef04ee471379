"""Random ids as Kafka makes and writes them: of topics, of clusters, of folders."""

from __future__ import annotations

from binascii import b2a_base64
from random import Random

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def random_uuid(rng: Random) -> bytes:
    """A random (version 4) uuid, 16 bytes."""
    raw = bytearray(rng.getrandbits(128).to_bytes(16, "big"))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def uuid_text(uuid: bytes) -> str:
    """A uuid as Kafka writes it, 22 characters: URL-safe base64 without padding."""
    return b2a_base64(uuid, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()
