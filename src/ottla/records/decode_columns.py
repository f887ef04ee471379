"""Record batches -> Arrow columns, a batch at a time and never an object per record (compiled).

`decode_columns` takes whole record batches, as fetched, and fills Arrow's buffers with what they hold; the
`DecodedColumns` it gives hands them out through the C data interface. It needs neither pyarrow nor numpy.

Invariant: no length, count or number is used before it was checked against the bytes that are left. Memory grows with
the bytes that are there, never with a number in them.

The file is long because its loops are methods of one C struct, which has the buffers they fill.
"""

from __future__ import annotations

import cython
from crc32c import crc32c
from cython.cimports.cpython.bytes import PyBytes_AS_STRING
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.ottla.records.arrow_data import array_capsule, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    ArrowArray,
    ArrowSchema,
    Growing,
    GrowingBlobs,
    append_blob,
    extend,
    free_blobs,
    reserve,
    reserve_rows,
)
from cython.cimports.ottla.records.wire import (
    HEADER_BYTES,
    OFFSET_MAX,
    get_big_endian,
    get_int32_varint,
    get_varint,
    unlikely,
    unzigzag,
)

from ottla.records.batch_header import CorruptBatch, check_crc, read_header
from ottla.records.compression import Allowance, decompress
from ottla.records.plain import decode_batches

# Why parsing a records section stopped.
_DONE = cython.declare(cython.int, 0)
_CORRUPT = cython.declare(cython.int, 1)
_NO_MEMORY = cython.declare(cython.int, 2)
_TOO_MUCH = cython.declare(cython.int, 3)

_RECORD_BYTES_MIN = cython.declare(int64_t, 7)

# The columns, in the order they are exported in; bit i of `_wanted` is the i-th.
_COLUMNS = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")
_KEY = cython.declare(cython.int, 1)
_VALUE = cython.declare(cython.int, 2)
_OFFSET = cython.declare(cython.int, 4)
_TIMESTAMP = cython.declare(cython.int, 8)
_TIMESTAMP_TYPE = cython.declare(cython.int, 16)
_HEADERS = cython.declare(cython.int, 32)
_ALL = cython.declare(cython.int, 63)


