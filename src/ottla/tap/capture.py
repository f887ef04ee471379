"""Our capture file: a first line that says what it is, then a line of JSON for each exchange or remark.

Each line is flushed when it is written, so a process that is killed leaves a file that can be read up to its last whole
line. Format 1: `{"ottla_capture": 1, ...}`, then what `exchange.to_plain` makes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.errors import UserMistake
from ottla.tap.byte_source import ByteSource
from ottla.tap.exchange import Entry, UnreadableEntry, from_plain, to_plain

FORMAT = 1
_FORMAT_FIELD = "ottla_capture"
BEGINNING = b'{"ottla_capture":'


class CutOff(NamedTuple):
    """The last line of a capture is not whole: line `number`, `size_bytes` at `position` in the file."""

    number: int
    position: int
    size_bytes: int


class CaptureWriter:
    """Appends entries to a new file; UserMistake where the file is there already. One thread writes.

    `about`: what else the first line is to say, in JSON's types.
    """

    def __init__(self, path: Path, **about: Any) -> None:
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise UserMistake(f"{path} is there already: name a new file for the capture, or remove it") from None
        except OSError as error:
            raise UserMistake(
                f"the capture cannot be written to {path} ({error.strerror}): name another file"
            ) from None
        self._write({_FORMAT_FIELD: FORMAT, **about})

    def write(self, entry: Entry) -> None:
        """Append one exchange or remark."""
        self._write(to_plain(entry))

    def close(self) -> None:
        """Close the file; nothing is held back by then."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, plain: dict[str, Any]) -> None:
        line = memoryview(json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        # An unbuffered file may take a part.
        while line:
            line = line[os.write(self._file.fileno(), line) :]


class CaptureReader:
    """Reads a capture from its beginning: `head` is its first line, `entries` gives what is whole by now.

    `entries` may be asked again when more was written. Raises UserMistake with the line's number where a line is not
    an entry; a last line without its end is no error, since it may still be under way: `cut_off` tells of it.
    """

    def __init__(self, source: ByteSource, name: str) -> None:
        self._source = source
        self._name = name
        self._number = 0
        self.head: dict[str, Any] | None = None

    @property
    def cut_off(self) -> CutOff | None:
        """The last line where it has no end."""
        source = self._source
        return CutOff(self._number + 1, source.position, source.rest_bytes) if source.rest_bytes else None

    def entries(self) -> Iterator[Entry]:
        """All entries whose lines are whole and were not given yet."""
        while (line := self._source.line()) is not None:
            self._number += 1
            plain = self._parsed(line)
            if self.head is None:
                self._read_head(plain)
                continue
            try:
                yield from_plain(plain)
            except UnreadableEntry as error:
                raise UserMistake(f"{self._name}, line {self._number}: {error}") from None

    def _parsed(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise UserMistake(f"{self._name}, line {self._number}: not JSON") from None

    def _read_head(self, plain: Any) -> None:
        number = plain.get(_FORMAT_FIELD) if isinstance(plain, dict) else None
        if type(number) is not int or number < 1:
            raise UserMistake(f"{self._name} is not a capture: its first line does not say so")
        if number > FORMAT:
            raise UserMistake(
                f"{self._name} is a capture of format {number}, which a newer ottla has written: "
                f"this one reads up to format {FORMAT}"
            )
        self.head = plain
