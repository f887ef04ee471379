"""Continuous processing, which Spark lets through to a sink that it then gives no rows, is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType
from tests.client.in_time import wait_until
from tests.spark.sink_engine import PATIENCE_S

from ottla.client.tables import read_table
from ottla.errors import UserMistake
from ottla.spark.continuous import refuse_continuous_query
from ottla.spark.sink import stream_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from ottla.cluster.cluster import Cluster

REFUSED = r"Continuous processing cannot be used with the ottla sink, .*use trigger\(processingTime=\.\.\.\) or trigger"
ROWS = StructType([StructField("value", StringType())])
DELIVERIES = [{"sink.id": "continuous"}, {"delivery": "at-least-once"}]


def writing(spark: SparkSession, cluster: Cluster, topic: str, options: dict[str, str]) -> DataStreamWriter:
    """Rows without end into the sink."""
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic, **options}
    return rows.writeStream.format("ottla").options(**given)


def lay_checkpoint(folder: Path, offsets: int, commits: int) -> str:
    """A checkpoint in which as many batches were begun, and as many done."""
    (folder / "metadata").write_text("{}")
    for name, count in (("offsets", offsets), ("commits", commits)):
        (folder / name).mkdir()
        for number in range(count):
            (folder / name / str(number)).touch()
            (folder / name / f".{number}.crc").touch()
    return str(folder)


@pytest.mark.spark
@pytest.mark.parametrize("options", DELIVERIES)
def test_a_continuous_trigger_is_refused_when_the_query_starts(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path, options: dict[str, str]
) -> None:
    writer = writing(spark, kafka_cluster, kafka_topic, options).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(continuous="1 second").start()
    try:
        with pytest.raises(PySparkException, match=REFUSED):
            assert query.awaitTermination(120)
    finally:
        query.stop()
    assert not list(tmp_path.glob("commits/*"))
    assert read_table(kafka_cluster.bootstrap_servers, kafka_topic).num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize("options", DELIVERIES)
def test_no_epoch_is_committed_where_the_options_do_not_name_the_checkpoint(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path, options: dict[str, str]
) -> None:
    writer = writing(spark, kafka_cluster, kafka_topic, options)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = writer.queryName("continuous").trigger(continuous="100 milliseconds").start()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    checkpoint = tmp_path / "continuous"
    try:
        # Epochs go by.
        wait_until((checkpoint / "offsets" / "5").exists, lambda: str(query.exception()), PATIENCE_S)
    finally:
        query.stop()
    assert not list(checkpoint.glob("commits/[0-9]*"))


@pytest.mark.parametrize("options", DELIVERIES)
def test_an_epoch_is_never_committed_where_the_checkpoint_could_not_tell(
    kafka_cluster: Cluster, kafka_topic: str, options: dict[str, str]
) -> None:
    given = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": kafka_topic, **options}
    writer = stream_writer(given, ROWS)
    with pytest.raises(UserMistake, match=REFUSED):
        writer.commit([None, None], 7)


@pytest.mark.parametrize("options", DELIVERIES)
def test_only_a_plan_is_refused_for_its_checkpoint(
    kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path, options: dict[str, str]
) -> None:
    checkpoint = lay_checkpoint(tmp_path, 12, 12)
    given = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": kafka_topic, **options}
    writer = stream_writer(given | {"checkpointLocation": checkpoint}, ROWS)
    # A driver that wakes up behind its successor, which has finished this batch: it gives up what it had prepared.
    writer.abort([None, None], 11)
    with pytest.raises(UserMistake, match=REFUSED):
        pickle.dumps(writer)


@pytest.mark.parametrize(("offsets", "commits"), [(0, 0), (11, 11)])
def test_a_checkpoint_without_a_batch_that_was_begun_is_a_continuous_querys(
    tmp_path: Path, offsets: int, commits: int
) -> None:
    with pytest.raises(UserMistake, match=REFUSED):
        refuse_continuous_query(lay_checkpoint(tmp_path, offsets, commits))


def test_a_micro_batch_stands_in_its_checkpoint_when_it_is_planned(tmp_path: Path) -> None:
    refuse_continuous_query(lay_checkpoint(tmp_path, 11, 10))


@pytest.mark.parametrize("checkpoint", [None, "hdfs://name/c", "here", "/no/such/folder"])
def test_a_checkpoint_that_is_not_on_this_machine_tells_nothing(checkpoint: str | None) -> None:
    refuse_continuous_query(checkpoint)
