"""The audit of a topic in this process: the ledger, and what the judge reads of the records, in Arrow tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.audit.ledgers.local import audit_tables
from ottla.audit.ledgers.tables import TopicTraits
from ottla.ledger import schema
from ottla.ledger.files import LedgerRows, read_rows
from ottla.topic_audit.reduced import STORED_SCHEMA, read_reduced

if TYPE_CHECKING:
    from ottla.audit.ledgers.partition import Audit
    from ottla.screen import Steps
    from ottla.topic_audit.topic import TopicSeen


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
    stored = _Growing(seen.offsets)
    with steps.step(f"read {seen.name}", seen.offsets, "records") as step:
        for batch in read_reduced(bootstrap_servers, seen.name, seen.bounds, settings):
            stored.add(batch)
            step.advance(batch.num_rows)
    table = stored.table()
    with steps.step("audit", rows.table.num_rows + table.num_rows, "rows") as step:
        sent = _placed(rows.table, table)
        return audit_tables(seen.name, sent, table, seen.bounds, traits, advance=step.advance)


def _placed(sent: pa.Table, stored: pa.Table) -> pa.Table:
    """The ledger's rows; those without a partition have that in which their record is stored, if it is.

    Many clients do not say for which partition an unknown record was.
    """
    partition = sent.column(schema.PARTITION).to_numpy().copy()
    without = np.flatnonzero(partition < 0)
    if not len(without) or not stored.num_rows:
        return sent
    there, numbers = stored.column(schema.PARTITION).to_numpy(), stored.column(schema.SEQUENCE).to_numpy()
    order = np.lexsort((there, numbers))
    numbers = numbers[order]
    wanted = sent.column(schema.SEQUENCE).to_numpy()[without]
    found = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    is_stored = numbers[found] == wanted
    partition[without[is_stored]] = there[order][found[is_stored]]
    return sent.set_column(sent.column_names.index(schema.PARTITION), schema.PARTITION, pa.array(partition))


class _Growing:
    """Batches put together in memory that was taken once.

    Small arrays that stay, made between large ones that go, would take several times as much.
    """

    def __init__(self, expected: int) -> None:
        self._rows = 0
        self._columns = {field.name: np.empty(expected, field.type.to_pandas_dtype()) for field in STORED_SCHEMA}

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of STORED_SCHEMA."""
        begin, end = self._rows, self._rows + batch.num_rows
        for name, room in self._columns.items():
            if end > len(room):
                # More records than offsets: the reader has repeated some.
                room = self._columns[name] = np.resize(room, 2 * end)
            room[begin:end] = batch.column(name).to_numpy()
        self._rows = end

    def table(self) -> pa.Table:
        """All of it."""
        arrays: dict[str, Any] = {name: pa.array(column[: self._rows]) for name, column in self._columns.items()}
        return pa.table(arrays)
