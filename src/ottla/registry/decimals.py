"""Columns of decimals in the types that a schema has: pandas and Spark choose scales and types by themselves."""

from __future__ import annotations

from collections.abc import Mapping
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

    fields = list(columns.type if isinstance(columns, pa.StructArray) else columns.schema)
    wanted: dict[int, Any] = {}
    for at, field in enumerate(fields):
        kind = decimals.get(field.name)
        if kind is not None and pa.types.is_decimal(field.type) and field.type.scale != kind.scale:
            wanted[at] = pa.field(field.name, kind, field.nullable)
    return _cast(columns, fields, wanted) if wanted else columns


def as_whole_numbers(columns: Any) -> Any:
    """Columns, or a struct, with uint64 for decimal(20, 0), which Spark has in its place; at every depth.

    Where a value is negative, its column stays as it is.
    """
    import pyarrow as pa

    fields = list(columns.type if isinstance(columns, pa.StructArray) else columns.schema)
    wanted = {
        at: pa.field(field.name, kind, field.nullable)
        for at, field in enumerate(fields)
        if (kind := _whole(field.type)) != field.type
    }
    try:
        return _cast(columns, fields, wanted) if wanted else columns
    except RecordError:
        return columns


def _cast(columns: Any, fields: list[Any], wanted: Mapping[int, Any]) -> Any:
    import pyarrow as pa

    made = []
    for at, field in enumerate(fields):
        column = columns.field(at) if isinstance(columns, pa.StructArray) else columns.column(at)
        try:
            made.append(column.cast(wanted[at].type) if at in wanted else column)
        except pa.ArrowInvalid:
            raise RecordError(
                f"The column {field.name!r} of {field.type} has a value that {_shown(wanted[at].type)} of the Avro "
                "schema does not hold: round it, or send it by another schema."
            ) from None
    fields = [wanted.get(at, field) for at, field in enumerate(fields)]
    if isinstance(columns, pa.StructArray):
        from_arrays: Any = pa.StructArray.from_arrays
        return from_arrays(made, fields=fields, mask=columns.is_null())
    return type(columns).from_arrays(made, schema=pa.schema(fields))


def _shown(kind: Any) -> str:
    return f"decimal({kind.precision}, {kind.scale})" if hasattr(kind, "precision") else str(kind)


def _whole(kind: Any) -> Any:
    """The type with uint64 in the place of decimal(20, 0)."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_decimal128(kind):
        return pa.uint64() if (kind.precision, kind.scale) == (20, 0) else kind
    if is_.is_struct(kind):
        parts = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([each.with_type(_whole(each.type)) for each in parts])
    if is_.is_map(kind):
        return pa.map_(_whole(kind.key_type), kind.item_field.with_type(_whole(kind.item_type)))
    if is_.is_list(kind):
        return pa.list_(kind.value_field.with_type(_whole(kind.value_type)))
    return kind
