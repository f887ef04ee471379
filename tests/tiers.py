"""The two tiers of the tests: `make test` runs each behaviour once, `make prove` runs the rest.

A test is in the tier `prove` if it is marked so, if it needs Apache Kafka or Spark and is not marked `sample`, or if it
is one variant of many (`tests/variants.py`); all others are in the tier `test`. So each test is in exactly one.
`--tier` runs one tier; without it all tests run. A file that is named in the arguments, or a test in it, runs in either
tier.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.variants import beyond_their_number

TIERS = "test", "prove"
# The marks of tests that are slow to start, and so in the tier `prove`.
FOREIGN = "kafka", "spark"
_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one tier only, and those in files that are named")


def tier_of(item: pytest.Item) -> str:
    """The tier a test is in by its marks."""
    if item.get_closest_marker("prove"):
        return "prove"
    is_foreign = any(item.get_closest_marker(name) for name in FOREIGN)
    return "prove" if is_foreign and not item.get_closest_marker("sample") else "test"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark the tests of the tier `prove`, let pytest choose (-k, -m, --lf), then leave out the other tier."""
    of_many = beyond_their_number([item.nodeid for item in items if tier_of(item) == "test"])
    for item in items:
        if tier_of(item) == "prove" or item.nodeid in of_many:
            item.add_marker("prove")
    yield
    wanted = config.getoption("tier")
    if wanted is None:
        return
    named = {Path(config.invocation_params.dir, argument.split("::")[0]).resolve() for argument in config.args}
    chosen = [tier_of(item) == wanted or item.path.resolve() in named for item in items]
    left_out = [item for item, is_chosen in zip(items, chosen, strict=True) if not is_chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item, is_chosen in zip(items, chosen, strict=True) if is_chosen]
    config.stash[_LEFT_OUT] = len(left_out)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the count to the main process: with -n, other processes collect the tests."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Keep the count of any worker: all have collected the same tests."""
    if error is None:
        node.config.stash[_LEFT_OUT] = node.workeroutput["left_out"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say which tier has the tests that were left out."""
    count = config.stash.get(_LEFT_OUT, 0)
    if not count:
        return
    [other] = {*TIERS} - {config.getoption("tier")}
    there = f"left out, being of `make {other}`: {count}"
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        there = f"no test of this tier was chosen; {count} of `make {other}` were: run that, or name their file in ARGS"
    terminalreporter.write_line(there)


def some_tested(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Values for `parametrize`, of which those chosen stand for all in `make test`."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.prove) for value in values]
