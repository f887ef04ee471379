"""CRC-32 of keys, values and headers, by which the audit tells an altered record from an intact one.

zlib's CRC-32 (not the batch's CRC32-C): Spark computes the same function in the JVM, so that the judge never needs
the producer's code to compare.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from zlib import crc32

import pyarrow as pa

from ottla.errors import UserMistake
from ottla.ledger.schema import NO_CRC


def record_crc(data: bytes | str | None) -> int:
    """The ledger's checksum of one key or value as it is stored: text counts as its UTF-8, None as -1."""
    if data is None:
        return NO_CRC
    return crc32(data.encode() if isinstance(data, str) else data)


def headers_crc(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """The checksum of a record's headers in their order; 0 without headers. A null value and an empty one differ."""
    crc = 0
    for name, value in headers:
        packed = name.encode()
        lengths = b"%d %d " % (len(packed), -1 if value is None else len(value))
        crc = crc32(lengths + packed + (value or b""), crc)
    return crc


def crc_column(column: Any) -> pa.Int64Array:
    """The checksum of each value of a text or binary Arrow column; -1 for nulls. Never null itself.

    Takes an Array, a ChunkedArray, or anything that exports an Arrow array.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays([crc_column(chunk) for chunk in column.chunks] or [pa.array([], pa.int64())])
    array: Any = column if isinstance(column, pa.Array) else pa.array(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        array = array.cast(pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UserMistake(
            f"A column of type {column.type} has no stored bytes to take a checksum of: give text or binary."
        ) from None
    _, offsets_buffer, data_buffer = array.buffers()
    ends = memoryview(offsets_buffer).cast("q")[array.offset : array.offset + len(array) + 1].tolist()
    data = memoryview(data_buffer) if data_buffer is not None else memoryview(b"")
    crcs = [crc32(data[start:end]) for start, end in pairwise(ends)]
    if array.null_count:
        for row, valid in enumerate(array.is_valid().to_pylist()):
            if not valid:
                crcs[row] = NO_CRC
    return pa.array(crcs, pa.int64())
