"""Writes the reference of the Python API from the source: every public name with its signature and its docstring.

Classes are imported for their order of inheritance; signatures and docstrings are read from the source, since compiled
classes keep no signatures. Docstrings are Markdown.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ottla
from ottla.cluster.faults import Faults
from ottla.faults.verbs import FaultInForce
from ottla.producer.figures import Metric, Metrics

SOURCE = Path(ottla.__file__).parent

# File -> title, first sentence, names. Every public name stands in one of them, or is an error (`errors.py`).
GROUPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "api-sending.md": (
        "API: sending",
        "Producers and what they return.",
        (
            "Producer",
            "AsyncProducer",
            "Delivery",
            "RecordMetadata",
            "write_table",
            "TableDelivery",
            "ProducerRecord",
            "BatchSeen",
            "ClusterView",
            "KeyColumn",
            "TransactionIdentity",
            "TransactionHandle",
            "end_transactions",
            "Diagnosis",
            "Finding",
            "Limit",
            "Metrics",
            "Metric",
            "observe_metrics",
            "OAuthBearerToken",
        ),
    ),
    "api-reading.md": ("API: reading", "Records and tables read back.", ("read_table", "Reader", "ReadRecord")),
    "api-admin.md": ("API: Admin", "Topics, settings, rights, groups and transactions of any Kafka.", ("Admin",)),
    "api-cluster.md": (
        "API: embedded cluster",
        "Brokers for tests, faults in them, and the proxy in front of any other Kafka.",
        ("Cluster", "Faults", "FaultInForce", "Listener", "Clock", "Proxy"),
    ),
    "api-registry.md": (
        "API: schema registry",
        "A registry's client, serializers with a schema, and the embedded registry.",
        (
            "AvroSerializer",
            "AvroDeserializer",
            "ProtobufSerializer",
            "ProtobufDeserializer",
            "JsonSchemaSerializer",
            "JsonSchemaDeserializer",
            "RegistryClient",
            "RegisteredSchema",
            "SchemaReference",
            "Registry",
        ),
    ),
}
# What ottla makes and hands out: nobody calls these.
_HANDED_OUT = {"Delivery", "TableDelivery", "Faults", "FaultInForce", "Metrics"}
# Methods that ottla itself calls, and names of other clients, which only say what there is instead.
_NOT_TOLD = {
    "Delivery": {"get", "offset", "add_callback", "add_errback"},
    "TableDelivery": {"add", "end_early", "go_with"},
}
# Names that a docstring links to; short common words stay words.
LINKED = {*ottla.__all__, "Faults", "Metrics"} - {
    "__version__",
    "Limit",
    "Finding",
    "Clock",
    "Cluster",
    "Registry",
    "Proxy",
}
# Public by what they are reached through: `cluster.faults`, `producer.metrics()`.
BESIDES: dict[str, type] = {"Faults": Faults, "FaultInForce": FaultInForce, "Metrics": Metrics, "Metric": Metric}


def write_api() -> dict[str, str]:
    """One page for each group: file name -> Markdown."""
    return {
        file: "\n".join([f"# {title}\n\n{opening}\n\n```{{py:currentmodule}} ottla\n```\n", *map(told, names)])
        for file, (title, opening, names) in GROUPS.items()
    }


def told(name: str) -> str:
    """A public name as a section with its directive."""
    value = BESIDES.get(name) or getattr(ottla, name)
    body = tell_class(name, value) if inspect.isclass(value) else tell_function(name, value)
    return f"## {name}\n\n{body}\n"


def tell_class(name: str, value: type) -> str:
    """A class: its own docstring, and the members that are public, inherited ones too."""
    own = definition(value)
    hidden = _NOT_TOLD.get(name, set())
    members: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    types = typed_methods(value)
    first = None
    for kind in value.__mro__:
        if not kind.__module__.startswith("ottla."):
            continue
        for node in definition(kind).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = first or (node if node.name == "__init__" else None)
                if not node.name.startswith("_") and not _is_inner(node) and node.name not in hidden:
                    members.setdefault(node.name, node)
    given = "" if name in _HANDED_OUT else fields_of(own) if first is None else signature(first)
    parts = [f"::::{{py:class}} {name}{given}\n", prose(ast.get_docstring(own)), ""]
    parts += [line for node in members.values() for line in (tell_member(node, types.get(node.name, node)), "")]
    parts += [f":::{{py:attribute}} {line}\n:::\n" for line in words_of(own)]
    return "\n".join([*parts, "::::"])


def tell_member(node: Any, typed: Any) -> str:
    """A method or a property; `typed` is where its types stand."""
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    options = [f":{mark}:" for mark in ("staticmethod", "classmethod") if mark in marks]
    options += [":async:"] if isinstance(node, ast.AsyncFunctionDef) else []
    kind, given = "method", signature(typed)
    if marks & {"property", "cached_property", "functools.cached_property"}:
        kind, given = "property", ""
        options = [f":type: {ast.unparse(typed.returns)}"] if typed.returns else []
    return "\n".join([f":::{{py:{kind}}} {node.name}{given}", *options, "", prose(ast.get_docstring(node)), ":::"])


def tell_function(name: str, value: Any) -> str:
    """A function of the package itself."""
    node = function_node(value)
    return "\n".join([f"::::{{py:function}} {name}{signature(node)}\n", prose(ast.get_docstring(node)), "::::"])


def signature(node: Any) -> str:
    """The arguments as the source has them, without `self`, and what is returned."""
    given = ast.unparse(node.args)
    given = re.sub(r"^(self|cls)(, /)?(, |$)", "", given)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"({given}){returns}".replace("'", '"')


def fields_of(node: ast.ClassDef) -> str:
    """The arguments of a class whose fields are its arguments, as those of a dataclass or a NamedTuple."""
    fields = [
        re.sub(r" = field\(.*default_factory.*| = field\(.*", "", ast.unparse(line))
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_")
    ]
    is_record = any("dataclass" in ast.unparse(mark) for mark in node.decorator_list) or any(
        "NamedTuple" in ast.unparse(base) for base in node.bases
    )
    return f"({', '.join(fields)})" if is_record and fields else ""


def words_of(node: ast.ClassDef) -> list[str]:
    """The members of an enumeration with their values."""
    if not any("Enum" in ast.unparse(base) for base in node.bases):
        return []
    return [
        f"{ast.unparse(line.targets[0])}\n:value: {ast.unparse(line.value)}"
        for line in node.body
        if isinstance(line, ast.Assign)
    ]


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: public names are links, and what looks like a tag outside of code is text."""
    parts = re.split(r"(``[^`]+``|`[^`]+`)", docstring or "")
    return "".join(_code(part) if part.startswith("`") else _text(part) for part in parts)


