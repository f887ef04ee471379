"""The guard against what hangs (tests/hanging.py): the run ends, and shows what was being done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_IN_A_FIXTURE = """
import pytest, threading

@pytest.fixture(scope="session")
def server():
    yield
    threading.Event().wait()

def test_it(server):
    pass
"""
_IN_COLLECTION = "import threading\nthreading.Event().wait()\n"
_AT_THE_END = """
import threading

def test_it():
    threading.Thread(target=threading.Event().wait).start()
"""


# One worker: two that hang at the same moment would mix their lines.
@pytest.mark.prove
@pytest.mark.parametrize(
    ("source", "told", "processes"),
    [
        (_IN_A_FIXTURE, "in server", "0"),
        (_IN_A_FIXTURE, "in server", "1"),
        (_IN_COLLECTION, "in <module>", "0"),
        (_IN_COLLECTION, "in <module>", "1"),
        (_AT_THE_END, "in _shutdown", "0"),
    ],
    ids=["fixture", "fixture of a worker", "collection", "collection in a worker", "end"],
)
def test_what_hangs_ends_and_says_where(source: str, told: str, processes: str, tmp_path: Path) -> None:
    # On a busy machine, it may take that long until the code that hangs is reached.
    settings = "faulthandler_timeout = 8\nfaulthandler_exit_on_timeout = true\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{settings}")
    (tmp_path / "test_some.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.hanging", "-p", "no:cacheprovider", "-n", processes]
    done = subprocess.run(
        [*command, "--max-worker-restart=0"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert "Timeout (0:00:08)!" in done.stderr
    assert told in done.stderr
    if source is _IN_A_FIXTURE and processes == "1":
        assert "crashed while running 'test_some.py::test_it'" in done.stdout
