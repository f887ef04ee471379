"""The tiers (tests/tiers.py): each test is in one, named files run in both, and an empty choice is explained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import variants
from tests.tiers import FOREIGN

ROOT = Path(__file__).parents[2]
# What starts Apache Kafka, its tools or Spark for a test.
STARTERS = {"java", "apache_kafka_node", "apache_side", "kafka_tools", "spark", "spark_connector"}

_TESTS = """
import pytest

def test_pure():
    pass

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.prove)])
def test_of_both(number):
    pass

@pytest.mark.kafka
def test_foreign():
    pass

@pytest.mark.spark
@pytest.mark.sample
def test_sample():
    pass
"""
_PROVED = "import pytest\npytestmark = pytest.mark.prove\ndef test_long():\n    pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  kafka\n  spark\n  prove\n  sample\n")
    (tmp_path / "test_some.py").write_text(_TESTS)
    (tmp_path / "test_proved.py").write_text(_PROVED)
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, list[str]]:
    """The exit status, and what pytest wrote."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.tiers", "-p", "no:cacheprovider", *arguments]
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=project, env=environment, check=False
    )
    return done.returncode, done.stdout.splitlines()


def passed(lines: list[str]) -> set[str]:
    """The tests that have passed."""
    return {word.rsplit("::")[-1] for line in lines if "PASSED" in line for word in line.split() if "::" in word}


IN_TEST = {"test_pure", "test_of_both[1]", "test_sample"}
IN_PROVE = {"test_of_both[2]", "test_foreign", "test_long"}


@pytest.mark.parametrize(
    ("arguments", "chosen", "left_out"),
    [
        ("", IN_TEST | IN_PROVE, None),
        ("-m prove", IN_PROVE, None),
        ("--tier test", IN_TEST, "left out, being of `make prove`: 3"),
        ("--tier prove -n 2", IN_PROVE, "left out, being of `make test`: 3"),
        ("--tier test -k of_both", {"test_of_both[1]"}, "left out, being of `make prove`: 1"),
        ("--tier test test_some.py::test_foreign", {"test_foreign"}, None),
        ("--tier prove test_some.py::test_pure -n 2", {"test_pure"}, None),
        ("--tier test test_proved.py", {"test_long"}, None),
    ],
)
def test_a_tier_runs_what_is_in_it_and_what_is_named(
    project: Path, arguments: str, chosen: set[str], left_out: str | None
) -> None:
    status, lines = run(project, *arguments.split())
    assert (status, passed(lines)) == (0, chosen)
    assert [line for line in lines if "left out" in line] == ([left_out] if left_out else [])


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_choice_that_leaves_nothing_is_an_error_that_says_where_to_look(project: Path, processes: str) -> None:
    status, lines = run(project, "--tier", "test", "-k", "long", "-n", processes)
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    told = "no test of this tier was chosen; 1 of `make prove` were: run that, or name their file in ARGS"
    assert told in lines


def test_what_starts_apache_kafka_or_spark_is_marked_so(request: pytest.FixtureRequest) -> None:
    """Else it would be in `make test`. Seen by the fixtures of the tests that this run has chosen."""
    unmarked = [
        item.nodeid
        for item in request.session.items
        if STARTERS & set(getattr(item, "fixturenames", ()))
        and not any(item.get_closest_marker(name) for name in FOREIGN)
    ]
    assert unmarked == []


def test_variants_are_of_tests_that_there_are() -> None:
    for nodeid in variants.IN_TEST:
        file, name = nodeid.split("::")
        assert f"def {name}(" in (ROOT / file).read_text(), nodeid


@pytest.mark.parametrize(("count", "chosen"), [(0, ""), (1, "a"), (2, "ae"), (3, "ace"), (5, "abcde"), (9, "abcde")])
def test_the_variants_that_stay_are_spread(count: int, chosen: str) -> None:
    assert "".join(variants.spread([*"abcde"], count)) == chosen


def test_of_many_variants_some_are_in_each_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(variants.IN_TEST, "test_some.py::test_it", 2)
    several = [f"test_some.py::test_it[{number}]" for number in range(4)]
    assert variants.beyond_their_number([*several, "test_some.py::test_other[1]"]) == {several[1], several[2]}
