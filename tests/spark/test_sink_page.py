"""What docs/spark-sink.md shows works as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.tables import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "spark-sink.md").read_text()


def test_the_page_about_the_sink_runs(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.json").write_text('{"key": "c", "value": "3 cherries"}\n')
    names: dict[str, Any] = {
        "spark": spark,
        "folder": str(tmp_path / "lines"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        here = block.replace("localhost:9092", kafka_cluster.bootstrap_servers).replace('"orders"', f'"{kafka_topic}"')
        exec(compile(here, "spark-sink.md", "exec"), names)
    # The same query again, with the function that writes in a thread.
    (tmp_path / "lines" / "2.json").write_text('{"key": "d", "value": "4 dates"}\n')
    again = names["lines"].writeStream.foreachBatch(names["write_in_a_thread"])
    query = again.option("checkpointLocation", f"{tmp_path}/checkpoint-by-batch").trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    table = read_table(kafka_cluster.bootstrap_servers, kafka_topic, isolation_level="read_committed")
    values = sorted(table["value"].to_pylist())
    assert values == sorted([b"1 apple", b"2 pears"] * 2 + [b"3 cherries"] * 2 + [b"4 dates"])
