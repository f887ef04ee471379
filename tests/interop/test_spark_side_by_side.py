"""Spark's own Kafka connector beside ours, with the same options: the same rows, or both refuse, or the guide says how
they differ. The cases are in `spark_cases`; `spark_sides` does them in one Spark session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.spark_cases import (
    DIFFERENT,
    FIRST_MS,
    READS,
    REFUSED,
    REFUSED_BY_OURS,
    SENT_MS,
    SINKS,
    STREAMS,
    WRITES,
    topic_of,
)
from tests.interop.spark_sides import FORMS
from tests.spark.sink_driver import QUICK_START

import ottla
from ottla.client.tables import read_table
from ottla.cluster.cluster import Cluster

from ..needs import lacking

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
MOVED = "moved"
_PATIENCE_S = 3600
_REFUSED = "refused: "
# Ours makes no task for a partition in which there is nothing to read.
_EACH_ITS_OWN = ("tasks", "description")
_CASES = (*READS, *STREAMS, *WRITES, *SINKS)
_ALIKE = [case for case in _CASES if case not in (*REFUSED, *REFUSED_BY_OURS, *DIFFERENT)]


class Told:
    """What the program says of each case, as soon as it has said it; of writes also what they have stored."""

    def __init__(self, cluster: Cluster, program: subprocess.Popen[str], complaints: Path) -> None:
        self._cluster, self._program, self._complaints = cluster, program, complaints
        self._cases: dict[str, list[Any]] = {}
        self.times_written: list[list[int]] = []

    def case(self, case: str) -> list[Any]:
        """What came of it with Spark's own connector, and with ours."""
        while case not in self._cases:
            self._take()
        return self._cases[case]

    def _take(self) -> None:
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        assert line, f"the program ended with status {self._program.wait()}: {self._complaints.read_text()[-6000:]}"
        found = json.loads(line)
        if "missing" in found:
            lacking("spark", found["missing"])
        case, both = found["case"], found["both"]
        if case in (*WRITES, *SINKS):
            for number, form in enumerate(FORMS):
                topic = topic_of(case, form)
                stored = written(self._cluster, topic)
                both[number] = both[number] if both[number] else stored
                if case == "write times":
                    self.times_written.append(times(self._cluster, topic))
                if isinstance(both[number], str):
                    assert stored == [], f"{case}: {form} has refused, and written"
        self._cases[case] = both


@pytest.fixture(scope="module")
def told(spark_connector: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The cases, which a program begins to do."""
    with Cluster() as cluster:
        fill(cluster)
        for case in (*WRITES, *SINKS, MOVED):
            for form in FORMS:
                cluster.create_topic(topic_of(case, form), partitions=3)
        settings = json.dumps(QUICK_START | {"spark.jars": ",".join(spark_connector)})
        folder = tmp_path_factory.mktemp("checkpoints")
        cases = json.dumps({"read": READS, "stream": STREAMS, "write": WRITES, "sink": SINKS, "move": {MOVED: {}}})
        command = [sys.executable, "-m", "tests.interop.spark_sides", cluster.bootstrap_servers, settings, str(folder)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        complaints = tmp_path_factory.mktemp("program") / "stderr"
        with (
            complaints.open("w") as stderr,
            subprocess.Popen(
                [*command, cases],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path},
            ) as program,
        ):
            patience = threading.Timer(_PATIENCE_S, program.kill)
            patience.start()
            try:
                yield Told(cluster, program, complaints)
            finally:
                patience.cancel()
                program.kill()


def written(cluster: Cluster, topic: str) -> list[str]:
    """What stands in a topic, but for times."""
    rows = read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed").to_pylist()
    # Where rows without a key go is drawn.
    return sorted(
        repr([row["key"], row["value"], row["headers"], row["partition"] if row["key"] else None]) for row in rows
    )


def times(cluster: Cluster, topic: str) -> list[int]:
    """The times of a topic's records, in ms since 1970."""
    return [
        round(at.timestamp() * 1000) for at in read_table(cluster.bootstrap_servers, topic)["timestamp"].to_pylist()
    ]


def fill(cluster: Cluster) -> None:
    for topic, partitions in {"plain": 3, "trimmed": 1, "empty": 2, "transactions": 1}.items():
        cluster.create_topic(topic, partitions=partitions)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"2")]
            producer.send(
                "plain",
                None if number % 5 == 0 else f"v{number}",
                None if number % 4 == 0 else f"k{number}",
                headers=headers if number % 3 == 0 else None,
                partition=number % 3,
                timestamp_ms=FIRST_MS + number,
            )
            producer.send("trimmed", f"v{number}", timestamp_ms=FIRST_MS + number)
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.delete_records("trimmed", {0: 12})
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="side-by-side") as producer:
        for counts in (True, False, True, False):
            producer.begin_transaction()
            for number in range(5):
                producer.send("transactions", f"v{number}")
            producer.flush()
            producer.commit_transaction() if counts else producer.abort_transaction()


@pytest.mark.parametrize("case", _ALIKE)
def test_the_same_comes_of_it(told: Told, case: str) -> None:
    theirs, ours = told.case(case)
    assert not isinstance(theirs, str), theirs
    if isinstance(theirs, dict):
        theirs, ours = ({**side, **dict.fromkeys(_EACH_ITS_OWN)} for side in (theirs, ours))
    assert ours == theirs


@pytest.mark.parametrize("case", REFUSED)
def test_what_sparks_own_connector_refuses_is_refused_for_the_same_reason(told: Told, case: str) -> None:
    for said, words in zip(told.case(case), REFUSED[case], strict=True):
        assert str(said).startswith(_REFUSED)
        assert words in said


@pytest.mark.parametrize("case", REFUSED_BY_OURS)
def test_what_ours_alone_refuses_is_said_in_one_sentence(told: Told, case: str) -> None:
    theirs, ours = told.case(case)
    assert not isinstance(theirs, str), theirs
    assert ours.startswith(_REFUSED)
    assert REFUSED_BY_OURS[case] in ours


@pytest.mark.parametrize("first", FORMS)
def test_a_stream_moves_with_its_checkpoint(told: Told, first: str) -> None:
    before, after = told.case(MOVED)[FORMS.index(first)]
    assert (len(before["rows"]), len(after["rows"])) == (3, 3)
    assert before["offsets"] != after["offsets"]
    assert not set(before["rows"]) & set(after["rows"])


def test_a_source_written_in_python_is_described_by_an_address(told: Told) -> None:
    theirs, ours = (side["description"] for side in told.case("stream"))
    assert theirs == "KafkaV2[Subscribe[plain]]"
    assert re.fullmatch(r"org\.apache\.spark\..*\.PythonMicroBatchStream\w*@[0-9a-f]+", ours)


def test_a_column_of_times_is_written_by_ours_alone(told: Told) -> None:
    told.case("write times")
    theirs, ours = told.times_written
    assert ours == [SENT_MS] * 3
    assert all(at > SENT_MS for at in theirs)


def test_large_ranges_are_cut(told: Told) -> None:
    assert all(side["tasks"] >= 11 for side in told.case("pieces"))
    theirs, ours = told.case("small pieces")
    assert (theirs["tasks"], ours["tasks"]) == (3, 12)
    theirs, ours = told.case("empty")
    assert theirs["tasks"] == 2
    assert ours["tasks"] <= 1


def test_most_cases_are_rows(told: Told) -> None:
    assert sum(not isinstance(theirs, str) and bool(theirs) for theirs, _ in map(told.case, _CASES)) >= 50
