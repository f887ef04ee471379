"""A column of keys for a user's own partitioner, and the column of partitions it returns (compiled).

A `KeyColumn` can be read as Arrow data (binary), and as a sequence of bytes and None. The partitioner may return Arrow
data, a buffer of whole numbers (such as numpy's), or a sequence of int and None; a null leaves the row to the default
partitioner.
"""

from __future__ import annotations

from array import array

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memset
from cython.cimports.ottla.records.arrow_columns import type_name, validity_of
from cython.cimports.ottla.records.arrow_data import Chunk, array_capsule, import_array, schema_capsule
from cython.cimports.ottla.records.arrow_layout import (
    NULLABLE,
    Blobs,
    append_blob,
    blob_at,
    free_blobs,
    named_at,
    number_at,
    reserve,
    reserve_rows,
)

from ottla.errors import RecordError

# Size of a buffer's items -> Arrow's format characters: signed, unsigned.
_WHOLE_NUMBERS = {1: "cC", 2: "sS", 4: "iI", 8: "lL"}


@cython.final
@cython.cclass
class KeyColumn:
    """Keys, one a row, None where there is none: a sequence, and Arrow data of type binary by `__arrow_c_array__`."""

    def __init__(self, keys: object) -> None:
        given: list = list(keys)
        if not reserve_rows(cython.address(self._blobs), len(given) + 1):
            raise MemoryError
        key: bytes
        for key in given:
            if key is None:
                append_blob(cython.address(self._blobs), cython.NULL, -1)
            elif not append_blob(cython.address(self._blobs), PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)):
                raise MemoryError
        self._close()

    def __dealloc__(self):
        free_blobs(cython.address(self._blobs))

    @cython.cfunc
    def _close(self) -> object:
        """Fill in Arrow's structs, once all keys are there."""
        if not reserve(cython.address(self._blobs.data), 1):  # a buffer must not be NULL
            raise MemoryError
        self._buffers[0] = self._blobs.validity.data if self._blobs.null_count else cython.NULL
        self._buffers[1] = self._blobs.offsets.data
        self._buffers[2] = self._blobs.data.data
        self._array.length = self._blobs.length
        self._array.null_count = self._blobs.null_count
        self._array.n_buffers = 3
        self._array.buffers = self._buffers
        self._schema.format = b"z"
        self._schema.name = b""
        self._schema.flags = NULLABLE
        return None

    def __len__(self) -> int:
        return self._blobs.length

    def __getitem__(self, row: int) -> object:
        at: int64_t = row
        if at < 0:
            at += self._blobs.length
        if at < 0 or at >= self._blobs.length:
            raise IndexError(f"There is no key {row}.")
        if not (self._blobs.validity.data[at >> 3] >> (at & 7)) & 1:
            return None
        ends: cython.pointer(cython.int) = cython.cast(cython.pointer(cython.int), self._blobs.offsets.data)
        return self._blobs.data.data[ends[at] : ends[at + 1]]

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(cython.address(self._schema), self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple:
        return self.__arrow_c_schema__(), array_capsule(cython.address(self._array), self)

    def __repr__(self) -> str:
        return f"<KeyColumn of {len(self)} keys>"


@cython.cfunc
def keys_of(column: cython.pointer(cython.const[Blobs]), row: int64_t, rows: int64_t) -> KeyColumn:
    """The keys of these rows, or of as many of them as fit into 2 GiB."""
    made: KeyColumn = KeyColumn.__new__(KeyColumn)
    data: cython.p_const_char = cython.NULL
    size: int64_t
    i: int64_t
    with cython.nogil:
        if reserve_rows(cython.address(made._blobs), rows + 1):
            for i in range(row, row + rows):
                size = blob_at(column, i, cython.address(data))
                if not append_blob(cython.address(made._blobs), data, size if size >= 0 else -1):
                    break
    if made._blobs.length == 0:
        raise MemoryError
    made._close()
    return made


@cython.final
@cython.cclass
class Placement:
    """A column of partitions that a partitioner returned, as numbers to be read."""


@cython.cfunc
def placement(name: str, partitions: object, rows: int64_t) -> Placement:
    """Read what the partitioner `name` returned for `rows` keys; RecordError if it is no column of whole numbers."""
    made: Placement = Placement()
    memset(cython.address(made.numbers), 0, cython.sizeof(made.numbers))
    count: int64_t
    if hasattr(partitions, "__arrow_c_array__"):
        count = _from_arrow(name, made, partitions)
    else:
        try:
            whole = memoryview(partitions)
        except TypeError:
            count = _from_sequence(name, made, partitions)
        else:
            count = _from_buffer(name, made, whole)
    if count != rows:
        raise RecordError(f"partitioner.class {name} returned {count} partitions for {rows} keys.")
    return made


@cython.cfunc
def _refused(name: str, what: object) -> object:
    return RecordError(
        f"partitioner.class {name} returned {what}; it has to return a column of whole numbers as long as the keys: "
        "an Arrow array, a buffer such as numpy's arrays, or a sequence of int (None: the default partitioner decides)."
    )


@cython.cfunc
@cython.exceptval(-1)
def _from_arrow(name: str, made: Placement, partitions: object) -> int64_t:
    chunk: Chunk = import_array(partitions)
    kind = cython.cast(bytes, chunk.schema.c.format).decode("ascii", "replace")
    if chunk.schema.c.dictionary != cython.NULL or kind not in tuple("cCsSiIlL"):
        raise _refused(name, f"Arrow data of type {type_name(cython.address(chunk.schema.c))}")
    made.numbers.type = chunk.schema.c.format[0]
    made.numbers.offset = chunk.c.offset
    made.numbers.validity = validity_of(cython.address(chunk.c))
    made.numbers.values = chunk.c.buffers[1]
    made._kept = chunk
    return chunk.c.length


@cython.cfunc
@cython.exceptval(-1)
def _from_buffer(name: str, made: Placement, whole: object) -> int64_t:
    kind = whole.format.lstrip("@=")
    if whole.ndim != 1 or len(kind) != 1 or kind not in "bBhHiIlLqQnN":
        raise _refused(name, f"a buffer of {whole.ndim} dimensions and format {whole.format!r}")
    content: bytes = whole.tobytes()
    made.numbers.type = ord(_WHOLE_NUMBERS[whole.itemsize][kind.isupper()])
    made.numbers.values = PyBytes_AS_STRING(content)
    made._kept = content
    return len(whole)


@cython.cfunc
@cython.exceptval(-1)
def _from_sequence(name: str, made: Placement, partitions: object) -> int64_t:
    numbers = array("q")
    valid = bytearray()
    try:
        for i, partition in enumerate(partitions):
            if i & 7 == 0:
                valid.append(0)
            if partition is not None:
                valid[i >> 3] |= 1 << (i & 7)
            numbers.append(0 if partition is None else partition.__index__())
    except (TypeError, AttributeError, OverflowError) as error:
        raise _refused(name, f"{type(partitions).__name__}: {partitions!r:.60}") from error
    made._kept = (numbers.tobytes(), bytes(valid))
    made.numbers.type = b"l"[0]
    made.numbers.values = PyBytes_AS_STRING(made._kept[0])
    made.numbers.validity = cython.cast(cython.p_uchar, PyBytes_AS_STRING(made._kept[1]))
    return len(numbers)


def first_partition(name: str, partitions: object, partition_count: int) -> int | None:
    """Return the partition that a partitioner chose for one key; None leaves it to the default partitioner."""
    placed: Placement = placement(name, partitions, 1)
    number: int64_t = 0
    if not number_at(cython.address(placed.numbers), 0, cython.address(number)):
        return None
    if number < 0 or number >= partition_count:
        wrong: object = named_at(cython.address(placed.numbers), 0)
        raise RecordError(f"partitioner.class {name} chose partition {wrong}; there are 0 to {partition_count - 1}.")
    return number