def _code(span: str) -> str:
    name = span.strip("`").removeprefix("ottla.")
    return f"{{py:obj}}`~ottla.{name}`" if name in LINKED else span


def _text(words: str) -> str:
    escaped = words.replace("<", "\\<").replace("*", "\\*")
    return re.sub(r"\b(?:ottla\.)?([A-Z]\w+)\b", lambda it: _code(f"`{it[1]}`") if it[1] in LINKED else it[0], escaped)


def definition(value: type) -> ast.ClassDef:
    """Where the source defines a class."""
    for node in ast.walk(parsed(value.__module__)):
        if isinstance(node, ast.ClassDef) and node.name == value.__name__:
            return node
    raise LookupError(f"{value.__module__} has no class {value.__name__}")


def function_node(value: Any) -> ast.FunctionDef:
    """Where the source defines a function; the last definition, where there are overloads before it."""
    found = [
        node
        for node in parsed(value.__module__).body
        if isinstance(node, ast.FunctionDef) and node.name == value.__name__
    ]
    return found[-1]


def typed_methods(value: type) -> dict[str, Any]:
    """The methods in the stub beside a compiled module, which has Python's types where the module has C's."""
    stub = SOURCE.joinpath(*value.__module__.split(".")[1:]).with_suffix(".pyi")
    if not stub.exists():
        return {}
    [node] = [node for node in ast.parse(stub.read_text()).body if getattr(node, "name", "") == value.__name__]
    return {inner.name: inner for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)}


@cache
def parsed(module: str) -> ast.Module:
    """The source of a module of ottla, compiled or not."""
    place = SOURCE.joinpath(*module.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(path.read_text())


def _is_inner(node: Any) -> bool:
    marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
    return "cfunc" in marks or "overload" in marks or ".setter" in marks


def public_names() -> Iterator[str]:
    """Every name that some page of the API tells of."""
    for _, _, names in GROUPS.values():
        yield from names


if __name__ == "__main__":
    sys.stdout.write("\n".join(write_api().values()))
