"""The floors inside `broker/`: what stands on one knows those below it, and nothing above, not even by its types.

A broker core is nobody's context: it wires its parts together, and each part is given what it needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

BROKER = Path(__file__).parents[2] / "src" / "ottla" / "broker"
ROOM = "ottla.broker"

# From the ground up. Rooms on one floor stand side by side: none of them imports from another. "log.*" are the files
# of that folder; "apis" alone is the list of APIs and versions, which everybody may look at.
FLOORS: list[list[list[str]]] = [
    # What is said and set, and what everything else is made with.
    [
        [
            "",
            "apis",
            "authorized_operations",
            "bearer_tokens",
            "client_metrics_settings",
            "client_quotas",
            "client_telemetry",
            "dynamic_settings",
            "events",
            "metrics",
            "otlp",
            "outbox",
            "patterns",
            "purgatory",
            "refused",
            "request",
            "setting_documentation",
            "settings",
            "spoken_versions",
            "storage",
            "topic_ids",
            "topic_map",
            "topic_names",
            "topic_settings",
            "uuids",
            "waiters",
            "wall_clock",
            "write_back",
        ]
    ],
    [["controller.*"], ["log.*"]],
    [["partition"]],
    [["fetch_sessions", "replica"], ["isr_proposals"], ["log_cleaner", "log_upkeep"]],
    [["replicas"]],
    [["authentication"], ["connections", "request_faults", "request_channel"], ["heartbeats"], ["internal_topics"]],
    [["groups.*"], ["transactions.*"]],
    [["coordinators"]],
    [["apis.*"]],
    [["core"]],
    [["metric_beans"]],
]
# (importer, imported): a log and the opening of it are one thing in two files.
BACKWARDS = ("log.recovery", "log.log")


def module_of(path: Path) -> str:
    parts = path.relative_to(BROKER).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_of(path): path for path in sorted(BROKER.rglob("*.py"))}


def imported(path: Path) -> Iterator[str]:
    """The modules of the room that a file imports anywhere: on top, in a function, or for its types alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith(f"{ROOM}."):
                module = name.removeprefix(f"{ROOM}.")
                yield module if module in MODULES else module.rpartition(".")[0]


IMPORTS = {module: sorted({*imported(path)} - {module}) for module, path in MODULES.items()}


def places(module: str) -> list[tuple[int, int]]:
    """(floor, room) for every line of FLOORS that names the module."""
    folder = module.rpartition(".")[0]
    return [
        (floor, room)
        for floor, rooms in enumerate(FLOORS)
        for room, names in enumerate(rooms)
        if module in names or f"{folder}.*" in names or (f"{module}.*" in names and module != "apis")
    ]


def test_every_file_has_one_place() -> None:
    assert {module: places(module) for module in MODULES if len(places(module)) != 1} == {}


def test_files_import_from_floors_below_or_their_own_room() -> None:
    wrong = []
    for module, others in IMPORTS.items():
        ((floor, room),) = places(module)
        for other in others:
            ((other_floor, other_room),) = places(other)
            if not (other_floor < floor or (other_floor, other_room) == (floor, room)):
                wrong.append(f"{module} (floor {floor}) imports {other} (floor {other_floor})")
    assert not wrong, "\n".join(wrong)


def test_nobody_but_its_drivers_knows_the_controller() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in IMPORTS.items()
        for other in others
        if other.split(".")[0] == "controller" and module.split(".")[0] != "controller"
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_imports_itself_by_way_of_others() -> None:
    left = {module: {*others} for module, others in IMPORTS.items()}
    importer, other = BACKWARDS
    left[importer].remove(other)
    while free := [module for module, others in left.items() if not others]:
        for module in free:
            del left[module]
        for others in left.values():
            others.difference_update(free)
    assert sorted(left) == [], "these import each other"


def test_handlers_ask_their_broker_for_what_it_offers_only() -> None:
    wrong = []
    for module, path in MODULES.items():
        if module.startswith("apis."):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Attribute)
                    and re.match("_[^_]", node.attr)
                    and ast.unparse(node.value) != "self"
                ):
                    wrong.append(f"{module}:{node.lineno} uses {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)
