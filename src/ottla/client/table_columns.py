"""Which column of a table becomes which part of its records: by the arguments of `send_table`, or by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ottla.errors import RecordError

if TYPE_CHECKING:
    from ottla.client.schema_columns import SchemaChoice
    from ottla.records.arrow_data import Chunk
    from ottla.schemas.json_columns import JsonColumn

# What `read_table` and Spark call a record's parts, and the argument that names another column.
_PARTS = {"key": "key", "headers": "headers", "partition": "partition", "timestamp": "timestamp_ms"}
# Columns that say where and how a record was stored: ignored, because it is stored elsewhere now.
_PLACES = ("topic", "offset", "timestamp_type", "timestampType")

# The name of a pandas index without a name, such as that of filtered rows: the user did not make it a column.
_INDEX = re.compile(r"__index_level_\d+__")

_WITH_SCHEMA = "avro", "protobuf", "json"

Named = dict[str, str | None]


def by_their_names(data: Any, named: Named) -> tuple[Any, str | None, Named]:
    """(data, value's column, {argument: column}): columns are found by their names, since none was named as value.

    `named` are the columns that were named, by argument. The first chunk is read for this. Without a column `value`,
    the value's column is None. RecordError for a column that is no part of a record.
    """
    from ottla.records.arrow_columns import column_names
    from ottla.records.arrow_data import chunks

    pieces = chunks(data)
    first = next(pieces, None)
    if first is None:
        return (), "value", named
    names = column_names(first)
    again = chain((first,), pieces)
    if "value" not in names:
        return again, None, named
    known = *_PARTS, *_PLACES, "value", *named.values()
    odd = [name for name in names if name not in known and not _INDEX.fullmatch(name)]
    if odd:
        are = "is not among them" if len(odd) == 1 else "are not among them"
        raise RecordError(
            "No column is named as value, so the table's columns have to be those of a record: "
            f"{', '.join(('value', *_PARTS))} ({', '.join(_PLACES)} are ignored). {_listed(odd)} {are}: name one "
            "text or binary column as value, or use value_format='json' for several, or drop the columns that are not "
            "to be sent."
        )
    found = {argument: named[argument] or (part if part in names else None) for part, argument in _PARTS.items()}
    return again, "value", found


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:20]) + (", ..." if len(shown) > 20 else "")


def _names(value: Any) -> list[str]:
    """The names in a list of columns; RecordError for anything else."""
    try:
        names = list(value)
    except TypeError:
        names = [value]
    if not all(isinstance(name, str) for name in names):
        raise RecordError(f"value={value!r:.60} names no columns; allowed are a str or a list of str")
    return names


def _without_index(data: Any) -> tuple[Any, list[str] | None]:
    """(data, columns of a pandas frame without its unnamed index); (data, None) if it has no such index."""
    from ottla.records.arrow_columns import column_names
    from ottla.records.arrow_data import chunks

    pieces = list(chunks(data))
    names = column_names(pieces[0]) if pieces else []
    meant = [name for name in names if not _INDEX.fullmatch(name)]
    return pieces, meant if len(meant) < len(names) else None


def value_columns(
    data: Any,
    value: str | Sequence[str] | None,
    topic: str,
    value_format: str,
    choice: SchemaChoice,
    headers: str | None,
) -> tuple[Any, Any, str | None]:
    """(data, `value` and `headers` for `encode_stream`); `value` is a column's name, or makes a column of a chunk."""
    if value is not None and not isinstance(value, str):
        value = _names(value)
    elif value is None and hasattr(data, "iloc"):
        data, value = _without_index(data)
    if value_format not in _WITH_SCHEMA and choice.is_given:
        raise RecordError(
            "registry, value_schema, value_message and schema_id_in are for value_format='avro', 'protobuf' and "
            f"'json', not {value_format!r}"
        )
    if value_format == "raw":
        if isinstance(value, str):
            return data, value, headers
        if value is not None and len(value) == 1:
            return data, value[0], headers
        raise RecordError(
            f"value={value!r} cannot be sent as it is: with value_format='raw' name one text or binary column, "
            "or take value_format='json' for several"
        )
    if value_format == "json" and not choice.is_given:
        return *_json_values(data, [value] if isinstance(value, str) else value), headers
    if value_format in _WITH_SCHEMA:
        from ottla.client.schema_columns import schema_values

        columns = [value] if isinstance(value, str) else value
        return schema_values(data, columns, topic, value_format, choice, headers)
    raise RecordError(
        f"value_format={value_format!r} is not supported; allowed are 'raw', 'json', 'avro' and 'protobuf'"
    )


def _json_values(data: Any, columns: Sequence[str] | None) -> tuple[Any, Callable[[Chunk], JsonColumn]]:
    """`value_columns` for JSON. Data in memory is checked as a whole first: if one row cannot be sent, none is."""
    from ottla.records.arrow_data import chunks
    from ottla.schemas.json_columns import check_json, json_column

    # Attributes that tables of pyarrow, polars and pandas have, and streams do not.
    if isinstance(data, (list, tuple)) or any(hasattr(data, name) for name in ("num_rows", "height", "iloc")):
        data = list(chunks(data))
        check_json(data, columns)
    row = 0

    def make(chunk: Chunk) -> JsonColumn:
        nonlocal row
        made = json_column(chunk, columns, row)
        row += len(chunk)
        return made

    return data, make
