"""What the values of a run's records are: each row as JSON, or (`avro.py`) as Avro with a schema of a registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.ledger.checksum import crc_column
from ottla.schemas.json_columns import json_column

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.showcase.result import Result

_CHUNKS = 40


class Values(ABC):
    """A value for each row of a table, the same each time it is made."""

    def __init__(self, rows: pa.Table) -> None:
        self.count = rows.num_rows

    def begin(self, topic: str, numbers: range) -> None:  # noqa: B027
        """Called before the values of these numbers are first made for a topic."""

    @abstractmethod
    def made(self, numbers: range) -> Any:
        """The values of these numbers, an Arrow column of bytes."""

    @abstractmethod
    def size_bytes(self) -> int:
        """What all values take."""

    @abstractmethod
    def sample(self) -> bytes:
        """Some values one after the other, to see how they compress."""

    @abstractmethod
    def checksums(self) -> pa.Int64Array:
        """The checksum of each value, once all have been sent."""

    @abstractmethod
    def fields(self, types: str) -> Column:
        """The column `value` of Spark's source as a struct that has at least these fields ("origin string, ...")."""

    @abstractmethod
    def result(self, topic: str) -> Result:
        """What the streaming job makes of these values, for the topic of its result."""

    def pieces(self) -> Iterator[range]:
        """The numbers of all rows in pieces; where they are cut follows from the count alone."""
        step = max(1, -(-self.count // _CHUNKS))
        return (range(begin, min(begin + step, self.count)) for begin in range(0, self.count, step))


class JsonValues(Values):
    """Each row as a JSON object; `UserMistake` for a column that JSON cannot hold."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(rows)
        self._rows = rows
        self._size_bytes = 0
        # JSON takes several times the memory of the rows: it is made again whenever it is needed, a piece at a time.
        checksums = []
        for numbers in self.pieces():
            values = self.made(numbers)
            self._size_bytes += pc.sum(pc.binary_length(values)).as_py() or 0
            checksums.append(crc_column(values))
        self._checksums = pa.concat_arrays(checksums)

    def made(self, numbers: range) -> Any:
        """As text in UTF-8."""
        made: Any = json_column(self._rows.slice(numbers.start, len(numbers)), None, numbers.start)
        return pa.array(made)

    def size_bytes(self) -> int:
        """As it was measured at first."""
        return self._size_bytes

    def sample(self) -> bytes:
        """Of the first rows."""
        return b"".join(self.made(range(min(self.count, 2_000))).to_pylist())

    def checksums(self) -> pa.Int64Array:
        """As they were computed at first."""
        return self._checksums

    def fields(self, types: str) -> Column:
        """What is none of these fields is left out."""
        from pyspark.sql import functions as F  # noqa: N812

        return F.from_json(F.col("value").cast("string"), types)

    def result(self, topic: str) -> Result:
        """JSON as well."""
        from ottla.showcase.result import JsonResult

        return JsonResult()
