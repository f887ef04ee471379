"""The serializers that can be chosen by name: they write what Java's own Serializers write, and JSON.

Each takes one object, never None, and returns bytes, or text that is sent as UTF-8; TypeError, ValueError or
struct.error for what it cannot take. Numbers are big-endian, as Java's Serializers write them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_JAVA = "org.apache.kafka.common.serialization."


def data(given: Any) -> bytes:
    """Bytes-like objects as they are."""
    if isinstance(given, str):
        raise TypeError("it takes bytes; take 'string' for text")
    return bytes(memoryview(given))


def string(given: Any) -> str:
    """Text as it is; TypeError for a number."""
    if not isinstance(given, str):
        raise TypeError("it takes str")
    return given


def json(given: Any) -> str:
    """Compact JSON; ValueError for NaN and infinities, which JSON does not have."""
    import json  # imported only if it is used

    return json.dumps(given, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def uuid(given: Any) -> str:
    """A UUID's text."""
    from uuid import UUID

    if not isinstance(given, UUID):
        raise TypeError("it takes uuid.UUID")
    return str(given)


def boolean(given: Any) -> bytes:
    """One byte, 0 or 1."""
    if not isinstance(given, bool):
        raise TypeError("it takes bool")
    return b"\1" if given else b"\0"


def short(given: Any) -> bytes:
    """Two bytes."""
    return struct.pack(">h", given)


def integer(given: Any) -> bytes:
    """Four bytes."""
    return struct.pack(">i", given)


def long(given: Any) -> bytes:
    """Eight bytes."""
    return struct.pack(">q", given)


def single(given: Any) -> bytes:
    """Four bytes, IEEE 754."""
    return struct.pack(">f", given)


def double(given: Any) -> bytes:
    """Eight bytes, IEEE 754."""
    return struct.pack(">d", given)


SERIALIZERS: Final[Mapping[str, Callable[[Any], bytes | str]]] = {
    "bytes": data,
    "string": string,
    "json": json,
    "uuid": uuid,
    "boolean": boolean,
    "short": short,
    "integer": integer,
    "long": long,
    "float": single,
    "double": double,
    f"{_JAVA}ByteArraySerializer": data,
    f"{_JAVA}BytesSerializer": data,
    f"{_JAVA}ByteBufferSerializer": data,
    f"{_JAVA}StringSerializer": string,
    f"{_JAVA}UUIDSerializer": uuid,
    f"{_JAVA}BooleanSerializer": boolean,
    f"{_JAVA}ShortSerializer": short,
    f"{_JAVA}IntegerSerializer": integer,
    f"{_JAVA}LongSerializer": long,
    f"{_JAVA}FloatSerializer": single,
    f"{_JAVA}DoubleSerializer": double,
}
