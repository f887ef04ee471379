"""Writes a ledger: Parquet, chunk by chunk, complete or not there at all.

The file is written under a temporary name in the same folder and renamed on `close()`, so that a run that is cut short
never leaves half a ledger, which the audit would take for a whole one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.errors import UserMistake
from ottla.ledger import schema

ARROW_SCHEMA = pa.schema(
    [pa.field(name, getattr(pa, kind)(), nullable=name == schema.ERROR) for name, kind in schema.COLUMNS]
)


class LedgerWriter:
    """One ledger file: what one run sent to one topic under one guarantee.

    `with LedgerWriter(path, run_id=..., guarantee=..., topic=...) as ledger: ledger.add(...)`. Leaving the block with
    an exception removes what was written. Raises UserMistake where the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, run_id: str, guarantee: str, topic: str) -> None:
        if guarantee not in schema.GUARANTEES:
            raise UserMistake(f"{guarantee!r} is not a guarantee: use one of {', '.join(schema.GUARANTEES)}.")
        self.path = Path(path)
        self.rows = 0
        self._constants = {schema.RUN_ID: run_id, schema.GUARANTEE: guarantee, schema.TOPIC: topic}
        self._partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        try:
            self._file: pq.ParquetWriter | None = pq.ParquetWriter(self._partial, ARROW_SCHEMA, compression="lz4")
        except OSError as error:
            self._partial.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def add(
        self,
        *,
        sequence: Any,
        partition: Any,
        key_crc: Any,
        value_crc: Any,
        outcome: Any,
        offset: Any,
        error: Any = None,
    ) -> None:
        """Append one chunk: columns of equal length, as Arrow arrays or lists; `error=None` means no error anywhere.

        A null `offset` or `partition` is written as -1. `outcome` holds the words of `ledger.schema.OUTCOMES`.
        """
        if self._file is None:
            raise ValueError("the ledger is closed")
        chunk = self._table(
            {
                schema.PARTITION: partition,
                schema.SEQUENCE: sequence,
                schema.KEY_CRC: key_crc,
                schema.VALUE_CRC: value_crc,
                schema.OUTCOME: outcome,
                schema.OFFSET: offset,
                schema.ERROR: error,
            }
        )
        try:
            self._file.write_table(chunk)
        except OSError as problem:
            self.discard()
            raise self._unwritable(problem) from problem
        self.rows += chunk.num_rows

    def close(self) -> None:
        """Finish the file and give it its name; a second call does nothing."""
        if self._file is None:
            return
        try:
            self._file.close()
            self._file = None
            self._partial.replace(self.path)
        except OSError as error:
            self.discard()
            raise self._unwritable(error) from error

    def discard(self) -> None:
        """Drop what was written; nothing is left behind."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # where the footer does not fit either, the file goes anyway
                file.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> LedgerWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _table(self, columns: Mapping[str, Any]) -> pa.Table:
        rows = len(columns[schema.SEQUENCE])
        arrays: list[Any] = []
        for field in ARROW_SCHEMA:
            if field.name in self._constants:
                arrays.append(pa.repeat(self._constants[field.name], rows))
                continue
            column = columns[field.name]
            if column is None:
                arrays.append(pa.nulls(rows, field.type))
                continue
            if not isinstance(column, pa.Array | pa.ChunkedArray):
                column = pa.array(column, field.type)
            column = column.cast(field.type)
            if field.name in (schema.OFFSET, schema.PARTITION):
                column = column.fill_null(-1)
            if len(column) != rows:
                raise ValueError(f"ledger column {field.name} has {len(column)} rows, sequence has {rows}")
            if column.null_count and not field.nullable:
                raise ValueError(f"ledger column {field.name} holds a null")
            arrays.append(column)
        _check_outcomes(arrays[ARROW_SCHEMA.get_field_index(schema.OUTCOME)])
        return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)

    def _unwritable(self, error: OSError) -> UserMistake:
        reason = error.strerror or str(error)
        return UserMistake(
            f"The ledger {self.path} cannot be written ({reason}): give a folder that exists, is writable and has room."
        )


def _check_outcomes(column: Any) -> None:
    for word in pc.unique(column).to_pylist():
        if word not in schema.OUTCOMES:
            raise ValueError(f"{word!r} is not an outcome: {', '.join(schema.OUTCOMES)}")
