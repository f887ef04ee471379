"""Columns of a table as values with a schema of a registry: which schema that is, and each chunk's values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """What somebody has said of the values of a table beside their format.

    `registry`: addresses, or a `RegistryClient`. `schema`: a text, which is registered for the topic; one that is
    registered; None for that of the columns (Avro) or the latest one of the topic (Protobuf). `message`: which one of a
    file of Protobuf.
    """

    registry: Any = None
    schema: str | RegisteredSchema | None = None
    message: str | None = None


def schema_values(
    data: Any, columns: Sequence[str] | None, topic: str, value_format: str, choice: SchemaChoice
) -> tuple[Any, Callable[[Chunk], Any]]:
    """(data, a function that makes a column of values of each chunk); the first chunk is read for this."""
    need_pyarrow(f"value_format={value_format!r}")
    from ottla.records.arrow_data import chunks
    from ottla.registry.columns import ColumnEncoder, client_of

    registry = client_of(choice.registry)
    pieces = chunks(data)
    first = next(pieces, None)
    if first is None:
        return (), lambda chunk: chunk
    schema = _schema(registry, topic, value_format, choice, first, columns)
    encoder = ColumnEncoder(registry, schema, message=choice.message)
    return chain((first,), pieces), _maker(encoder, columns)


def _maker(encoder: ColumnEncoder, columns: Sequence[str] | None) -> Callable[[Chunk], Any]:
    row = 0

    def make(chunk: Chunk) -> Any:
        nonlocal row
        made = encoder.encode(_selected(chunk, columns), first_row=row)
        row += len(chunk)
        return made

    return make


def _schema(
    registry: RegistryClient,
    topic: str,
    value_format: str,
    choice: SchemaChoice,
    first: Chunk,
    columns: Sequence[str] | None,
) -> RegisteredSchema:
    from ottla.registry.columns import kind_of
    from ottla.registry.registered import AVRO

    kind = kind_of(value_format)
    subject, given = f"{topic}-value", choice.schema
    if given is None and kind == AVRO:
        from ottla.schemas.avro.derived import derive_schema

        given = derive_schema(_selected(first, columns).schema, topic)
    if given is None:
        return registry.latest(subject, "give value_schema, which is registered then")
    if isinstance(given, str):
        return registry.register(subject, given, kind)
    if given.kind != kind:
        raise RecordError(f"value_schema is of type {given.kind}, and value_format={value_format!r} is asked for.")
    return given


def _selected(chunk: Chunk, columns: Sequence[str] | None) -> Any:
    import pyarrow as pa

    batch: Any = pa.record_batch(chunk)
    if columns is None:
        return batch
    missing = [name for name in columns if batch.schema.names.count(name) != 1]
    if missing:
        problem = "There is more than one" if missing[0] in batch.schema.names else "There is no"
        raise RecordError(f"{problem} column {missing[0]!r}; the columns are {_listed(batch.schema.names)}.")
    return batch.select(list(columns))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
