"""Data goes one way: what each room may import, and what a core may never touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ottla

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ottla"
OUR_FOLDERS = ("src", "tests", "tools", "benchmarks")

CORES = {"connection", "producer", "reader", "broker"}
CLIENT_SIDE = {"connection", "producer", "reader", "protocol", "records"}
# Neither judge knows the other; what they share stands in `audit` itself.
JUDGES = {"audit", "audit/chronicles", "audit/ledgers"}
# What works over real sockets and files, and what judges it. Nothing here is simulated.
REAL = (
    CLIENT_SIDE
    | JUDGES
    | {
        "broker",
        "client",
        "cluster",
        "embedded_registry",
        "evidence",
        "evidence/decoded",
        "faults",
        "host",
        "inputs",
        "ledger",
        "registry",
        "schemas",
        "sink",
        "sockets",
        "spark",
        "topic_audit",
    }
)
# By room, or by a room or file within a room, which then is a room of its own: a line names it, too, where it is meant.
MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "records": set(),
    "schemas": {"records"},
    "faults": {"protocol"},
    "ledger": set(),
    "sockets": set(),
    "inputs": set(),
    "connection": {"protocol"},
    "producer": {"connection", "records", "protocol"},
    "reader": {"connection", "records", "protocol"},
    "broker": {"protocol", "records", "faults"},
    "client": CLIENT_SIDE | {"schemas", "ledger", "registry"},
    "registry": {"client", "connection", "schemas"},
    # Of the client-side rooms what its topic is read and written with.
    "embedded_registry": CLIENT_SIDE | {"registry", "schemas", "client", "sockets"},
    "host": {"broker", "protocol", "records", "faults"},
    "tap": {"protocol", "records"},
    "cluster": {"host", "broker", "protocol", "records", "faults", "sockets"},
    # Of the client-side rooms what speaks to brokers: settings, name lookups and TLS of clients.
    "proxy": {"protocol", "faults", "sockets", "connection", "client", "tap"},
    "remote": {"cluster", "faults", "proxy", "sockets"},
    "console": CLIENT_SIDE | {"client", "faults", "registry", "remote", "schemas", "sockets"},
    "sink": CLIENT_SIDE | {"client"},
    "spark": {"client", "schemas", "registry", "producer", "reader", "records", "sink"},
    "audit": {"ledger"},
    "audit/chronicles": {"audit", "ledger"},
    "audit/ledgers": {"audit", "ledger"},
    "evidence": CLIENT_SIDE | {"audit", "audit/chronicles", "client", "cluster", "ledger", "evidence/decoded"},
    "evidence/decoded": {"audit/chronicles", "ledger", "reader", "records"},
    "simulation": CORES
    | {
        "audit",
        "audit/chronicles",
        "evidence/decoded",
        "faults",
        "host",
        "ledger",
        "protocol",
        "records",
        "sink",
        "tap",
    },
    "explain": {"audit", "audit/chronicles", "broker", "faults", "ledger", "protocol", "simulation", "tap"},
    "seeds": {"audit", "audit/chronicles", "simulation"},
    "topic_audit": CLIENT_SIDE | {"audit", "audit/ledgers", "client", "ledger", "spark"},
    "foreign": {"client", "connection", "protocol", "proxy"},
    "bench": CLIENT_SIDE | {"client", "cluster"},
    "showcase": REAL | {"foreign", "proxy"},
    "trial": REAL | {"foreign", "proxy"},
    "cli": REAL
    | {"bench", "console", "explain", "foreign", "proxy", "remote", "seeds", "showcase", "simulation", "tap", "trial"},
}

PURE = CORES | JUDGES | {"evidence/decoded", "explain", "faults", "host", "simulation", "tap"}
FORBIDDEN_MODULES = {"socket", "threading", "asyncio", "secrets", "select", "selectors", "subprocess"}
# Files at the top that sleep, read, write or show something.
FORBIDDEN_OURS = {"ottla.patience", "ottla.interruptible_reads", "ottla.screen", "ottla.whole_file"}
FORBIDDEN_NAMES = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("time", "perf_counter"),
    ("time", "sleep"),
    ("uuid", "uuid4"),
    ("uuid", "uuid1"),
    ("os", "urandom"),
}
# `random.Random` as an annotation is how a seeded generator is passed; the module's own functions share one state.
RANDOM_ALLOWED = {"Random"}

VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str | None:
    """The innermost room of a file, or of what an import names; None for what stands at the top."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    for length in range(len(parts), 0, -1):
        room = "/".join(parts[:length])
        if room in MAY_IMPORT:
            return room
    assert not (SOURCE / parts[0]).is_dir(), f"{parts[0]}: a new room needs a line in MAY_IMPORT"
    return None