@cython.final
@cython.cclass
class DecodedColumns:
    """Records as Arrow columns, exported by `__arrow_c_array__`: `pyarrow.record_batch(decoded)`.

    Columns: key binary, value binary, offset int64, timestamp timestamp[ms, UTC], timestamp_type int32 (0 the
    producer's clock, 1 the broker's), headers list<struct<key: string, value: binary>>. `next_offset` is the offset
    to read on from, after control records and records that were left out. `tail_bytes` counts the bytes that were not
    decoded: a last batch that is cut short, as at the end of a fetch, and what is left for the next piece.
    """

    next_offset = cython.declare(int64_t, visibility="readonly")
    tail_bytes = cython.declare(int64_t, visibility="readonly")
    _wanted = cython.declare(cython.int)
    # Which transactions are aborted, as of the last batch; None where all records are read.
    _aborted = cython.declare(object)
    _start = cython.declare(int64_t)
    _end = cython.declare(int64_t)
    _length = cython.declare(int64_t)
    _offsets = cython.declare(Growing)
    _timestamps = cython.declare(Growing)
    _timestamp_types = cython.declare(Growing)
    _keys = cython.declare(GrowingBlobs)
    _values = cython.declare(GrowingBlobs)
    _header_offsets = cython.declare(Growing)
    _header_keys = cython.declare(GrowingBlobs)
    _header_values = cython.declare(GrowingBlobs)
    _failed_at = cython.declare(int64_t)
    # What is exported: the root, its columns, then the header struct and its two columns.
    _arrays = cython.declare(ArrowArray[10])
    _children = cython.declare(cython.pointer(ArrowArray)[9])
    _buffers = cython.declare(cython.p_const_void[24])

    def __dealloc__(self):
        free(self._offsets.data)
        free(self._timestamps.data)
        free(self._timestamp_types.data)
        free(self._header_offsets.data)
        free_blobs(cython.address(self._keys))
        free_blobs(cython.address(self._values))
        free_blobs(cython.address(self._header_keys))
        free_blobs(cython.address(self._header_values))

    def __len__(self) -> int:
        return self._length

    @property
    def num_rows(self) -> int:
        return self._length

    @property
    def size_bytes(self) -> int:
        """The bytes of keys and values."""
        return self._keys.data.size + self._values.data.size

    def __arrow_c_schema__(self) -> object:
        schema: _DecodedSchema = _schema_of(self._wanted)
        return schema_capsule(cython.address(schema.schemas[0]), schema)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._arrays[0]), self)

    # ------------------------------------------------------------------ parsing

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _blob_bytes(self) -> int64_t:
        """The bytes of keys, values and headers so far."""
        return (
            self._keys.data.size + self._values.data.size + self._header_keys.data.size + self._header_values.data.size
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reserve(self, rows: int64_t) -> cython.bint:
        """Make room for `rows` more records, without the bytes of their keys, values and headers."""
        self._header_offsets.size = 4 * (self._length + 1)
        if not reserve(cython.address(self._header_offsets), 4 * rows):
            return False
        if self._length == 0:
            cython.cast(cython.pointer(int32_t), self._header_offsets.data)[0] = 0
        return (
            (not self._wanted & _OFFSET or reserve(cython.address(self._offsets), 8 * rows))
            and (not self._wanted & _TIMESTAMP or reserve(cython.address(self._timestamps), 8 * rows))
            and (not self._wanted & _TIMESTAMP_TYPE or reserve(cython.address(self._timestamp_types), 4 * rows))
            and (not self._wanted & _KEY or reserve_rows(cython.address(self._keys), rows))
            and (not self._wanted & _VALUE or reserve_rows(cython.address(self._values), rows))
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse(
        self,
        begin: cython.p_const_char,
        end: cython.p_const_char,
        count: int64_t,
        base_offset: int64_t,
        last_offset_delta: int64_t,
        base_timestamp: int64_t,
        append_timestamp: int64_t,
        is_append_time: cython.bint,
    ) -> cython.int:
        """Parse `count` records, which must fill [begin, end) exactly."""
        at: cython.p_const_char = begin
        record_end: cython.p_const_char
        number: int64_t = 0
        timestamp_delta: uint64_t = 0
        offset: int64_t
        row: int64_t
        status: cython.int
        _: int64_t
        if count * _RECORD_BYTES_MIN > end - begin:
            return _CORRUPT
        if not self._reserve(count):
            return _NO_MEMORY
        for _ in range(count):
            self._failed_at = at - begin
            at = get_int32_varint(at, end, cython.address(number))
            if at == cython.NULL or number < _RECORD_BYTES_MIN - 1 or number > end - at:
                return _CORRUPT
            record_end = at + number
            at = get_varint(at + 1, record_end, cython.address(timestamp_delta))
            if at == cython.NULL:
                return _CORRUPT
            at = get_int32_varint(at, record_end, cython.address(number))
            if at == cython.NULL or number < 0 or number > last_offset_delta:
                return _CORRUPT
            offset = cython.cast(int64_t, cython.cast(uint64_t, base_offset) + cython.cast(uint64_t, number))
            if offset < self._start or offset >= self._end:
                at = record_end
                continue
            row = self._length
            if self._wanted & _OFFSET:
                cython.cast(cython.pointer(int64_t), self._offsets.data)[row] = offset
                self._offsets.size += 8
            if self._wanted & _TIMESTAMP:
                cython.cast(cython.pointer(int64_t), self._timestamps.data)[row] = (
                    append_timestamp
                    if is_append_time
                    else cython.cast(
                        int64_t,
                        cython.cast(uint64_t, base_timestamp) + cython.cast(uint64_t, unzigzag(timestamp_delta)),
                    )
                )
                self._timestamps.size += 8
            if self._wanted & _TIMESTAMP_TYPE:
                cython.cast(cython.pointer(int32_t), self._timestamp_types.data)[row] = is_append_time
                self._timestamp_types.size += 4
            status = self._parse_blobs(cython.address(at), record_end)
            if unlikely(status != _DONE):
                return status
            if unlikely(at != record_end):
                return _CORRUPT
            self._length = row + 1
            if unlikely(self._header_keys.length > 0x7FFFFFFF):
                return _TOO_MUCH
            cython.cast(cython.pointer(int32_t), self._header_offsets.data)[row + 1] = cython.cast(
                int32_t, self._header_keys.length
            )
        self._failed_at = at - begin
        return _DONE if at == end else _CORRUPT

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_blobs(self, position: cython.pointer(cython.p_const_char), end: cython.p_const_char) -> cython.int:
        """Take key, value and headers, or skip those that are not wanted."""
        status: cython.int
        if self._wanted & _KEY:
            status = _take_blob(cython.address(self._keys), position, end)
        else:
            status = _skip_blob(position, end)
        if status == _DONE and self._wanted & _VALUE:
            status = _take_blob(cython.address(self._values), position, end)
        elif status == _DONE:
            status = _skip_blob(position, end)
        if status == _DONE and self._wanted & _HEADERS:
            return self._parse_headers(position, end)
        # Headers are the last part of a record.
        position[0] = end
        return status

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_headers(self, position: cython.pointer(cython.p_const_char), end: cython.p_const_char) -> cython.int:
        number: int64_t = 0
        at: cython.p_const_char = get_int32_varint(position[0], end, cython.address(number))
        if at == cython.NULL:
            return _CORRUPT
        position[0] = at
        if number == 0:
            return _DONE
        return self._parse_some_headers(position, end, number)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _parse_some_headers(
        self, position: cython.pointer(cython.p_const_char), end: cython.p_const_char, count: int64_t
    ) -> cython.int:
        status: cython.int
        before: int64_t
        _: int64_t
        if count < 0 or count > (end - position[0]) // 2:
            return _CORRUPT
        if not (
            reserve_rows(cython.address(self._header_keys), count)
            and reserve_rows(cython.address(self._header_values), count)
        ):
            return _NO_MEMORY
        for _ in range(count):
            before = self._header_keys.null_count
            status = _take_blob(cython.address(self._header_keys), position, end)
            if status == _DONE and self._header_keys.null_count != before:
                return _CORRUPT
            if status == _DONE:
                status = _take_blob(cython.address(self._header_values), position, end)
            if status != _DONE:
                return status
        return _DONE

    @cython.cfunc
    def _finish(self) -> object:
        """Point the exported arrays at the buffers."""
        if not self._reserve(1) or not (
            reserve_rows(cython.address(self._header_keys), 1) and reserve_rows(cython.address(self._header_values), 1)
        ):
            raise MemoryError
        self._mend_names()
        rows: int64_t = self._length
        headers: int64_t = self._header_keys.length
        i: cython.int
        columns: cython.int = 0
        for i in range(6):
            if self._wanted >> i & 1:
                self._children[columns] = cython.address(self._arrays[1 + i])
                columns += 1
        self._children[6] = cython.address(self._arrays[7])
        self._children[7] = cython.address(self._arrays[8])
        self._children[8] = cython.address(self._arrays[9])
        self._export(0, 0, 1, rows, 0, columns, 0)
        self._export_blobs(1, 1, cython.address(self._keys))
        self._export_blobs(2, 4, cython.address(self._values))
        self._buffers[8] = self._offsets.data
        self._export(3, 7, 2, rows, 0, 0, 0)
        self._buffers[10] = self._timestamps.data
        self._export(4, 9, 2, rows, 0, 0, 0)
        self._buffers[12] = self._timestamp_types.data
        self._export(5, 11, 2, rows, 0, 0, 0)
        self._buffers[14] = self._header_offsets.data
        self._export(6, 13, 2, rows, 0, 1, 6)
        self._export(7, 15, 1, headers, 0, 2, 7)
        self._export_blobs(8, 16, cython.address(self._header_keys))
        self._export_blobs(9, 19, cython.address(self._header_values))
        return None

    @cython.cfunc
    def _export_blobs(self, i: cython.int, buffer: cython.int, column: cython.pointer(GrowingBlobs)) -> object:
        # Also a column without bytes has a buffer: some consumers fail on NULL.
        if not reserve(cython.address(column.data), 1):
            raise MemoryError
        self._buffers[buffer] = column.validity.data if column.null_count else cython.NULL
        self._buffers[buffer + 1] = column.offsets.data
        self._buffers[buffer + 2] = column.data.data
        self._export(i, buffer, 3, column.length, column.null_count, 0, 0)
        return None

    @cython.cfunc
    def _export(
        self,
        i: cython.int,
        buffer: cython.int,
        buffers: cython.int,
        length: int64_t,
        null_count: int64_t,
        children: cython.int,
        child: cython.int,
    ) -> object:
        array: cython.pointer(ArrowArray) = cython.address(self._arrays[i])
        array.length = length
        array.null_count = null_count
        array.n_buffers = buffers
        array.buffers = cython.address(self._buffers[buffer])
        array.n_children = children
        array.children = cython.address(self._children[child])
        return None

    @cython.cfunc
    def _mend_names(self) -> object:
        """Header names are strings in Arrow: where one is not UTF-8, its bad bytes are replaced, as Java does."""
        names: cython.pointer(GrowingBlobs) = cython.address(self._header_keys)
        size: int64_t = names.data.size
        if size == 0:
            return None
        everything: bytes = names.data.data[:size]
        offsets: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), names.offsets.data)
        i: int64_t
        if everything.isascii():
            return None
        mended: list = []
        for i in range(names.length):
            mended.append(everything[offsets[i] : offsets[i + 1]].decode("utf-8", "replace").encode())
        joined: bytes = b"".join(mended)
        names.data.size = 0
        if len(joined) > 0x7FFFFFFF or not extend(cython.address(names.data), joined, len(joined)):
            raise MemoryError
        size = 0
        for i in range(names.length):
            size += len(mended[i])
            offsets[i + 1] = cython.cast(int32_t, size)
        return None


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_blob(
    column: cython.pointer(GrowingBlobs), position: cython.pointer(cython.p_const_char), end: cython.p_const_char
) -> cython.int:
    """Move a length and that many bytes (-1: null) from `position` to the column."""
    size: int64_t = 0
    at: cython.p_const_char = get_int32_varint(position[0], end, cython.address(size))
    if unlikely(at == cython.NULL or size < -1 or size > end - at):
        return _CORRUPT
    if unlikely(not append_blob(column, at, size)):
        return _TOO_MUCH if column.data.size + size > 0x7FFFFFFF else _NO_MEMORY
    position[0] = at + size if size > 0 else at
    return _DONE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _skip_blob(position: cython.pointer(cython.p_const_char), end: cython.p_const_char) -> cython.int:
    """Skip a length and that many bytes."""
    size: int64_t = 0
    at: cython.p_const_char = get_int32_varint(position[0], end, cython.address(size))
    if unlikely(at == cython.NULL or size < -1 or size > end - at):
        return _CORRUPT
    position[0] = at + size if size > 0 else at
    return _DONE


