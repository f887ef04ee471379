"""`value.format` in Spark's own hands: batches and streams, there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.slow_start import started_again

import ottla

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def url(kafka_cluster: ottla.Cluster) -> Iterator[str]:
    with ottla.Registry(kafka_cluster.bootstrap_servers) as registry:
        yield registry.url


@pytest.fixture
def given(kafka_cluster: ottla.Cluster, url: str) -> dict[str, str]:
    servers = kafka_cluster.bootstrap_servers
    return {"kafka.bootstrap.servers": servers, "value.format": "avro", "registry": url}


def write(frame: DataFrame, given: dict[str, str], topic: str, **more: str) -> None:
    frame.write.format("ottla").mode("append").options(**given, **more, topic=topic).save()


def run(frame: DataFrame, given: dict[str, str], topic: str, folder: Path) -> None:
    """One run of a stream over all there is, whose checkpoint is in this folder."""
    writing = frame.writeStream.format("ottla").trigger(availableNow=True)
    writing = writing.options(**given, topic=topic, checkpointLocation=str(folder))
    started_again(lambda: writing.start().awaitTermination())


def test_a_stream_goes_on_when_the_schema_changes_between_and_amid_its_runs(
    spark: SparkSession, given: dict[str, str], kafka_name: str, kafka_cluster: ottla.Cluster, tmp_path: Path
) -> None:
    source, target = f"{kafka_name}-in", f"{kafka_name}-out"
    for topic in (source, target):
        kafka_cluster.create_topic(topic)
    rows = spark.range(3).selectExpr("cast(id as string) as key", "id", "nullif(concat('n', id), '') as note")
    write(rows.drop("note"), given, source)
    options = given | {"subscribe": source, "startingOffsets": "earliest"}
    read = spark.readStream.format("ottla").options(**options).load()
    assert read.schema["value"].dataType.simpleString() == "struct<id:bigint>"
    doubled = read.select("key", f.struct((f.col("value.id") * 2).alias("twice")).alias("value"))
    run(doubled, given, target, tmp_path / "checkpoint")
    # The query has its type from before; what comes now is of a later version.
    write(rows, given, source)
    run(doubled, given, target, tmp_path / "checkpoint")
    found = spark.read.format("ottla").options(**given, subscribe=target).load()
    assert sorted(row.twice for row in found.select("value.*").collect()) == [0, 0, 2, 2, 4, 4]
    assert sorted(bytes(row.key) for row in found.collect()) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    later = spark.read.format("ottla").options(**given, subscribe=source).load()
    assert sorted(row.note or "-" for row in later.select("value.*").collect()) == ["-", "-", "-", "n0", "n1", "n2"]


def test_a_batch_that_comes_again_has_the_same_bytes(
    spark: SparkSession, given: dict[str, str], kafka_topic: str
) -> None:
    rows = spark.range(10).selectExpr("cast(id as string) as key", "id", "map('a', id) as m")
    for _ in range(2):
        # A second time with other bytes would be refused.
        write(rows, given, kafka_topic, **{"write.id": kafka_topic, "sink.same.rows": "true"})
    found = spark.read.format("ottla").options(**given, subscribe=kafka_topic).load().select("value.*").collect()
    assert sorted((row.id, row.m["a"]) for row in found) == [(number, number) for number in range(10)]
    with ottla.RegistryClient(given["registry"]) as client:
        fields = json.loads(client.version(f"{kafka_topic}-value").text)["fields"]
    # What is never null in the DataFrame is not in the schema.
    assert fields[0]["type"] == "long"


def test_a_column_value_that_is_a_struct_may_be_null(
    spark: SparkSession, given: dict[str, str], kafka_topic: str
) -> None:
    rows = spark.range(4).selectExpr("cast(id as string) as key", "if(id > 1, struct(id), null) as value")
    write(rows, given, kafka_topic)
    found = spark.read.format("ottla").options(**given, subscribe=kafka_topic, columns="value").load()
    assert sorted((row.value is None, (row.value and row.value.id) or 0) for row in found.collect()) == [
        (False, 2),
        (False, 3),
        (True, 0),
        (True, 0),
    ]


def test_values_that_cannot_be_decoded_go_to_a_topic_of_their_own(
    spark: SparkSession, given: dict[str, str], kafka_topic: str, kafka_cluster: ottla.Cluster
) -> None:
    write(spark.range(2).selectExpr("id"), given, kafka_topic)
    with ottla.Producer(given["kafka.bootstrap.servers"]) as producer:
        producer.send(kafka_topic, b"plain", b"k")
    options = given | {"subscribe": kafka_topic}
    with pytest.raises(PySparkException, match=rf"The record at offset \d+ of {kafka_topic}-\d cannot be decoded"):
        spark.read.format("ottla").options(**options).load().collect()
    letters = f"{kafka_topic}-letters"
    kafka_cluster.create_topic(letters)
    frame = spark.read.format("ottla").options(**options, undecodable="dead-letter").load()
    bad = frame.where("valueError is not null").selectExpr("key", "valueBytes as value")
    bytes_only = {"kafka.bootstrap.servers": given["kafka.bootstrap.servers"]}
    write(bad, bytes_only, letters)
    [row] = spark.read.format("ottla").options(**bytes_only, subscribe=letters).load().collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"plain")
    assert frame.where("value is not null").count() == 2


def test_what_goes_wrong_is_told_before_a_task_runs(
    spark: SparkSession, given: dict[str, str], kafka_topic: str
) -> None:
    rows = spark.range(2).selectExpr("id")

    def told(call: Any) -> str:
        with pytest.raises(PySparkException) as caught:
            call()
        return str(caught.value)

    asked = spark.read.format("ottla").options(**given, subscribe=kafka_topic)
    assert "40401" in told(asked.load)
    down = given | {"registry": "http://127.0.0.1:1", "registry.max.retries": "0"}
    assert "127.0.0.1:1" in told(spark.read.format("ottla").options(**down, subscribe=kafka_topic).load)
    assert "127.0.0.1:1" in told(lambda: write(rows, down, kafka_topic))
    secret = down | {"registry.basic.auth.user.info": "me:hidden"}
    assert "hidden" not in told(lambda: write(rows, secret, kafka_topic))
    narrow = '{"type":"record","name":"o","fields":[{"name":"id","type":"int"}]}'
    big = spark.range(5, 6).selectExpr(f"id + {1 << 40} as id")
    assert "Row 0" in told(lambda: write(big, given, kafka_topic, **{"value.schema": narrow}))


def test_json_with_a_schema_goes_there_and_back(
    spark: SparkSession, given: dict[str, str], kafka_name: str, kafka_cluster: ottla.Cluster
) -> None:
    kafka_cluster.create_topic(kafka_name)
    schema = """{"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "object",
        "properties": {"city": {"type": "string"}}}, "tags": {"type": "object", "additionalProperties":
        {"type": "number"}}}}"""
    rows = spark.range(3).selectExpr("id", "named_struct('city', concat('c', id)) as at", "map('t', id / 2) as tags")
    options = given | {"value.format": "json"}
    write(rows, options, kafka_name, **{"value.schema": schema})
    found = spark.read.format("ottla").options(**options, subscribe=kafka_name).load()
    assert found.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,at:struct<city:string>,tags:map<string,double>>"
    )
    read = found.select("value.id", "value.at.city", "value.tags.t").collect()
    assert sorted(tuple(row) for row in read) == [(0, "c0", 0.0), (1, "c1", 0.5), (2, "c2", 1.0)]
