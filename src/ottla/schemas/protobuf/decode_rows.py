"""One Protobuf message -> the next row of each column, without the interpreter's lock (compiled).

`read_message` reads the bytes and keeps in each part the value so far: fields may come in any order and more than once.
The last value counts; messages are merged, lists continued, and a member of a oneof replaces another one. Items of
lists and entries of maps are appended at once. `append_row` then appends the row to all other columns.

An unknown field is skipped, and so is a field of another wire type, as in Protobuf's runtimes. A number without a name
in a closed enum counts as an unknown field.

Invariants
- A part that was not seen has no values in its children, so it need not be cleared.
- A part is one place in the message, because no type contains itself: a row has at most one value under way in it.
- Memory grows no further than `bytes_left` allows, also if a few bytes make a row of many columns.

The file is long because its functions call each other for every field: only within a module Cython makes them C calls.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import qsort
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.ottla.records.arrow_layout import reserve
from cython.cimports.ottla.schemas.numbers import put_digits
from cython.cimports.ottla.schemas.protobuf.parts import (
    AS_BOOL,
    AS_BYTES,
    AS_DURATION,
    AS_ENUM,
    AS_FIXED32,
    AS_FIXED64,
    AS_GROUP,
    AS_LIST,
    AS_MAP,
    AS_MESSAGE,
    AS_STRING,
    AS_TIMESTAMP,
    AS_VARINT32,
    AS_WRAPPER,
    AS_ZIGZAG32,
    AS_ZIGZAG64,
    BAD_TAG,
    BAD_TIME,
    CUT_SHORT,
    IN_4,
    IN_8,
    IN_BITS,
    IN_TEXT,
    MISSING,
    NO_MEMORY,
    NOT_UTF8,
    ODD_PACKED,
    OPEN_GROUP,
    STRAY_GROUP_END,
    TIME_TOO_FAR,
    TOO_DEEP,
    TOO_MUCH,
    VARINT_TOO_LONG,
    Kind,
    Part,
    Reading,
    Slice,
    Status,
)
from cython.cimports.ottla.schemas.protobuf.wire import (
    WIRE_32,
    WIRE_64,
    WIRE_BYTES,
    WIRE_GROUP,
    WIRE_GROUP_END,
    WIRE_VARINT,
    get_varint,
    is_utf8,
)

_DEEPEST = cython.declare(cython.int, 100)
_OFFSET_MAX = cython.declare(int64_t, 0x7FFFFFFF)
_SECONDS_MAX = cython.declare(int64_t, 253402300799)
_SECONDS_MIN = cython.declare(int64_t, -62135596800)
_DURATION_MAX = cython.declare(int64_t, 315576000000)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_message(
    reading: cython.pointer(Reading), root: cython.pointer(Part), data: cython.p_const_char, size: int64_t
) -> cython.bint:
    """Read a whole message into the parts; False if it has an error."""
    root.seen = True
    return _read(reading, root, data, data + size, 0, 0) != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fail(reading: cython.pointer(Reading), part: cython.pointer(Part), status: Status) -> cython.p_const_char:
    reading.status = status
    reading.part = part
    return cython.NULL


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
    value: cython.pointer(uint64_t),
) -> cython.p_const_char:
    at = get_varint(at, end, value)
    if at == cython.NULL:
        return _fail(reading, part, CUT_SHORT)
    if at > end:
        return _fail(reading, part, VARINT_TOO_LONG)
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _tag(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
    tag: cython.pointer(uint64_t),
) -> cython.p_const_char:
    begin: cython.p_const_char = at
    at = _number(reading, part, at, end, tag)
    if at != cython.NULL and (at - begin > 5 or tag[0] >> 32 or tag[0] < 8):
        return _fail(reading, part, BAD_TAG)
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _child(message: cython.pointer(Part), number: int64_t) -> cython.pointer(Part):
    low: cython.int = 0
    high: cython.int
    middle: cython.int
    if number < message.dense_count:
        low = message.dense[number]
        return cython.address(message.children[low]) if low >= 0 else cython.NULL
    if message.sorted == cython.NULL:
        return cython.NULL
    high = message.child_count
    while low < high:
        middle = (low + high) >> 1
        if message.children[message.sorted[middle]].number < number:
            low = middle + 1
        else:
            high = middle
    if low < message.child_count and message.children[message.sorted[low]].number == number:
        return cython.address(message.children[message.sorted[low]])
    return cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read(
    reading: cython.pointer(Reading),
    message: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
    group: int64_t,
    depth: cython.int,
) -> cython.p_const_char:
    """Read fields until `end`, or until the end of the group of this number; return the position, or NULL."""
    tag: uint64_t = 0
    wire: cython.int
    child: cython.pointer(Part)
    if depth > _DEEPEST:
        return _fail(reading, message, TOO_DEEP)
    while at < end:
        at = _tag(reading, message, at, end, cython.address(tag))
        if at == cython.NULL:
            return at
        wire = cython.cast(cython.int, tag & 7)
        if wire == WIRE_GROUP_END:
            if group != cython.cast(int64_t, tag >> 3):
                return _fail(reading, message, STRAY_GROUP_END)
            return at
        child = _child(message, tag >> 3)
        if child == cython.NULL:
            at = _skip(reading, message, tag, at, end, depth)
        elif child.kind < AS_TIMESTAMP and child.wire == wire and child.oneof < 0:
            # Most fields.
            at = _scalar(reading, child, child.kind, at, end)
        else:
            at = _take(reading, message, child, tag, at, end, depth)
        if at == cython.NULL:
            return at
    if group:
        return _fail(reading, message, OPEN_GROUP)
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    tag: uint64_t,
    at: cython.p_const_char,
    end: cython.p_const_char,
    depth: cython.int,
) -> cython.p_const_char:
    """Skip a field."""
    size: uint64_t = 0
    wire: cython.int = cython.cast(cython.int, tag & 7)
    if wire == WIRE_VARINT:
        return _number(reading, part, at, end, cython.address(size))
    if wire == WIRE_BYTES:
        at = _number(reading, part, at, end, cython.address(size))
        if at == cython.NULL:
            return at
    elif wire == WIRE_64:
        size = 8
    elif wire == WIRE_32:
        size = 4
    elif wire == WIRE_GROUP:
        if depth >= _DEEPEST:
            return _fail(reading, part, TOO_DEEP)
        while at < end:
            at = _tag(reading, part, at, end, cython.address(size))
            if at == cython.NULL:
                return at
            if (size & 7) == WIRE_GROUP_END:
                return at if size >> 3 == tag >> 3 else _fail(reading, part, STRAY_GROUP_END)
            at = _skip(reading, part, size, at, end, depth + 1)
            if at == cython.NULL:
                return at
        return _fail(reading, part, OPEN_GROUP)
    else:
        return _fail(reading, part, BAD_TAG)
    if size > cython.cast(uint64_t, end - at):
        return _fail(reading, part, CUT_SHORT)
    return at + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take(
    reading: cython.pointer(Reading),
    message: cython.pointer(Part),
    part: cython.pointer(Part),
    tag: uint64_t,
    at: cython.p_const_char,
    end: cython.p_const_char,
    depth: cython.int,
) -> cython.p_const_char:
    """Read a known field."""
    wire: cython.int = cython.cast(cython.int, tag & 7)
    item: cython.pointer(Part)
    other: cython.pointer(Part)
    if part.kind == AS_LIST:
        item = part.children
        if wire == item.wire:
            part.seen = True
            at = _value(reading, item, tag >> 3, at, end, depth)
            if at != cython.NULL and item.seen and not append_row(reading, item):
                return cython.NULL
            return at
        if wire == WIRE_BYTES and item.packable:
            part.seen = True
            return _packed(reading, item, at, end)
        return _skip(reading, part, tag, at, end, depth)
    if wire != part.wire:
        return _skip(reading, part, tag, at, end, depth)
    if part.kind == AS_MAP:
        part.seen = True
        return _entry(reading, part, at, end, depth)
    at = _value(reading, part, tag >> 3, at, end, depth)
    if at != cython.NULL and part.oneof >= 0 and part.seen:
        other = message.chosen[part.oneof]
        if other != cython.NULL and other != part:
            forget(other)
        message.chosen[part.oneof] = part
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _value(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    number: int64_t,
    at: cython.p_const_char,
    end: cython.p_const_char,
    depth: cython.int,
) -> cython.p_const_char:
    """Read a single value; an unknown number of a closed enum does not change the part."""
    size: uint64_t = 0
    if part.kind == AS_GROUP:
        part.seen = True
        return _read(reading, part, at, end, number, depth + 1)
    if part.kind < AS_TIMESTAMP:
        return _scalar(reading, part, part.kind, at, end)
    at = _number(reading, part, at, end, cython.address(size))
    if at == cython.NULL:
        return at
    if size > cython.cast(uint64_t, end - at):
        return _fail(reading, part, CUT_SHORT)
    if part.kind == AS_MESSAGE:
        part.seen = True
        return _read(reading, part, at, at + size, 0, depth + 1)
    return _small(reading, part, at, at + size, depth + 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _scalar(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    kind: Kind,
    at: cython.p_const_char,
    end: cython.p_const_char,
) -> cython.p_const_char:
    bits: uint64_t = 0
    narrow: uint32_t = 0
    if kind == AS_FIXED64:
        if end - at < 8:
            return _fail(reading, part, CUT_SHORT)
        memcpy(cython.address(part.bits), at, 8)
        part.seen = True
        return at + 8
    if kind == AS_FIXED32:
        if end - at < 4:
            return _fail(reading, part, CUT_SHORT)
        memcpy(cython.address(narrow), at, 4)
        part.bits = narrow
        part.seen = True
        return at + 4
    at = _number(reading, part, at, end, cython.address(bits))
    if at == cython.NULL:
        return at
    if kind in (AS_STRING, AS_BYTES):
        if bits > cython.cast(uint64_t, end - at):
            return _fail(reading, part, CUT_SHORT)
        if kind == AS_STRING and not is_utf8(at, bits):
            return _fail(reading, part, NOT_UTF8)
        part.text = at
        part.text_bytes = bits
        part.seen = True
        return at + bits
    bits = _decoded(kind, bits)
    if kind == AS_ENUM and part.closed and _name_of(part, cython.cast(int32_t, bits)) < 0:
        part.dropped = True
        return at
    part.bits = bits
    part.seen = True
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _decoded(kind: Kind, bits: uint64_t) -> uint64_t:
    """The bits of a varint's value, as the column stores them."""
    narrow: uint32_t
    if kind in (AS_VARINT32, AS_ENUM):
        return cython.cast(uint32_t, bits)
    if kind == AS_ZIGZAG64:
        return (bits >> 1) ^ (0 - (bits & 1))
    if kind == AS_ZIGZAG32:
        narrow = cython.cast(uint32_t, bits)
        return (narrow >> 1) ^ (cython.cast(uint32_t, 0) - (narrow & 1))
    if kind == AS_BOOL:
        return bits != 0
    return bits


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _packed(
    reading: cython.pointer(Reading),
    item: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
) -> cython.p_const_char:
    """Append packed numbers to a list's items."""
    size: uint64_t = 0
    bits: uint64_t = 0
    count: int64_t
    width: cython.int
    at = _number(reading, item, at, end, cython.address(size))
    if at == cython.NULL:
        return at
    if size > cython.cast(uint64_t, end - at):
        return _fail(reading, item, CUT_SHORT)
    end = at + size
    if item.wire != WIRE_VARINT:
        width = 8 if item.wire == WIRE_64 else 4
        if size % width:
            return _fail(reading, item, ODD_PACKED)
        if not _room(reading, item, size, size // width):
            return cython.NULL
        memcpy(item.values.data + item.values.size, at, size)
        item.values.size += size
        item.length += size // width
        return end
    if item.store == IN_TEXT:
        while at < end:
            at = _scalar(reading, item, item.kind, at, end)
            if at == cython.NULL or (item.seen and not append_row(reading, item)):
                return cython.NULL
        return at
    width = 8 if item.store == IN_8 else 4 if item.store == IN_4 else 1
    # As many numbers as there are last bytes of varints.
    count = _ends(at, end)
    if not _room(reading, item, width * count, count):
        return cython.NULL
    while at < end:
        at = _number(reading, item, at, end, cython.address(bits))
        if at == cython.NULL:
            return at
        bits = _decoded(item.kind, bits)
        memcpy(item.values.data + item.values.size, cython.address(bits), width)
        item.values.size += width
        item.length += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ends(at: cython.p_const_char, end: cython.p_const_char) -> int64_t:
    count: int64_t = 0
    while at < end:
        count += (at[0] & 0x80) == 0
        at += 1
    return count


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _room(reading: cython.pointer(Reading), part: cython.pointer(Part), more: int64_t, rows: int64_t) -> cython.bint:
    """Make room for values; False if the limit is reached or there is no memory."""
    reading.bytes_left -= more
    if reading.bytes_left < 0 or part.length + rows > _OFFSET_MAX:
        _fail(reading, part, TOO_MUCH)
        return False
    if not reserve(cython.address(part.values), more):
        _fail(reading, part, NO_MEMORY)
        return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _small(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
    depth: cython.int,
) -> cython.p_const_char:
    """Read a message that is one value here (Timestamp, Duration, wrapper); a second one is merged with the first."""
    tag: uint64_t = 0
    bits: uint64_t = 0
    if not part.seen:
        part.bits = 0
        part.nanos = 0
        part.text_bytes = 0
    part.seen = True
    while at < end:
        at = _tag(reading, part, at, end, cython.address(tag))
        if at == cython.NULL:
            return at
        if (tag & 7) == WIRE_GROUP_END:
            return _fail(reading, part, STRAY_GROUP_END)
        if part.kind == AS_WRAPPER:
            if tag == cython.cast(uint64_t, 8 | _wire_of(part.inner)):
                at = _scalar(reading, part, part.inner, at, end)
            else:
                at = _skip(reading, part, tag, at, end, depth)
        elif tag == 8 or tag == 16:
            at = _number(reading, part, at, end, cython.address(bits))
            if tag == 8:
                part.bits = bits
            else:
                part.nanos = cython.cast(int32_t, bits)
        else:
            at = _skip(reading, part, tag, at, end, depth)
        if at == cython.NULL:
            return at
    return at


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wire_of(kind: Kind) -> cython.int:
    if kind == AS_FIXED64:
        return WIRE_64
    if kind == AS_FIXED32:
        return WIRE_32
    if kind in (AS_STRING, AS_BYTES):
        return WIRE_BYTES
    return WIRE_VARINT


# ---------------------------------------------------------------------- maps


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _entry(
    reading: cython.pointer(Reading),
    part: cython.pointer(Part),
    at: cython.p_const_char,
    end: cython.p_const_char,
    depth: cython.int,
) -> cython.p_const_char:
    """Append an entry of a map, and keep the position of its bytes, because its key may come again."""
    size: uint64_t = 0
    entry: cython.pointer(Part) = part.children
    at = _number(reading, part, at, end, cython.address(size))
    if at == cython.NULL:
        return at
    if size > cython.cast(uint64_t, end - at):
        return _fail(reading, part, CUT_SHORT)
    entry.children[1].dropped = False
    entry.seen = True
    if _read(reading, entry, at, at + size, 0, depth + 1) == cython.NULL:
        return cython.NULL
    if entry.children[1].dropped:
        forget(entry)
        return at + size
    if not reserve(cython.address(part.entries), cython.sizeof(Slice)):
        return _fail(reading, part, NO_MEMORY)
    cython.cast(cython.pointer(Slice), part.entries.data + part.entries.size).data = at
    cython.cast(cython.pointer(Slice), part.entries.data + part.entries.size).size = size
    part.entries.size += cython.sizeof(Slice)
    if not _append_entry(reading, entry):
        return cython.NULL
    return at + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _append_entry(reading: cython.pointer(Reading), entry: cython.pointer(Part)) -> cython.bint:
    # A key or value that is not in the bytes has its default.
    entry.children[1].seen = entry.children[1].seen or entry.children[1].kind == AS_MESSAGE
    return append_row(reading, entry)


Key = cython.struct(data=cython.p_const_char, size=int64_t, number=int64_t, index=int64_t)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compare(left: cython.p_const_void, right: cython.p_const_void) -> cython.int:
    """Compare two entries by key, and for the same key by position."""
    one: cython.pointer(cython.const[Key]) = cython.cast(cython.pointer(cython.const[Key]), left)
    two: cython.pointer(cython.const[Key]) = cython.cast(cython.pointer(cython.const[Key]), right)
    order: cython.int = 0
    if one.size != two.size:
        return -1 if one.size < two.size else 1
    if one.number != two.number:
        return -1 if one.number < two.number else 1
    if one.size > 0:
        order = memcmp(one.data, two.data, one.size)
    if order != 0:
        return order
    return -1 if one.index < two.index else 1 if one.index > two.index else 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_key(column: cython.pointer(Part), row: int64_t, key: cython.pointer(Key)) -> cython.void:
    ends: cython.pointer(int32_t)
    key.data = cython.NULL
    key.size = 0
    key.number = 0
    if column.store == IN_TEXT:
        ends = cython.cast(cython.pointer(int32_t), column.values.data)
        key.data = column.data.data + ends[row]
        key.size = ends[row + 1] - ends[row]
    elif column.store == IN_8:
        key.number = cython.cast(cython.pointer(int64_t), column.values.data)[row]
    elif column.store == IN_4:
        key.number = cython.cast(cython.pointer(int32_t), column.values.data)[row]
    else:
        key.number = column.values.data[row]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _settle_entries(reading: cython.pointer(Reading), part: cython.pointer(Part)) -> cython.bint:
    """Keep only the last of a row's entries with the same key."""
    entry: cython.pointer(Part) = part.children
    count: int64_t = part.entries.size // cython.sizeof(Slice)
    begin: int64_t = entry.length - count
    slices_bytes: int64_t = part.entries.size
    keys: cython.pointer(Key)
    slices: cython.pointer(Slice)
    doubles: int64_t = 0
    i: int64_t
    # The keys are written after the slices in the same buffer.
    if not reserve(cython.address(part.entries), count * cython.sizeof(Key)):
        _fail(reading, part, NO_MEMORY)
        return False
    slices = cython.cast(cython.pointer(Slice), part.entries.data)
    keys = cython.cast(cython.pointer(Key), part.entries.data + slices_bytes)
    for i in range(count):
        _read_key(entry.children, begin + i, cython.address(keys[i]))
        keys[i].index = i
    qsort(keys, count, cython.sizeof(Key), _compare)
    for i in range(count - 1):
        if (
            keys[i].size == keys[i + 1].size
            and keys[i].number == keys[i + 1].number
            and (keys[i].size == 0 or memcmp(keys[i].data, keys[i + 1].data, keys[i].size) == 0)
        ):
            slices[keys[i].index].size = -1
            doubles += 1
    if doubles == 0:
        return True
    truncate(entry, begin)
    for i in range(count):
        if slices[i].size >= 0:
            entry.seen = True
            if _read(reading, entry, slices[i].data, slices[i].data + slices[i].size, 0, 0) == cython.NULL:
                return False
            if not _append_entry(reading, entry):
                return False
    return True


# ---------------------------------------------------------------------- rows


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def append_row(reading: cython.pointer(Reading), part: cython.pointer(Part)) -> cython.bint:
    """Append a part's value (or null or default), and clear it for the next row; False if the row has an error."""
    i: cython.int
    child: cython.pointer(Part)
    if part.nullable:
        if not reserve(cython.address(part.valid), 1):
            _fail(reading, part, NO_MEMORY)
            return False
        part.valid.data[part.length] = part.seen
        part.valid.size = part.length + 1
    if part.store <= IN_8:
        if not _append_number(reading, part):
            return False
    elif part.store == IN_TEXT:
        if not _append_text(reading, part):
            return False
    elif part.kind == AS_LIST or part.kind == AS_MAP:
        if part.entries.size > cython.cast(int64_t, cython.sizeof(Slice)) and not _settle_entries(reading, part):
            return False
        part.entries.size = 0
        if not _room(reading, part, 4, 1):
            return False
        cython.cast(cython.pointer(int32_t), part.values.data)[part.length + 1] = cython.cast(
            int32_t, part.children.length
        )
        part.values.size += 4
    else:
        for i in range(part.child_count):
            child = cython.address(part.children[i])
            if child.required and part.seen and not child.seen:
                _fail(reading, child, MISSING)
                return False
            if child.store <= IN_8 and not child.nullable:
                # Most parts need no call here.
                if not _append_number(reading, child):
                    return False
                child.length += 1
                child.seen = False
            elif not append_row(reading, child):
                return False
        for i in range(part.chosen_count):
            part.chosen[i] = cython.NULL
    part.length += 1
    part.seen = False
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _append_number(reading: cython.pointer(Reading), part: cython.pointer(Part)) -> cython.bint:
    bits: uint64_t = part.bits if part.seen else 0
    is_time: cython.bint = part.kind in (AS_TIMESTAMP, AS_DURATION)
    if is_time and part.seen and not _time(reading, part, cython.address(bits)):
        return False
    if not _room(reading, part, 8, 1):
        return False
    if part.store == IN_8:
        cython.cast(cython.pointer(uint64_t), part.values.data)[part.length] = bits
        part.values.size += 8
    elif part.store == IN_4:
        cython.cast(cython.pointer(uint32_t), part.values.data)[part.length] = cython.cast(uint32_t, bits)
        part.values.size += 4
    else:
        part.values.data[part.length] = bits != 0
        part.values.size += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _append_text(reading: cython.pointer(Reading), part: cython.pointer(Part)) -> cython.bint:
    text: cython.p_const_char = part.text
    size: int64_t = 0
    digits = cython.declare(cython.char[24])
    number: int32_t
    name: int64_t
    if part.kind == AS_ENUM:
        if part.seen or not part.nullable:
            number = cython.cast(int32_t, part.bits) if part.seen else part.default_number
            name = _name_of(part, number)
            if name >= 0:
                text = part.names[name]
                size = part.name_bytes[name]
            else:
                text = digits
                size = put_digits(digits, number) - digits
    elif part.seen:
        size = part.text_bytes
    if not _room(reading, part, 4, 1):
        return False
    reading.bytes_left -= size
    if reading.bytes_left < 0 or part.data.size + size > _OFFSET_MAX:
        _fail(reading, part, TOO_MUCH)
        return False
    if size > 0:
        if not reserve(cython.address(part.data), size):
            _fail(reading, part, NO_MEMORY)
            return False
        memcpy(part.data.data + part.data.size, text, size)
        part.data.size += size
    cython.cast(cython.pointer(int32_t), part.values.data)[part.length + 1] = cython.cast(int32_t, part.data.size)
    part.values.size += 4
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _name_of(part: cython.pointer(Part), number: int32_t) -> int64_t:
    """The index of the name of an enum's number, -1 if it has none."""
    low: int64_t = 0
    high: int64_t = part.name_count
    middle: int64_t
    # Most enums are numbered from 0 on.
    if number >= 0 and number < high and part.name_numbers[number] == number:
        return number
    while low < high:
        middle = (low + high) >> 1
        if part.name_numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    if low < part.name_count and part.name_numbers[low] == number:
        return low
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _time(reading: cython.pointer(Reading), part: cython.pointer(Part), value: cython.pointer(uint64_t)) -> cython.bint:
    """Write the time since 1970, or the duration, in the column's unit into `value`."""
    seconds: int64_t = cython.cast(int64_t, part.bits)
    nanos: int64_t = part.nanos
    most: int64_t = cython.cast(int64_t, 0x7FFFFFFFFFFFFFFF) // part.per_second
    if part.kind == AS_TIMESTAMP:
        if nanos < 0 or nanos > 999_999_999 or seconds < _SECONDS_MIN or seconds > _SECONDS_MAX:
            _fail(reading, part, BAD_TIME)
            return False
    elif (
        nanos < -999_999_999
        or nanos > 999_999_999
        or seconds < -_DURATION_MAX
        or seconds > _DURATION_MAX
        or (seconds > 0 and nanos < 0)
        or (seconds < 0 and nanos > 0)
    ):
        _fail(reading, part, BAD_TIME)
        return False
    if seconds >= most or seconds <= -most:
        _fail(reading, part, TIME_TOO_FAR)
        return False
    # A duration is rounded towards zero; a timestamp's fraction is never negative.
    value[0] = cython.cast(uint64_t, seconds * part.per_second + _towards_zero(nanos, 1_000_000_000 // part.per_second))
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _towards_zero(number: int64_t, by: int64_t) -> int64_t:
    return -(-number // by) if number < 0 else number // by


# ---------------------------------------------------------------------- taking back


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def forget(part: cython.pointer(Part)) -> cython.void:
    """Clear the values of the current row, with the items and entries that were appended for it."""
    i: cython.int
    if not part.seen:
        return
    part.seen = False
    if part.kind == AS_LIST or part.kind == AS_MAP:
        part.entries.size = 0
        forget(part.children)
        truncate(part.children, cython.cast(cython.pointer(int32_t), part.values.data)[part.length])
    else:
        for i in range(part.child_count):
            forget(cython.address(part.children[i]))
        for i in range(part.chosen_count):
            part.chosen[i] = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def truncate(part: cython.pointer(Part), length: int64_t) -> cython.void:
    """Cut the columns back to `length` rows."""
    i: cython.int
    if part.length > length:
        part.length = length
    if part.store == IN_8:
        part.values.size = 8 * part.length
    elif part.store == IN_4:
        part.values.size = 4 * part.length
    elif part.store == IN_BITS:
        part.values.size = part.length
    elif part.store == IN_TEXT:
        part.values.size = 4 * (part.length + 1)
        part.data.size = cython.cast(cython.pointer(int32_t), part.values.data)[part.length]
    elif part.kind == AS_LIST or part.kind == AS_MAP:
        part.values.size = 4 * (part.length + 1)
        truncate(part.children, cython.cast(cython.pointer(int32_t), part.values.data)[part.length])
    else:
        for i in range(part.child_count):
            truncate(cython.address(part.children[i]), part.length)
    part.valid.size = part.length if part.nullable else 0
