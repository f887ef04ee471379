"""Reads stored records as what the judge needs of them: numbers alone. Both engines read with this.

Keys, values and headers are left where they were read, so that neither memory nor Spark's shuffle ever holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.audit.ledgers.tables import STORED_COLUMNS, TIMESTAMP
from ottla.client.reader import Reader
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column
from ottla.ledger.numbers_column import number_column

if TYPE_CHECKING:
    from ottla.client.reader import End, Start

STORED_SCHEMA = pa.schema([(schema.PARTITION, pa.int32()), *((name, pa.int64()) for name in STORED_COLUMNS)])
_READ = ("key", "value", "offset", "timestamp", "headers")


def read_reduced(
    bootstrap_servers: str, topic: str, bounds: Mapping[int, tuple[int, int]], settings: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The records of `bounds`, {partition: (first offset, end offset)}, in batches of STORED_SCHEMA."""
    assignments: dict[tuple[str, int], tuple[Start, End]] = {
        (topic, partition): within for partition, within in bounds.items()
    }
    with Reader(bootstrap_servers, assignments=assignments, **settings) as reader:
        for fetched in reader.iter_raw():
            for piece in reader.decode_pieces(fetched, _READ):
                if piece.num_rows:
                    yield _reduced(fetched.partition, piece)


def _reduced(partition: int, records: pa.RecordBatch) -> pa.RecordBatch:
    times: Any = records.column("timestamp").cast(pa.int64())
    columns: dict[str, Any] = {
        schema.PARTITION: pa.repeat(pa.scalar(partition, pa.int32()), records.num_rows),
        schema.OFFSET: records.column("offset"),
        schema.SEQUENCE: number_column(records.column("headers")),
        schema.KEY_CRC: crc_column(records.column("key")),
        schema.VALUE_CRC: crc_column(records.column("value")),
        TIMESTAMP: pc.fill_null(times, -1),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in STORED_SCHEMA.names], schema=STORED_SCHEMA)
