"""What the streaming job makes of a record: a value with the record and its offset, as JSON or (`avro.py`) Avro."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

FROM = "concat(topic, '-', partition, '@', offset)"
"""Where a record stood, in SQL over the columns of Spark's Kafka source."""


class Result(ABC):
    """The value of a record of the result: by Spark for the job, and twice without it for the judges."""

    @abstractmethod
    def column(self) -> Column:
        """The value as a column, made of the columns of Spark's Kafka source."""

    @abstractmethod
    def values(self, topic: str, partition: int, records: pa.RecordBatch) -> Any:
        """A column of values for these records of a source."""

    @abstractmethod
    def value(self, topic: str, partition: int, offset: int, value: bytes | None) -> bytes:
        """The same for one record."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any] | None:
        """What `read_result` makes a result of, as JSON has it."""


class JsonResult(Result):
    """A JSON object of `from` and `record`."""

    def column(self) -> Column:
        """By putting text together."""
        from pyspark.sql import functions as F  # noqa: N812

        record = "coalesce(cast(value as string), 'null')"
        return F.expr(f"""cast(concat('{{"from":"', {FROM}, '","record":', {record}, '}}') as binary)""")

    def values(self, topic: str, partition: int, records: pa.RecordBatch) -> Any:
        """By pyarrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        compute: Any = pc  # whose stubs know no scalars here
        offsets = records.column("offset").cast(pa.string())
        value = compute.coalesce(records.column("value").cast(pa.binary()), pa.scalar(b"null"))
        before = compute.binary_join_element_wise(f'{{"from":"{topic}-{partition}@', offsets, '","record":', "")
        return compute.binary_join_element_wise(before.cast(pa.binary()), value, pa.scalar(b"}"), pa.scalar(b""))

    def value(self, topic: str, partition: int, offset: int, value: bytes | None) -> bytes:
        """By hand."""
        return b'{"from":"%s-%d@%d","record":%s}' % (topic.encode(), partition, offset, value or b"null")

    def to_dict(self) -> None:
        """None, which `read_result` turns back into a `JsonResult`."""
