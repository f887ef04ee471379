"""Which Arrow column an Avro type becomes: a tree of `Column`, from which the compiled code is set up.

A union of null and one type is that type's column, with nulls. A union of several types is a struct with a nullable
field for each of them but null, `member0`, `member1` and so on, as Spark has it; one of them is set in each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.schemas.avro.schema import AvroType, SchemaError

COLUMNS_MAX: Final = 10_000
# How deep types may nest where some are defined elsewhere in the schema, or in another one.
NESTED_MAX: Final = 128

_FORMATS: Final = {
    "null": "n", "boolean": "b", "int": "i", "long": "l", "float": "f", "double": "g", "bytes": "z", "string": "u",
    "enum": "u", "array": "+l", "map": "+m", "record": "+s",
}  # fmt: skip
_LOGICAL_FORMATS: Final = {
    "date": "tdD",
    "time-millis": "ttm",
    "time-micros": "ttu",
    "timestamp-millis": "tsm:UTC",
    "timestamp-micros": "tsu:UTC",
    "timestamp-nanos": "tsn:UTC",
    "local-timestamp-millis": "tsm:",
    "local-timestamp-micros": "tsu:",
    "local-timestamp-nanos": "tsn:",
}


@dataclass(slots=True, eq=False, repr=False)
class Column:
    """A column to be made: its name, its format in the Arrow C data interface, and its children."""

    name: str
    format: str
    is_nullable: bool
    children: tuple[Column, ...] = ()


def members(union: AvroType) -> list[AvroType]:
    """The branches of a union that are not null."""
    return [branch for branch in union.branches if branch.kind != "null"]


def arrow_format(type_: AvroType) -> str:
    """Arrow's format string for a type that is no union."""
    if type_.logical == "decimal":
        width = ",256" if type_.precision > 38 else ""
        return f"d:{type_.precision},{type_.scale}{width}"
    if type_.kind == "fixed":
        return f"w:{type_.size}"
    return _LOGICAL_FORMATS.get(type_.logical) or _FORMATS[type_.kind]


class ColumnTree:
    """Makes the columns of one schema; SchemaError for a type that contains itself, and for too many columns."""

    def __init__(self) -> None:
        self._count = 0
        self._deep = 0
        self._inside: list[AvroType] = []

    def make(self, type_: AvroType, name: str, where: str = "", *, is_nullable: bool = False) -> Column:
        """The column of a type."""
        if type_.kind == "union" and len(members(type_)) == 1:
            is_nullable = is_nullable or len(type_.branches) > 1
            return self.make(members(type_)[0], name, where, is_nullable=is_nullable)
        self._count += 1
        if self._count > COLUMNS_MAX:
            raise SchemaError(f"The Avro schema has more than {COLUMNS_MAX} columns; read a part of its fields.")
        if type_.kind == "union":
            return self._union(type_, name, where, is_nullable)
        is_nullable = is_nullable or type_.kind == "null"
        children: tuple[Column, ...] = ()
        if type_.kind == "record":
            if type_ in self._inside:
                raise SchemaError(
                    f"The record {type_.name} contains itself{f' at {where!r}' if where else ''}. Arrow has no columns "
                    "for that; read it row by row (AvroRowDecoder), or with a reader's schema without that field."
                )
            self._inside.append(type_)
            self._enter(where)
            children = tuple(
                self.make(each.type, each.name, f"{where}.{each.name}" if where else each.name) for each in type_.fields
            )
            self._inside.pop()
            self._deep -= 1
        elif type_.kind == "array":
            children = (self._inner(type_, "item", where, "[]"),)
        elif type_.kind == "map":
            value = self._inner(type_, "value", where, "{}")
            children = (Column("entries", "+s", False, (Column("key", "u", False), value)),)
        return Column(name, arrow_format(type_), is_nullable, children)

    def _inner(self, type_: AvroType, name: str, where: str, part: str) -> Column:
        assert type_.items is not None
        self._enter(where)
        made = self.make(type_.items, name, where + part)
        self._deep -= 1
        return made

    def _enter(self, where: str) -> None:
        """Go into a record, an array or a map: types have names, so the text does not show how deep they nest."""
        self._deep += 1
        if self._deep > NESTED_MAX:
            raise SchemaError(f"The Avro schema is nested deeper than {NESTED_MAX} types at {where[-60:]!r}.")

    def _union(self, type_: AvroType, name: str, where: str, is_nullable: bool) -> Column:
        held = members(type_)
        is_nullable = is_nullable or len(held) < len(type_.branches)
        if not held:
            return Column(name, "n", True)
        children = tuple(self.make(branch, f"member{i}", where, is_nullable=True) for i, branch in enumerate(held))
        return Column(name, "+s", is_nullable, children)


def row_column(type_: AvroType, made: dict[AvroType, Column], deep: int = 0) -> Column:
    """The tree of `Column`s for decoding to Python objects; here a type may contain itself."""
    # An optional record is two deep.
    if deep > 2 * NESTED_MAX:
        raise SchemaError(f"The Avro schema is nested deeper than {NESTED_MAX} types.")
    known = made.get(type_)
    if known is not None:
        return known
    held = members(type_)
    if type_.kind == "union" and len(held) == 1:
        made[type_] = row_column(held[0], made, deep + 1)
        return made[type_]
    kind = ("+s" if held else "n") if type_.kind == "union" else arrow_format(type_)
    column = made[type_] = Column("", kind, True)
    parts = [each.type for each in type_.fields] or held
    if type_.items is not None:
        parts = [type_.items]
    children = tuple(row_column(part, made, deep + 1) for part in parts)
    if type_.kind == "map":
        children = (Column("entries", "+s", False, (Column("key", "u", False), children[0])),)
    column.children = children
    return column
