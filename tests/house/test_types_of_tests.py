"""`make check` finds wrong names and calls in tests, tools and benchmarks, whether or not anything runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MISTAKEN = """\
class Fault:
    def hold(self, stop: str) -> None: ...


def test_without_annotations():
    fault = Fault()
    fault.hold("commit")
    for fault in ("lose_ack", "refuse"):
        print(fault)
    fault.hlod("commit")
    fault.hold(until="commit")
    print(falut)
"""
FOUND = {8: "assignment", 10: "attr-defined", 11: "call-arg", 12: "name-defined"}


def test_a_wrong_name_and_a_wrong_call_are_found_in_every_folder(tmp_path: Path) -> None:
    """mypy as `make check` calls it, with small packages of the same names."""
    folders = ("tests", "tools", "benchmarks")
    for folder in ("src/ottla", *folders):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    for folder in folders:
        (tmp_path / folder / "mistaken.py").write_text(MISTAKEN)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", ".cache"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300).stdout
    found = re.findall(r"^(\w+)/mistaken\.py:(\d+): error: .*\[([a-z-]+)\]$", said, flags=re.MULTILINE)
    expected = {(folder, str(line), code) for folder in folders for line, code in FOUND.items()}
    assert set(found) == expected, said
