"""What a search looks for, asked of whole columns: rows that cannot match are left out without a Python object each.

All conditions must hold. Keys and values are searched as the bytes that are stored. A JSON path needs the value read as
JSON (or decoded by the registry); before that, the bytes are searched for the path's last name, and for what would have
to follow it. JSON may contain text as escapes, so a row with a backslash always stays in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.console.headers import LIST_ROOM, of_column
from ottla.console.json_path import JsonPath
from ottla.errors import UserMistake

if TYPE_CHECKING:
    import pyarrow as pa

# Decodes a row's value: (bytes, its Headers) -> what a JSON path looks into. ValueError where it is none.
Decode = Callable[[bytes, Any], Any]
_ORDERS = ("<", "<=", ">", ">=")
_PLAIN = re.compile(r"[A-Za-z0-9 _.:@+-]+")


class Conditions:
    """Made of the fields that a search has; UserMistake for what cannot be searched for."""

    def __init__(self, given: Mapping[str, str], decode: Decode | None = None) -> None:
        self._key = _Text("key", given)
        self._value = _Text("value", given)
        name, equals, text = given.get("header", "").partition("=")
        self._header = name.strip()
        self._header_text = text.strip() if equals else None
        self._path: JsonPath | None = None
        if given.get("path"):
            self._path = JsonPath(given["path"], given.get("operator") or "exists", given.get("operand", ""))
        self._decode = decode
        self.too_deep = 0
        """How many records could not be looked into: their JSON is nested too deeply."""

    def rows(self, batch: pa.RecordBatch) -> list[int]:
        """The numbers of the rows that match."""
        import pyarrow.compute as pc

        mask: Any = None
        for column, text in (("key", self._key), ("value", self._value)):
            mask = _both(mask, text.found_in(batch.column(column)))
        if self._header:
            mask = _both(mask, self._with_header(batch.column("headers"), batch.num_rows))
        if self._path is None:
            if mask is None:
                return list(range(batch.num_rows))
            rows: list[int] = pc.indices_nonzero(mask).to_pylist()
            return rows
        if self._decode is None:
            mask = _both(mask, self._may_have_path(batch.column("value")))
        return self._by_path(batch, mask)

    def _with_header(self, headers: Any, count: int) -> Any:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        each = headers.flatten()
        found: Any = pc.equal(each.field("key"), pa.scalar(self._header))
        if self._header_text is not None:
            found = pc.and_(found, pc.match_substring(each.field("value"), self._header_text))
        rows = pc.list_parent_indices(headers).filter(found)
        mask = np.zeros(count, dtype=bool)
        mask[rows.to_numpy(zero_copy_only=False)] = True
        return pa.array(mask)

    def _may_have_path(self, values: Any) -> Any:
        """Which rows may match as far as their bytes tell; None where they do not."""
        import pyarrow.compute as pc

        path = self._path
        assert path is not None
        name = next((step for step in reversed(path.steps) if isinstance(step, str)), None)
        if name is None or not _PLAIN.fullmatch(name):
            return None
        pattern = re.escape(f'"{name}"')
        if path.steps[-1] == name:
            pattern += r"\s*:\s*" + self._may_stand_there()
        found = pc.match_substring_regex(values, pattern=rf"{pattern}|\\")
        return found if path.number is None or path.operator not in _ORDERS else self._may_be_ordered(values, found)

    def _may_be_ordered(self, values: Any, found: Any) -> Any:
        """Of these rows those whose number may compare so: it is read where the path's last name stands but once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        path = self._path
        assert path is not None
        name = path.steps[-1]
        if not isinstance(name, str):
            return found
        quoted = re.escape(f'"{name}"')
        told: Any = pc.extract_regex(values, pattern=rf"{quoted}\s*:\s*(?P<number>-?[0-9]+(?:\.[0-9]+)?)\s*[,}}]")
        numbers: Any = pc.struct_field(told, "number").cast(pa.string()).cast(pa.float64())
        # Floats are rounded, so equal ones stay in; the comparison itself comes later.
        compare: Any = pc.less_equal if path.operator.startswith("<") else pc.greater_equal
        is_read: Any = pc.and_(
            pc.is_valid(told), pc.equal(pc.count_substring(values, pattern=f'"{name}"'), pa.scalar(1))
        )
        is_read = pc.and_(is_read, pc.invert(pc.match_substring(values, "\\")))
        may_be: Any = pc.or_(compare(numbers, _nearest_float(path.number or 0)), pc.invert(is_read))
        return pc.and_(found, pc.fill_null(may_be, True))

    def _may_stand_there(self) -> str:
        path = self._path
        assert path is not None
        operand = path.operand
        if path.operator == "contains" and _PLAIN.fullmatch(operand):
            # Text, or the JSON of anything else.
            return rf'("[^"]*{re.escape(operand)}|[^"])'
        if path.operator != "=" or not _PLAIN.fullmatch(operand):
            return ""
        spelled = [f'"{re.escape(operand)}"']
        if path.number is not None:
            # A number can be written in many ways, most of them with a point or an exponent.
            spelled += [rf"{re.escape(operand)}\s*([,}}]|$)", r"-?[0-9]*[.eE]", r"-?[0-9]+[.eE]"]
        elif operand in ("true", "false", "null"):
            spelled.append(operand)
        return f"({'|'.join(spelled)})"

    def _by_path(self, batch: pa.RecordBatch, mask: Any) -> list[int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.array(range(batch.num_rows)) if mask is None else pc.indices_nonzero(mask)
        values = batch.column("value").take(rows).to_pylist()
        headers: Iterable[Any] = values
        if self._decode is not None:
            headers = of_column(batch.column("headers").take(rows), LIST_ROOM)
        found = []
        path, decode = self._path, self._decode
        assert path is not None
        for row, value, of_row in zip(rows.to_pylist(), values, headers, strict=True):
            if value is None:
                continue
            try:
                if path.holds(json.loads(value) if decode is None else decode(value, of_row)):
                    found.append(row)
            except RecursionError:
                self.too_deep += 1
            except ValueError:
                continue
        return found


def _nearest_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        # Arrow, too, makes infinity of a number that is too large for a float.
        return math.inf if number > 0 else -math.inf


class _Text:
    """What keys or values must contain: text as UTF-8, or a regular expression; upper and lower case as given."""

    def __init__(self, part: str, given: Mapping[str, str]) -> None:
        self._text = given.get(part, "")
        self._is_regex = given.get(f"{part}_regex", "") == "true"
        if self._text and self._is_regex:
            self._check(part)

    def _check(self, part: str) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            pc.match_substring_regex(pa.array([b""], pa.binary()), pattern=self._text)
        except pa.ArrowInvalid as error:
            told = str(error).splitlines()[0]
            raise UserMistake(f"the regular expression for the {part} is not understood: {told}") from None

    def found_in(self, column: Any) -> Any:
        import pyarrow.compute as pc

        if not self._text:
            return None
        if self._is_regex:
            return pc.match_substring_regex(column, pattern=self._text)
        return pc.match_substring(column, self._text)


def _both(one: Any, other: Any) -> Any:
    import pyarrow.compute as pc

    if one is None or other is None:
        return one if other is None else other
    return pc.and_(one, other)
