"""Data goes one way: what each room may import, and what a core may never touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ottla"

CORES = {"connection", "producer", "reader", "broker"}
CLIENT_SIDE = {"connection", "producer", "reader", "protocol", "records"}
BEFORE_TRIAL = CLIENT_SIDE | {
    "audit",
    "broker",
    "client",
    "cluster",
    "faults",
    "host",
    "ledger",
    "schemas",
    "simulation",
    "sink",
    "spark",
}
MAY_IMPORT = {
    "protocol": set(),
    "records": set(),
    "schemas": {"records"},
    "faults": set(),
    "ledger": set(),
    "connection": {"protocol"},
    "producer": {"connection", "records", "protocol"},
    "reader": {"connection", "records", "protocol"},
    "broker": {"protocol", "records", "faults"},
    "client": CLIENT_SIDE | {"schemas", "ledger"},
    "host": {"broker", "protocol", "records", "faults"},
    "cluster": {"host", "broker", "protocol", "records", "faults"},
    "sink": CLIENT_SIDE | {"client"},
    "spark": {"client", "schemas", "registry", "producer", "records", "sink"},
    "audit": {"ledger"},
    "simulation": CORES | {"host", "protocol", "records", "faults", "ledger", "audit"},
    "trial": BEFORE_TRIAL,
    "cli": BEFORE_TRIAL | {"trial"},
}

PURE = CORES | {"host", "faults", "audit", "simulation"}
FORBIDDEN_MODULES = {"socket", "threading", "asyncio", "secrets", "select", "selectors", "subprocess"}
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
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else None


def imports(tree: ast.AST) -> Iterator[tuple[str, str | None, int]]:
    """(module, imported name or None, line)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.module, alias.name, node.lineno


def test_each_room_imports_only_rooms_before_it() -> None:
    wrong = []
    for path in source_files():
        room = room_of(path)
        if room is None:
            continue
        assert room in MAY_IMPORT, f"{room}: a new room needs a line in MAY_IMPORT"
        for module, name, line in imports(ast.parse(path.read_text())):
            if module == "ottla" and name is not None:
                target = name
            elif module.startswith("ottla."):
                target = module.split(".")[1]
            else:
                continue
            if (SOURCE / target).is_dir() and target != room and target not in MAY_IMPORT[room]:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports ottla.{target}")
    assert not wrong, "\n".join(wrong)


def pure_files() -> list[Path]:
    # audit/spark.py is the one door of the judge to Spark; its checkers stay pure.
    return [p for p in source_files() if room_of(p) in PURE and p != SOURCE / "audit" / "spark.py"]


def test_cores_take_time_and_chance_as_arguments() -> None:
    wrong = []
    for path in pure_files():
        tree = ast.parse(path.read_text())
        for module, name, line in imports(tree):
            top = module.split(".")[0]
            if (
                top in FORBIDDEN_MODULES
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
