"""How payloads of one schema, the writer's, are read as another, the reader's: a tree of `Step`.

It follows "Schema Resolution" in the specification. If only the payload decides (a branch of a union, a symbol of an
enum), what the reader's schema cannot hold becomes a step that fails when a payload gets there. What never fits is a
`SchemaError` here.

Two things are stricter than the specification. If both schemas have a logical type and these differ (milliseconds read
as microseconds, decimals of another scale), it is an error, because the number would silently get another meaning. And
a text is not read as a decimal.

In unions, the branch that is most like the writer's is taken, as Java does: one of the same type and name before one
that a value is promoted to. The specification takes the first one that matches, and would read the long of a union of
double and long as a double. A union is always read branch by branch as one with the same branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ottla.schemas.avro.columns import NESTED_MAX, Column, members
from ottla.schemas.avro.defaults import Defaults
from ottla.schemas.avro.schema import MISSING, TIMES_OF_DAY, AvroField, AvroType, SchemaError

STEPS_MAX: Final = 200_000

_PROMOTIONS: Final = {
    ("int", "long"): "int_long",
    ("int", "float"): "int_float",
    ("int", "double"): "int_double",
    ("long", "float"): "long_float",
    ("long", "double"): "long_double",
    ("float", "double"): "float_double",
    ("string", "bytes"): "bytes",
    ("bytes", "string"): "string",
}
_SKIPS: Final = {
    "null": "skip_nothing", "boolean": "skip_bytes", "int": "skip_varint", "long": "skip_varint", "enum": "skip_varint",
    "float": "skip_bytes", "double": "skip_bytes", "fixed": "skip_bytes", "bytes": "skip_sized", "string": "skip_sized",
}  # fmt: skip
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


@dataclass(slots=True, eq=False, repr=False)
class Step:
    """What to do next with a payload. `column` is where the value goes; None where it is skipped.

    `op` is the operation, see `Op` in building.pxd. `number` is a size, the branch that is null, or the member.
    `symbols` are what the writer's symbols are read as. `names` are the reader's names of a record's fields (None for
    one that it does not have), or the writer's symbols of an enum. `constant` is an encoded default; `message` is why
    the step fails.
    """

    op: str
    column: Column | None = None
    path: str = ""
    children: list[Step] = field(default_factory=list)
    number: int = 0
    symbols: tuple[bytes | None, ...] = ()
    names: list[str | None] = field(default_factory=list)
    constant: bytes = b""
    message: str = ""


class TooManySteps(SchemaError):
    """The two schemas together are too large: a part of them is no branch that can be left out."""


class Resolver:
    """Makes the steps that read payloads of one writer's schema into a reader's columns."""

    def __init__(self) -> None:
        self._count = 0
        self._deep = 0
        self._defaults = Defaults()
        # Of each reader's union, its branches by what they differ in.
        self._branches: dict[AvroType, dict[tuple[str, str, str], AvroType]] = {}
        self._skipped: dict[AvroType, Step] = {}
        # The steps of records so far: a type that contains itself gets the same step again (only with `row_column`).
        self._records: dict[tuple[AvroType, AvroType, Column], Step] = {}

    def resolve(self, writer: AvroType, reader: AvroType, column: Column, path: str = "") -> Step:
        """The step that reads a value of `writer` into the column of `reader`."""
        self._counted()
        if writer.kind == "union":
            return self._from_union(writer, reader, column, path)
        if reader.kind == "union":
            return self._into_union(writer, reader, column, path)
        if not _match(writer, reader) or not _has_same_meaning(writer, reader):
            raise _mismatch(writer, reader, path)
        if reader.logical in TIMES_OF_DAY:
            return Step("time", column, path, number=TIMES_OF_DAY[reader.logical])
        if writer.kind == reader.kind:
            return self._same_kind(writer, reader, column, path)
        return Step(_PROMOTIONS[writer.kind, reader.kind], column, path)

    def _counted(self) -> None:
        self._count += 1
        if self._count > STEPS_MAX:
            raise TooManySteps(f"Reading one Avro schema as the other takes more than {STEPS_MAX} steps.")

    def _enter(self, path: str) -> None:
        """Go into a record, an array or a map: types have names, so the text does not show how deep they nest."""
        self._deep += 1
        if self._deep > NESTED_MAX:
            raise TooManySteps(f"The Avro schema is nested deeper than {NESTED_MAX} types at '{path[-60:]}'.")

    # ------------------------------------------------------------------ unions

    def _from_union(self, writer: AvroType, reader: AvroType, column: Column, path: str) -> Step:
        """One step for each branch that a payload may choose."""
        step = Step("union", column, path)
        first: SchemaError | None = None
        fits = False
        same = [*map(_sort, writer.branches)] == [*map(_sort, reader.branches)]
        for number, branch in enumerate(writer.branches):
            try:
                step.children.append(
                    self._into_branch(branch, reader, reader.branches[number], column, path)
                    if same
                    else self.resolve(branch, reader, column, path)
                )
                fits = True
            except TooManySteps:
                raise
            except SchemaError as error:
                first = first or error
                step.children.append(Step("fail", None, path, message=str(error).rstrip(".")))
        if not fits and first is not None:
            raise first
        ops = [child.op for child in step.children]
        if len(ops) == 2 and "null" in ops and "fail" not in ops:
            step.op, step.number = "optional", ops.index("null")
        return step

    def _into_union(self, writer: AvroType, reader: AvroType, column: Column, path: str) -> Step:
        """The branch that is most like the writer's type."""
        if reader not in self._branches:
            # The first one of those that are alike.
            self._branches[reader] = {_sort(each): each for each in reversed(reader.branches)}
        own = self._branches[reader].get(_sort(writer))
        if own is not None and _match(writer, own):
            return self._into_branch(writer, reader, own, column, path)
        self._count += len(reader.branches) - 1
        self._counted()
        matching = [each for each in reader.branches if _match(writer, each) and _has_same_meaning(writer, each)]
        if not matching:
            raise _mismatch(writer, reader, path)
        likest = min(matching, key=lambda each: each.kind != writer.kind)
        return self._into_branch(writer, reader, likest, column, path)

    def _into_branch(self, writer: AvroType, reader: AvroType, branch: AvroType, column: Column, path: str) -> Step:
        """One branch of the reader's union; in a union of several types it is a member of the struct."""
        if branch.kind == "null":
            return Step("null", column, path)
        held = members(reader)
        if len(held) == 1:
            return self.resolve(writer, branch, column, path)
        number = held.index(branch)
        inner = self.resolve(writer, branch, column.children[number], path)
        return Step("member", column, path, [inner], number)

    # ------------------------------------------------------------------ types of the same kind

    def _same_kind(self, writer: AvroType, reader: AvroType, column: Column, path: str) -> Step:
        kind = writer.kind
        if kind == "record":
            return self._record(writer, reader, column, path)
        if kind in ("array", "map"):
            assert writer.items is not None
            assert reader.items is not None
            part, inner = ("[]", column.children[0]) if kind == "array" else ("{}", column.children[0].children[1])
            self._enter(path)
            try:
                return Step(kind, column, path, [self.resolve(writer.items, reader.items, inner, path + part)])
            finally:
                self._deep -= 1
        if kind == "enum":
            return Step(kind, column, path, symbols=_symbols(writer, reader), names=[*writer.symbols])
        if reader.logical == "decimal":
            # A reader's decimal may have more digits before the point.
            if writer.logical and (writer.scale != reader.scale or writer.precision > reader.precision):
                raise _mismatch(writer, reader, path)
            return Step(f"decimal_{kind}", column, path, number=reader.size)
        return Step(kind, column, path, number=reader.size)

    def _record(self, writer: AvroType, reader: AvroType, column: Column, path: str) -> Step:
        known = self._records.get((writer, reader, column))
        if known is not None:
            return known
        step = self._records[writer, reader, column] = Step("record", column, path)
        self._enter(path)
        try:
            self._fill_record(step, writer, reader, column, path)
        except SchemaError:
            # It may be tried again, where it is one of several branches.
            del self._records[writer, reader, column]
            raise
        finally:
            self._deep -= 1
        return step

    def _fill_record(self, step: Step, writer: AvroType, reader: AvroType, column: Column, path: str) -> None:
        numbers = {each.name: i for i, each in enumerate(reader.fields)}
        names = {each.name for each in writer.fields}
        # A name counts before an alias.
        missing = [(i, each) for i, each in enumerate(reader.fields) if each.name not in names]
        aliases = {alias: i for i, each in missing for alias in each.aliases}
        written: set[int] = set()
        for each in writer.fields:
            at = f"{path}.{each.name}" if path else each.name
            number = numbers.get(each.name, aliases.get(each.name))
            # A reader's field is filled once, also if several names and aliases match.
            if number is None or number in written:
                step.children.append(self.skip(each.type, at))
                step.names.append(None)
                continue
            written.add(number)
            step.names.append(reader.fields[number].name)
            step.children.append(self.resolve(each.type, reader.fields[number].type, column.children[number], at))
        for number, each in enumerate(reader.fields):
            if number not in written:
                at = f"{path}.{each.name}" if path else each.name
                step.children.append(self._default(each, column.children[number], at))
                step.names.append(each.name)

    def _default(self, missing: AvroField, column: Column, path: str) -> Step:
        if missing.default is MISSING:
            raise SchemaError(
                f"The writer's Avro schema has no field '{path}', and the reader's has no default for it."
            )
        constant = self._defaults.encoded(missing, path)
        step = Step("constant", column, path, [self.resolve(missing.type, missing.type, column, path)])
        step.constant = constant
        return step

    # ------------------------------------------------------------------ values that are skipped

    def skip(self, writer: AvroType, path: str) -> Step:
        """The step that skips a value; a type that contains itself gets a step that contains itself."""
        self._counted()
        if writer.kind in _SKIPS:
            size = writer.size or _SIZES.get(writer.kind, 0)
            op = "skip_nothing" if writer.kind == "fixed" and not size else _SKIPS[writer.kind]
            return Step(op, None, path, number=size)
        if writer in self._skipped:
            return self._skipped[writer]
        step = self._skipped[writer] = Step(writer.kind, None, path)
        if writer.kind == "record":
            self._enter(path)
            parts = [self.skip(each.type, f"{path}.{each.name}") for each in writer.fields]
            self._deep -= 1
            # Without the parts that take no bytes: types that contain each other many times would take endless time.
            step.children += [part for part in parts if part.op != "skip_nothing"]
            if not step.children:
                step.op = "skip_nothing"
        elif writer.kind == "union":
            step.children += [self.skip(branch, path) for branch in writer.branches]
        else:
            assert writer.items is not None
            self._enter(path)
            step.children.append(self.skip(writer.items, path + ("[]" if writer.kind == "array" else "{}")))
            self._deep -= 1
        return step