def imports(tree: ast.AST) -> Iterator[tuple[str, str | None, int]]:
    """(module, imported name or None, line)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.module, alias.name, node.lineno


def imported_room(module: str, name: str | None) -> str | None:
    """The room that an import reaches into; for a public name of `ottla`, the room it comes from."""
    if module == "ottla" and name in ottla._HOMES:
        module, name = ottla._HOMES[name], None
    parts = [*module.split("."), *([] if name is None else [name])]
    return room_of(SOURCE.joinpath(*parts[1:])) if parts[0] == "ottla" and len(parts) > 1 else None


@pytest.mark.parametrize(
    ("module", "name", "room"),
    [
        ("ottla.audit", "findings", "audit"),
        ("ottla.audit.ledgers.verdict", "judge", "audit/ledgers"),
        ("ottla.audit", "chronicles", "audit/chronicles"),
        ("ottla.evidence", "decoded", "evidence/decoded"),
        ("ottla.evidence.witness", "TopicWitness", "evidence"),
        ("ottla", "broker", "broker"),
        ("ottla", "Producer", "client"),
        ("ottla.errors", "OttlaError", None),
        ("collections.abc", "Iterator", None),
    ],
)
def test_an_import_reaches_into_the_innermost_room(module: str, name: str, room: str | None) -> None:
    assert imported_room(module, name) == room


def test_imports_name_their_module_in_full() -> None:
    """The tests below know no others."""
    relative = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_each_room_imports_only_rooms_before_it() -> None:
    wrong = []
    # What is public: what `import ottla` opens to, loaded when it is asked for, and the command line.
    unlisted = SOURCE / "__init__.py", SOURCE / "__main__.py"
    for path in [each for each in source_files() if each not in unlisted]:
        room = room_of(path)
        allowed = set() if room is None else MAY_IMPORT[room]
        for module, name, line in imports(ast.parse(path.read_text())):
            target = imported_room(module, name)
            if target is not None and target != room and target not in allowed:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports ottla.{target}")
    assert not wrong, "\n".join(wrong)


# Named in ARCHITECTURE.md, with the reason. Imports within functions count, too: they only put a circle off.
CIRCLES = [{"ottla.simulation.plan", "ottla.simulation.plan_check"}]
# These import files of their room by names from a table, when one is asked for; named in ARCHITECTURE.md, too.
TABLES = {"ottla.cli.app", "ottla.faults.fault"}


def runtime_imports(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """(module, imported name or None), without what is imported for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for otherwise in child.orelse:
                yield from runtime_imports(ast.Module([otherwise], []))
            continue
        if by_name := imported_by_name(child):
            yield by_name, None
        if isinstance(child, ast.Import):
            yield from ((alias.name, None) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            yield from ((child.module, alias.name) for alias in child.names)
        yield from runtime_imports(child)


def imported_by_name(node: ast.AST) -> str | None:
    """The module that `import_module` is called with; "package.*" where the last part of its name is computed."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in ("import_module", "__import__"):
        return None
    name = node.args[0]
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        return f"{name.values[0].value!s}*"
    return str(name.value) if isinstance(name, ast.Constant) else None


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """{module: the modules of these that it imports}. Importing one runs the `__init__.py` of its packages, too."""
    graph: dict[str, set[str]] = {}
    for name, text in sources.items():
        found: set[str] = set()
        for module, imported in runtime_imports(ast.parse(text)):
            named = f"{module}.{imported}"
            if module.endswith("*"):
                if name in TABLES:
                    continue
                found |= {each for each in sources if each.startswith(module[:-1])}
            else:
                found.add(named if named in sources else module)
        packages = {package for module in found for package in packages_of(module)}
        # They are being run, or have been, before this module is.
        packages -= {*packages_of(name)}
        graph[name] = (found | packages) & sources.keys() - {name}
    return graph


def packages_of(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def reached_from(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        fresh = graph[left.pop()] - seen
        seen |= fresh
        left += fresh
    return seen


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The groups of modules that import each other, by whatever way."""
    left = dict(graph)
    # What imports nothing of the rest is in no circle.
    while ends := [name for name in left if not left[name] & left.keys()]:
        for name in ends:
            del left[name]
    left = {name: imported & left.keys() for name, imported in left.items()}
    reached = {name: reached_from(name, left) for name in left}
    found = [{other for other in reached[name] if name in reached[other]} for name in left if name in reached[name]]
    return [group for number, group in enumerate(found) if group not in found[:number]]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("from ottla import first", [{"ottla.first", "ottla.second"}]),
        ("def late():\n    from ottla.first import thing", [{"ottla.first", "ottla.second"}]),
        ("if TYPE_CHECKING:\n    from ottla.first import thing", []),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from ottla.first import thing", [{"ottla.first", "ottla.second"}]),
        ("import_module('ottla.first')", [{"ottla.first", "ottla.second"}]),
        (
            "def late(name):\n    return importlib.import_module(f'ottla.f{name}').thing",
            [{"ottla.first", "ottla.second"}],
        ),
        ("import ottla.third", []),
        ("import ottla.package.part", [{"ottla.first", "ottla.second", "ottla.package"}]),
    ],
)
def test_a_circle_of_imports_is_found(second: str, expected: list[set[str]]) -> None:
    sources = {"ottla.first": "from ottla.second import thing", "ottla.second": second, "ottla.third": ""}
    sources |= {"ottla.package": "from ottla import first", "ottla.package.part": ""}
    assert circles(import_graph(sources)) == expected


