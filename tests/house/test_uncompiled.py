"""What `TURNS` in setup.py compiles passes its tests as the plain Python that it is, too."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from tools.mutation.control import Control, listed
from tools.mutation.source import ROOT

# Each part that is compiled, by its own tests; over sockets, files and the simulated world.
CHOSEN = [
    "tests/connection",
    "tests/producer",
    "tests/reader",
    *(f"tests/broker/test_{name}.py" for name in ("fetch", "produce", "purgatory", "replication", "transactions")),
    *(f"tests/client/test_{name}.py" for name in ("producer", "reader")),
    *(f"tests/simulation/test_{name}.py" for name in ("chance", "fingerprints", "world")),
]

pytestmark = pytest.mark.prove


def files_of(modules: list[str]) -> list[str]:
    """Where the modules come from, in the process that runs this."""
    return [str(import_module(module).__file__) for module in modules]


def test_what_is_compiled_passes_its_tests_as_plain_python_too() -> None:
    with Control({}) as plain:
        turns = listed("TURNS")
        assert plain.call(files_of, turns) == [str(ROOT / "src" / f"{name.replace('.', '/')}.py") for name in turns]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not prove", "-p", "no:cacheprovider", *CHOSEN],
            cwd=ROOT,
            env=plain.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout[-4000:]