@cython.final
@cython.cclass
class _DecodedSchema:
    """The ArrowSchema of DecodedColumns with these columns, made once; all its strings are constants."""

    schemas = cython.declare(ArrowSchema[10])
    children = cython.declare(cython.pointer(ArrowSchema)[9])

    def __cinit__(self, wanted: cython.int):
        self.fill(1, b"z", b"key", 0, 0)
        self.fill(2, b"z", b"value", 0, 0)
        self.fill(3, b"l", b"offset", 0, 0)
        self.fill(4, b"tsm:UTC", b"timestamp", 0, 0)
        self.fill(5, b"i", b"timestamp_type", 0, 0)
        self.fill(6, b"+l", b"headers", 1, 6)
        self.fill(7, b"+s", b"item", 2, 7)
        self.fill(8, b"u", b"key", 0, 0)
        self.fill(9, b"z", b"value", 0, 0)
        i: cython.int
        columns: cython.int = 0
        for i in range(6):
            if wanted >> i & 1:
                self.children[columns] = cython.address(self.schemas[i + 1])
                columns += 1
        for i in range(6, 9):
            self.children[i] = cython.address(self.schemas[i + 1])
        self.fill(0, b"+s", b"", columns, 0)
        self.schemas[0].flags = 0

    @cython.cfunc
    def fill(
        self,
        i: cython.int,
        format: cython.p_const_char,
        name: cython.p_const_char,
        children: cython.int,
        child: cython.int,
    ) -> object:
        schema: cython.pointer(ArrowSchema) = cython.address(self.schemas[i])
        schema.format = format
        schema.name = name
        schema.flags = NULLABLE
        schema.n_children = children
        schema.children = cython.address(self.children[child])
        return None


