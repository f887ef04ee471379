"""docs/pyspark-exactly-once.md works as it stands: written by the query it shows, read as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.papers import Papers

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

PASSWORD = "lovelace"
PAGE = (Path(__file__).parents[2] / "docs" / "pyspark-exactly-once.md").read_text()


def shown() -> dict[str, Any]:
    """The functions of the page."""
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "pyspark-exactly-once.md", "exec"), names)
    return names


def test_every_row_is_there_once_when_the_query_is_started_again(
    spark: SparkSession, own_kafka_cluster: Cluster, tmp_path: Path
) -> None:
    own_kafka_cluster.create_topic("orders")
    servers = own_kafka_cluster.bootstrap_servers
    names = shown()
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.json").write_text(f'{{"key": "anna", "value": "order {number}"}}\n')
        query = names["write_orders"](spark, str(folder), str(tmp_path / "checkpoint"), servers)
        assert query.awaitTermination(240)
    rows = names["read_orders"](spark, servers).collect()
    assert sorted((row["key"], row["value"]) for row in rows) == [("anna", "order 0"), ("anna", "order 1")]


def test_source_and_sink_log_in_with_the_same_options(
    spark: SparkSession, papers: Papers, kafka_name: str, tmp_path: Path
) -> None:
    login = ottla.Listener(protocol="SASL_SSL", certificate=papers.server, users={"ada": PASSWORD})
    listeners = {"PLAINTEXT": ottla.Listener(), "SASL_SSL": login}
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        cluster.create_topic(kafka_name)
        options = shown()["secured"](PASSWORD, cluster.bootstrap_servers_of("SASL_SSL"), str(papers.ca))
        rows = spark.createDataFrame([("anna", "order 0")], "key string, value string")
        rows.write.format("ottla").mode("append").options(topic=kafka_name, **options, **{"write.id": "one"}).save()
        [row] = spark.read.format("ottla").options(subscribe=kafka_name, **options).load().collect()
        assert (row["key"], row["value"]) == (b"anna", b"order 0")
        wrong = shown()["secured"]("byron", cluster.bootstrap_servers_of("SASL_SSL"), str(papers.ca))
        with pytest.raises(Exception, match="does not take user 'ada' with this password"):
            spark.read.format("ottla").options(subscribe=kafka_name, **wrong).load().collect()
