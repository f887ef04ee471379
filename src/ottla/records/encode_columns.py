"""Arrow columns -> record batches, without an object per record (compiled).

`encode_stream` reads Arrow data of any library and returns finished `SealedBatch`es: one pass finds every row's
partition, a counting sort brings each partition's rows together in their order, one pass writes them. It needs
neither pyarrow nor numpy.

Invariants
- A batch ends at `batch_size`, and at the end of a slice: that is a chunk of the input, or, of a large chunk, the rows
  within `_SLICE_BYTES` and `_SLICE_ROWS`. Rows of one partition stay in input order.
- Batches are encoded when the caller takes the next ones, a few together: so some are sent while the next are written,
  and little memory is enough.
- An error in a slice is raised before any batch of that slice is returned.

The file is long because its loops are methods of one C struct, which has the columns that they read.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_columns import (
    column_index,
    is_byte_strings,
    read_byte_strings,
    read_headers,
    type_name,
    validity_of,
    wrong_type,
)
from cython.cimports.ottla.records.arrow_data import Chunk, import_array
from cython.cimports.ottla.records.arrow_layout import (
    ArrowArray,
    ArrowSchema,
    Blobs,
    Lists,
    Numbers,
    blob_at,
    is_set,
    list_at,
    named_at,
    number_at,
)
from cython.cimports.ottla.records.buffers import BufferPool
from cython.cimports.ottla.records.delivery import SealedBatch, sealed_batch
from cython.cimports.ottla.records.key_column import Placement, keys_of, placement
from cython.cimports.ottla.records.partitions import PartitionLoad, key_rule
from cython.cimports.ottla.records.wire import (
    HEADER_BYTES,
    KeyRule,
    partition_of,
    prefetch,
    put_bytes,
    put_varint,
    unlikely,
    varint_bytes,
    wall_clock_ms,
    zigzag,
)

from ottla.errors import RecordError, of_row
from ottla.records.arrow_data import chunks
from ottla.records.compression import check_level

# How many batches are encoded one after the other: few enough that they and the code stay in the processor's cache.
_TOGETHER = cython.declare(cython.Py_ssize_t, 4)
# A slice: as much of a chunk as is sorted by partition at a time.
_SLICE_BYTES = cython.declare(int64_t, 16 << 20)
_SLICE_ROWS = cython.declare(int64_t, 1 << 20)
# How many rows ahead values are fetched into the processor's cache, and at most how many bytes of each.
_AHEAD = cython.declare(int64_t, 8)
_AHEAD_BYTES = cython.declare(int64_t, 1024)
# More bytes than a batch of one row needs besides those of key, value and headers.
_ALONE_BYTES_MAX = cython.declare(int64_t, 128)

# Why a pass over rows stopped.
_DONE = cython.declare(cython.int, 0)
_CUT = cython.declare(cython.int, 1)
_GROW = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_BAD_PARTITION = cython.declare(cython.int, 4)
_BAD_TIMESTAMP = cython.declare(cython.int, 5)
_BAD_HEADERS = cython.declare(cython.int, 6)
_BAD_LAYOUT = cython.declare(cython.int, 7)
_BAD_PLACE = cython.declare(cython.int, 8)


@cython.final
@cython.cclass
class StickyPartition:
    """The partition for rows without a key now: keep one for each topic, and give it to every call for that topic.

    The next partition is the next number. If `load` is set (a PartitionLoad, read again for each slice), it chooses the
    next partition.
    """

    partition = cython.declare(int32_t, visibility="readonly")
    sent_bytes = cython.declare(int64_t, visibility="readonly")
    load = cython.declare(PartitionLoad, visibility="public")
    _random = cython.declare(uint64_t)

    def __init__(self, partition: int = 0, seed: int = 0) -> None:
        if partition < 0:
            raise ValueError(f"There is no partition {partition}.")
        self.partition = partition
        self._random = seed & 0xFFFFFFFFFFFFFFFF


@cython.final
@cython.cclass
class TableEncoder:
    """An iterator over lists of a few SealedBatches; see `encode_stream`."""

    _source = cython.declare(object)
    _topic = cython.declare(str)
    _partition_count = cython.declare(int32_t)
    _names = cython.declare(tuple)  # value, key, headers, partition, timestamp
    _batch_size = cython.declare(int64_t)
    _max_request_size = cython.declare(int64_t)
    _buffer_memory = cython.declare(int64_t)
    _row_bytes_max = cython.declare(int64_t)  # the most bytes of a batch of one row: the lower of these two
    _compression = cython.declare(str)
    _level = cython.declare(object)
    _lend = cython.declare(object)
    _pool = cython.declare(BufferPool)
    _rule = cython.declare(KeyRule)
    _sticky = cython.declare(StickyPartition)
    # The sticky partition after this slice; written to `_sticky` if the slice has no errors.
    _sticky_partition = cython.declare(int32_t)
    _sticky_bytes = cython.declare(int64_t)
    _load = cython.declare(PartitionLoad)
    _has_load = cython.declare(cython.bint)
    _random = cython.declare(uint64_t)
    _clock_ms = cython.declare(object)
    _busy = cython.declare(cython.bint)
    # The chunk being encoded, and where its columns are.
    _chunk = cython.declare(Chunk)
    _key_texts = cython.declare(object)
    _made = cython.declare(list)  # what the functions given for value or key made of the chunk
    _row = cython.declare(int64_t)  # the next row of the chunk
    _first_row = cython.declare(int64_t)  # the chunk's first row, counted through the whole input
    _key = cython.declare(Blobs)
    _value = cython.declare(Blobs)
    _headers = cython.declare(Lists)
    _partition = cython.declare(Numbers)
    _timestamp = cython.declare(Numbers)
    _timestamp_numerator = cython.declare(int64_t)
    _timestamp_divisor = cython.declare(int64_t)
    _timestamp_max = cython.declare(int64_t)
    _now_ms = cython.declare(int64_t)
    # The partitions that a user's function chose for the rows before `_placed_end`; it is called again for later rows.
    _place = cython.declare(object)
    _placer = cython.declare(str)
    _placement = cython.declare(Placement)
    _placed = cython.declare(Numbers)
    _placed_end = cython.declare(int64_t)
    # The batch being written.
    _data = cython.declare(cython.p_char)
    _capacity = cython.declare(int64_t)
    _position = cython.declare(int64_t)
    _wanted = cython.declare(int64_t)
    _count = cython.declare(int32_t)
    _record_bytes_max = cython.declare(int64_t)
    _base_timestamp = cython.declare(int64_t)
    _max_timestamp = cython.declare(int64_t)
    _stopped_at = cython.declare(int64_t)  # the row a pass stopped at
    # The slice being encoded: its rows in the order of their partitions, where each partition's next row is and where
    # its rows end, and the partition of the next batch.
    _slice_rows = cython.declare(int64_t)
    _bytes_per_row = cython.declare(int64_t)
    _order = cython.declare(cython.pointer(int32_t))
    _begins = cython.declare(cython.pointer(int64_t))
    _ends = cython.declare(cython.pointer(int64_t))
    _turn = cython.declare(int32_t)
    _scratch = cython.declare(cython.pointer(int32_t))
    _scratch_rows = cython.declare(int64_t)

    def __dealloc__(self):
        free(self._scratch)
        free(self._begins)

    @property
    def rows_read(self) -> int:
        """How many rows the chunks read so far have, with the present one."""
        return self._first_row + (0 if self._chunk is None else self._chunk.c.length)

    def __iter__(self) -> TableEncoder:
        return self

    def __next__(self) -> list:
        if self._busy:
            raise ValueError("A TableEncoder is for one thread at a time.")
        self._busy = True
        try:
            while True:
                batches: list = self._next_batches()
                if batches:
                    return batches
                while self._chunk is None or self._row >= self._chunk.c.length:
                    if self._chunk is not None:
                        self._first_row += self._chunk.c.length
                        self._chunk = None
                    self._open(next(self._source))
                self._begin_slice()
        finally:
            self._busy = False

    @cython.cfunc
    def _next_batches(self) -> list:
        """The next batches of the slice, none at its end.

        The partitions take turns, so that all brokers get batches from the start.
        """
        batches: list = []
        p: int32_t
        passed: int32_t = 0
        if self._slice_rows == 0:
            return batches
        while len(batches) < _TOGETHER and passed < self._partition_count:
            p = self._turn
            self._turn = (p + 1) % self._partition_count
            passed += 1
            if self._begins[p] < self._ends[p]:
                batches.append(self._encode_batch(p))
                passed = 0
        if not batches:
            self._row += self._slice_rows
            self._slice_rows = 0
        return batches

    @cython.cfunc
    def _open(self, chunk: Chunk) -> object:
        """Find the named columns in the next chunk."""
        root: cython.pointer(ArrowArray) = cython.address(chunk.c)
        if cython.cast(bytes, chunk.schema.c.format) != b"+s":
            raise RecordError(
                f"The data has to be a table, not a column of {type_name(cython.address(chunk.schema.c))}."
            )
        if root.null_count != 0 and root.n_buffers > 0 and root.buffers[0] != cython.NULL:
            raise RecordError("The data has rows that are null as a whole; drop them first.")
        value, key, headers, partition, timestamp = self._names
        self._made = []
        self._open_blobs(chunk, cython.address(self._value), "value", value)
        self._open_blobs(chunk, cython.address(self._key), "key", key)
        i: cython.Py_ssize_t
        memset(cython.address(self._headers), 0, cython.sizeof(Lists))
        if headers is not None:
            i = column_index(chunk, "headers", headers)
            read_headers(
                cython.address(self._headers), chunk.schema.c.children[i], root.children[i], root.offset, headers
            )
        self._open_numbers(chunk, cython.address(self._partition), "partition", partition)
        self._open_numbers(chunk, cython.address(self._timestamp), "timestamp", timestamp)
        self._now_ms = wall_clock_ms() if self._clock_ms is None else self._clock_ms()
        self._chunk = chunk
        self._row = 0
        self._placed_end = 0
        return None

    @cython.cfunc
    def _open_blobs(self, chunk: Chunk, column: cython.pointer(Blobs), role: str, given: object) -> object:
        memset(column, 0, cython.sizeof(Blobs))
        if given is None:
            return None
        if callable(given):
            made: Chunk = import_array(given(chunk))
            if made.c.length != chunk.c.length:
                raise RecordError(f"The function given as {role} made {made.c.length} values of {chunk.c.length} rows.")
            self._made.append(made)
            read_byte_strings(column, cython.address(made.schema.c), cython.address(made.c), 0, role, role)
            return None
        i: cython.Py_ssize_t = column_index(chunk, role, given)
        if role == "key" and self._key_texts is not None and not is_byte_strings(chunk.schema.c.children[i]):
            texts: Chunk = import_array(self._key_texts(chunk, given, self._first_row))
            self._made.append(texts)
            read_byte_strings(column, cython.address(texts.schema.c), cython.address(texts.c), 0, role, given)
            return None
        read_byte_strings(column, chunk.schema.c.children[i], chunk.c.children[i], chunk.c.offset, role, given)
        return None

    @cython.cfunc
    def _open_numbers(self, chunk: Chunk, column: cython.pointer(Numbers), role: str, given: object) -> object:
        memset(column, 0, cython.sizeof(Numbers))
        if given is None:
            return None
        i: cython.Py_ssize_t = column_index(chunk, role, given)
        schema: cython.pointer(ArrowSchema) = chunk.schema.c.children[i]
        array: cython.pointer(ArrowArray) = chunk.c.children[i]
        kind: str = cython.cast(bytes, schema.format).decode("ascii", "replace")
        if kind == "n":
            return None
        allowed = "of a whole-number type"
        if role == "timestamp":
            allowed = "a timestamp, a date, or milliseconds since 1970 of a whole-number type"
            self._timestamp_numerator, self._timestamp_divisor = {
                "tss": (1000, 1), "tsm": (1, 1), "tsu": (1, 1000), "tsn": (1, 1000000), "tdm": (1, 1),
                "tdD": (86_400_000, 1),
            }.get(kind[:3] if kind[:2] == "ts" else kind, (1, 1) if kind in tuple("cCsSiIlL") else (0, 0))  # fmt: skip
        if schema.dictionary != cython.NULL or (
            self._timestamp_divisor == 0 if role == "timestamp" else kind not in tuple("cCsSiIlL")
        ):
            raise wrong_type(role, given, schema, allowed)
        self._timestamp_max = ((1 << 63) - 1) // max(self._timestamp_numerator, 1)
        column.type = schema.format[0]
        if kind[:1] == "t":
            column.type = b"i"[0] if kind == "tdD" else b"l"[0]
        column.offset = array.offset + chunk.c.offset
        column.validity = validity_of(array)
        column.values = array.buffers[1]
        return None

    # ------------------------------------------------------------------ one slice

    @cython.cfunc
    def _begin_slice(self) -> object:
        """Find the partitions of the next rows of the chunk, and bring the rows of each together."""
        rows: int64_t = min(self._chunk.c.length - self._row, _SLICE_ROWS)
        size: int64_t = 0
        status: cython.int
        p: int32_t
        if self._place is not None:
            if self._row == self._placed_end:
                self._ask_for_places(rows)
            rows = min(rows, self._placed_end - self._row)
        self._make_room(rows)
        self._take_sticky()
        memset(self._begins, 0, 2 * self._partition_count * cython.sizeof(int64_t))
        with cython.nogil:
            status = self._find_partitions(self._scratch, self._ends, cython.address(rows), cython.address(size))
        if status != _DONE:
            raise self._row_error(status)
        self._order = self._scratch + rows
        with cython.nogil:
            _sort_by_partition(self._scratch, self._ends, self._order, self._partition_count, rows)
        for p in range(1, self._partition_count):
            self._begins[p] = self._ends[p - 1]
        self._bytes_per_row = size // rows + 1
        self._slice_rows = rows
        self._turn = 0
        self._sticky.partition = self._sticky_partition
        self._sticky.sent_bytes = self._sticky_bytes
        self._sticky._random = self._random
        return None

    @cython.cfunc
    def _make_room(self, rows: int64_t) -> object:
        """Make room for two numbers a row and two a partition; the memory is used again for the next slice."""
        if rows > self._scratch_rows:
            free(self._scratch)
            self._scratch_rows = rows
            self._scratch = cython.cast(cython.pointer(int32_t), malloc(rows * 8 + 8))
            if self._scratch == cython.NULL:
                self._scratch_rows = 0
                raise MemoryError
        if self._begins == cython.NULL:
            self._begins = cython.cast(
                cython.pointer(int64_t), calloc(2 * self._partition_count, cython.sizeof(int64_t))
            )
            if self._begins == cython.NULL:
                raise MemoryError
            self._ends = self._begins + self._partition_count
        return None

    @cython.cfunc
    def _ask_for_places(self, rows: int64_t) -> object:
        """Call the user's function for the partitions of the next rows, as many as fit into its column of keys."""
        keys = keys_of(cython.address(self._key), self._row, rows)
        self._placement = placement(self._placer, self._place(keys), len(keys))
        self._placed = self._placement.numbers
        self._placed.offset -= self._row
        self._placed_end = self._row + len(keys)
        return None

    @cython.cfunc
    def _take_sticky(self) -> object:
        self._load = self._sticky.load
        self._has_load = self._load is not None and self._load.end <= self._partition_count
        self._random = self._sticky._random
        self._sticky_partition = self._sticky.partition % self._partition_count
        self._sticky_bytes = self._sticky.sent_bytes
        if self._has_load and not self._load.has(self._sticky_partition):
            self._sticky_partition = self._load.pick(cython.address(self._random))
            self._sticky_bytes = 0
        return None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _find_partitions(
        self,
        partitions: cython.pointer(int32_t),
        counts: cython.pointer(int64_t),
        rows: cython.pointer(int64_t),
        slice_bytes: cython.pointer(int64_t),
    ) -> cython.int:
        """Fill in every row's partition and each partition's count; `rows` and `slice_bytes` become the slice's.

        Errors of rows are found here, before a batch is made.
        """
        data: cython.p_const_char = cython.NULL
        i: int64_t
        row: int64_t
        number: int64_t = 0
        key_bytes: int64_t
        value_bytes: int64_t
        header_bytes: int64_t
        size: int64_t
        total: int64_t = 0
        p: int32_t
        for i in range(rows[0]):
            row = self._row + i
            value_bytes = blob_at(cython.address(self._value), row, cython.address(data))
            key_bytes = blob_at(cython.address(self._key), row, cython.address(data))
            header_bytes = 1 if self._headers.offsets == cython.NULL else self._header_bytes(row)
            if unlikely(key_bytes == -2 or value_bytes == -2 or header_bytes < 0):
                self._stopped_at = row
                return _BAD_HEADERS if header_bytes == -1 else _BAD_LAYOUT
            size = (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0) + header_bytes
            if unlikely(size + _ALONE_BYTES_MAX > self._row_bytes_max):
                self._wanted = _bytes_alone(key_bytes, value_bytes, header_bytes)
                if self._wanted > self._row_bytes_max:
                    self._stopped_at = row
                    return _TOO_LARGE
            if self._timestamp.values != cython.NULL and self._timestamp_of(row) < 0:
                self._stopped_at = row
                return _BAD_TIMESTAMP
            if number_at(cython.address(self._partition), row, cython.address(number)):
                if number < 0 or number >= self._partition_count:
                    self._stopped_at = row
                    return _BAD_PARTITION
                p = cython.cast(int32_t, number)
            elif number_at(cython.address(self._placed), row, cython.address(number)):
                if number < 0 or number >= self._partition_count:
                    self._stopped_at = row
                    return _BAD_PLACE
                p = cython.cast(int32_t, number)
            elif key_bytes >= self._rule.least_bytes:
                p = partition_of(self._rule.hash, data, key_bytes, self._partition_count)
            elif self._rule.in_rotation:
                p = self._next_in_rotation()
            else:
                p = self._stick(row, key_bytes, value_bytes, header_bytes)
            partitions[i] = p
            counts[p] += 1
            total += size + 12
            if total >= _SLICE_BYTES:
                rows[0] = i + 1
                break
        slice_bytes[0] = total
        return _DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _stick(self, row: int64_t, key_bytes: int64_t, value_bytes: int64_t, header_bytes: int64_t) -> int32_t:
        """The sticky partition, which changes when a batch full of rows went to it."""
        # 4: attributes, a timestamp delta of one byte, an offset delta of two.
        body: int64_t = 4 + varint_bytes(zigzag(key_bytes)) + varint_bytes(zigzag(value_bytes)) + header_bytes
        body += (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0)
        need: int64_t = body + varint_bytes(zigzag(body))
        if self._sticky_bytes > 0 and self._sticky_bytes + need + HEADER_BYTES > self._batch_size:
            self._sticky_bytes = 0
            if self._has_load:
                self._sticky_partition = self._load.pick(cython.address(self._random))
            else:
                self._sticky_partition = (self._sticky_partition + 1) % self._partition_count
        self._sticky_bytes += need
        return self._sticky_partition

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next_in_rotation(self) -> int32_t:
        """The next partition of round robin; those that are not in the load (no leader) are skipped."""
        self._sticky_partition = (self._sticky_partition + 1) % self._partition_count
        if self._has_load:
            while not self._load.has(self._sticky_partition):
                self._sticky_partition = (self._sticky_partition + 1) % self._partition_count
        return self._sticky_partition

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _header_bytes(self, row: int64_t) -> int64_t:
        """How many bytes a row's headers need; -1 where a header or its name is null, -2 for bad layout."""
        headers: cython.pointer(Lists) = cython.address(self._headers)
        data: cython.p_const_char = cython.NULL
        begin: int64_t = 0
        count: int64_t = list_at(headers, row, cython.address(begin))
        if count < 0:
            return -2
        size: int64_t = varint_bytes(zigzag(count))
        length: int64_t
        i: int64_t
        for i in range(begin, begin + count):
            length = blob_at(cython.address(headers.keys), i, cython.address(data))
            if length < 0 or not is_set(headers.item_validity, headers.item_offset + i):
                return -2 if length == -2 else -1
            size += varint_bytes(zigzag(length)) + length
            length = blob_at(cython.address(headers.values), i, cython.address(data))
            if length == -2:
                return -2
            size += varint_bytes(zigzag(length)) + (length if length > 0 else 0)
        return size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put_headers(self, to: cython.p_char, row: int64_t) -> cython.p_char:
        headers: cython.pointer(Lists) = cython.address(self._headers)
        data: cython.p_const_char = cython.NULL
        begin: int64_t = 0
        count: int64_t = list_at(headers, row, cython.address(begin))
        length: int64_t
        i: int64_t
        to = put_varint(to, zigzag(count))
        for i in range(begin, begin + count):
            length = blob_at(cython.address(headers.keys), i, cython.address(data))
            to = put_bytes(to, data, length)
            length = blob_at(cython.address(headers.values), i, cython.address(data))
            to = put_bytes(to, data, length)
        return to

    # ------------------------------------------------------------------ one batch

    @cython.cfunc
    def _encode_batch(self, partition: int32_t) -> SealedBatch:
        """Encode as many of the partition's next rows as fit into a batch."""
        order: cython.pointer(int32_t) = self._order + self._begins[partition]
        rows: int64_t = self._ends[partition] - self._begins[partition]
        done: int64_t = 0
        status: cython.int
        buffer: bytearray
        self._capacity = min(self._batch_size, HEADER_BYTES + self._bytes_per_row * rows + 256)
        if self._pool is None:
            buffer = PyByteArray_FromStringAndSize(cython.NULL, self._capacity)
        else:
            buffer = self._pool.take(self._capacity)
        self._position = HEADER_BYTES
        self._count = 0
        self._record_bytes_max = 0
        while True:
            self._data = PyByteArray_AS_STRING(buffer)
            with cython.nogil:
                status = self._write_rows(order, rows, cython.address(done))
            if status != _GROW:
                break
            self._capacity = max(self._wanted, min(2 * self._capacity, self._batch_size))
            PyByteArray_Resize(buffer, self._capacity)
        if status != _DONE and status != _CUT:
            raise self._row_error(status)
        PyByteArray_Resize(buffer, self._position)
        self._begins[partition] += done
        return self._seal(partition, buffer, order, done)

    @cython.cfunc
    def _seal(
        self, partition: int32_t, buffer: bytearray, order: cython.pointer(int32_t), count: int64_t
    ) -> SealedBatch:
        first: int64_t = self._first_row + self._row
        rows: object = None
        i: int64_t
        numbers: cython.pointer(int64_t)
        if order[count - 1] - order[0] != count - 1:  # they ascend: without a gap they are first, first + 1, ...
            rows = PyBytes_FromStringAndSize(cython.NULL, 8 * count)
            numbers = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(rows))
            for i in range(count):
                numbers[i] = first + order[i]
        sealed: SealedBatch = sealed_batch(
            self._topic,
            partition,
            buffer,
            count,
            self._base_timestamp,
            self._max_timestamp,
            "none",
            first + order[0],
            rows,
        )
        sealed.record_bytes_max = self._record_bytes_max
        sealed._pool = self._pool
        if self._compression != "none" and (self._lend is None or not self._lend(sealed)):
            sealed._pack(self._compression, self._level)
        return sealed

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write_rows(self, order: cython.pointer(int32_t), rows: int64_t, done: cython.pointer(int64_t)) -> cython.int:
        """Write rows `order[done:rows]` into the batch until all are in it, it is full, or its buffer is too small."""
        data: cython.p_const_char = cython.NULL
        key_data: cython.p_const_char = cython.NULL
        to: cython.p_char
        timestamp: int64_t
        body: int64_t
        end: int64_t
        key_bytes: int64_t
        value_bytes: int64_t
        header_bytes: int64_t
        row: int64_t
        ahead: int64_t
        while done[0] < rows:
            if done[0] + _AHEAD < rows:
                # The rows of one partition are scattered: the memory of later rows is fetched meanwhile.
                row = self._row + order[done[0] + _AHEAD]
                value_bytes = min(blob_at(cython.address(self._value), row, cython.address(data)), _AHEAD_BYTES)
                ahead = 0
                while ahead < value_bytes:
                    prefetch(data + ahead)
                    ahead += 64
            row = self._row + order[done[0]]
            key_bytes = blob_at(cython.address(self._key), row, cython.address(key_data))
            value_bytes = blob_at(cython.address(self._value), row, cython.address(data))
            header_bytes = 1 if self._headers.offsets == cython.NULL else self._header_bytes(row)
            timestamp = self._timestamp_of(row)
            if self._count == 0:
                self._base_timestamp = self._max_timestamp = timestamp
            body = 1 + varint_bytes(zigzag(timestamp - self._base_timestamp)) + varint_bytes(zigzag(self._count))
            body += varint_bytes(zigzag(key_bytes)) + (key_bytes if key_bytes > 0 else 0)
            body += varint_bytes(zigzag(value_bytes)) + (value_bytes if value_bytes > 0 else 0) + header_bytes
            end = self._position + varint_bytes(zigzag(body)) + body
            if unlikely(timestamp < 0):
                self._stopped_at = row
                return _BAD_TIMESTAMP
            if unlikely(end > self._capacity):
                if self._count > 0 and end > self._batch_size:
                    return _CUT
                self._wanted = end
                self._stopped_at = row
                return _TOO_LARGE if end > self._row_bytes_max else _GROW
            if timestamp > self._max_timestamp:
                self._max_timestamp = timestamp
            to = put_varint(self._data + self._position, zigzag(body))
            to[0] = 0
            to = put_varint(to + 1, zigzag(timestamp - self._base_timestamp))
            to = put_varint(to, zigzag(self._count))
            to = put_bytes(to, key_data, key_bytes)
            to = put_bytes(to, data, value_bytes)
            if self._headers.offsets == cython.NULL:
                to[0] = 0
            else:
                self._put_headers(to, row)
            if end - self._position > self._record_bytes_max:
                self._record_bytes_max = end - self._position
            self._position = end
            self._count += 1
            done[0] += 1
        return _DONE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _timestamp_of(self, row: int64_t) -> int64_t:
        """The row's timestamp in milliseconds; negative if it is before 1970 or out of range."""
        number: int64_t = 0
        if not number_at(cython.address(self._timestamp), row, cython.address(number)):
            return self._now_ms
        if number > self._timestamp_max:
            return -1
        return number * self._timestamp_numerator // self._timestamp_divisor if number >= 0 else -1

    @cython.cfunc
    def _row_error(self, status: cython.int) -> object:
        row = self._first_row + self._stopped_at
        names: tuple = self._names
        partitions: str = f"topic {self._topic} has partitions 0 to {self._partition_count - 1}."
        before: str
        behind: str = "."
        if status == _TOO_LARGE:
            before, behind = "", f" needs {self._wanted} bytes with its batch; "
            if self._wanted > self._max_request_size:
                behind += (
                    f"max.request.size allows {self._max_request_size}. Send less in one record, or raise "
                    "max.request.size (and the topic's max.message.bytes)."
                )
            else:
                behind += f"buffer.memory is {self._buffer_memory}. Send less in one record, or raise buffer_memory."
        elif status == _BAD_PARTITION:
            wrong: object = named_at(cython.address(self._partition), self._stopped_at)
            before = f"Column {names[3]!r} names partition {wrong} in "
            behind = f"; {partitions} Without this column, keys decide."
        elif status == _BAD_PLACE:
            wrong = named_at(cython.address(self._placed), self._stopped_at)
            before = f"partitioner.class {self._placer} chose partition {wrong} for "
            behind = f"; {partitions}"
        elif status == _BAD_TIMESTAMP:
            before = f"Column {names[4]!r} has a time in "
            behind = " that is before 1970 or out of range."
        elif status == _BAD_HEADERS:
            before = f"Column {names[2]!r} has a null header, or one without a name, in "
        else:
            before = "The data is not laid out as Arrow says it is, at "
        return of_row(RecordError, row, behind, before=before)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bytes_alone(key_bytes: int64_t, value_bytes: int64_t, header_bytes: int64_t) -> int64_t:
    """How many bytes a batch of one row has: attributes and two deltas of 0, key, value, headers."""
    body: int64_t = 3 + varint_bytes(zigzag(key_bytes)) + varint_bytes(zigzag(value_bytes)) + header_bytes
    body += (key_bytes if key_bytes > 0 else 0) + (value_bytes if value_bytes > 0 else 0)
    return HEADER_BYTES + varint_bytes(zigzag(body)) + body


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sort_by_partition(
    partitions: cython.pointer(int32_t),
    starts: cython.pointer(int64_t),
    order: cython.pointer(int32_t),
    partition_count: int32_t,
    rows: int64_t,
) -> cython.void:
    """Counting sort: `starts` holds counts and becomes where each partition's rows end in `order`."""
    before: int64_t = 0
    count: int64_t
    p: int32_t
    i: int64_t
    for p in range(partition_count):
        count = starts[p]
        starts[p] = before
        before += count
    for i in range(rows):
        p = partitions[i]
        order[starts[p]] = cython.cast(int32_t, i)
        starts[p] += 1


