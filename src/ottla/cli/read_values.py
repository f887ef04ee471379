"""The values of a topic as `ottla read` shows them: as they are stored, or decoded by a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ottla.cli.shown_values import BYTES_TEXTS, shown_values
from ottla.cli.value_schema import ValueSchema
from ottla.errors import DeserializationError

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.registry.record_decoder import RecordDecoder

Show = Callable[[Any], list[Any]]


class ValuesRead(NamedTuple):
    """Batches of records, their schema, and what shows a column of values: bytes or None, or values of JSON."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    show: Show


def read_values(
    stored: pa.Schema, batches: Iterable[pa.RecordBatch], topic: str, schema: ValueSchema | None, *, is_text: bool
) -> ValuesRead:
    """The records that are read from a topic; `is_text` says that they are shown or written as text, not as columns."""
    if schema is None:
        return ValuesRead(stored, iter(batches), lambda values: values.to_pylist())
    if schema.format == "json" and is_text:
        return ValuesRead(stored, _checked(batches, topic, schema), _shown_json)
    decoder = schema.decoder(topic)
    decode = _decoding(decoder, topic, schema, is_text=is_text)
    show = partial(shown_values, bytes_text=BYTES_TEXTS[schema.format])
    return ValuesRead(decoder.schema_of(stored), map(decode, batches), show)


def _decoding(
    decoder: RecordDecoder, topic: str, schema: ValueSchema, *, is_text: bool
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What decodes a batch into columns."""
    # Nanoseconds of 64 bits end in the year 2262, and many use the year 9999 for "never". Text can have both units.
    coarse = schema.decoder(topic, "us") if is_text and schema.format == "protobuf" else None
    has_told = False

    def decode(batch: pa.RecordBatch) -> Any:
        nonlocal has_told
        try:
            return decoder.decode_batch(batch, topic)
        except DeserializationError:
            if coarse is None:
                raise
        made = coarse.decode_batch(batch, topic)
        if not has_told:
            has_told = True
            typer.echo(
                "ottla: some times are beyond the years that nanoseconds reach (1677 to 2262): all times that were "
                "fetched together with them are shown in microseconds",
                err=True,
            )
        return made

    return decode


def _checked(batches: Iterable[pa.RecordBatch], topic: str, schema: ValueSchema) -> Iterator[pa.RecordBatch]:
    """Values of JSON are texts already: here they are checked by their schema, and what stands in front is left out.

    As columns they would lose what the schema does not name, and null would stand for what is not there.
    """
    import pyarrow as pa

    from ottla.registry.serializers import JsonSchemaDeserializer

    deserialize = JsonSchemaDeserializer(schema.registry, schema.schema).of_part("value").deserialize_with_headers
    for batch in batches:
        texts: list[bytes | None] = []
        at = batch.schema.names.index("value")
        headers = batch.column("headers").to_pylist()
        for row, value in enumerate(batch.column(at).to_pylist()):
            named = [(header["key"], header["value"]) for header in headers[row] or ()]
            try:
                found = None if value is None else deserialize(topic, value, named)
            except ValueError as error:
                place = f"at offset {batch.column('offset')[row]} of {topic}-{batch.column('partition')[row]}"
                told = str(error).removesuffix(".")
                raise DeserializationError(f"The record {place} cannot be decoded (value): {told}.") from error
            texts.append(None if value is None else json.dumps(found, ensure_ascii=False).encode())
        yield batch.set_column(at, batch.schema.field(at), pa.array(texts, batch.schema.field(at).type))


def _shown_json(values: Any) -> list[Any]:
    return [None if text is None else json.loads(text) for text in values.to_pylist()]
