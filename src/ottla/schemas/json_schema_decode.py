"""A column of JSON texts that match a JSON Schema -> a column of their values.

If the schema only says types, pyarrow parses all texts at once into columns of these types. If it says more, or pyarrow
refuses a text, the texts are read one by one by `JsonSchema`. Both ways return the same columns and refuse the same
values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from ottla.errors import RecordError, of_row
from ottla.schemas.json_schema import JsonSchema, JsonSchemaMismatch, decoded, place_of
from ottla.schemas.json_schema_types import JsonType, Unfit, json_type

_BYTES_MAX: Final = 2**31 - 2
# What a number beyond a double has: an exponent of three digits, or many digits.
_HUGE: Final = re.compile(rb"[eE]\+?0*[1-9]\d\d|\d{200}")
# The integer -0; dates have many a "-0" that is none.
_MINUS_ZERO: Final = re.compile(rb"(?<!\d)-0(?![\d.eE])")


class JsonSchemaDecoder:
    """Decodes columns of JSON into a column of `type`, the Arrow type of the reader's schema.

    Each value has to match the writer's schema, and its parts have to fit the reader's columns.
    """

    def __init__(
        self,
        writer: str,
        reader: str | None = None,
        *,
        references: Mapping[str, str] | None = None,
        reader_references: Mapping[str, str] | None = None,
    ) -> None:
        """Parse both schemas; by default the reader's is the writer's; JsonSchemaError."""
        self._schema = JsonSchema(writer, references=references)
        is_one = reader is None or (reader == writer and references == reader_references)
        read_as = self._schema if is_one else JsonSchema(reader or "", references=reader_references)
        self._read_as = json_type(read_as)
        self._is_plain = is_one and self._read_as.is_plain and bool(self._read_as.fields)
        self.type = self._read_as.type

    def decode(self, values: Any, *, skip: int = 0, mode: str = "fail") -> Any:
        """Decode `values` (binary), each after its first `skip` bytes; a null stays null.

        RecordError has the row and the place in the value; with mode="null" such a value becomes null.
        """
        pa, _ = _arrow()
        texts = [None if text is None else text[skip:] for text in values.to_pylist()]
        present = [text for text in texts if text is not None]
        if self._is_plain and present:
            found = self._parsed(present)
            if found is not None:
                return found if len(present) == len(texts) else found.take(_places(texts))
        rows = [None if text is None else self._row(text, row, mode) for row, text in enumerate(texts)]
        return pa.array(rows, self.type)

    def _row(self, text: bytes, row: int, mode: str) -> Any:
        try:
            value = decoded(text)
            self._schema.check(value)
            return self._read_as.take(decoded(text, keeps_sign=True) if _MINUS_ZERO.search(text) else value)
        except JsonSchemaMismatch as error:
            told = str(error).removesuffix(".").removeprefix("The value: ")
            told = f"{told[0].lower()}{told[1:]}"
        except Unfit as error:
            told = str(error)
            if error.path:
                told = f"field {place_of(error.path)!r}: {told}"
        if mode == "null":
            return None
        raise of_row(RecordError, row, f" cannot be decoded: {told}.")

    def _parsed(self, texts: list[bytes]) -> Any:
        """The column as pyarrow reads it, if that shows that all texts match; else None."""
        pa, _ = _arrow()
        from pyarrow import json as pyarrow_json

        # Each text begins and ends like an object. Then, if there are as many rows as texts, each text is one row.
        if not all(text[:1] == b"{" and text[-1:] == b"}" for text in texts):
            return None
        whole = b"\n".join(texts)
        # pyarrow reads NaN and Infinity, which JSON does not have, and numbers beyond a double in what it leaves out.
        if len(whole) > _BYTES_MAX or b"NaN" in whole or b"Inf" in whole or _HUGE.search(whole):
            return None
        try:
            whole.decode()
            table = pyarrow_json.read_json(
                pa.BufferReader(whole),
                pyarrow_json.ReadOptions(use_threads=False, block_size=len(whole) + 1),
                pyarrow_json.ParseOptions(
                    pa.schema(list(self.type)),
                    newlines_in_values=True,
                    unexpected_field_behavior="ignore" if self._read_as.is_open else "error",
                ),
            )
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if len(table) != len(texts):
            return None
        found = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in table.columns], fields=list(self.type)
        )
        return found if _matches(self._read_as, found, says_null=b"null" in whole) else None


def _matches(kind: JsonType, column: Any, *, says_null: bool) -> bool:
    """Whether a column of the right type matches, given its nulls (a missing property is one, too)."""
    pa, pc = _arrow()
    if pa.types.is_floating(column.type):
        # A number beyond a double becomes infinity.
        return pc.all(pc.is_finite(column)).as_py() is not False
    if kind.item is not None:
        items = column.flatten()
        return (kind.item.allows_null or not items.null_count) and _matches(kind.item, items, says_null=says_null)
    present = column.drop_null() if column.null_count else column
    for place, (name, field) in enumerate(kind.fields.items()):
        part = present.field(place)
        if part.null_count:
            is_required = name in kind.required
            if is_required or (says_null and not field.allows_null):
                return False
        if not _matches(field, part, says_null=says_null):
            return False
    return True


def _places(texts: list[bytes | None]) -> Any:
    """The index of each text among those that are not None; null for None."""
    pa, _ = _arrow()
    counted = accumulate(text is not None for text in texts)
    return pa.array(
        [None if text is None else count - 1 for text, count in zip(texts, counted, strict=True)], pa.int64()
    )


def _arrow() -> tuple[Any, Any]:
    """pyarrow and its functions, as Any: its type hints do not allow columns of unknown type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa, pc
