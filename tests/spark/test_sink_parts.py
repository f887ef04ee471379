"""A write of which a part is there: of the tasks that Spark runs again, only those whose rows are missing write."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ottla.client.tables import read_table
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.session import session_of
from ottla.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

# More for each task than fits between Spark and its Python process.
_ROWS = 40_000
_ROW_BYTES = 200


def test_a_task_whose_rows_are_there_leaves_its_input_unread(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    def write() -> None:
        rows = spark.range(0, _ROWS, 1, 4).selectExpr(f"lpad(cast(id as string), {_ROW_BYTES}, '0') value")
        given = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": kafka_topic}
        options = {**given, "write.id": kafka_topic, "sink.same.rows": "true"}
        rows.write.format("ottla").mode("append").options(**options).save()

    def times_written() -> list[set[int]]:
        """How often the rows of each task are there."""
        values = read_table(kafka_cluster.bootstrap_servers, kafka_topic, isolation_level="read_committed")["value"]
        found = Counter(int(value) for value in values.to_pylist())
        return [{found[row] for row in range(first, first + _ROWS // 4)} for first in range(0, _ROWS, _ROWS // 4)]

    write()
    assert times_written() == [{1}] * 4
    # As if the rows of two tasks had been taken back.
    session = session_of(SinkSettings(kafka_topic, kafka_cluster.bootstrap_servers))
    driver_identity, decision = session.fence(), session.read_decision()
    assert decision is not None
    entries = tuple(
        each._replace(landed=False, lost=True) if each.partition_id in (0, 2) else each for each in decision.entries
    )
    with DecisionWriter(session, driver_identity) as writer:
        writer.write_again(decision._replace(entries=entries))
    write()
    assert times_written() == [{2}, {1}, {2}, {1}]
    decided = session.read_decision()
    assert decided is not None
    assert not decided.lost
    assert not decided.unsettled
