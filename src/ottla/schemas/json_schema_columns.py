"""Tables -> a column of JSON objects that match a JSON Schema.

`json_columns` writes the objects. If possible, the columns' types, and whether they have nulls, are compared with the
schema. If a schema says more (`minimum`, `pattern`, `enum`), rows are checked one by one; that is logged once per
encoder.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.records.arrow_data import chunks
from ottla.schemas.json_columns import JsonColumn, json_column
from ottla.schemas.json_schema import JsonSchema, decoded

_log = logging.getLogger("ottla.schemas")

_DEPTH_MAX: Final = 64
# Keywords that the code below does not compare with columns: with one of them, rows are checked one by one. A keyword
# that is in no draft is ignored by all checkers.
CHECKED: Final = {
    *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const"),
    *("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern"),
    *("additionalItems", "prefixItems", "unevaluatedItems", "maxItems", "minItems", "uniqueItems", "contains"),
    *("maxContains", "minContains", "maxProperties", "minProperties", "patternProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties", "format"),
    *("contentEncoding", "contentMediaType", "contentSchema"),
}


class JsonSchemaEncoder:
    """Encodes tables as JSON objects of one schema."""

    def __init__(self, text: str, *, references: Mapping[str, str] | None = None) -> None:
        self._schema = JsonSchema(text, references=references)
        self._has_said = False

    def encode(
        self, data: Any, *, prefix: bytes = b"", columns: Sequence[str] | None = None, first_row: int = 0
    ) -> JsonColumn:
        """One object after `prefix` for each row, of all columns, or of those named.

        JsonSchemaMismatch has the row, counted from `first_row`, and the field. RecordError is for values that JSON
        cannot hold.
        """
        pieces = list(chunks(data))
        made = json_column(pieces, columns, first_row, prefix)
        if not all(_is_told(self._schema.root, piece, columns) for piece in pieces):
            self._check_rows(made, len(prefix), first_row)
        return made

    def _check_rows(self, made: Any, prefix_bytes: int, first_row: int) -> None:
        import pyarrow as pa

        if not self._has_said:
            self._has_said = True
            _log.warning(
                "The columns' types do not tell whether rows match the JSON Schema: each row is checked by itself, "
                "which is slower."
            )
        for row, payload in enumerate(pa.array(made), first_row):
            self._schema.check(decoded(payload.as_buffer().to_pybytes()[prefix_bytes:], row), row)


def _is_told(schema: Any, piece: Any, columns: Sequence[str] | None) -> bool:
    """Whether all rows of a chunk match because of its columns' types."""
    import pyarrow as pa

    batch = pa.record_batch(piece)
    names = list(batch.schema.names if columns is None else columns)
    if not isinstance(schema, dict):
        return schema is True
    return (
        _has_no_more(schema)
        and _allows(schema, "object")
        and _fits_fields(schema, {name: batch.column(name) for name in names}, 0)
    )


def _has_no_more(schema: dict[str, Any]) -> bool:
    return not any(keyword in CHECKED for keyword in schema)


def _allows(schema: dict[str, Any], kind: str) -> bool:
    allowed = schema.get("type")
    if allowed is None:
        return True
    kinds = [allowed] if isinstance(allowed, str) else allowed
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _fits_fields(schema: dict[str, Any], fields: Mapping[str, Any], depth: int) -> bool:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    if not set(schema.get("required", ())) <= set(fields):
        return False
    return all(_fits(properties.get(name, others), column, depth + 1) for name, column in fields.items())


def _fits(schema: Any, column: Any, depth: int) -> bool:
    """Whether all values of a column match, by its type and whether it has nulls."""
    import pyarrow as pa
    import pyarrow.types as is_

    if not isinstance(schema, dict):
        return schema is True or len(column) == 0
    if depth > _DEPTH_MAX:
        return False
    inner = _or_null(schema)
    if inner is not None:
        return column.null_count == len(column) or _fits(inner, column.drop_null(), depth + 1)
    if not _has_no_more(schema) or (column.null_count and not _allows(schema, "null")):
        return False
    if column.null_count == len(column):
        return True
    kind: pa.DataType = column.type.value_type if is_.is_dictionary(column.type) else column.type
    if is_.is_struct(kind):
        fields = {kind.field(i).name: column.field(i) for i in range(kind.num_fields)}
        return _allows(schema, "object") and _fits_fields(schema, fields, depth)
    if is_.is_map(kind):
        told = not schema.get("properties") and not schema.get("required")
        return (
            told and _allows(schema, "object") and _fits(schema.get("additionalProperties", True), column.items, depth)
        )
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return _allows(schema, "array") and _fits(schema.get("items", True), column.flatten(), depth + 1)
    return _allows(schema, _scalar(kind))


def _or_null(schema: dict[str, Any]) -> Any:
    """The other schema of a oneOf or anyOf of null and one more; None for schemas of another form."""
    either = schema.get("oneOf", schema.get("anyOf"))
    if not isinstance(either, list) or len(either) != 2 or {"type": "null"} not in either:
        return None
    rest = {name: value for name, value in schema.items() if name not in ("oneOf", "anyOf")}
    inner = either[1] if either[0] == {"type": "null"} else either[0]
    # With oneOf, a null is not valid if both allow it.
    if not isinstance(inner, dict) or "type" not in inner or _allows(inner, "null"):
        return None
    return inner if _has_no_more(rest) and "type" not in rest and len(schema) - len(rest) == 1 else None


def _scalar(kind: Any) -> str:
    import pyarrow.types as is_

    if is_.is_boolean(kind):
        return "boolean"
    if is_.is_integer(kind):
        return "integer"
    return "number" if is_.is_floating(kind) or is_.is_decimal(kind) else "string"
