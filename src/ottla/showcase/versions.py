"""What Spark reads of records of two versions of a schema: how many of each, and where the new field is its default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.audit.promises import PROMISES
from ottla.showcase.avro import DEFAULT, AvroValues
from ottla.showcase.outcome import STREAMED, Schemas, VersionRead

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, SparkSession

    from ottla.showcase.kafka import RunKafka


def read_versions(
    spark: SparkSession, kafka: RunKafka, topics: Mapping[str, str], streamed: str, values: AvroValues
) -> Schemas:
    """Every record of the topics ({guarantee: topic}) and of `streamed`, read as the newest schema of its subject."""
    found = _counted(spark, kafka, ",".join(topics.values()), values.fields(""), values.field)
    sent = values.since, values.count - values.since
    versions = []
    for guarantee in PROMISES:
        topic = topics[guarantee]
        for number, registered in enumerate(values.registered[topic]):
            stored, with_default = found.get((topic, registered.id), (0, 0))
            expected = stored if number == 0 else 0
            versions.append(VersionRead.of(guarantee, registered, sent[number], stored, with_default, expected))
    result = values.result(streamed)
    (registered,) = values.registered[streamed]
    of_result = _counted(spark, kafka, streamed, result.read().getField("record"), values.field)
    stored, with_default = of_result.get((streamed, registered.id), (0, 0))
    versions.append(VersionRead.of(STREAMED, registered, values.count, stored, with_default, values.since))
    return Schemas(values.registry_shown, values.field, DEFAULT, tuple(versions))


def _counted(
    spark: SparkSession, kafka: RunKafka, topics: str, record: Column, field: str
) -> dict[tuple[str, int], tuple[int, int]]:
    """{(topic, id of a schema): (records, records in which `field` is its default)}."""
    from pyspark.sql import functions as F  # noqa: N812

    given = {"kafka.bootstrap.servers": kafka.read_from, "subscribe": topics, **kafka.spark_options}
    stored = spark.read.format("ottla").options(**given, **{"kafka.isolation.level": "read_committed"})
    schema_id = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("long")
    rows = (
        stored.option("columns", "topic,value")
        .load()
        .select("topic", schema_id.alias("id"), record.getField(field).alias("new"))
        .groupBy("topic", "id")
        .agg(F.count(F.lit(1)).alias("stored"), F.count_if(F.col("new") == DEFAULT).alias("with_default"))
        .collect()
    )
    return {(row.topic, row.id): (row.stored, row.with_default) for row in rows}
