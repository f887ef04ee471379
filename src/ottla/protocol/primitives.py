"""Kafka's primitive types on bytes: a checking `Decoder` and a scatter/gather `Encoder`.

The generated messages use both. The decoder never copies `bytes` and `records`: they are views of the frame. It raises
`MalformedMessage` if a read goes beyond the bytes that are left, and checks an array's count against them before
anything is allocated. The encoder collects small fields in one bytearray and passes records on by reference. Formats:
https://kafka.apache.org/protocol#protocol_types, flexible versions by KIP-482.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error, pack, unpack_from
from typing import Any

from ottla.protocol.errors import InvalidValue, MalformedMessage

Buffer = bytes | bytearray | memoryview

STRING_BYTES_MAX = 0x7FFF
_I8 = Struct(">b")
_I16 = Struct(">h")
_U16 = Struct(">H")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I64 = Struct(">q")
_F64 = Struct(">d")
_NO_TAGS: tuple[tuple[int, Decoder], ...] = ()


class Decoder:
    """Reads primitive values one after the other; `position` is where the next one begins."""

    __slots__ = ("buffer", "end", "position")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = memoryview(buffer)
        self.position = 0
        self.end = len(self.buffer)

    def finish(self) -> None:
        """Raise MalformedMessage if bytes are left."""
        if self.position != self.end:
            raise MalformedMessage(f"{self.end - self.position:,} bytes too many after byte {self.position:,}")

    def fixed(self, layout: Struct) -> tuple[Any, ...]:
        """Several fixed-size values at once."""
        position = self.position
        try:
            values = layout.unpack_from(self.buffer, position)
        except error:
            raise self._cut_short(layout.size) from None
        self.position = position + layout.size
        return values

    def int8(self) -> int:
        value: int = self.fixed(_I8)[0]
        return value

    def int16(self) -> int:
        value: int = self.fixed(_I16)[0]
        return value

    def uint16(self) -> int:
        value: int = self.fixed(_U16)[0]
        return value

    def int32(self) -> int:
        value: int = self.fixed(_I32)[0]
        return value

    def uint32(self) -> int:
        value: int = self.fixed(_U32)[0]
        return value

    def int64(self) -> int:
        value: int = self.fixed(_I64)[0]
        return value

    def float64(self) -> float:
        value: float = self.fixed(_F64)[0]
        return value

    def boolean(self) -> bool:
        return self.int8() != 0

    def uvarint(self) -> int:
        """An unsigned varint of up to 32 bits."""
        try:
            value = self.buffer[self.position]
        except IndexError:
            raise self._cut_short(1) from None
        if value < 0x80:
            self.position += 1
            return value
        return self._long_uvarint(32)

    def varint(self) -> int:
        """A zigzag varint of up to 32 bits."""
        value = self._long_uvarint(32)
        return (value >> 1) ^ -(value & 1)

    def varlong(self) -> int:
        """A zigzag varint of up to 64 bits."""
        value = self._long_uvarint(64)
        return (value >> 1) ^ -(value & 1)

    def uuid(self) -> bytes:
        """16 bytes."""
        return bytes(self._take(16))

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise self._unexpected_null("string")
        return self._text(length)

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        return self._text(length)

    def compact_string(self) -> str:
        length = self.uvarint()
        if not length:
            raise self._unexpected_null("string")
        return self._text(length - 1)

    def nullable_compact_string(self) -> str | None:
        length = self.uvarint()
        if not length:
            return None
        return self._text(length - 1)

    def byte_string(self) -> memoryview:
        """A view of the buffer."""
        length = self.int32()
        if length < 0:
            raise self._unexpected_null("bytes")
        return self._take(length)

    def nullable_byte_string(self) -> memoryview | None:
        """A view of the buffer."""
        length = self.int32()
        if length == -1:
            return None
        return self._take(length)

    def compact_byte_string(self) -> memoryview:
        """A view of the buffer."""
        length = self.uvarint()
        if not length:
            raise self._unexpected_null("bytes")
        return self._take(length - 1)

    def nullable_compact_byte_string(self) -> memoryview | None:
        """A view of the buffer."""
        length = self.uvarint()
        if not length:
            return None
        return self._take(length - 1)

    def count(self, element_bytes_min: int) -> int:
        """The length of an array whose elements take at least `element_bytes_min` bytes each."""
        count = self.int32()
        if count < 0:
            raise self._unexpected_null("array")
        return self._checked_count(count, element_bytes_min)

    def nullable_count(self, element_bytes_min: int) -> int:
        """Like `count`; -1 for a null array."""
        count = self.int32()
        if count == -1:
            return -1
        return self._checked_count(count, element_bytes_min)

    def compact_count(self, element_bytes_min: int) -> int:
        """Like `count`, in a flexible version."""
        count = self.uvarint()
        if not count:
            raise self._unexpected_null("array")
        return self._checked_count(count - 1, element_bytes_min)

    def nullable_compact_count(self, element_bytes_min: int) -> int:
        """Like `nullable_count`, in a flexible version."""
        count = self.uvarint()
        if not count:
            return -1
        return self._checked_count(count - 1, element_bytes_min)

    def numbers(self, count: int, code: str, size: int) -> list[Any]:
        """`count` numbers of `size` bytes each; `code` as in struct."""
        position = self.position
        try:
            values = unpack_from(f">{count}{code}", self.buffer, position)
        except error:
            raise self._cut_short(count * size) from None
        self.position = position + count * size
        return list(values)

    def skip_tags(self) -> None:
        """Pass over a tagged-field section of unknown fields."""
        try:
            if not self.buffer[self.position]:
                self.position += 1
                return
        except IndexError:
            raise self._cut_short(1) from None
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())

    def tagged_fields(self) -> Iterable[tuple[int, Decoder]]:
        """(tag, decoder of its bytes) for each field of a tagged-field section."""
        count = self.uvarint()
        if not count:
            return _NO_TAGS
        fields = []
        for _ in range(count):
            tag = self.uvarint()
            fields.append((tag, Decoder(self._take(self.uvarint()))))
        return fields

    def has_struct(self) -> bool:
        """Whether a nullable struct follows (KIP-893)."""
        presence = self.int8()
        if presence not in (-1, 1):
            raise MalformedMessage(f"a struct begins with {presence} before byte {self.position:,}; -1 or 1 is allowed")
        return presence == 1

    def _take(self, length: int) -> memoryview:
        position = self.position
        end = position + length
        if length < 0 or end > self.end:
            raise self._cut_short(length)
        self.position = end
        return self.buffer[position:end]

    def _text(self, length: int) -> str:
        position = self.position
        end = position + length
        if length < 0 or end > self.end:
            raise self._cut_short(length)
        self.position = end
        try:
            return str(self.buffer[position:end], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage(f"a string at byte {position:,} that is not UTF-8") from None

    def _checked_count(self, count: int, element_bytes_min: int) -> int:
        if count < 0 or count * element_bytes_min > self.end - self.position:
            raise MalformedMessage(
                f"an array of {count:,} elements before byte {self.position:,}, "
                f"where {self.end - self.position:,} bytes are left"
            )
        return count

    def _long_uvarint(self, bits: int) -> int:
        value = 0
        position = self.position
        for shift in range(0, bits, 7):
            if position >= self.end:
                raise self._cut_short(1)
            byte = self.buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                self.position = position
                return value
        raise MalformedMessage(f"a varint of more than {bits} bits at byte {self.position:,}")

    def _cut_short(self, wanted: int) -> MalformedMessage:
        if wanted < 0:
            return MalformedMessage(f"a negative length ({wanted:,}) before byte {self.position:,}")
        return MalformedMessage(
            f"{wanted:,} bytes wanted at byte {self.position:,}, where {self.end - self.position:,} are left"
        )

    def _unexpected_null(self, kind: str) -> MalformedMessage:
        return MalformedMessage(f"a null {kind} before byte {self.position:,}, where none is allowed")


class Encoder:
    """Collects a message as chunks; generated code appends small fields to `out` directly."""

    __slots__ = ("_chunks", "_chunks_bytes", "out")

    def __init__(self, head: Buffer = b"") -> None:
        self.out = bytearray(head)
        self._chunks: list[Any] = []
        self._chunks_bytes = 0

    @property
    def size(self) -> int:
        """Bytes of all chunks together."""
        return self._chunks_bytes + len(self.out)

    def chunks(self) -> list[Any]:
        """What was written: bytes-likes, and the `FileSlice`s among the records; to be called once, at the end.

        The first chunk is a bytearray if anything was written before the first records.
        """
        if self.out:
            self._chunks.append(self.out)
        return self._chunks

    def uvarint(self, value: int) -> None:
        out = self.out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def varint(self, value: int) -> None:
        """A zigzag varint of up to 32 bits."""
        self.uvarint((value << 1) ^ (value >> 31))

    def varlong(self, value: int) -> None:
        """A zigzag varint of up to 64 bits."""
        self.uvarint((value << 1) ^ (value >> 63))

    def uuid(self, value: Buffer) -> None:
        """16 bytes."""
        if len(value) != 16:
            raise InvalidValue(f"a UUID has 16 bytes, not {len(value):,}")
        self.out += value

    def string(self, value: str | None) -> None:
        data = _utf8(value)
        self.out += _I16.pack(len(data))
        self.out += data

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.out += b"\xff\xff"
        else:
            self.string(value)

    def compact_string(self, value: str | None) -> None:
        data = _utf8(value)
        length = len(data) + 1
        if length < 0x80:
            self.out.append(length)
        else:
            self.uvarint(length)
        self.out += data

    def nullable_compact_string(self, value: str | None) -> None:
        if value is None:
            self.out.append(0)
        else:
            self.compact_string(value)

    def byte_string(self, value: Buffer | None) -> None:
        """Small byte strings; they are copied."""
        data = _byte_string(value)
        self.out += _I32.pack(len(data))
        self.out += data

    def nullable_byte_string(self, value: Buffer | None) -> None:
        if value is None:
            self.out += b"\xff\xff\xff\xff"
        else:
            self.byte_string(value)

    def compact_byte_string(self, value: Buffer | None) -> None:
        data = _byte_string(value)
        self.uvarint(len(data) + 1)
        self.out += data

    def nullable_compact_byte_string(self, value: Buffer | None) -> None:
        if value is None:
            self.out.append(0)
        else:
            self.compact_byte_string(value)

    def records(self, value: Any) -> None:
        """None, a bytes-like, something with a `size` (a `FileSlice`), or a list of those; never copied."""
        if value is None:
            self.out += b"\xff\xff\xff\xff"
            return
        parts, size = _gather(value)
        self.out += _I32.pack(size)
        self._pass_on(parts, size)

    def compact_records(self, value: Any) -> None:
        """Like `records`, in a flexible version."""
        if value is None:
            self.out.append(0)
            return
        parts, size = _gather(value)
        self.uvarint(size + 1)
        self._pass_on(parts, size)

    def count(self, values: list[Any] | None) -> None:
        """The length of an array."""
        self.out += _I32.pack(_array_length(values))

    def nullable_count(self, values: list[Any] | None) -> None:
        self.out += _I32.pack(-1 if values is None else _array_length(values))

    def compact_count(self, values: list[Any] | None) -> None:
        length = _array_length(values) + 1
        if length < 0x80:
            self.out.append(length)
        else:
            self.uvarint(length)

    def nullable_compact_count(self, values: list[Any] | None) -> None:
        self.uvarint(0 if values is None else _array_length(values) + 1)

    def numbers(self, values: list[Any], code: str) -> None:
        """The elements of an array of numbers; `code` as in struct."""
        self.out += pack(f">{len(values)}{code}", *values)

    def tagged_fields(self, fields: list[tuple[int, Encoder]]) -> None:
        """A tagged-field section of (tag, what was written for it), in ascending order of tags."""
        self.uvarint(len(fields))
        for tag, field in fields:
            self.uvarint(tag)
            self.uvarint(len(field.out))
            self.out += field.out

    def _pass_on(self, parts: list[Any], size: int) -> None:
        # `out` must stay the same object: generated code keeps a reference. Its few dozen bytes are copied.
        self._chunks_bytes += len(self.out) + size
        self._chunks.append(self.out[:])
        self._chunks += parts
        self.out.clear()


def _gather(value: Any) -> tuple[list[Any], int]:
    """The non-empty parts of a records field and their size in bytes."""
    if type(value) is list and len(value) == 1 and type(value[0]) is bytearray and value[0]:
        # One batch of a producer: the most common case.
        return value, len(value[0])
    if isinstance(value, list | tuple):
        sizes = [_part_size(part) for part in value]
        return [part for part, size in zip(value, sizes, strict=True) if size], sum(sizes)
    size = _part_size(value)
    return ([value] if size else []), size


def _part_size(part: Any) -> int:
    if type(part) is bytes or type(part) is bytearray:
        return len(part)
    size = getattr(part, "size", None)
    if size is not None:
        return int(size)
    try:
        return memoryview(part).nbytes
    except TypeError:
        raise InvalidValue(
            f"records must be bytes-like, have a size, or be a list of such, not {type(part).__name__}"
        ) from None


def _utf8(value: str | None) -> bytes:
    try:
        data = value.encode()  # type: ignore[union-attr]
    except AttributeError:
        raise InvalidValue(f"a string is wanted, not {type(value).__name__}") from None
    except UnicodeEncodeError as cause:
        raise InvalidValue(f"{value!r} cannot be written as UTF-8: {cause.reason}") from None
    if len(data) > STRING_BYTES_MAX:
        raise InvalidValue(f"a string of {len(data):,} bytes; the protocol allows {STRING_BYTES_MAX:,}")
    return data


def _byte_string(value: Buffer | None) -> Buffer:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidValue(f"bytes are wanted, not {type(value).__name__}")
    return value


def _array_length(values: list[Any] | None) -> int:
    try:
        return len(values)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidValue(f"a list is wanted, not {type(values).__name__}") from None
