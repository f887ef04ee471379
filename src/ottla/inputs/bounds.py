"""How much a file of rows may hold: its rows are kept in memory as a whole, so this is asked before they are read.

A small file can hold a lot: gzip makes a thousandth of a line that repeats, and Parquet keeps a value once for all rows
that have it. What is counted is an upper bound of the rows' size as JSON, without making the JSON. Kept in memory are
the Arrow table and, while it is made, the text of the file: neither takes more than that bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from ottla.errors import UserMistake

ROWS_BYTES_MAX = 3 << 29
# A record of this size is sixteen times what Kafka takes unless told otherwise (message.max.bytes).
LINE_BYTES_MAX = 16 << 20
DEPTH_MAX = 100
# Quotes, colon and comma of a field, and a value such as null.
_FIELD_BYTES = 8
_PIECE_BYTES = 1 << 20
# `*+` does not backtrack, so a line is read once.
_MANY_BRACKETS = re.compile(rb"(?m)^(?:[^\n\[{]*+[\[{]){%d}" % (DEPTH_MAX + 1))
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_NAME = re.compile(rb'"([^"\\]*)"\s*:')


class Room:
    """What is left of `ROWS_BYTES_MAX` for one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left_bytes = ROWS_BYTES_MAX

    def take(self, size: int) -> None:
        """So many bytes more; `UserMistake` where there is no room for them."""
        self._left_bytes -= size
        if self._left_bytes < 0:
            raise UserMistake(
                f"{self._path} holds more than {ROWS_BYTES_MAX >> 20:,} MiB of rows (unpacked, as JSON), and all rows "
                "are kept in memory: divide the file"
            )

    def take_rows(self, count: int, names: Iterable[str | bytes]) -> None:
        """So many rows, each of which has all these names in it."""
        self.take(count * sum(len(name) + _FIELD_BYTES for name in names))

    def read(self, raw: IO[bytes]) -> bytearray:
        """All that comes out of `raw`."""
        content = bytearray()
        while piece := raw.read(_PIECE_BYTES):
            self.take(len(piece))
            content += piece
        return content


def lines(text: IO[str], path: Path) -> Iterable[str]:
    """The lines of a text, of bounded length; `UserMistake` for a longer one."""
    number = 1
    while line := text.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise UserMistake(f"line {number} of {path} is longer than {LINE_BYTES_MAX >> 20} MiB: divide that line")
        yield line
        number += 1


def size_as_json(column: Any) -> int:
    """About as many bytes as the values of an Arrow column take as JSON."""
    import pyarrow as pa

    kind = column.type
    size: int = column.nbytes
    if pa.types.is_struct(kind):
        names = sum(len(kind.field(number).name) + _FIELD_BYTES for number in range(kind.num_fields))
        return len(column) * names + sum(size_as_json(each) for each in column.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return size + size_as_json(column.flatten())
    if pa.types.is_map(kind):
        return size + size_as_json(column.keys) + size_as_json(column.items)
    return size


def take_ndjson(content: bytearray, room: Room, path: Path) -> None:
    """Ask for the room that lines of JSON need as a table, where each row has all names of all rows."""
    check_depth(content, path)
    names: set[bytes] = set()
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin + _PIECE_BYTES) + 1 or len(content)
        names.update(_NAME.findall(content, begin, end))
        begin = end
    room.take_rows(content.count(b"\n") + 1, names)


def check_depth(content: bytes | bytearray, path: Path, first_number: int = 1) -> None:
    """`UserMistake` for the first line whose brackets are nested too deeply for readers and writers of JSON."""
    for found in _MANY_BRACKETS.finditer(content):
        begin = found.start()
        end = content.find(b"\n", begin)
        depth = 0
        for byte in _TEXT.sub(b"", content[begin : end if end >= 0 else len(content)]):
            if byte in b"[{":
                depth += 1
            elif byte in b"]}":
                depth -= 1
            if depth > DEPTH_MAX:
                number = first_number + content.count(b"\n", 0, begin)
                raise UserMistake(
                    f"line {number} of {path} has more than {DEPTH_MAX} brackets within each other, as many as are "
                    "allowed: mend or remove that line"
                )
