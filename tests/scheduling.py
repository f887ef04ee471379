"""Which worker runs which file of tests, and when: Apache Kafka on one worker, Spark on another, long files first.

Each worker sorts what it has collected into one row of files: at the left end those that need Apache Kafka, at the
right end those that need Spark, and all others between them. The first worker takes files from the left, the second one
from the right, further ones from the middle of what is left. Of the files between, the longest stand where they are
taken first: at the two ends of two workers, in the middle of more. So what is slow to start is started on one worker
only, and no worker ends with a long file alone. A file runs on one worker: its tests share what it starts.

`--measure` writes how long each file took into `durations.json`; files that it does not name count as average.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
# Shorter files are not worth a line.
WORTH_S = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="write how long each file takes into tests/durations.json")


def read_durations(tier: str | None) -> dict[str, float]:
    """How many seconds the files of a tier take, those of both tiers together without one."""
    tiers: dict[str, dict[str, float]] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    sums: dict[str, float] = defaultdict(float)
    for name, measured in tiers.items():
        for file, seconds in measured.items() if tier in (None, name) else ():
            sums[file] += seconds
    return dict(sums)


def in_a_row(files: dict[str, list[pytest.Item]], durations: dict[str, float], workers: int) -> list[str]:
    """The names of the files from left to right, for so many workers."""
    average = fmean(durations.values()) if durations else 0.0
    long_first = sorted(files, key=lambda file: -durations.get(file, average))
    marks = {file: {mark.name for item in items for mark in item.iter_markers()} for file, items in files.items()}
    right = [file for file in long_first if "spark" in marks[file]]
    left = [file for file in long_first if "kafka" in marks[file] and file not in right]
    middle = [file for file in long_first if file not in left and file not in right]
    # Who shares a server stand side by side, so that it can be stopped behind the last of them: the nodes of Apache
    # Kafka that a folder's tests share, the Spark session of the fixture `spark`.
    left.sort(key=lambda file: Path(file).parent)
    right.sort(key=lambda file: not any("spark" in _fixtures(item) for item in files[file]))
    to_the_middle, from_the_middle = middle[0::2], [*reversed(middle[1::2])]
    if workers > 2:
        to_the_middle, from_the_middle = [*reversed(to_the_middle)], [*reversed(from_the_middle)]
    return [*left, *to_the_middle, *from_the_middle, *reversed(right)]


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Sort what is left when all others have chosen; the tests of a file stay in the order they have."""
    yield
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[_file(item.nodeid)].append(item)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    row = in_a_row(files, read_durations(config.getoption("tier")), workers)
    items[:] = [item for file in row for item in files[file]]


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out files as described above, for `--dist loadfile`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FromTheRow(LoadFileScheduling):
        """Takes the next file from the left, the right or the middle, by the number of the worker."""

        @property
        def nodes(self) -> list[Any]:
            """By their number: they become ready in any order, and where the middle is depends on who was first."""
            return sorted(super().nodes, key=lambda node: int(node.gateway.id.removeprefix("gw")))

        def _assign_work_unit(self, node: Any) -> None:
            worker = int(node.gateway.id.removeprefix("gw"))
            place = {0: 0, 1: len(self.workqueue) - 1}.get(worker, (len(self.workqueue) - 1) // 2)
            file = [*self.workqueue][place]
            tests = self.workqueue.pop(file)
            self.assigned_work.setdefault(node, {})[file] = tests
            numbers = {nodeid: number for number, nodeid in enumerate(self.registered_collections[node])}
            node.send_runtest_some([numbers[nodeid] for nodeid, is_done in tests.items() if not is_done])

    # As the workers have sorted it, not by the number of tests.
    config.option.loadscopereorder = False
    return FromTheRow(config, log)


# How long files take: the process that sees all reports writes it.


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("measure") and not hasattr(config, "workerinput"):
        if config.getoption("tier") is None:
            raise pytest.UsageError("--measure measures one tier: give --tier, too")
        config.pluginmanager.register(_Measuring(config))


class _Measuring:
    def __init__(self, config: pytest.Config) -> None:
        self._tier = config.getoption("tier")
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write it, also where tests have failed."""
        tiers = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        worth = {file: round(seconds) for file, seconds in self._seconds.items() if seconds >= WORTH_S}
        tiers[self._tier] = dict(sorted(worth.items()))
        DURATIONS.write_text(json.dumps(tiers, indent=1) + "\n")
