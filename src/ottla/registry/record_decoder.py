"""RecordBatches of records as they are stored -> the same with decoded values, for readers of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from ottla.errors import ConfigError, DeserializationError, fresh
from ottla.registry.columns import MODES, ColumnDecoder, client_of, reader_schema
from ottla.registry.registered import RegisteredSchema


class RecordDecoder:
    """Decodes the column `value` of batches with the columns of `Reader`."""

    def __init__(self, decoder: ColumnDecoder) -> None:
        self._decoder = decoder

    @classmethod
    def of(
        cls,
        registry: Any,
        value_format: str,
        topic: str | Sequence[str],
        *,
        schema: str | RegisteredSchema | None = None,
        message: str | None = None,
        undecodable: str = "fail",
        time_unit: str = "ns",
        references: Mapping[str, str] | None = None,
    ) -> Self:
        """For the values of a topic, read as `schema`; without one, as the latest schema of the topic's subject.

        `references` are needed if `schema` is a text: {name: text} of the schemas that it refers to. ConfigError if
        several topics are read without a schema.
        """
        topics = [topic] if isinstance(topic, str) else list(topic)
        if schema is None and len(topics) != 1:
            raise ConfigError(f"{len(topics)} topics are read; give value_schema, the schema to read all of them as.")
        if undecodable not in MODES:
            raise ConfigError(f"undecodable={undecodable!r:.60} is not known; allowed are {', '.join(MODES)}.")
        client = client_of(registry)
        if not isinstance(schema, RegisteredSchema):
            schema = reader_schema(client, value_format, f"{topics[0]}-value", schema)
        how: dict[str, Any] = {"message": message, "mode": undecodable, "time_unit": time_unit}
        how["references"] = references or None
        return cls(ColumnDecoder(client, value_format, schema, **how))

    def schema_of(self, stored: Any) -> Any:
        """The Arrow schema of decoded batches, from that of the stored ones."""
        import pyarrow as pa

        at = stored.names.index("value")
        return stored.set(at, pa.field("value", self._decoder.type))

    def decode_batch(self, batch: Any, topic: str) -> Any:
        """One batch of records of one topic; DeserializationError names the record."""
        import pyarrow as pa

        try:
            values = self._decoder.decode(batch.column("value"), batch.column("headers"))
        except DeserializationError as error:
            partitions, offsets = batch.column("partition"), batch.column("offset")
            raise of_record(error, topic, lambda row: (partitions[row].as_py(), offsets[row].as_py())) from error
        columns = [values if name == "value" else batch.column(name) for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema_of(batch.schema))


def of_record(error: DeserializationError, topic: str, place: Callable[[int], tuple[int, int]]) -> DeserializationError:
    """The same error with partition and offset instead of a row's number; `place` returns these of a row."""
    before, behind = error.around or ("", "")
    if error.row is None or before:
        return fresh(error)
    partition, offset = place(error.row)
    told = f"The record at offset {offset} of {topic}-{partition}{behind}"
    made = DeserializationError(told, topic=topic, partition=partition)
    made.row = error.row
    return made