def test_imports_go_in_no_circle_but_those_named() -> None:
    names = {path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in source_files()}
    sources = {name.removesuffix(".__init__"): path.read_text() for path, name in names.items()}
    assert circles(import_graph(sources)) == CIRCLES


def pure_files() -> list[Path]:
    # The one way of the judge to Spark; its checkers stay pure.
    spark = SOURCE / "audit" / "ledgers" / "spark.py"
    return [path for path in source_files() if room_of(path) in PURE and path != spark]


def test_cores_take_time_and_chance_as_arguments() -> None:
    wrong = []
    for path in pure_files():
        tree = ast.parse(path.read_text())
        for module, name, line in imports(tree):
            top = module.split(".")[0]
            if (
                top in FORBIDDEN_MODULES
                or module in FORBIDDEN_OURS
                or f"{module}.{name}" in FORBIDDEN_OURS
                or (module, name) in FORBIDDEN_NAMES
                or (module == "random" and name is not None and name not in RANDOM_ALLOWED)
            ):
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {module} {name or ''}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                pair = (node.value.id, node.attr)
                if pair in FORBIDDEN_NAMES or (pair[0] == "random" and pair[1] not in RANDOM_ALLOWED):
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} uses {'.'.join(pair)}")
    assert not wrong, "\n".join(wrong)


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}


def test_cores_never_walk_over_a_set() -> None:
    """String hashing differs from run to run, and with it a set's order and every trace hash."""
    wrong = []
    for path in pure_files():
        for node in ast.walk(ast.parse(path.read_text())):
            loops: list[ast.expr] = []
            if isinstance(node, ast.For):
                loops = [node.iter]
            elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
                loops = [generator.iter for generator in node.generators]
            wrong += [f"{path.relative_to(SOURCE)}:{loop.lineno}" for loop in loops if _is_set(loop)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert path.stem not in VAGUE_NAMES
    if path.name != "__init__.py":
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path}: no module docstring"


def test_a_file_of_more_than_600_lines_says_why() -> None:
    for path in sorted(path for folder in OUR_FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path.parent.name == "messages":
            continue  # generated
        text = path.read_text()
        assert text.count("\n") <= 600 or "The file is long because" in text, path
