"""Spark's own Kafka connector beside ours, with the same options: the same rows, or both refuse, or the guide says how
they differ. The cases are in `spark_cases`; `spark_sides` does them in one Spark session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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
from tests.spark.sink_driver import QUICK_START

import ottla
from ottla.client.tables import read_table
from ottla.cluster.cluster import Cluster

from ..needs import lacking

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 900
_REFUSED = "refused: "
# Ours makes no task for a partition in which there is nothing to read.
_EACH_ITS_OWN = ("tasks", "description")
_ALIKE = [case for case in (*READS, *STREAMS, *WRITES, *SINKS) if case not in (*REFUSED, *REFUSED_BY_OURS, *DIFFERENT)]


@pytest.fixture(scope="module")
def told(spark_connector: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program says, and what it has written."""
    with Cluster() as cluster:
        fill(cluster)
        for case in (*WRITES, *SINKS, "moved"):
            for form in ("kafka", "ottla"):
                cluster.create_topic(topic_of(case, form), partitions=3)
        settings = json.dumps(QUICK_START | {"spark.jars": ",".join(spark_connector)})
        folder = str(tmp_path_factory.mktemp("checkpoints"))
        cases = json.dumps({"read": READS, "stream": STREAMS, "write": WRITES, "sink": SINKS})
        program = [sys.executable, "-m", "tests.interop.spark_sides"]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [*program, cluster.bootstrap_servers, settings, folder, cases],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if "missing" in found:
            lacking("spark", found["missing"])
        for case in (*WRITES, *SINKS):
            both = found["cases"][case]
            for number, form in enumerate(("kafka", "ottla")):
                stored = written(cluster, topic_of(case, form))
                both[number] = both[number] if both[number] else stored
                if case == "write times":
                    found.setdefault("times written", []).append(times(cluster, topic_of(case, form)))
                if isinstance(both[number], str):
                    assert stored == [], f"{case}: {form} has refused, and written"
    return found


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
def test_the_same_comes_of_it(told: dict[str, Any], case: str) -> None:
    theirs, ours = told["cases"][case]
    assert not isinstance(theirs, str), theirs
    if isinstance(theirs, dict):
        theirs, ours = ({**side, **dict.fromkeys(_EACH_ITS_OWN)} for side in (theirs, ours))
    assert ours == theirs


@pytest.mark.parametrize("case", REFUSED)
def test_what_sparks_own_connector_refuses_is_refused_for_the_same_reason(told: dict[str, Any], case: str) -> None:
    for said, words in zip(told["cases"][case], REFUSED[case], strict=True):
        assert str(said).startswith(_REFUSED)
        assert words in said


@pytest.mark.parametrize("case", REFUSED_BY_OURS)
def test_what_ours_alone_refuses_is_said_in_one_sentence(told: dict[str, Any], case: str) -> None:
    theirs, ours = told["cases"][case]
    assert not isinstance(theirs, str), theirs
    assert ours.startswith(_REFUSED)
    assert REFUSED_BY_OURS[case] in ours


@pytest.mark.parametrize("first", ["kafka", "ottla"])
def test_a_stream_moves_with_its_checkpoint(told: dict[str, Any], first: str) -> None:
    before, after = told["moved"][first]
    assert (len(before["rows"]), len(after["rows"])) == (3, 3)
    assert before["offsets"] != after["offsets"]
    assert not set(before["rows"]) & set(after["rows"])


def test_a_source_written_in_python_is_described_by_an_address(told: dict[str, Any]) -> None:
    theirs, ours = (side["description"] for side in told["cases"]["stream"])
    assert theirs == "KafkaV2[Subscribe[plain]]"
    assert re.fullmatch(r"org\.apache\.spark\..*\.PythonMicroBatchStream\w*@[0-9a-f]+", ours)


def test_a_column_of_times_is_written_by_ours_alone(told: dict[str, Any]) -> None:
    theirs, ours = told["times written"]
    assert ours == [SENT_MS] * 3
    assert all(at > SENT_MS for at in theirs)


def test_large_ranges_are_cut(told: dict[str, Any]) -> None:
    assert all(side["tasks"] >= 11 for side in told["cases"]["pieces"])
    theirs, ours = told["cases"]["small pieces"]
    assert (theirs["tasks"], ours["tasks"]) == (3, 12)
    theirs, ours = told["cases"]["empty"]
    assert theirs["tasks"] == 2
    assert ours["tasks"] <= 1


def test_most_cases_are_rows(told: dict[str, Any]) -> None:
    assert sum(not isinstance(theirs, str) and bool(theirs) for theirs, _ in told["cases"].values()) >= 50
