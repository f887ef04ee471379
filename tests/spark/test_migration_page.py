"""docs/spark-migration.md: its tables have the rows that are tested, and its code runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.spark_cases import READS, ROWS, SINKS, STREAMS, WRITES

import ottla
from ottla.client.tables import read_table
from ottla.spark import LagListener, offsets_behind_latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "spark-migration.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def source(end: dict[str, Any], latest: dict[str, Any]) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest}


def test_every_source_of_a_progress_is_told_and_what_is_no_kafka_source_is_empty() -> None:
    behind = source({"t": {"0": 5, "1": 9}}, {"t": {"0": 8, "1": 9, "2": 6}})
    rate = {"endOffset": 7, "latestOffset": None}
    assert offsets_behind_latest({"sources": [behind, rate, source({}, {})]}) == [
        {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "6", "avgOffsetsBehindLatest": "3.0"},
        {},
        {},
    ]
    assert offsets_behind_latest(None) == []


def test_every_row_has_cases_that_both_connectors_run_and_every_case_a_row() -> None:
    cells = [cell for cell in re.findall(r"^\| (.+?) \| .* \|$", PAGE, flags=re.MULTILINE) if "Spark's s" not in cell]
    assert cells == list(ROWS)
    assert {case for cases in ROWS.values() for case in cases} == {*READS, *STREAMS, *WRITES, *SINKS, "moved"}


@pytest.mark.spark
def test_the_code_of_the_page_writes_updates_and_knows_how_far_it_is_behind(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[dict[str, Any]] = []

    class Seen(LagListener):
        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            super().onQueryProgress(event)
            seen.append(dict(self.latest))

    with ottla.Cluster(brokers=1) as cluster, caplog.at_level(logging.INFO, "ottla.spark"):
        for topic in ("orders", "counts"):
            cluster.create_topic(topic, partitions=2)
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            for number in range(6):
                producer.send("orders", "v", f"k{number % 2}")
        scene: dict[str, Any] = {"spark": spark, "checkpoint": str(tmp_path)}
        code = CODE.replace("localhost:9092", cluster.bootstrap_servers).replace(
            "lags = LagListener()", "lags = Seen()"
        )
        scene["Seen"] = Seen
        try:
            exec(compile(code, "spark-migration.md", "exec"), scene)
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(240_000)
        finally:
            spark.streams.removeListener(scene["lags"])
        counts = read_table(cluster.bootstrap_servers, "counts", isolation_level="read_committed").to_pylist()
    assert sorted((row["key"], row["value"]) for row in counts) == [(b"k0", b"3"), (b"k1", b"3")]
    assert seen[0]["counts"][0]["maxOffsetsBehindLatest"] == "0"
    assert "query counts: avgOffsetsBehindLatest 0.0" in caplog.text
    assert scene["lags"].latest == {}