def _symbols(writer: AvroType, reader: AvroType) -> tuple[bytes | None, ...]:
    """What each of the writer's symbols is read as; None for one that the reader has no symbol for."""
    known = set(reader.symbols)
    other = reader.default_symbol
    read = [symbol if symbol in known else other for symbol in writer.symbols]
    return tuple(None if symbol is None else symbol.encode() for symbol in read)


def _match(writer: AvroType, reader: AvroType) -> bool:
    """Whether two types match, as the specification defines it; parts of records and unions are checked later."""
    if writer.kind == "union" or reader.kind == "union":
        return True
    if writer.kind != reader.kind:
        return (writer.kind, reader.kind) in _PROMOTIONS
    if writer.kind in ("array", "map"):
        assert writer.items is not None
        assert reader.items is not None
        return _match(writer.items, reader.items)
    if not writer.name:
        return True
    if writer.size != reader.size:
        return False
    return writer.name in reader.called or writer.name.rpartition(".")[2] in reader.called


def _has_same_meaning(writer: AvroType, reader: AvroType) -> bool:
    """Whether no value gets another meaning: logical types that differ, or a text that would be a decimal."""
    if writer.kind == "string" and reader.logical == "decimal":
        return False
    return writer.logical == reader.logical or not (writer.logical and reader.logical)


def _sort(type_: AvroType) -> tuple[str, str, str]:
    """What a union's branches differ in."""
    return type_.kind, type_.name, type_.logical


def _mismatch(writer: AvroType, reader: AvroType, path: str) -> SchemaError:
    place = f" at '{path}'" if path else ""
    return SchemaError(f"The writer's {writer.shown}{place} cannot be read as the reader's {reader.shown}.")


def is_empty(step: Step, known: dict[Step, bool] | None = None) -> bool:
    """Whether a step's value takes no bytes; False for a step that contains itself, or that fails."""
    known = {} if known is None else known
    if step in known:
        return known[step]
    known[step] = False
    if step.op in ("fixed", "skip_bytes"):
        known[step] = step.number == 0
    elif step.op in ("record", "member"):
        known[step] = all(is_empty(each, known) for each in step.children)
    else:
        known[step] = step.op in ("null", "skip_nothing", "constant")
    return known[step]
