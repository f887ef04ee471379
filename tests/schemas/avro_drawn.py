"""Avro schemas, values and evolutions drawn by hypothesis, and what fastavro makes of them."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
from hypothesis import strategies as st

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FLOATS = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
VALUES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": DOUBLES,
    "bytes": st.binary(max_size=12),
    "string": TEXTS,
}
# To what each primitive may be promoted.
WIDER = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": [],
}


class Names:
    """Gives each named type a name of its own."""

    def __init__(self) -> None:
        self.count = 0

    def next(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"


@st.composite
def types(draw: Any, names: Names, depth: int = 0) -> Any:
    """A type; a union in it is of null and one other, or of several."""
    choices = [*PRIMITIVES, "enum", "fixed"]
    if depth < 3:
        choices += ["array", "map", "record", "record", "optional", "optional", "union"]
    kind = draw(st.sampled_from(choices))
    if kind in PRIMITIVES:
        return kind
    if kind == "enum":
        symbols = [f"S{i}" for i in range(draw(st.integers(1, 4)))]
        return {"type": "enum", "name": names.next("E"), "symbols": symbols}
    if kind == "fixed":
        return {"type": "fixed", "name": names.next("F"), "size": draw(st.integers(0, 20))}
    if kind == "array":
        return {"type": "array", "items": draw(types(names, depth + 1))}
    if kind == "map":
        return {"type": "map", "values": draw(types(names, depth + 1))}
    if kind == "record":
        return draw(records(names, depth + 1))
    if kind == "optional":
        other = draw(types(names, depth + 1).filter(lambda one: one != "null" and not isinstance(one, list)))
        return draw(st.permutations(["null", other]))
    # fastavro chooses among branches by the value: those drawn here are told apart by it.
    branches = draw(st.lists(st.sampled_from(["null", "boolean", "long", "string"]), unique=True))
    return branches or ["null", "string"]


@st.composite
def records(draw: Any, names: Names, depth: int = 0) -> Any:
    count = draw(st.integers(0, 4))
    fields = [{"name": f"f{i}", "type": draw(types(names, depth))} for i in range(count)]
    return {"type": "record", "name": names.next("R"), "fields": fields}


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as fastavro has them."""
    if isinstance(type_, list):
        return st.one_of([values(branch) for branch in type_])
    if isinstance(type_, str):
        return VALUES[type_]
    kind = type_["type"]
    if kind == "enum":
        return st.sampled_from(type_["symbols"])
    if kind == "fixed":
        return st.binary(min_size=type_["size"], max_size=type_["size"])
    if kind == "array":
        return st.lists(values(type_["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(TEXTS, values(type_["values"]), max_size=4)
    if kind == "record":
        return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in type_["fields"]})
    return VALUES[kind]


def defaults(type_: Any) -> Any:
    """A default of a type, as JSON has it."""
    if isinstance(type_, list):
        return defaults(type_[0])
    kind = type_ if isinstance(type_, str) else type_["type"]
    if kind == "enum":
        return type_["symbols"][-1]
    if kind == "fixed":
        return "\xff" * type_["size"]
    if kind == "record":
        return {each["name"]: defaults(each["type"]) for each in type_["fields"]}
    return {
        "null": None, "boolean": True, "int": -7, "long": 1 << 40, "float": 0.5, "double": -2.5, "bytes": "\x00\xff",
        "string": "ä", "array": [], "map": {},
    }[kind]  # fmt: skip


@st.composite
def evolved(draw: Any, type_: Any, names: Names) -> Any:
    """A reader's type for a writer's, by changes that the specification allows."""
    if isinstance(type_, list):
        return [draw(evolved(branch, names)) if not isinstance(branch, str) else branch for branch in type_]
    if isinstance(type_, str):
        change = draw(st.integers(0, 3))
        wider = WIDER.get(type_, [])
        if change == 0 and wider:
            return draw(st.sampled_from(wider))
        if change == 1 and type_ != "null":
            return ["null", type_]
        return type_
    kind = type_["type"]
    if kind == "array":
        return {**type_, "items": draw(evolved(type_["items"], names))}
    if kind == "map":
        return {**type_, "values": draw(evolved(type_["values"], names))}
    if kind == "enum":
        if not draw(st.booleans()):
            return type_
        kept = draw(st.lists(st.sampled_from(type_["symbols"]), min_size=1, unique=True))
        return {**type_, "symbols": ["NONE", *kept], "default": "NONE"}
    if kind != "record":
        return type_
    fields = []
    for each in type_["fields"]:
        change = draw(st.integers(0, 4))
        if change == 0:
            continue
        field = {"name": each["name"], "type": draw(evolved(each["type"], names))}
        if change == 1:
            field |= {"name": f"new_{each['name']}", "aliases": [each["name"]]}
        fields.append(field)
    for i in range(draw(st.integers(0, 2))):
        added = draw(types(names, 2))
        fields.append({"name": f"added{i}", "type": added, "default": defaults(added)})
    return {**type_, "fields": draw(st.permutations(fields))}


def encoded(schema: Any, value: Any) -> bytes:
    """What fastavro writes."""
    to = io.BytesIO()
    fastavro.schemaless_writer(to, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return to.getvalue()


def decoded(payload: bytes, writer: Any, reader: Any = None) -> Any:
    """What fastavro reads."""
    parsed = [
        None if each is None else fastavro.parse_schema(json.loads(json.dumps(each))) for each in (writer, reader)
    ]
    return fastavro.schemaless_reader(io.BytesIO(payload), *parsed)


def as_columns(type_: Any, value: Any, branch: str | None = None) -> Any:
    """What Arrow shows of a value of fastavro's: lists of pairs for maps, structs for unions of several types."""
    if isinstance(type_, list):
        held = [each for each in type_ if each != "null"]
        if value is None or not held:
            return None
        if len(held) == 1:
            return as_columns(held[0], value)
        chosen = next(each for each in held if is_of(each, value))
        return {f"member{i}": value if each is chosen else None for i, each in enumerate(held)}
    if isinstance(type_, str):
        return struct.unpack("<f", struct.pack("<f", value))[0] if type_ == "float" else value
    kind = type_["type"]
    if kind == "array":
        return [as_columns(type_["items"], each) for each in value]
    if kind == "map":
        return [(key, as_columns(type_["values"], each)) for key, each in value.items()]
    if kind == "record":
        return {each["name"]: as_columns(each["type"], value[each["name"]]) for each in type_["fields"]}
    return value


def is_of(primitive: str, value: Any) -> bool:
    return type(value) is {"boolean": bool, "long": int, "string": str}[primitive]