_schemas = cython.declare(dict, {})  # by what is wanted


@cython.cfunc
def _schema_of(wanted: cython.int) -> _DecodedSchema:
    schema: _DecodedSchema = _schemas.get(wanted)
    if schema is None:
        schema = _schemas[wanted] = _DecodedSchema(wanted)
    return schema


def decode_columns(
    buffer: object,
    *,
    start_offset: int = 0,
    end_offset: object = None,
    verify_crc: bool = True,
    committed: object = None,
    decompressed_bytes_max: int = 1 << 28,
    columns: object = None,
    rows_enough: int = (1 << 63) - 1,
    bytes_enough: int = (1 << 63) - 1,
    after: object = None,
) -> DecodedColumns:
    """Decode record batches, as fetched, into finished Arrow columns without an object per record.

    Control batches and records outside [start_offset, end_offset) are left out; a last batch that is cut short is
    left for the next fetch (`tail_bytes`). `committed`: the aborted transactions that a fetch listed, as (producer id,
    first offset); their records are left out. None reads everything. Raises CorruptBatch for bytes that are not record
    batches, or if one decompresses to more than `decompressed_bytes_max`.

    `columns` names those to decode (None: all). A fetch can be decoded in pieces: each ends with the batch that reaches
    `rows_enough` rows or `bytes_enough` bytes of keys, values and headers. The next piece is given the bytes that are
    left, and as `after` the columns before it, which have the state of transactions.
    """
    decoded: DecodedColumns = DecodedColumns()
    earlier: DecodedColumns = after
    decoded._wanted = _ALL
    if columns is not None:
        decoded._wanted = 0
        for name in columns:
            decoded._wanted |= 1 << _COLUMNS.index(name)
    decoded._start = max(start_offset, -(1 << 63))
    decoded._end = (1 << 63) - 1 if end_offset is None else end_offset
    decoded.next_offset = start_offset
    if committed is not None:
        decoded._aborted = _Aborted(committed) if earlier is None else earlier._aborted
    with memoryview(buffer) as given, given.cast("B") as view:
        _decode_all(decoded, view, verify_crc, decompressed_bytes_max, rows_enough, bytes_enough)
    decoded._finish()
    return decoded


