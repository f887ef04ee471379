"""Files that `ottla read --output` writes: Parquet, CSV or NDJSON, by the ending of their name, whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from ottla.cli.read_values import ValuesRead
from ottla.cli.record_lines import CSV_NAMES, as_fields, as_json, rows_of
from ottla.errors import UserMistake
from ottla.whole_file import writing_whole

Write = Callable[[Path, ValuesRead], None]


def writer_of(path: Path) -> Write:
    """What writes such a file; UserMistake where its ending names no format."""
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        ending = path.suffix or "no ending"
        raise UserMistake(f"--output {path} has {ending}: give a name that ends with {', '.join(_WRITERS)}")
    return write


def write_records(path: Path, write: Write, found: ValuesRead) -> None:
    """Write all records."""
    with writing_whole(path, what="the records", option="--output") as place:
        write(place, found)


def _write_parquet(place: Path, found: ValuesRead) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(place, found.schema) as writer:
        for batch in found.batches:
            writer.write_batch(batch)


def _write_csv(place: Path, found: ValuesRead) -> None:
    with place.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(CSV_NAMES)
        rows.writerows(map(as_fields, rows_of(found)))


def _write_ndjson(place: Path, found: ValuesRead) -> None:
    with place.open("wb") as file:
        file.writelines(map(as_json, rows_of(found)))


PARQUET = ".parquet", ".pq"
_WRITERS: dict[str, Write] = {
    **dict.fromkeys(PARQUET, _write_parquet),
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
}
