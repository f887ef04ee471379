"""What the main job reads of its topics: their records, by Spark, and where they begin and end, as the brokers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.audit.ledgers.spark import Bounds


def stored_records(spark: SparkSession, bootstrap_servers: str, topics: Iterable[str], **options: str) -> DataFrame:
    """All records of these topics, in the columns of Spark's Kafka source; `options` are more of the source's."""
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": ",".join(topics), **options}
    return spark.read.format("ottla").options(**given).load()


def bounds_of(bootstrap_servers: str, topics: Iterable[str]) -> Bounds:
    """The first and the end offset of every partition."""
    from ottla.client.admin import Admin

    names = list(topics)
    with Admin(bootstrap_servers) as admin:
        begins = {topic: admin.begin_offsets(topic) for topic in names}
        ends = {topic: admin.end_offsets(topic) for topic in names}
    return {topic: {n: (begins[topic][n], end) for n, end in ends[topic].items()} for topic in names}
