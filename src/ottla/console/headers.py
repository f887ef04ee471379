"""Headers of records as far as they are shown: the first ones, and how many there are.

Few bytes of a compressed batch can be made to hold millions of headers, so only those that are shown become objects of
Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ottla.console.shown import LIST_BYTES, RECORD_BYTES, Beginning

NAME_BYTES = 1 << 10

Header = tuple[str, Beginning]


class Room(NamedTuple):
    """How many headers of one record are shown at most, and how many bytes of their names and values."""

    headers: int
    bytes: int


LIST_ROOM, RECORD_ROOM = Room(100, 8 * LIST_BYTES), Room(1_000, RECORD_BYTES)


class Headers(NamedTuple):
    """The first headers of a record, and how many it has."""

    first: Sequence[Header]
    total: int


def shown_name(size: int, beginning: bytes) -> str:
    """A header's name, of which this is the beginning."""
    return beginning.decode("utf-8", "replace") + ("…" if size > len(beginning) else "")


class Taken:
    """Headers of one record, taken one after the other as long as there is room."""

    def __init__(self, room: Room) -> None:
        self.first: list[Header] = []
        self._left = room

    @property
    def is_full(self) -> bool:
        """Whether no more of them are shown."""
        return self._left.headers <= 0 or self._left.bytes <= 0

    def take(self, name_size: int, name: bytes, value: Beginning) -> None:
        """One more; of a long name and a long value the beginnings."""
        self.first.append((shown_name(name_size, name), value))
        size = len(name) + len(value[1] or b"")
        self._left = Room(self._left.headers - 1, self._left.bytes - size)


def of_column(column: Any, room: Room) -> Iterator[Headers]:
    """Those of each row of a column list<struct<key, value>>."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    wanted = np.minimum(counts, room.headers)
    ends = np.cumsum(wanted)
    # Where each header that is wanted stands among all.
    places = np.arange(wanted.sum()) + np.repeat(column.offsets.to_numpy()[:-1] - (ends - wanted), wanted)
    found: Any = column.values.take(pa.array(places, pa.int64()))
    parts = []
    for part, most_bytes in (("key", NAME_BYTES), ("value", LIST_BYTES)):
        stored: Any = found.field(part).cast(pa.binary())
        sizes = pc.fill_null(pc.binary_length(stored), 0).to_pylist()
        parts.append(list(zip(sizes, pc.binary_slice(stored, 0, most_bytes).to_pylist(), strict=True)))
    names, values = parts
    for count, number, end in zip(counts.tolist(), wanted.tolist(), ends.tolist(), strict=True):
        taken = Taken(room)
        for place in range(end - number, end):
            if taken.is_full:
                break
            taken.take(*names[place], values[place])
        yield Headers(taken.first, count)
