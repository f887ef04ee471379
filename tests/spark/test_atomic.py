"""`atomic=true` and `sink_partitions`: readers see a whole batch at once, each Kafka partition written by one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from ottla.client.tables import read_table, write_table
from ottla.errors import KafkaError, UserMistake
from ottla.sink import recovery
from ottla.sink.session import session_of
from ottla.sink.settings import SinkSettings
from ottla.spark import sink_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr(
        "cast(id as string) value", "if(id % 5 = 0, null, cast(id % 50 as string)) key"
    )


def write(frame: DataFrame, cluster: Cluster, topic: str, **options: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.option("topic", topic).option("write.id", topic).option("atomic", "true").options(**options).save()


def visible(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    return read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed").to_pylist()


def test_a_batch_is_one_transaction_and_keys_lie_where_kafkas_clients_put_them(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    write(
        sink_partitions(rows(spark, 300), kafka_cluster.bootstrap_servers, topic=kafka_topic),
        kafka_cluster,
        kafka_topic,
    )
    found = visible(kafka_cluster, kafka_topic)
    assert sorted(int(row["value"]) for row in found) == list(range(300))
    [decision] = recovery.describe(session_of(SinkSettings(kafka_topic, kafka_cluster.bootstrap_servers))).decisions
    assert decision.atomic
    assert {entry.identity for entry in decision.entries} == {decision.coordinator}
    keys = {row["key"]: row["partition"] for row in found if row["key"] is not None}
    for key, partition in keys.items():
        assert {row["partition"] for row in found if row["key"] == key} == {partition}
    # A producer sends each key where it already lies.
    sent = write_table(
        kafka_cluster.bootstrap_servers, kafka_topic, _table(list(keys)), key="key", value="value"
    ).result()
    assert sent["partition"].to_pylist() == list(keys.values())


def _table(keys: list[bytes]) -> Any:
    import pyarrow as pa

    return pa.table({"key": keys, "value": keys})


def test_rows_of_a_kafka_partition_in_two_tasks_are_refused(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    with pytest.raises(
        PySparkException,
        match=r"through ottla\.spark\.sink_partitions, which sees to it",
    ):
        write(rows(spark, 300), kafka_cluster, kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == []


def test_rows_that_name_their_partition_stay_there(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    named = rows(spark, 60).selectExpr("value", f"'{kafka_topic}' topic", "cast(value % 3 as int) partition")
    for placed in (
        sink_partitions(named),
        sink_partitions(named.drop("topic"), kafka_cluster.bootstrap_servers, topic=kafka_topic, tasks=2),
    ):
        found = placed.selectExpr("value", "partition", "spark_partition_id() task").collect()
        assert {(int(row["value"]) % 3, row["partition"]) for row in found} == {(0, 0), (1, 1), (2, 2)}
        assert len({(row["partition"], row["task"]) for row in found}) == 3


def test_what_cannot_be_placed_is_told(spark: SparkSession, kafka_cluster: Cluster) -> None:
    frame = rows(spark, 3)
    with pytest.raises(UserMistake, match="name the topic, or give columns 'topic' and 'partition'"):
        sink_partitions(frame)
    with pytest.raises(UserMistake, match="Give the bootstrap servers"):
        sink_partitions(frame, topic="orders")
    with pytest.raises(KafkaError, match="no-such-topic"):
        sink_partitions(frame, kafka_cluster.bootstrap_servers, topic="no-such-topic")
