"""The longest files of `make prove`: each commit runs one of three parts of them, the next commits the others.

Which part it is, the commit's hash says, as for seeds (`tests/drawn.py`), so two runs of a commit run the same tests. A
file that is named in the arguments runs whatever the commit is, and so do all of them where no tier is asked for, as in
`make soak`. Whoever changes what such a file tests names it: `make prove ARGS=tests/spark/test_sink_kills.py`. After
many changes, `make prove ARGS=--every-part` runs all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.drawn import commit, seed_of

# About equally long: 20 minutes of one worker each.
PARTS = (
    {
        "tests/explain/test_known_plans.py",
        "tests/house/test_uncompiled.py",
        "tests/spark/test_connect.py",
        "tests/spark/test_sink_kills.py",
        "tests/spark/test_standalone.py",
    },
    {
        "tests/interop/test_spark_side_by_side.py",
        "tests/protocol/test_kio_agrees.py",
        "tests/showcase/test_run_avro.py",
        "tests/spark/test_sink_modes_kills.py",
        "tests/spark/test_topic_audit.py",
        "tests/trial/test_run.py",
    },
    {
        "tests/interop/test_trials_and_apache_kafka.py",
        "tests/showcase/test_run.py",
        "tests/simulation/test_negative_controls.py",
        "tests/sink/simulated/test_controls.py",
        "tests/spark/test_pipelines.py",
        "tests/spark/test_sink_cluster.py",
        "tests/spark/test_speculation.py",
    },
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-part", action="store_true", help="run the longest files that other commits run, too")


def of_other_commits(commit_hash: str) -> set[str]:
    """The files that this commit leaves out."""
    chosen = seed_of(commit_hash) % len(PARTS)
    return {file for number, part in enumerate(PARTS) for file in part if number != chosen}


def _leaves_out(config: pytest.Config) -> bool:
    return config.getoption("tier") == "prove" and not config.getoption("every_part")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Leave out what is of other commits, once pytest and the tiers have chosen."""
    yield
    if not _leaves_out(config):
        return
    others = of_other_commits(commit())
    named = {Path(config.invocation_params.dir, argument.split("::")[0]).resolve() for argument in config.args}
    left_out = [item for item in items if item.nodeid.split("::")[0] in others and item.path.resolve() not in named]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {*map(id, left_out)}
        items[:] = [item for item in items if id(item) not in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which of the longest files did not run."""
    if _leaves_out(config):
        others = ", ".join(sorted(of_other_commits(commit())))
        terminalreporter.write_line(f"left out unless named, being run by other commits: {others}")