@cython.cfunc
def _decode_all(
    decoded: DecodedColumns,
    view: object,
    verify_crc: cython.bint,
    limit_bytes: int64_t,
    rows_enough: int64_t,
    bytes_enough: int64_t,
) -> object:
    whole: cython.const[cython.uchar][::1] = view if len(view) else b"\0"
    size: int64_t = len(view)
    data: cython.p_const_char = cython.cast(cython.p_const_char, cython.address(whole[0]))
    at: cython.p_const_char
    position: int64_t = 0
    batch_bytes: int64_t
    attributes: cython.int
    base_offset: int64_t
    last_offset_delta: int64_t
    transactions: _Aborted = decoded._aborted
    # A first guess at the room for the values; it grows as values are read.
    if size and decoded._wanted & _VALUE and not reserve(cython.address(decoded._values.data), min(size, bytes_enough)):
        raise MemoryError
    while size - position >= HEADER_BYTES and decoded._length < rows_enough and decoded._blob_bytes() < bytes_enough:
        at = data + position
        batch_bytes = get_big_endian(at + 8, 4) + 12
        if _is_odd(at, batch_bytes):
            read_header(view, position)
        if batch_bytes > size - position:
            break
        if verify_crc and cython.cast(uint32_t, get_big_endian(at + 17, 4)) != crc32c(
            view[position + 21 : position + batch_bytes]
        ):
            check_crc(view, read_header(view, position))
        base_offset = get_big_endian(at, 8)
        last_offset_delta = get_big_endian(at + 23, 4)
        attributes = cython.cast(cython.int, get_big_endian(at + 21, 2))
        if attributes & 0x20:
            if transactions is not None:
                transactions.control(view[position : position + batch_bytes])
        elif (
            transactions is None or not attributes & 0x10 or transactions.keeps(base_offset, get_big_endian(at + 43, 8))
        ):
            _decode_batch(decoded, view, at, position, batch_bytes, attributes, limit_bytes)
        if base_offset + last_offset_delta >= decoded.next_offset:
            decoded.next_offset = base_offset + last_offset_delta + 1
        position += batch_bytes
    if decoded.next_offset > decoded._end:
        decoded.next_offset = decoded._end
    decoded.tail_bytes = size - position
    return None


