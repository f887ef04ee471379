"""Reads stored records as what the judge needs of them: numbers alone. Both engines read with this.

Keys, values and headers are left where they were read, so that neither memory nor Spark's shuffle ever holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
ValueOf = Callable[[str, int, pa.RecordBatch], Any]
"""What another topic should hold as values of these records of a topic and partition: an Arrow column."""

_READ = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")
_LOG_APPEND_TIME = 1


def read_reduced(
    bootstrap_servers: str,
    topic: str,
    bounds: Mapping[int, tuple[int, int]],
    settings: Mapping[str, Any],
    value_of: ValueOf | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of `bounds`, {partition: (first offset, end offset)}, in batches of STORED_SCHEMA.

    With `value_of` the checksum is that of the value it makes, else that of the record's own.
    """
    assignments: dict[tuple[str, int], tuple[Start, End]] = {
        (topic, partition): within for partition, within in bounds.items()
    }
    with Reader(bootstrap_servers, assignments=assignments, **settings) as reader:
        for fetched in reader.iter_raw():
            for piece in reader.decode_pieces(fetched, _READ):
                if piece.num_rows:
                    value = piece.column("value") if value_of is None else value_of(topic, fetched.partition, piece)
                    yield _reduced(fetched.partition, piece, value)


def _reduced(partition: int, records: pa.RecordBatch, value: Any) -> pa.RecordBatch:
    compute: Any = pc  # whose stubs know nothing of if_else
    # A broker's time does not show whether the producer or the application wrote a record twice.
    is_brokers = pc.equal(records.column("timestamp_type"), pa.scalar(_LOG_APPEND_TIME, pa.int8()))
    times = compute.if_else(is_brokers, schema.NO_TIMESTAMP, records.column("timestamp").cast(pa.int64()))
    columns: dict[str, Any] = {
        schema.PARTITION: pa.repeat(pa.scalar(partition, pa.int32()), records.num_rows),
        schema.OFFSET: records.column("offset"),
        schema.SEQUENCE: number_column(records.column("headers")),
        schema.KEY_CRC: crc_column(records.column("key")),
        schema.VALUE_CRC: crc_column(value),
        TIMESTAMP: pc.fill_null(times, schema.NO_TIMESTAMP),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in STORED_SCHEMA.names], schema=STORED_SCHEMA)
