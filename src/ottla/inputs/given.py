"""The file of rows that options name: `--input FILE`, or standard input, of the format that `--input-format` says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.errors import UserMistake
from ottla.inputs.bounds import ROWS_BYTES_MAX
from ottla.interruptible_reads import standard_input

STDIN = "-"
FORMATS = "csv", "tsv", "ndjson", "parquet"
_PIECE_BYTES = 1 << 20


@contextmanager
def given_rows(path: str, file_format: str | None) -> Iterator[Path]:
    """A path whose name says the format, for the block; a UserMistake of the block names what was given."""
    if file_format is None:
        if path == STDIN:
            raise UserMistake(f"--input - needs --input-format beside it: {', '.join(FORMATS)}")
        yield Path(path)
        return
    if file_format not in FORMATS:
        raise UserMistake(f"--input-format {file_format} is not one of {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="ottla-") as folder:
        place = Path(folder) / f"rows.{file_format}"
        if path == STDIN:
            _keep_stdin(place)
        else:
            place.symlink_to(Path(path).absolute())
        try:
            yield place
        except UserMistake as error:
            shown = "standard input" if path == STDIN else path
            raise UserMistake(str(error).replace(str(place), shown)) from None


def _keep_stdin(place: Path) -> None:
    """Formats of rows are read from files: Parquet begins at its end."""
    size, given = 0, standard_input()
    with place.open("wb") as file:
        while piece := given.read(_PIECE_BYTES):
            size += len(piece)
            if size > ROWS_BYTES_MAX:
                raise UserMistake(f"standard input is longer than {ROWS_BYTES_MAX >> 20:,} MiB: divide it")
            file.write(piece)
