"""Files that `ottla read --output` writes: Parquet, CSV or NDJSON, by the ending of their name, whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.record_lines import CSV_NAMES, as_fields, as_json, rows_of
from ottla.cli.shown_values import BytesText
from ottla.errors import UserMistake
from ottla.whole_file import writing_whole

if TYPE_CHECKING:
    import pyarrow as pa

Write = Callable[[Path, "pa.Schema", "Iterable[pa.RecordBatch]", BytesText], None]


def writer_of(path: Path) -> Write:
    """What writes such a file; UserMistake where its ending names no format."""
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        ending = path.suffix or "no ending"
        raise UserMistake(f"--output {path} has {ending}: give a name that ends with {', '.join(_WRITERS)}")
    return write


def write_records(
    path: Path, write: Write, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bytes_text: BytesText
) -> None:
    """Write all records."""
    with writing_whole(path, what="the records", option="--output") as place:
        write(place, schema, batches, bytes_text)


def _write_parquet(place: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bytes_text: BytesText) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(place, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(place: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bytes_text: BytesText) -> None:
    with place.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(CSV_NAMES)
        rows.writerows(map(as_fields, rows_of(batches, bytes_text)))


def _write_ndjson(place: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], bytes_text: BytesText) -> None:
    with place.open("wb") as file:
        file.writelines(map(as_json, rows_of(batches, bytes_text)))


PARQUET = ".parquet", ".pq"
_WRITERS: dict[str, Write] = {
    **dict.fromkeys(PARQUET, _write_parquet),
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
}
