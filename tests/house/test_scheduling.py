"""Which worker runs which file (tests/scheduling.py), and when servers that tests share are stopped."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CONFTEST = """
from pathlib import Path

import pytest
from tests import scheduling
from tests.last_users import stop_behind_last

scheduling.DURATIONS = Path(__file__).with_name("durations.json")
scheduling.WORTH_S = 0.5
pytest_plugins = ["tests.tiers", "tests.scheduling", "tests.last_users"]

@pytest.fixture(scope="session")
def server(request):
    stop_behind_last(request, lambda item: "server" in item.fixturenames, lambda: print("the server stops"))
"""
_PLAIN = "def test_it():\n    pass\n"


def marked(name: str) -> str:
    return f"import pytest\npytestmark = pytest.mark.{name}\n{_PLAIN}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  kafka\n  spark\n  prove\n  sample\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    return tmp_path


def run(project: Path, *arguments: str) -> list[str]:
    """What pytest wrote; all tests have passed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=project, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_apache_kafka_is_on_one_worker_and_spark_on_the_other(project: Path) -> None:
    for number in range(4):
        (project / f"test_{number}_kafka.py").write_text(marked("kafka"))
        (project / f"test_{number}_spark.py").write_text(marked("spark"))
    lines = run(project, "-v", "-n", "2", "--dist", "loadfile", "--tier", "prove")
    workers = {found[2]: found[1] for line in lines if (found := re.match(r"\[(gw.)\].* PASSED (\S+)", line))}
    assert len(workers) == 8
    # Those who are done with their own help the other, if only with the last two files.
    for mark, worker in ("kafka", "gw0"), ("spark", "gw1"):
        assert workers[f"test_0_{mark}.py::test_it"] == workers[f"test_1_{mark}.py::test_it"] == worker


def test_a_third_worker_has_neither(project: Path) -> None:
    for number in range(6):
        for mark in "kafka", "spark", "prove":
            (project / f"test_{number}_{mark}.py").write_text(marked(mark))
    (project / "durations.json").write_text(json.dumps({"prove": {"test_3_prove.py": 50, "test_4_prove.py": 2}}))
    lines = run(project, "-v", "-n", "3", "--dist", "loadfile", "--tier", "prove")
    workers = {found[2]: found[1] for line in lines if (found := re.match(r"\[(gw.)\].* PASSED (\S+)", line))}
    assert len(workers) == 18
    of_third = [test for test, worker in workers.items() if worker == "gw2"]
    # The longest of the others comes first.
    assert of_third[0] == "test_3_prove.py::test_it"
    assert all(workers[f"test_{number}_kafka.py::test_it"] == "gw0" for number in range(2))
    assert all(workers[f"test_{number}_spark.py::test_it"] == "gw1" for number in range(2))


_ONE_AFTER_THE_OTHER = """
import os, pathlib, time

FOLDER = pathlib.Path(__file__).parent
BEFORE = {"gw2": "gw0", "gw1": "gw2"}
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


def pytest_configure():
    until = time.monotonic() + 60
    while WORKER in BEFORE and not (FOLDER / BEFORE[WORKER]).exists() and time.monotonic() < until:
        time.sleep(0.01)


def pytest_collection_finish():
    (FOLDER / WORKER).touch()
"""


def test_the_middle_does_not_depend_on_which_worker_is_ready_first(project: Path) -> None:
    with (project / "conftest.py").open("a") as file:
        file.write(_ONE_AFTER_THE_OTHER)
    test_a_third_worker_has_neither(project)


def test_the_longest_files_are_at_both_ends(project: Path) -> None:
    seconds = {"test_a.py": 10, "test_b.py": 50, "test_c.py": 30, "test_d.py": 90}
    (project / "durations.json").write_text(json.dumps({"test": seconds, "prove": {"test_a.py": 1000}}))
    for name in (*seconds, "test_unknown.py"):
        (project / name).write_text(_PLAIN)
    lines = run(project, "--collect-only", "-q", "--tier", "test")
    order = [line.split("::")[0] for line in lines if "::" in line]
    # A file that nobody has measured takes as long as the average, 45 seconds.
    assert order == ["test_d.py", "test_unknown.py", "test_a.py", "test_c.py", "test_b.py"]


def test_files_are_measured_in_the_tier_that_runs(project: Path) -> None:
    (project / "durations.json").write_text(json.dumps({"test": {"test_gone.py": 7}, "prove": {"test_a.py": 5}}))
    (project / "test_a.py").write_text("import time\ndef test_it():\n    time.sleep(0.6)\n")
    (project / "test_b.py").write_text(_PLAIN)
    run(project, "--tier", "test", "--measure", "-n", "2", "--dist", "loadfile")
    measured = json.loads((project / "durations.json").read_text())
    assert measured["prove"] == {"test_a.py": 5}
    assert measured["test"].keys() == {"test_a.py"}
    assert measured["test"]["test_a.py"] >= 1


def test_a_server_is_stopped_behind_its_last_user(project: Path) -> None:
    (project / "test_a.py").write_text("def test_first(server):\n    pass\ndef test_other():\n    pass\n")
    (project / "test_b.py").write_text(_PLAIN)
    (project / "test_c.py").write_text("def test_last(server):\n    pass\n")
    lines = run(project, "-v", "-s")
    assert [word for line in lines for word in re.findall(r"::(test_\w+)|(the server stops)", line)] == [
        ("test_first", ""),
        ("test_other", ""),
        ("test_last", ""),
        ("", "the server stops"),
        ("test_it", ""),
    ]
