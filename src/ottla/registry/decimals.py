"""Columns of decimals in the types that a schema has: pandas and Spark choose scales and types by themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.errors import RecordError

_DIGITS_MOST: Final = 76
_DIGITS_128: Final = 38


def avro_decimals(text: str, references: Mapping[str, str]) -> dict[str, Any]:
    """The Arrow type of each field of a record of Avro that is a decimal, alone or with null."""
    import pyarrow as pa

    from ottla.schemas.avro.schema import parse_schema

    found = {}
    for field in parse_schema(text, references=references).fields:
        members = [each for each in field.type.branches if each.kind != "null"] or [field.type]
        if len(members) == 1 and members[0].logical == "decimal" and members[0].precision <= _DIGITS_MOST:
            make: Any = pa.decimal128 if members[0].precision <= _DIGITS_128 else pa.decimal256
            found[field.name] = make(members[0].precision, members[0].scale)
    return found


def rescaled(columns: Any, decimals: Mapping[str, Any]) -> Any:
    """Columns, or a struct, with decimals in the scale of the schema; RecordError where a value would be rounded."""
    import pyarrow as pa

    def differs(field: Any) -> bool:
        wanted = decimals.get(field.name)
        return wanted is not None and pa.types.is_decimal(field.type) and field.type.scale != wanted.scale

    def cast(column: Any, field: Any) -> Any:
        wanted = decimals[field.name]
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid:
            raise RecordError(
                f"The column {field.name!r} of {field.type} has a value that decimal({wanted.precision}, "
                f"{wanted.scale}) of the Avro schema does not hold: round it, or send it by another schema."
            ) from None

    return _cast(columns, differs, cast)


def as_whole_numbers(columns: Any) -> Any:
    """Columns, or a struct, with uint64 for decimal(20, 0), which Spark has in its place, at every depth.

    A column with a negative value becomes int64; one that fits neither stays as it is.
    """
    import pyarrow as pa

    def cast(column: Any, field: Any) -> Any:
        for number in (pa.uint64(), pa.int64()):
            with contextlib.suppress(pa.ArrowInvalid):
                return column.cast(_whole(field.type, number))
        return column

    return _cast(columns, lambda field: _whole(field.type, pa.uint64()) != field.type, cast)


def _cast(columns: Any, is_meant: Callable[[Any], bool], cast: Callable[[Any, Any], Any]) -> Any:
    """The same columns, or the same struct, with what `cast` makes of each column whose field is meant."""
    import pyarrow as pa

    is_struct = isinstance(columns, pa.StructArray)
    if not is_struct and not isinstance(columns, (pa.RecordBatch, pa.Table)):
        return columns
    fields = list(columns.type if is_struct else columns.schema)
    meant = [is_meant(field) for field in fields]
    if not any(meant):
        return columns
    # Flattened, a value in a null row is null.
    parts = zip(columns.flatten() if is_struct else columns.columns, fields, meant, strict=True)
    made = [cast(column, field) if is_to_cast else column for column, field, is_to_cast in parts]
    fields = _with_types(fields, made)
    if not is_struct:
        return type(columns).from_arrays(made, schema=pa.schema(fields))
    from_arrays: Any = pa.StructArray.from_arrays
    return from_arrays(made, fields=fields, mask=columns.is_null())


def _with_types(fields: list[Any], columns: list[Any]) -> list[Any]:
    return [field.with_type(column.type) for field, column in zip(fields, columns, strict=True)]


def _whole(kind: Any, number: Any) -> Any:
    """The type with such a number in the place of decimal(20, 0)."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_decimal128(kind):
        return number if (kind.precision, kind.scale) == (20, 0) else kind
    if is_.is_struct(kind):
        return pa.struct([each.with_type(_whole(each.type, number)) for each in kind])
    if is_.is_map(kind):
        return pa.map_(_whole(kind.key_type, number), kind.item_field.with_type(_whole(kind.item_type, number)))
    if is_.is_list(kind):
        return pa.list_(kind.value_field.with_type(_whole(kind.value_type, number)))
    return kind
