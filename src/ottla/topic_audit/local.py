"""The audit of a topic in this process: the ledger and what the judge reads of the records, in Arrow tables.

Keys and values are reduced to checksums as they come, so that about 100 bytes are kept for each record.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
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
_COLUMNS = {schema.PARTITION: "int32", **dict.fromkeys(STORED_COLUMNS, "int64")}


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
    stored = _Growing(seen.offsets)
    with Reader(bootstrap_servers, assignments=assignments, **settings) as reader:
        for fetched in reader.iter_raw():
            for piece in reader.decode_pieces(fetched, _READ):
                stored.add(fetched.partition, piece)
                step.advance(piece.num_rows)
    return stored.table()


class _Growing:
    """What the judge reads of records, as they come: numbers alone, in memory that was taken once.

    Small arrays that stay, made between large ones that go, would take several times as much.
    """

    def __init__(self, expected: int) -> None:
        self._rows = 0
        self._columns = {name: np.empty(expected, kind) for name, kind in _COLUMNS.items()}

    def add(self, partition: int, records: pa.RecordBatch) -> None:
        """Records of one partition."""
        begin, end = self._rows, self._rows + records.num_rows
        times: Any = records.column("timestamp").cast(pa.int64())
        given: dict[str, Any] = {
            schema.PARTITION: partition,
            schema.OFFSET: records.column("offset"),
            schema.SEQUENCE: number_column(records.column("headers")),
            schema.KEY_CRC: crc_column(records.column("key")),
            schema.VALUE_CRC: crc_column(records.column("value")),
            TIMESTAMP: pc.fill_null(times, -1),
        }
        for name, column in given.items():
            room = self._columns[name]
            if end > len(room):
                # More than there are offsets: the reader has repeated some.
                room = self._columns[name] = np.resize(room, 2 * end)
            room[begin:end] = column
        self._rows = end

    def table(self) -> pa.Table:
        """All of it."""
        arrays: dict[str, Any] = {name: pa.array(column[: self._rows]) for name, column in self._columns.items()}
        return pa.table(arrays)
