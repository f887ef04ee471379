"""Columns become batches without a Python object per row: what is allocated does not grow with the rows."""

from __future__ import annotations

import gc
import sys

import pyarrow as pa
import pytest

from ottla.records.encode_columns import StickyPartition, encode_stream
from ottla.schemas.json_columns import json_column

ROWS = 300_000
# A batch is a handful of objects, and so is a call.
MOST_BLOCKS = 600


def table(rows: int) -> pa.Table:
    numbers = pa.array(range(rows), pa.int64())
    text = numbers.cast(pa.string())
    entries = pa.StructArray.from_arrays([text, text.cast(pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), entries)
    few = pa.array([f"tail {n % 100}" for n in range(rows)]).dictionary_encode()
    return pa.table(
        {
            "text": text,
            "view": text.cast(pa.string_view()),
            "few": few,
            "headers": headers,
            "partition": pa.array([n % 3 for n in range(rows)], pa.uint8()),
            "timestamp": numbers.cast(pa.timestamp("us")),
            "share": numbers.cast(pa.float64()),
        }
    )


COLUMNS = {
    "text": {"value": "text", "key": "few"},
    "views": {"value": "view", "key": "view"},
    "everything": {
        "value": "few",
        "key": "text",
        "headers": "headers",
        "partition": "partition",
        "timestamp": "timestamp",
    },
    "json": {"value": lambda chunk: json_column(chunk, ["text", "few", "timestamp", "share"]), "key": "text"},
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_allocations_do_not_grow_with_the_rows(columns):
    def encode(data):
        steps = encode_stream(
            data, topic="t", partition_count=3, batch_size=1_000_000, sticky=StickyPartition(), **columns
        )
        return [batch for step in steps for batch in step]

    data = table(ROWS)
    encode(data.slice(0, 10))
    gc.collect()
    before = sys.getallocatedblocks()
    batches = encode(data)
    grown = sys.getallocatedblocks() - before
    assert sum(batch.record_count for batch in batches) == ROWS
    assert grown < MOST_BLOCKS
