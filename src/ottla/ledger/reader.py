"""Reads a ledger back, and refuses what is not one."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.errors import UserMistake
from ottla.ledger.writer import ARROW_SCHEMA


def read_ledger(path: str | os.PathLike[str]) -> pa.Table:
    """All rows of one ledger file, with the columns of `ledger.schema.COLUMNS` in that order.

    Raises UserMistake where the file is missing, is not Parquet, or lacks a column.
    """
    file = Path(path)
    try:
        table = pq.read_table(file)
    except FileNotFoundError:
        raise UserMistake(f"There is no ledger at {file}: give the file a run has written.") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise UserMistake(f"{file} cannot be read as a ledger, which is a Parquet file: {error}.") from error
    missing = [name for name in ARROW_SCHEMA.names if name not in table.column_names]
    if missing:
        raise UserMistake(f"{file} is not a ledger of ottla: it lacks the column {', '.join(missing)}.")
    return table.select(ARROW_SCHEMA.names).cast(ARROW_SCHEMA)
