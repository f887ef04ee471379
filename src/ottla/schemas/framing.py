"""How a record names the schema of its key or value: the wire format of the Confluent Schema Registry.

Either a magic byte 0 and the schema's id (four bytes, big-endian) are in front of the payload. Or a record header
(`__key_schema_id` or `__value_schema_id`) has a magic byte 1 and the 16 bytes of the schema's GUID, and the payload has
no prefix. After either of them, Protobuf names the message by its indexes: a count and so many numbers, as zigzag
varints. The single byte 0 means the indexes (0,), the first message of the file.

Both forms are read in both places, as Confluent's own clients do.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from ottla.errors import UserMistake

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
# The length of the prefix with a schema id, for Avro and JSON.
PREFIX_BYTES: Final = 5

_MAGIC_ID: Final = 0
_MAGIC_GUID: Final = 1
_GUID_BYTES: Final = 16
ID_MAX: Final = (1 << 31) - 1
# A file of Protobuf nests messages far less deep.
_INDEXES_MAX: Final = 1000
_INDEX_MAX: Final = (1 << 31) - 1


class FramingError(UserMistake, ValueError):
    """Bytes that do not name a schema as the wire format says, or numbers that it cannot hold."""


class Frame(NamedTuple):
    """What was read: the schema's id or GUID (the other is None), the message's indexes, and the payload's position."""

    schema_id: int | None
    guid: UUID | None
    message_indexes: tuple[int, ...]
    payload_at: int


def id_prefix(schema_id: int, message_indexes: tuple[int, ...] | None = None) -> bytes:
    """The prefix of a payload; `message_indexes` is for Protobuf alone."""
    if not 0 <= schema_id <= ID_MAX:
        raise FramingError(f"A schema's id is a number from 0 to {ID_MAX}, not {schema_id}.")
    return bytes([_MAGIC_ID]) + schema_id.to_bytes(4, "big") + _indexes(message_indexes)


def guid_header(guid: UUID, message_indexes: tuple[int, ...] | None = None) -> bytes:
    """The value of the header; `message_indexes` is for Protobuf alone."""
    return bytes([_MAGIC_GUID]) + guid.bytes + _indexes(message_indexes)


def read_frame(framed: bytes, *, has_indexes: bool = False) -> Frame:
    """Read a prefix of `id_prefix` or a value of `guid_header` at the beginning of `framed`; FramingError."""
    if not framed:
        raise FramingError("The bytes that would name the schema are missing: there are 0 bytes.")
    if framed[0] == _MAGIC_ID:
        end = PREFIX_BYTES
    elif framed[0] == _MAGIC_GUID:
        end = 1 + _GUID_BYTES
    else:
        raise FramingError(
            f"The magic byte is {framed[0]}; it is 0 before a schema's id, and 1 before a GUID. "
            "Perhaps the record was written without a schema registry."
        )
    if len(framed) < end:
        raise FramingError(f"There are {len(framed)} bytes; the schema's id or GUID alone needs {end}.")
    schema_id = int.from_bytes(framed[1:end], "big") if framed[0] == _MAGIC_ID else None
    guid = UUID(bytes=bytes(framed[1:end])) if framed[0] == _MAGIC_GUID else None
    indexes: tuple[int, ...] = ()
    if has_indexes:
        indexes, end = _read_indexes(framed, end)
    return Frame(schema_id, guid, indexes, end)


def _indexes(message_indexes: tuple[int, ...] | None) -> bytes:
    if message_indexes is None:
        return b""
    if not message_indexes or any(not 0 <= index <= _INDEX_MAX for index in message_indexes):
        raise FramingError(f"Message indexes are one or more numbers from 0 on, not {message_indexes}.")
    if message_indexes == (0,):
        return b"\0"
    return b"".join(_varint(number) for number in (len(message_indexes), *message_indexes))


def _varint(number: int) -> bytes:
    """A number from 0 on as a zigzag varint."""
    left = number << 1
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)


def _read_indexes(framed: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The indexes, and where they end."""
    count, at = _read_varint(framed, at)
    if count == 0:
        return (0,), at
    # Each index takes one byte at least.
    if not 0 < count <= min(_INDEXES_MAX, len(framed) - at):
        raise FramingError(f"There cannot be {count} message indexes in the {len(framed) - at} bytes that are left.")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(framed, at)
        if not 0 <= index <= _INDEX_MAX:
            raise FramingError(f"A message index is a number from 0 to {_INDEX_MAX}, not {index}.")
        indexes.append(index)
    return tuple(indexes), at


def _read_varint(framed: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(framed):
            raise FramingError("The bytes end inside the message indexes.")
        byte = framed[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise FramingError("A message index is longer than ten bytes.")
