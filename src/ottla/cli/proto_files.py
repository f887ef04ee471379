"""A `.proto` file with the files it imports: their names are paths from its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ottla.cli.small_file import read_small_file
from ottla.errors import UserMistake

if TYPE_CHECKING:
    from ottla.registry.client import RegistryClient
    from ottla.registry.registered import SchemaReference

_FILES_MAX = 300


def read_imports(path: Path, text: str) -> dict[str, str]:
    """The texts of all that the file imports, by the names they are imported by; those that import others come last.

    UserMistake for a file that is not there. What is built in (`google/protobuf/*.proto`) is not among them.
    """
    found: dict[str, str] = {}

    def follow(imported_by: str, text: str, open_files: tuple[str, ...]) -> None:
        for name in _imports(imported_by, text):
            if name in open_files:
                raise UserMistake(f"{imported_by} imports {name!r}, which imports {imported_by} in turn")
            if name in found:
                continue
            if len(found) >= _FILES_MAX:
                raise UserMistake(f"{path} imports more than {_FILES_MAX} files")
            imported = _read(path, imported_by, name)
            follow(name, imported, (*open_files, name))
            found[name] = imported

    follow(path.name, text, ())
    return found


def register_imports(registry: RegistryClient, text: str, texts: Mapping[str, str]) -> list[SchemaReference]:
    """Register each under its own name, as Confluent's serializers do; what the file `text` refers to then."""
    from ottla.registry.registered import PROTOBUF, SchemaReference

    known: dict[str, SchemaReference] = {}
    for name, imported in texts.items():
        used = [known[each] for each in _imports(name, imported)]
        version = registry.register(name, imported, PROTOBUF, used).version
        if version is None:
            # Some registries tell no more than an id.
            version = registry.look_up(name, imported, PROTOBUF, used).version
        known[name] = SchemaReference(name, name, version or 1)
    return [known[each] for each in _imports("schema.proto", text)]


def _imports(name: str, text: str) -> Iterator[str]:
    from ottla.schemas.protobuf.parse import parse_file
    from ottla.schemas.protobuf.schema import is_built_in

    return (each for each in parse_file(text, name).dependency if not is_built_in(each))


def _read(path: Path, imported_by: str, name: str) -> str:
    parts = PurePosixPath(name)
    there = path.parent / parts
    is_below = not parts.is_absolute() and ".." not in parts.parts
    if not is_below or not there.is_file():
        why = f"there is no file {there}" if is_below else f"an import is a path from {path.parent}, without '..'"
        instead = "put it there, or register it in the registry and leave --value-schema out"
        raise UserMistake(f"{imported_by} imports {name!r}, and {why}: {instead}")
    return read_small_file(there, "--value-schema", "takes the text of a schema")