def encode_stream(
    data: object,
    *,
    topic: str,
    partition_count: int,
    value: object,
    key: object = None,
    key_texts: object = None,
    headers: object = None,
    partition: object = None,
    timestamp: object = None,
    batch_size: int = 16384,
    max_request_size: int = 1048576,
    buffer_memory: int = 33554432,
    compression: str = "none",
    compression_level: object = None,
    lend: object = None,
    pool: object = None,
    partitioner: str = "default",
    place: object = None,
    placer: str = "",
    ignore_keys: bool = False,
    sticky: object = None,
    clock_ms: object = None,
) -> TableEncoder:
    """Encode Arrow data as record batches, lists of a few SealedBatches.

    `data` is what `chunks` takes. `value`, `key`, `headers`, `partition` and `timestamp` name columns; `value` and
    `key` may also be functions that take a `Chunk` and return Arrow data of one byte string for each row. `key_texts`
    makes such data of a key column of another type: it gets the chunk, the column's name and the number of its first
    row. A null value is a tombstone. A row without a key or partition goes to `sticky`'s partition (or to the next in
    turn: `partitioner` is a short name of producer/partitioner_class.py). A row without a timestamp gets the time at
    which its chunk is read.

    `place`, called `placer` in errors, gets a KeyColumn of the next rows and returns their partitions, for rows without
    one in the `partition` column; a null leaves a row to the partitioner. `lend` gets each batch that is to be
    compressed and returns whether another thread does that. Memory for batches comes from `pool`, a BufferPool. Raises
    RecordError, with column and row, for what cannot be sent.
    """
    check_level(compression, compression_level)
    encoder: TableEncoder = TableEncoder()
    encoder._source = chunks(data)
    encoder._topic = topic
    encoder._partition_count = partition_count
    if encoder._partition_count < 1:
        raise ValueError(f"Topic {topic!r} cannot have {partition_count} partitions.")
    encoder._names = (value, key, headers, partition, timestamp)
    encoder._key_texts = key_texts
    encoder._max_request_size = max_request_size
    encoder._buffer_memory = buffer_memory
    encoder._row_bytes_max = min(encoder._max_request_size, encoder._buffer_memory)
    encoder._batch_size = max(min(batch_size, encoder._row_bytes_max), HEADER_BYTES)
    encoder._compression = compression
    encoder._level = compression_level
    encoder._lend = lend
    encoder._pool = pool
    encoder._place = place
    encoder._placer = placer
    encoder._rule = key_rule(partitioner, ignore_keys)
    encoder._sticky = StickyPartition() if sticky is None else sticky
    encoder._clock_ms = clock_ms
    return encoder
