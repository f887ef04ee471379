"""The deserializers that can be chosen by name: they read what Java's own Serializers write, and JSON.

Each takes bytes, never None, and returns one object; ValueError for bytes of another form. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_JAVA = "org.apache.kafka.common.serialization."


def data(stored: bytes) -> bytes:
    """Bytes as they are."""
    return stored


def string(stored: bytes) -> str:
    """UTF-8."""
    return stored.decode()


def json(stored: bytes) -> Any:
    """The value of a JSON text."""
    import json  # imported only if it is used

    return json.loads(stored)


def uuid(stored: bytes) -> Any:
    """A `uuid.UUID`, from its text."""
    from uuid import UUID

    return UUID(stored.decode())


def boolean(stored: bytes) -> bool:
    """One byte, 0 or 1."""
    if stored not in (b"\0", b"\1"):
        raise ValueError(f"a boolean is one byte, 0 or 1, not {stored[:10]!r}")
    return stored == b"\1"


def _number(form: str, what: str) -> Callable[[bytes], Any]:
    packed = struct.Struct(form)

    def read(stored: bytes) -> Any:
        if len(stored) != packed.size:
            raise ValueError(f"{what} has {packed.size} bytes, not {len(stored)}")
        return packed.unpack(stored)[0]

    return read


short = _number(">h", "a short")
integer = _number(">i", "an integer")
long = _number(">q", "a long")
single = _number(">f", "a float")
double = _number(">d", "a double")

DESERIALIZERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
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
    f"{_JAVA}ByteArrayDeserializer": data,
    f"{_JAVA}BytesDeserializer": data,
    f"{_JAVA}ByteBufferDeserializer": data,
    f"{_JAVA}StringDeserializer": string,
    f"{_JAVA}UUIDDeserializer": uuid,
    f"{_JAVA}BooleanDeserializer": boolean,
    f"{_JAVA}ShortDeserializer": short,
    f"{_JAVA}IntegerDeserializer": integer,
    f"{_JAVA}LongDeserializer": long,
    f"{_JAVA}FloatDeserializer": single,
    f"{_JAVA}DoubleDeserializer": double,
}
