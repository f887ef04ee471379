"""Whether data of one Avro schema can be read with another: the specification's rules of schema resolution.

As in Java, records, enums and fixed match by their names without namespaces or by the reader's aliases, a union of the
writer's needs a reader for each branch, and one of the reader's a branch that reads what was written. Decimals match
where precision and scale do.
"""

from __future__ import annotations

from ottla.embedded_registry.avro_schema import Node
from ottla.embedded_registry.compatibility.difference import Budget, Difference

# What is written -> what it may be read as, besides itself.
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_SHOWN_MAX = 10


def avro_differences(reader: Node, writer: Node) -> list[Difference]:
    """What keeps the reader from reading what the writer wrote; nothing where it can."""
    return _Comparison().compare(reader, writer, "")


class _Comparison:
    def __init__(self) -> None:
        # Pairs of named types that are being compared, or were: in a recursive type the same pair comes again.
        self._met: dict[tuple[int, int], None] = {}
        self._budget = Budget()

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        self._budget.spend()
        if writer.kind == "union":
            return self._written_union(reader, writer, path)
        if reader.kind == "union":
            return self._read_union(reader, writer, path)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return []
            return [Difference("TYPE_MISMATCH", path, f"{reader.shown} cannot read what was written as {writer.shown}")]
        if reader.name:
            return self._named(reader, writer, path)
        if reader.kind in ("array", "map"):
            part = "items" if reader.kind == "array" else "values"
            return self.compare(reader.inner[0], writer.inner[0], f"{path}/{part}")
        return _compare_decimals(reader, writer, path)

    def _written_union(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        found = []
        for branch in writer.inner:
            if reader.kind != "union":
                found += self.compare(reader, branch, path)
            elif not self._some_branch_reads(reader, branch, path):
                found.append(self._no_branch(branch, path))
        return found

    def _read_union(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        if self._some_branch_reads(reader, writer, path):
            return []
        # Where one branch has the type, what keeps it from reading says more.
        alike = [branch for branch in reader.inner if branch.kind == writer.kind]
        return (
            self.compare(alike[0], writer, path) or [self._no_branch(writer, path)]
            if alike
            else [self._no_branch(writer, path)]
        )

    def _some_branch_reads(self, reader: Node, writer: Node, path: str) -> bool:
        for branch in reader.inner:
            self._budget.spend(1 + len(self._met) // 50)
            before = dict(self._met)
            if not self.compare(branch, writer, path):
                return True
            # Pairs that were assumed to match while this branch was compared may not match.
            self._met = before
        return False

    def _no_branch(self, writer: Node, path: str) -> Difference:
        return Difference(
            "MISSING_UNION_BRANCH", path, f"no branch of the union reads what was written as {writer.shown}"
        )

    def _named(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        pair = id(reader), id(writer)
        if pair in self._met:
            return []
        self._met[pair] = None
        if not _is_called(reader, writer):
            told = f"the {reader.kind} is called {reader.name}, and was written as {writer.name}"
            return [Difference("NAME_MISMATCH", path, f"{told}; an alias would say that they are the same")]
        if reader.kind == "record":
            return self._records(reader, writer, path)
        if reader.kind == "enum":
            return _compare_enums(reader, writer, path)
        if reader.size != writer.size:
            told = f"{reader.name} has {reader.size} bytes, and was written with {writer.size}"
            return [Difference("FIXED_SIZE_MISMATCH", path, told)]
        return _compare_decimals(reader, writer, path)

    def _records(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        self._budget.spend(len(reader.fields) + len(writer.fields))
        found = []
        written = {field.name: field for field in writer.fields}
        for field in reader.fields:
            names = (field.name, *field.aliases)
            source = next((written[name] for name in names if name in written), None)
            place = f"{path}/{field.name}"
            if source is not None:
                found += self.compare(field.type, source.type, place)
            elif not field.has_default:
                told = f"the field {field.name} of {reader.name} was not written and has no default"
                found.append(Difference("READER_FIELD_MISSING_DEFAULT_VALUE", place, told))
        return found


def _is_called(reader: Node, writer: Node) -> bool:
    last = writer.name.rpartition(".")[2]
    return reader.name.rpartition(".")[2] == last or writer.name in reader.aliases


def _compare_enums(reader: Node, writer: Node, path: str) -> list[Difference]:
    known = {*reader.symbols}
    missing = [symbol for symbol in writer.symbols if symbol not in known]
    if not missing or reader.default is not None:
        return []
    told = ", ".join(missing[:_SHOWN_MAX]) + (", ..." if len(missing) > _SHOWN_MAX else "")
    told = f"{reader.name} lacks symbols that may have been written, and has no default: {told}"
    return [Difference("MISSING_ENUM_SYMBOLS", path, told)]


def _compare_decimals(reader: Node, writer: Node, path: str) -> list[Difference]:
    if reader.decimal == writer.decimal or reader.decimal is None or writer.decimal is None:
        return []
    told = "a decimal of precision {} and scale {} cannot read one of precision {} and scale {}"
    return [Difference("TYPE_MISMATCH", path, told.format(*reader.decimal, *writer.decimal))]
