"""docs/pyspark-exactly-once.md works as it stands: written by the query it shows, read as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "pyspark-exactly-once.md").read_text()


def test_every_row_is_there_once_when_the_query_is_started_again(
    spark: SparkSession, own_kafka_cluster: Cluster, tmp_path: Path
) -> None:
    own_kafka_cluster.create_topic("orders")
    servers = own_kafka_cluster.bootstrap_servers
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "pyspark-exactly-once.md", "exec"), names)
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.json").write_text(f'{{"key": "anna", "value": "order {number}"}}\n')
        query = names["write_orders"](spark, str(folder), str(tmp_path / "checkpoint"), servers)
        assert query.awaitTermination(60)
    rows = names["read_orders"](spark, servers).collect()
    assert sorted((row["key"], row["value"]) for row in rows) == [("anna", "order 0"), ("anna", "order 1")]
