"""What is compiled is what the source says: never older than it, and doing the same without the compiler."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Loads the modules named in argv[1:] from their sources, then sends records through a simulated cluster.
AS_WRITTEN = """
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

class FromSource:
    def find_spec(self, name, path, target=None):
        if name not in sys.argv:
            return None
        file = str(Path(path[0], name.rpartition(".")[2] + ".py"))
        return spec_from_file_location(name, file, loader=SourceFileLoader(name, file))

sys.meta_path.insert(0, FromSource())

from ottla.simulation.world import World

world = World(7, through_bytes=True)
world.create_topic("flights", partitions=2)
producer = world.producer()
deliveries = [producer.send("flights", b"%d" % number, b"%d" % number) for number in range(50)]
producer.flush()
assert {delivery.result().partition for delivery in deliveries} == {0, 1}
loaded = [name for name in sys.argv if name in sys.modules]
assert "ottla.producer.sender" in loaded, loaded
assert all(sys.modules[name].__file__.endswith(".py") for name in loaded)
"""


def listed(name: str) -> list[str]:
    """A list of modules in setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return list(ast.literal_eval(node.value))
    raise LookupError(name)


@pytest.mark.parametrize("module", listed("LOOPS") + listed("TURNS"))
def test_each_listed_module_is_compiled_and_not_older_than_its_source(module):
    source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    written_s = max(path.stat().st_mtime for path in (source, source.with_suffix(".pxd")) if path.exists())
    built = [each for each in map(source.with_suffix, EXTENSION_SUFFIXES) if each.exists()]
    assert built, "not built: python setup.py build_ext --inplace"
    for each in built:
        assert each.stat().st_mtime >= written_s, "build again: python setup.py build_ext --inplace"


def test_nothing_is_loaded_that_was_compiled_of_a_module_not_listed_any_more():
    built = {
        path.relative_to(ROOT / "src").with_name(path.name.partition(".")[0]) for path in (ROOT / "src").rglob("*.so")
    }
    assert {".".join(path.parts) for path in built} <= {*listed("LOOPS"), *listed("TURNS"), "ottla._cython"}


def test_the_turns_of_a_producer_run_as_written_too():
    done = subprocess.run(
        [sys.executable, "-c", AS_WRITTEN, *listed("TURNS")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def declared(layout: Path) -> dict[str, set[str]]:
    """The attributes of each class in a .pxd file, with those of the class that it is derived from."""
    found: dict[str, set[str]] = {}
    homes = {
        name: ROOT / "src" / Path(*module.split(".")).with_suffix(".pxd")
        for module, names in re.findall(r"^from (ottla[\w.]+) cimport (.+)$", layout.read_text(), re.MULTILINE)
        for name in names.split(", ")
    }
    name = ""
    for line in layout.read_text().splitlines():
        if begins := re.match(r"cdef class (\w+)(?:\((\w+)\))?:", line):
            name, base = begins.groups()
            found[name] = set() if base is None else set(found[base] if base in found else declared(homes[base])[base])
        elif attribute := re.fullmatch(r"    cdef public \w+ (\w+)", line):
            found[name].add(attribute[1])
    return found


def assigned(node: ast.ClassDef) -> set[str]:
    """The attributes that a class's methods give to `self`."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self"
    }


@pytest.mark.parametrize("module", listed("TURNS"))
def test_every_attribute_of_a_class_that_becomes_a_struct_is_declared(module):
    source = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
    layout = source.with_suffix(".pxd")
    structs = declared(layout) if layout.exists() else {}
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name in structs:
            assert assigned(node) <= structs[node.name], f"{layout} lacks attributes of {node.name}"
