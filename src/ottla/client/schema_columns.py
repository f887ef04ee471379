"""Columns of a table as values with a schema from a registry: finds the schema, and encodes the values by chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.arrow import need_pyarrow
from ottla.errors import RecordError

if TYPE_CHECKING:
    from ottla.records.arrow_data import Chunk
    from ottla.registry.client import RegistryClient
    from ottla.registry.columns import ColumnEncoder
    from ottla.registry.registered import RegisteredSchema


class SchemaChoice(NamedTuple):
    """The arguments of `send_table` about the schema of values.

    `registry`: addresses, or a `RegistryClient`. `schema`: a text, which is registered for the topic; a schema that is
    registered; None for that of the columns (Avro) or the topic's latest one (Protobuf, JSON). `message`: the message
    of a Protobuf file. `schema_id_in`: whether records have the schema's id in front ("prefix") or its GUID in a header
    ("header").
    """

    registry: Any = None
    schema: str | RegisteredSchema | None = None
    message: str | None = None
    schema_id_in: str = "prefix"

    @property
    def is_given(self) -> bool:
        """Whether any of these arguments was given."""
        return self != SchemaChoice()


def schema_values(
    data: Any,
    columns: Sequence[str] | None,
    topic: str,
    value_format: str,
    choice: SchemaChoice,
    headers: str | None,
) -> tuple[Any, Callable[[Chunk], Any], str | None]:
    """(data, function that makes the column of values of a chunk, column of headers); reads the first chunk."""
    need_pyarrow(f"value_format={value_format!r}")
    from ottla.records.arrow_data import chunks
    from ottla.registry.columns import ColumnEncoder, check_message, client_of, kind_of
    from ottla.registry.registered import check_schema

    registry = client_of(choice.registry)
    check_schema("value_schema", choice.schema)
    check_message(choice.message, kind_of(value_format))
    pieces = chunks(data)
    first = next(pieces, None)
    if first is None:
        return (), lambda chunk: chunk, headers
    schema = _schema(registry, topic, value_format, choice, first, columns)
    encoder = ColumnEncoder(registry, schema, message=choice.message, schema_id_in=choice.schema_id_in)
    again = chain((first,), pieces)
    if encoder.header is None:
        return again, _maker(encoder, columns), headers
    return _with_header(again, encoder.header, headers), _maker(encoder, columns), _MADE


# The name of the column of headers that include the schema's; it is the last column of the table.
_MADE = "headers with the schema's"


def _maker(encoder: ColumnEncoder, columns: Sequence[str] | None) -> Callable[[Chunk], Any]:
    row = 0

    def make(chunk: Chunk) -> Any:
        nonlocal row
        import pyarrow as pa

        batch: Any = pa.record_batch(chunk)
        if encoder.header is not None:
            batch = batch.remove_column(batch.num_columns - 1)
        made = encoder.encode(_selected(batch, columns), first_row=row)
        row += len(chunk)
        return made

    return make


def _with_header(pieces: Iterable[Chunk], header: tuple[str, bytes], headers: str | None) -> Iterator[Any]:
    """The same rows, each with the schema's header added to its headers."""
    import pyarrow as pa

    from ottla.registry.columns import append_header, headers_type

    kind = headers_type()
    for piece in pieces:
        batch: Any = pa.record_batch(piece)
        given: Any = pa.nulls(len(batch), kind)
        if headers is not None:
            given = _selected(batch, [headers]).column(0)
            try:
                given = given.cast(kind)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise RecordError(
                    f"headers: column {headers!r} has type {given.type}; with schema_id_in='header' it has to be a "
                    "list of struct<key, value>."
                ) from None
            entries = given.flatten()
            if entries.null_count or entries.field("key").null_count:
                raise RecordError(f"Column {headers!r} has a null header, or one without a name.")
        yield batch.append_column(pa.field(_MADE, kind), append_header(given, header))


def _schema(
    registry: RegistryClient,
    topic: str,
    value_format: str,
    choice: SchemaChoice,
    first: Chunk,
    columns: Sequence[str] | None,
) -> RegisteredSchema:
    import pyarrow as pa

    from ottla.registry.columns import kind_of
    from ottla.registry.registered import AVRO

    kind = kind_of(value_format)
    subject, given = f"{topic}-value", choice.schema
    if given is None and kind == AVRO:
        from ottla.schemas.avro.derived import derive_schema

        given = derive_schema(_selected(pa.record_batch(first), columns).schema, topic)
    if given is None:
        given = registry.latest(subject, "give value_schema, which is registered then")
        if given.kind != kind:
            raise RecordError(
                f"The latest schema of {subject!r} is of type {given.kind}, and value_format={value_format!r} is asked "
                "for: give that format, or value_schema."
            )
    if isinstance(given, str):
        return registry.register(subject, given, kind)
    if given.kind != kind:
        raise RecordError(f"value_schema is of type {given.kind}, and value_format={value_format!r} is asked for.")
    return given


def _selected(batch: Any, columns: Sequence[str] | None) -> Any:
    if columns is None:
        return batch
    missing = [name for name in columns if batch.schema.names.count(name) != 1]
    if missing:
        problem = "There is more than one" if missing[0] in batch.schema.names else "There is no"
        raise RecordError(f"{problem} column {missing[0]!r}; the columns are {_listed(batch.schema.names)}.")
    return batch.select(list(columns))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
