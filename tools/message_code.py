"""The Python class of one struct, as lines of code.

`read` and `write` are straight-line: one branch where versions differ, neighbouring fields of fixed size packed and
unpacked at once. Text is laid out by ruff afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby

from tools.message_schema import NEVER, DescriptorError, Field, Message, Struct, Versions, snake_case

# Fixed-size primitives: code in struct, size in bytes, name of the layout, Python type.
FIXED = {
    "int8": ("b", 1, "I8", "int"),
    "int16": ("h", 2, "I16", "int"),
    "uint16": ("H", 2, "U16", "int"),
    "int32": ("i", 4, "I32", "int"),
    "uint32": ("I", 4, "U32", "int"),
    "int64": ("q", 8, "I64", "int"),
    "float64": ("d", 8, "F64", "float"),
    "bool": ("?", 1, "BOOL", "bool"),
}
READ_METHODS = {"bool": "boolean"}
# Primitives with a length in front: method, size of a legacy and of a compact length, Python type.
SIZED = {"string": ("string", 2, "str"), "bytes": ("byte_string", 4, "Buffer"), "records": ("records", 4, "Any")}


def condition(versions: Versions, within: Versions) -> str:
    """The test for a version in range, given that it is within another range; empty where always true."""
    if versions.low <= within.low:
        return "" if versions.high >= within.high else f"version <= {versions.high}"
    if versions.high >= within.high:
        return f"version >= {versions.low}"
    return f"{versions.low} <= version <= {versions.high}"


def by_version(versions: Versions, code: Callable[[int], str]) -> str:
    """One expression out of what `code` gives for each version, the newest first."""
    runs = [(said, list(found)) for said, found in groupby(range(versions.low, versions.high + 1), code)]
    expression = runs[0][0]
    for said, found in runs[1:]:
        expression = f"{said} if version >= {found[0]} else {expression}"
    return expression


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class StructWriter:
    """Writes the class of one struct."""

    def __init__(self, message: Message, struct: Struct, layouts: dict[str, str]) -> None:
        self.message = message
        self.struct = struct
        self.versions = struct.versions
        self.layouts = layouts
        self.plain = [field for field in struct.fields if field.tag is None]
        self.tagged = sorted(
            (field for field in struct.fields if field.tag is not None), key=lambda field: field.tag or 0
        )
        self.flexible = Versions(message.flexible_from, NEVER) & struct.versions

    def lines(self) -> list[str]:
        """The whole class."""
        names = ", ".join(f'"{field.name}"' for field in self.struct.fields)
        body = [
            f'"""{self.docstring()}"""',
            "",
            f"__slots__ = ({names}{',' if len(self.struct.fields) == 1 else ''})",
            "",
            *self.constants(),
            *self.init(),
            "",
            *self.read(),
            "",
            *self.write(),
        ]
        base = "Message" if self.struct.used_as or self.message.api_key is None else "ApiMessage"
        return [f"class {self.struct.name}({base}):", *indented(body), "", ""]

    def docstring(self) -> str:
        if self.struct.used_as:
            return f"In `{self.struct.used_as}`."
        told = f"versions {self.versions.low} to {self.versions.high}"
        if self.message.flexible_from != NEVER:
            told += f", flexible from {self.message.flexible_from}"
        key = "" if self.message.api_key is None else f"API key {self.message.api_key}, "
        return f"{self.struct.name}: {key}{told}."

    def constants(self) -> list[str]:
        if self.struct.used_as:
            return []
        lines = [] if self.message.api_key is None else [f"API_KEY = {self.message.api_key}"]
        return [
            *lines,
            f"MIN_VERSION = {self.versions.low}",
            f"MAX_VERSION = {self.versions.high}",
            f"FLEXIBLE_FROM = {self.message.flexible_from}",
            "",
        ]

    # Fields as such

    def python_type(self, field: Field) -> str:
        """The annotation of a field."""
        if field.kind in FIXED:
            said = FIXED[field.kind][3]
        elif field.kind in SIZED:
            said = SIZED[field.kind][2]
        else:
            said = "bytes" if field.kind == "uuid" else field.kind
        if field.is_array:
            said = f"list[{said}]"
        if said != "Any" and self.may_be_none(field):
            said += " | None"
        return said

    def may_be_none(self, field: Field) -> bool:
        return bool(field.nullable) or (field.tag is not None and field.is_struct and not field.is_array)

    def default(self, field: Field) -> str:
        """The default as an expression that gives a fresh value."""
        if field.kind == "uuid" and not field.is_array:
            return "ZERO_UUID"
        if field.is_struct and not field.is_array and not self.may_be_none(field):
            return f"{field.kind}()"
        return re.sub(r"^'(.*)'$", r'"\1"', repr(field.default))

    def init(self) -> list[str]:
        parameters, assignments = [], []
        for field in self.struct.fields:
            annotation, default, value = self.python_type(field), self.default(field), field.name
            if default == "[]":
                default, value = "ABSENT", f"[] if {field.name} is ABSENT else {field.name}"
            elif default.endswith("()"):
                value = f"{default} if {field.name} is None else {field.name}"
                annotation, default = f"{annotation} | None", "None"
            parameters.append(f"{field.name}: {annotation} = {default},")
            told = f": {self.python_type(field)}" if value != field.name else ""
            assignments.append(f"self.{field.name}{told} = {value}")
        return ["def __init__(", *indented(["self,", "*,", *parameters]), ") -> None:", *indented(assignments)]

    # Reading

    def read(self) -> list[str]:
        body = ["self = cls.__new__(cls)"]
        for said, fields in groupby(self.plain, lambda field: condition(field.versions, self.versions)):
            group = list(fields)
            lines = list(self.read_group(group))
            if said:
                absent = [f"self.{field.name} = {self.default(field)}" for field in group]
                lines = [f"if {said}:", *indented(lines), "else:", *indented(absent)]
            body += lines
        body += self.read_tags()
        return [
            "@classmethod",
            "def read(cls, decoder: Decoder, version: int) -> Self:",
            *indented([*body, "return self"]),
        ]

    def read_group(self, fields: list[Field]) -> Iterator[str]:
        for run in self.runs(fields):
            if len(run) > 1:
                targets = ", ".join(f"self.{field.name}" for field in run)
                yield f"{targets} = decoder.fixed({self.layout(run)})"
            else:
                yield from self.read_field(run[0], "decoder")

    def runs(self, fields: list[Field]) -> Iterator[list[Field]]:
        """The fields, neighbours of fixed size together."""
        for is_fixed, found in groupby(fields, lambda field: field.kind in FIXED and not field.is_array):
            if is_fixed:
                yield list(found)
            else:
                yield from ([field] for field in found)

    def layout(self, fields: list[Field]) -> str:
        """The name of the layout of neighbouring fixed-size fields."""
        name = "_".join(FIXED[field.kind][2] for field in fields)
        self.layouts[name] = ">" + "".join(FIXED[field.kind][0] for field in fields)
        return name

    def read_field(self, field: Field, decoder: str) -> Iterator[str]:
        target = f"self.{field.name}"
        if not field.is_array:
            yield f"{target} = {self.read_value(field, decoder)}"
            return
        if field.kind in FIXED:
            code, size, _, _ = FIXED[field.kind]
            count = self.read_count(field, decoder, lambda version: size)
            elements = f'{decoder}.numbers({{}}, "{code}", {size})'
        elif field.is_struct:
            count = self.read_count(field, decoder, lambda version: self.bytes_min(field.kind, version))
            elements = f"[{field.kind}.read({decoder}, version) for _ in range({{}})]"
        else:
            count = self.read_count(field, decoder, lambda version: self.element_bytes_min(field, version))
            elements = f"[{self.read_primitive(field, decoder, Versions(1, 0))} for _ in range({{}})]"
        if field.nullable:
            yield f"count = {count}"
            yield f"{target} = None if count < 0 else {elements.format('count')}"
        else:
            yield f"{target} = {elements.format(count)}"

    def read_value(self, field: Field, decoder: str) -> str:
        if not field.is_struct:
            return self.read_primitive(field, decoder, field.nullable)
        said = f"{field.kind}.read({decoder}, version)"
        if field.tag is not None or not field.nullable:
            return said
        nullable = f"({said} if {decoder}.has_struct() else None)"
        return by_version(field.versions, lambda version: nullable if version in field.nullable else said)

    def read_primitive(self, field: Field, decoder: str, nullable: Versions) -> str:
        if field.kind == "uuid":
            return f"{decoder}.uuid()"
        if field.kind in FIXED:
            return f"{decoder}.{READ_METHODS.get(field.kind, field.kind)}()"
        method = "byte_string" if field.kind == "records" else SIZED[field.kind][0]

        def code(version: int) -> str:
            null = "nullable_" if version in nullable else ""
            return f"{decoder}.{null}{self.compact(field, version)}{method}()"

        return by_version(field.versions, code)

    def read_count(self, field: Field, decoder: str, element_bytes_min: Callable[[int], int]) -> str:
        versions = range(field.versions.low, field.versions.high + 1)
        least = min(element_bytes_min(version) for version in versions)

        def code(version: int) -> str:
            null = "nullable_" if version in field.nullable else ""
            return f"{decoder}.{null}{self.compact(field, version)}count({least})"

        return by_version(field.versions, code)

    def read_tags(self) -> list[str]:
        if not self.tagged:
            return self.when_flexible(["decoder.skip_tags()"])
        lines = [f"self.{field.name} = {self.default(field)}" for field in self.tagged]
        branches: list[str] = []
        for field in self.tagged:
            within = Versions(self.message.flexible_from, NEVER) & self.versions
            said = condition(field.versions, within)
            test = f"tag == {field.tag}" + (f" and {said}" if said else "")
            branches += [f"{'elif' if branches else 'if'} {test}:", *indented(list(self.read_field(field, "field")))]
        branches += ["else:", "    continue", "field.finish()"]
        return lines + self.when_flexible(["for tag, field in decoder.tagged_fields():", *indented(branches)])

    # Writing

    def write(self) -> list[str]:
        body = []
        for said, fields in groupby(self.plain, lambda field: condition(field.versions, self.versions)):
            group = list(fields)
            lines = list(self.write_group(group))
            if said:
                lines = [f"if {said}:", *indented(lines), *self.refuse(group)]
            body += lines
        body += self.write_tags()
        if any(re.search(r"\bout\b", line) for line in body):
            body.insert(0, "out = encoder.out")
        return ["def write(self, encoder: Encoder, version: int) -> None:", *indented(body)]

    def write_group(self, fields: list[Field]) -> Iterator[str]:
        for run in self.runs(fields):
            if run[0].kind in FIXED and not run[0].is_array:
                values = ", ".join(f"self.{field.name}" for field in run)
                yield f"out += {self.layout(run)}.pack({values})"
            else:
                yield from self.write_field(run[0], "encoder")

    def refuse(self, fields: list[Field]) -> Iterator[str]:
        """What follows an `if` for versions that lack these fields: an error unless they may be left out."""
        refused = [field for field in fields if not field.ignorable]
        if not refused:
            return
        checks = []
        for field in refused:
            default = self.default(field)
            test = f"self.{field.name} is not None" if default == "None" else f"self.{field.name} != {default}"
            if default in ("True", "False"):
                test = f"self.{field.name}" if default == "False" else f"not self.{field.name}"
            checks.append((test, f'    raise UnsupportedField(self, "{field.name}", version)'))
        if len(checks) == 1:
            yield f"elif {checks[0][0]}:"
            yield checks[0][1]
            return
        yield "else:"
        for test, failure in checks:
            yield f"    if {test}:"
            yield f"    {failure}"

    def write_field(self, field: Field, encoder: str) -> Iterator[str]:
        value = f"self.{field.name}"
        if not field.is_array:
            yield from self.write_value(field, encoder, value, field.nullable)
            return
        yield f"{self.method(field, encoder, 'count', field.nullable)}({value})"
        if field.kind in FIXED:
            numbers = f'{encoder}.numbers({value}, "{FIXED[field.kind][0]}")'
            yield from ([f"if {value}:", f"    {numbers}"] if field.nullable else [numbers])
            return
        element = snake_case(field.kind) if field.is_struct else "element"
        yield f"for {element} in {value}{' or ()' if field.nullable else ''}:"
        yield from indented(list(self.write_value(field, encoder, element, Versions(1, 0))))

    def write_value(self, field: Field, encoder: str, value: str, nullable: Versions) -> Iterator[str]:
        if field.kind in FIXED:
            yield f"{'out' if encoder == 'encoder' else 'field.out'} += {self.layout([field])}.pack({value})"
        elif field.kind == "uuid":
            yield f"{encoder}.uuid({value})"
        elif field.kind == "records":
            # Records carry null in every version in which they exist.
            yield f"{self.method(field, encoder, 'records', Versions(1, 0))}({value})"
        elif field.kind in SIZED:
            yield f"{self.method(field, encoder, SIZED[field.kind][0], nullable)}({value})"
        elif nullable and field.tag is None:
            if nullable != field.versions:
                raise DescriptorError(f"{self.struct.name}.{field.name} is a struct, nullable in some versions only")
            yield f"if {value} is None:"
            yield "    out += I8.pack(-1)"
            yield "else:"
            yield "    out += I8.pack(1)"
            yield f"    {value}.write({encoder}, version)"
            self.layouts["I8"] = ">b"
        else:
            yield f"{value}.write({encoder}, version)"

    def method(self, field: Field, encoder: str, name: str, nullable: Versions) -> str:
        """The encoder's method for a value with a length in front."""

        def code(version: int) -> str:
            null = "nullable_" if version in nullable else ""
            return f"{encoder}.{null}{self.compact(field, version)}{name}"

        said = by_version(field.versions, code)
        return f"({said})" if " if " in said else said

    def write_tags(self) -> list[str]:
        if not self.tagged:
            return self.when_flexible(["out.append(0)"])
        lines = ["tags: list[tuple[int, Encoder]] = []"]
        for field in self.tagged:
            within = Versions(self.message.flexible_from, NEVER) & self.versions
            said = condition(field.versions, within)
            default = self.default(field)
            test = f"self.{field.name} != {default}"
            if default == "None":
                test = f"self.{field.name} is not None"
            elif default in ("[]", "False", '""', "0"):
                test = f"self.{field.name}"
            lines += [f"if {said} and {test}:" if said else f"if {test}:", "    field = Encoder()"]
            lines += indented([*self.write_field(field, "field"), f"tags.append(({field.tag}, field))"])
            if said and not field.ignorable:
                lines += [f"elif {test}:", f'    raise UnsupportedField(self, "{field.name}", version)']
        lines.append("encoder.tagged_fields(tags)")
        return self.when_flexible(lines, list(self.refuse(self.tagged)))

    def when_flexible(self, lines: list[str], otherwise: list[str] | None = None) -> list[str]:
        if not self.flexible:
            return []
        said = condition(self.flexible, self.versions)
        return [f"if {said}:", *indented(lines), *(otherwise or [])] if said else lines

    # Sizes

    def compact(self, field: Field, version: int) -> str:
        return "compact_" if version >= field.flexible_from else ""

    def element_bytes_min(self, field: Field, version: int) -> int:
        if field.kind == "uuid":
            return 16
        if field.kind in FIXED:
            return FIXED[field.kind][1]
        if field.kind in SIZED:
            return 1 if version >= field.flexible_from else SIZED[field.kind][1]
        return 1 if version in field.nullable else self.bytes_min(field.kind, version)

    def bytes_min(self, struct_name: str, version: int) -> int:
        """The fewest bytes a struct can take in a version."""
        least = 1 if version >= self.message.flexible_from else 0
        for field in self.message.structs[struct_name].fields:
            if field.tag is not None or version not in field.versions:
                continue
            if field.is_array:
                least += 1 if version >= field.flexible_from else 4
            else:
                least += self.element_bytes_min(field, version)
        return least
