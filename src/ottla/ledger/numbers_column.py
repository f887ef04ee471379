"""Record numbers from a column of headers: as `unpack_sequence` for one header, but for a whole Arrow column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.ledger.schema import SEQUENCE_HEADER

_NOT_OURS = -1


def number_column(headers: Any) -> pa.Int64Array:
    """The number in each record's first header `ottla.sequence`; -1 without one, or if it is not 8 bytes below 2**63.

    `headers` is a list array of structs `key` (text), `value` (bytes), as readers give it.
    """
    numbers = np.full(len(headers), _NOT_OURS, np.int64)
    flat: Any = headers.flatten()
    names, values = flat.field(0), flat.field(1)
    is_ours: Any = pc.fill_null(pc.equal(names.cast(pa.string()), pa.scalar(SEQUENCE_HEADER)), False)
    rows = pc.list_parent_indices(headers).filter(is_ours).to_numpy()
    # A record may carry several: the first counts, as for Spark.
    rows, first = np.unique(rows, return_index=True)
    found: Any = values.filter(is_ours).take(pa.array(first))
    is_whole: Any = pc.fill_null(pc.equal(pc.binary_length(found), pa.scalar(8)), False)
    packed = found.filter(is_whole).cast(pa.large_binary())
    _, offsets_buffer, data = packed.buffers()
    if len(packed):
        begin = int(np.frombuffer(offsets_buffer, np.int64)[packed.offset])
        read = np.frombuffer(data, ">i8", len(packed), begin)
        numbers[rows[is_whole.to_numpy(zero_copy_only=False)]] = np.where(read < 0, _NOT_OURS, read)
    return pa.array(numbers, pa.int64())
