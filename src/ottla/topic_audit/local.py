"""The audit of a topic in this process: the ledger and what the judge reads of the records, in Arrow tables.

Keys and values are reduced to checksums as they come, so that about 100 bytes are kept for each record.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.audit.ledgers.local import audit_tables
from ottla.audit.ledgers.tables import STORED_COLUMNS, TIMESTAMP, TopicTraits
from ottla.client.reader import Reader
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column
from ottla.ledger.files import LedgerRows, read_rows
from ottla.ledger.numbers_column import number_column

if TYPE_CHECKING:
    from ottla.audit.ledgers.partition import Audit
    from ottla.screen import Step, Steps
    from ottla.topic_audit.topic import TopicSeen

_READ = ("key", "value", "offset", "timestamp", "headers")
_SCHEMA = pa.schema([(schema.PARTITION, pa.int32()), *((name, pa.int64()) for name in STORED_COLUMNS)])


def read_ledger_rows(files: tuple[Path, ...], topic: str, steps: Steps) -> LedgerRows:
    """The ledger's rows about the topic."""
    with steps.step("read the ledger"):
        return read_rows(files, topic)


def audit_here(
    rows: LedgerRows,
    bootstrap_servers: str,
    seen: TopicSeen,
    traits: TopicTraits,
    settings: dict[str, Any],
    steps: Steps,
) -> Audit:
    """Read the topic and judge it."""
    with steps.step(f"read {seen.name}", seen.offsets, "records") as step:
        stored = _read_stored(bootstrap_servers, seen, settings, step)
    with steps.step("audit", rows.table.num_rows + stored.num_rows, "rows") as step:
        return audit_tables(seen.name, rows.table, stored, seen.bounds, traits, advance=step.advance)


def _read_stored(bootstrap_servers: str, seen: TopicSeen, settings: dict[str, Any], step: Step) -> pa.Table:
    assignments: dict[Any, Any] = {(seen.name, partition): within for partition, within in seen.bounds.items()}
    batches = []
    with Reader(bootstrap_servers, assignments=assignments, **settings) as reader:
        for fetched in reader.iter_raw():
            for piece in reader.decode_pieces(fetched, _READ):
                if piece.num_rows:
                    batches.append(_reduced(fetched.partition, piece))
                    step.advance(piece.num_rows)
    return pa.Table.from_batches(batches, _SCHEMA)


def _reduced(partition: int, records: pa.RecordBatch) -> pa.RecordBatch:
    """What the judge reads of records, in numbers alone."""
    times: Any = records.column("timestamp").cast(pa.int64())
    columns: dict[str, Any] = {
        schema.PARTITION: pa.repeat(pa.scalar(partition, pa.int32()), records.num_rows),
        schema.OFFSET: records.column("offset"),
        schema.SEQUENCE: number_column(records.column("headers")),
        schema.KEY_CRC: crc_column(records.column("key")),
        schema.VALUE_CRC: crc_column(records.column("value")),
        TIMESTAMP: pc.fill_null(times, -1),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _SCHEMA.names], schema=_SCHEMA)
