"""Opens a file of rows: what its name says of its format, unpacked, as text; and its errors in the user's words."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ottla.errors import UserMistake
from ottla.inputs.bounds import Room, check_depth

# What stands for a missing value in a CSV file; everything else is a value.
CSV_NULLS = ("", "NA", "N/A", "NULL", "null", "NaN", "nan")
_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}
FORMATS_ALLOWED = "CSV (.csv, .tsv), NDJSON (.ndjson, .jsonl, .json) or Parquet (.parquet), text also as .gz or .zip"
_SNIFFED_BYTES = 65_536


def format_of(path: Path) -> str:
    """One of "csv", "ndjson" and "parquet", by the name of the file; `UserMistake` for another one."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zip"):
        suffixes.pop()
    if suffixes and suffixes[-1] in _FORMATS:
        return _FORMATS[suffixes[-1]]
    raise UserMistake(f"{path} is of no format known by its name: --input takes {FORMATS_ALLOWED}")


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """The file as text, unpacked; what cannot be unpacked or decoded becomes a `UserMistake`."""
    try:
        with _unpacked(path) as raw:
            head = raw.peek(_SNIFFED_BYTES) if isinstance(raw, io.BufferedReader) else b""
            if b"\0" in head:
                raise UserMistake(f"{path} is not text (it holds zero bytes): --input takes {FORMATS_ALLOWED}")
            with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        raise UserMistake(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except csv.Error as error:
        raise UserMistake(f"{path} cannot be read as CSV ({error})") from None
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserMistake(f"{path} cannot be unpacked ({error})") from None


def read_whole(path: Path, room: Room) -> bytearray:
    """All bytes of the file, unpacked; `UserMistake` where `room` has none for them."""
    try:
        with _unpacked(path) as raw:
            return room.read(raw)
    except (zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserMistake(f"{path} cannot be unpacked ({error})") from None


def _unpacked(path: Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return io.BufferedReader(gzip.open(path))
    if suffix == ".zip":
        archive = zipfile.ZipFile(path)
        members = [member for member in archive.namelist() if not member.endswith("/")]
        if len(members) != 1:
            raise UserMistake(f"{path} holds {len(members)} files: an --input archive must hold exactly one")
        return archive.open(members[0])
    return path.open("rb")


@contextmanager
def arrow_errors(path: Path, file_format: str) -> Iterator[None]:
    """What pyarrow raises in the block becomes a `UserMistake`."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UserMistake(f"{path} cannot be read as {file_format} ({first_line(error)})") from None


def json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    """The object that a line of NDJSON holds; `UserMistake` where it holds none."""
    check_depth(line.encode(), path, number)
    try:
        value = json.loads(line)
    except ValueError as error:
        raise UserMistake(f"line {number} of {path} is not JSON ({error}): mend or remove that line") from None
    if not isinstance(value, dict):
        raise UserMistake(f"line {number} of {path} is not a JSON object: NDJSON holds one object per line")
    return value


def delimiter_of(path: Path) -> str:
    """What stands between the columns of a CSV file, by its name."""
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def first_line(error: BaseException) -> str:
    """The first line of an error of pyarrow, which may have many."""
    return str(error).strip().split("\n")[0][:200]
