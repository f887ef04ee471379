"""The partitions of a column of keys, as Kafka's own clients choose them: murmur2, modulo the count (compiled).

For those who want to know before they send; `encode_columns` does the same on its way.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.ottla.records.arrow_columns import read_byte_strings
from cython.cimports.ottla.records.arrow_data import Chunk, import_array
from cython.cimports.ottla.records.arrow_layout import Blobs, blob_at
from cython.cimports.ottla.records.wire import MURMUR2, partition_of


@cython.final
@cython.cclass
class _Keys:
    """Where the keys are."""

    blobs = cython.declare(Blobs)


def key_partitions(keys: object, count: int) -> bytearray:
    """32-bit numbers, one for each key of an Arrow array of text or binary; -1 where the key is null."""
    if count < 1:
        raise ValueError(f"A topic cannot have {count} partitions.")
    chunk: Chunk = import_array(keys)
    found: _Keys = _Keys()
    read_byte_strings(
        cython.address(found.blobs), cython.address(chunk.schema.c), cython.address(chunk.c), 0, "key", "key"
    )
    rows: int64_t = chunk.c.length
    made: bytearray = PyByteArray_FromStringAndSize(cython.NULL, 4 * rows)
    numbers: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), PyByteArray_AS_STRING(made))
    partitions: int32_t = count
    data: cython.p_const_char = cython.NULL
    size: int64_t
    row: int64_t
    with cython.nogil:
        for row in range(rows):
            size = blob_at(cython.address(found.blobs), row, cython.address(data))
            numbers[row] = -1 if size < 0 else partition_of(MURMUR2, data, size, partitions)
    return made