@cython.cfunc
def _decode_batch(
    decoded: DecodedColumns,
    view: object,
    at: cython.p_const_char,
    position: int64_t,
    batch_bytes: int64_t,
    attributes: cython.int,
    limit_bytes: int64_t,
) -> object:
    base_offset: int64_t = get_big_endian(at, 8)
    last_offset_delta: int64_t = get_big_endian(at + 23, 4)
    base_timestamp: int64_t = get_big_endian(at + 27, 8)
    max_timestamp: int64_t = get_big_endian(at + 35, 8)
    count: int64_t = get_big_endian(at + 57, 4)
    begin: cython.p_const_char = at + HEADER_BYTES
    end: cython.p_const_char = at + batch_bytes
    unpacked: object = None
    status: cython.int
    if base_offset + last_offset_delta < decoded._start or base_offset >= decoded._end:
        return None
    if attributes & 7:
        codec = read_header(view, position).codec
        packed = view[position + HEADER_BYTES : position + batch_bytes]
        unpacked = bytes(decompress(codec, packed, Allowance(limit_bytes)))
        begin = PyBytes_AS_STRING(unpacked)
        end = begin + len(unpacked)
    with cython.nogil:
        status = decoded._parse(
            begin,
            end,
            count,
            base_offset,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            attributes & 8 != 0,
        )
    if status == _NO_MEMORY:
        raise MemoryError
    if status == _TOO_MUCH:
        raise CorruptBatch("The batches hold more than 2 GiB of keys, values or headers; decode fewer at a time.")
    if status == _CORRUPT:
        raise CorruptBatch(
            f"The batch at offset {base_offset} is not made of {count} records: what stands at byte "
            f"{decoded._failed_at} of its records is none."
        )
    return None


@cython.final
@cython.cclass
class _Aborted:
    """Which transactions' records a reader of committed records leaves out, batch after batch."""

    _coming = cython.declare(list)  # (first offset, producer id)
    _next = cython.declare(cython.Py_ssize_t)
    _producers = cython.declare(dict)

    def __init__(self, aborted: object) -> None:
        self._coming = sorted((first, producer) for producer, first in aborted)
        self._producers = {}

    @cython.cfunc
    @cython.exceptval(-1)
    def keeps(self, base_offset: int64_t, producer_id: int64_t) -> cython.bint:
        self._begin(base_offset)
        return producer_id not in self._producers

    @cython.cfunc
    @cython.exceptval(-1)
    def _begin(self, offset: int64_t) -> cython.int:
        while self._next < len(self._coming) and self._coming[self._next][0] <= offset:
            self._producers[self._coming[self._next][1]] = True
            self._next += 1
        return 0

    @cython.cfunc
    def control(self, batch: object) -> object:
        """Take in a transaction's end marker: after an abort marker, the producer's records are kept again."""
        for header, records in decode_batches(batch, False):
            # A fetch may begin with the marker, without records of the transaction that it ends.
            self._begin(header.base_offset)
            if records and records[0].key is not None and records[0].key[2:4] == b"\0\0":
                self._producers.pop(header.producer_id, None)
        return None


def whole_batches(records: object, end_offset: object) -> tuple:
    """Return (bytes of the whole batches that begin before `end_offset`, next offset, leader epoch).

    The latter two are for the last whole batch that was read: the first one at or after `end_offset`, if there is one.
    They are -1 without a whole batch. Only headers are read. Raises CorruptBatch for bytes that are not record batches.
    """
    with memoryview(records) as given, given.cast("B") as view:
        return _measure(view, (1 << 63) - 1 if end_offset is None else end_offset)


@cython.cfunc
def _measure(view: object, end: int64_t) -> tuple:
    whole: cython.const[cython.uchar][::1] = view if len(view) else b"\0"
    length: int64_t = len(view)
    data: cython.p_const_char = cython.cast(cython.p_const_char, cython.address(whole[0]))
    at: cython.p_const_char
    batch_bytes: int64_t
    position: int64_t = 0
    size: int64_t = 0
    next_offset: int64_t = -1
    leader_epoch: int64_t = -1
    while length - position >= HEADER_BYTES:
        at = data + position
        batch_bytes = get_big_endian(at + 8, 4) + 12
        if _is_odd(at, batch_bytes):
            read_header(view, position)
        if batch_bytes > length - position:
            break
        next_offset = get_big_endian(at, 8) + get_big_endian(at + 23, 4) + 1
        leader_epoch = get_big_endian(at + 12, 4)
        position += batch_bytes
        if get_big_endian(at, 8) >= end:
            break
        size = position
    return size, next_offset, leader_epoch


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_odd(at: cython.p_const_char, batch_bytes: int64_t) -> cython.bint:
    """Whether `read_header` would refuse what stands in this header."""
    return (
        at[16] != 2
        or batch_bytes < HEADER_BYTES
        or get_big_endian(at + 57, 4) < 0
        or get_big_endian(at, 8) < 0
        or get_big_endian(at, 8) > OFFSET_MAX
        or get_big_endian(at + 23, 4) < -1
    )
