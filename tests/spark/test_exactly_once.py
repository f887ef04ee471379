"""`delivery=exactly-once` as users meet it: streaming, foreachBatch and batch writes, repeated and refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ottla.client.admin import Admin
from ottla.client.tables import read_table
from ottla.sink.identities import prefix_of
from ottla.sink.recovery import describe
from ottla.sink.session import session_of
from ottla.spark.exactly_once import sink_settings
from ottla.spark.sink_options import read_sink_options
from ottla.spark.threads import thread_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark


def visible(cluster: Cluster, topic: str) -> list[int]:
    table = read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(map(int, table["value"].to_pylist()))


def write(frame: DataFrame, cluster: Cluster, topic: str, **options: str) -> None:
    given = {name.replace("__", "."): value for name, value in options.items()}
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.option("topic", topic).options(**given).save()


def numbers(spark: SparkSession, first: int, end: int, tasks: int = 2) -> DataFrame:
    return spark.range(first, end, 1, tasks).selectExpr("cast(id as string) value", "cast(id % 7 as string) key")


class Stream:
    """A query over a folder of files, a micro-batch each."""

    def __init__(self, spark: SparkSession, cluster: Cluster, topic: str, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self.topic = topic
        self.rows = folder / "rows"
        self.checkpoint = folder / "checkpoint"
        self.rows.mkdir()

    def add(self, *lines: Any) -> None:
        (self.rows / f"{len(list(self.rows.iterdir())):03}.txt").write_text("".join(f"{line}\n" for line in lines))

    def run(
        self, change: Callable[[DataFrame], DataFrame] = lambda rows: rows, foreach: Any = None, **options: str
    ) -> None:
        """Everything there is, to the end; raises what the query raises."""
        rows = change(
            self._spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(self.rows))
        )
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if foreach is None:
            given = {name.replace("__", "."): value for name, value in options.items()}
            writer = writer.format("ottla").option("kafka.bootstrap.servers", self._cluster.bootstrap_servers)
            writer = writer.option("topic", self.topic).options(**given)
        else:
            writer = writer.foreachBatch(foreach)
        writer.start().awaitTermination()

    def forget(self, batch: int) -> None:
        """Make Spark believe that it did not finish this micro-batch, as after a crash."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path) -> Stream:
    return Stream(spark, kafka_cluster, kafka_topic, tmp_path)


@pytest.mark.sample
def test_a_micro_batch_that_spark_repeats_is_there_once_and_its_offsets_can_be_read_back(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    stream.add(1, 2, 3)
    stream.add(4, 5)
    stream.run()
    assert visible(kafka_cluster, kafka_topic) == [1, 2, 3, 4, 5]
    stream.forget(1)
    stream.run(lambda rows: rows.repartition(3))
    assert visible(kafka_cluster, kafka_topic) == [1, 2, 3, 4, 5]
    # The sink has the name of its checkpoint, and knows what it has written where.
    options = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "checkpointlocation": str(stream.checkpoint)}
    state = describe(session_of(sink_settings(read_sink_options(options, streaming=True))))
    told = [(decision.batch.batch_id, decision.totals.rows) for decision in state.decisions]
    assert told == [(0, 3), (1, 2)]
    assert sum(span.rows for written in state.written.values() for span in written.spans) == 2


def test_a_micro_batch_that_spark_repeats_with_other_rows_is_done_unless_they_must_be_the_same(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    def other(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("cast(value + 10 as string) value")

    stream.add(1, 2)
    stream.run(sink__id=kafka_topic)
    stream.forget(0)
    with pytest.raises(PySparkException, match=r"2 rows, as many as were decided.*sink\.same\.rows=true refuses that"):
        stream.run(other, sink__id=kafka_topic, sink__same__rows="true")
    stream.run(other, sink__id=kafka_topic)
    stream.add(3)
    stream.run(other, sink__id=kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == [1, 2, 13]


def test_micro_batches_without_rows_do_no_harm(stream: Stream, kafka_cluster: Cluster, kafka_topic: str) -> None:
    stream.add(1)
    stream.add(-1)
    stream.add(2)
    stream.run(lambda rows: rows.where("value > 0"))
    stream.forget(2)
    stream.run(lambda rows: rows.where("value > 0"))
    assert visible(kafka_cluster, kafka_topic) == [1, 2]


def test_a_row_that_cannot_be_written_leaves_nothing_of_its_batch(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    stream.add(1)
    stream.run(sink__id=kafka_topic)
    stream.add(*range(2, 200))

    def with_partition(bad: int) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rows.selectExpr("value", f"if(value = '{bad}', 77, 0) partition").repartition(2)

    with pytest.raises(PySparkException, match="names partition 77 in row"):
        stream.run(with_partition(bad=150), sink__id=kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == [1]
    # The other task may have been killed amid its rows: what it left open is aborted by the next start at the latest.
    stream.run(with_partition(bad=-1), sink__id=kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == list(range(1, 200))
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        assert not [each for each in admin.list_transactions(prefix_of(kafka_topic)) if each.state == "Ongoing"]


def test_a_checkpoint_that_was_lost_is_refused(stream: Stream, kafka_cluster: Cluster, kafka_topic: str) -> None:
    stream.add(1)
    stream.run(sink__id=kafka_topic)
    shutil.rmtree(stream.checkpoint)
    with pytest.raises(
        PySparkException, match=r"checkpoint was lost, or another query has the same sink\.id"
    ) as refused:
        stream.run(sink__id=kafka_topic)
    # When it was planned: had there been another query, its micro-batch would not have been touched.
    assert "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer" in str(refused.value)
    assert visible(kafka_cluster, kafka_topic) == [1]


def test_a_checkpoint_that_was_rolled_back_is_refused(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    stream.add(1)
    stream.run(sink__id=kafka_topic)
    shutil.copytree(stream.checkpoint, tmp_path / "backup")
    stream.add(2)
    stream.run(sink__id=kafka_topic)
    stream.add(3)
    stream.run(sink__id=kafka_topic)
    shutil.rmtree(stream.checkpoint)
    shutil.copytree(tmp_path / "backup", stream.checkpoint)
    with pytest.raises(PySparkException, match="checkpoint was rolled back"):
        stream.run(sink__id=kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == [1, 2, 3]


def test_foreach_batch_is_exactly_once_by_its_sink_id(stream: Stream, kafka_cluster: Cluster, kafka_topic: str) -> None:
    def each(rows: DataFrame, batch_id: int) -> None:
        write(rows, kafka_cluster, kafka_topic, sink__id=kafka_topic)

    stream.add(1, 2)
    stream.add(3)
    stream.run(foreach=each)
    stream.forget(1)
    stream.add(4)
    stream.run(foreach=each)
    assert visible(kafka_cluster, kafka_topic) == [1, 2, 3, 4]


@pytest.mark.parametrize("session", ["the query's", "ours"])
def test_a_plain_thread_within_foreach_batch_which_loses_the_micro_batch_is_refused(
    session: str, spark: SparkSession, stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    def each(rows: DataFrame, batch_id: int) -> None:
        def work() -> None:
            activate(rows.sparkSession if session == "the query's" else spark)
            write(rows, kafka_cluster, kafka_topic, sink__id=kafka_topic)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(work).result()

    stream.add(1, 2)
    with pytest.raises(PySparkException, match=r"ottla\.spark\.thread_target.*write\.id") as refused:
        stream.run(foreach=each)
    assert "which micro-batch" in str(refused.value)
    assert visible(kafka_cluster, kafka_topic) == []


def test_a_thread_within_foreach_batch_that_inherits_the_micro_batch_or_names_it_is_exactly_once(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    inheriting, naming = f"{kafka_topic}-inheriting", f"{kafka_topic}-naming"

    def each(rows: DataFrame, batch_id: int) -> None:
        def inherit() -> None:
            write(rows, kafka_cluster, kafka_topic, sink__id=inheriting)

        def name() -> None:
            activate(rows.sparkSession)
            write(rows, kafka_cluster, kafka_topic, sink__id=naming, write__id=str(batch_id))

        with ThreadPoolExecutor(2) as pool:
            for writing in [pool.submit(thread_target(rows.sparkSession)(inherit)), pool.submit(name)]:
                writing.result()

    stream.add(1, 2)
    for _ in range(2):
        stream.run(foreach=each)
        stream.forget(0)
    assert visible(kafka_cluster, kafka_topic) == [1, 1, 2, 2]


def test_a_thread_outside_of_a_query_can_write(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    def work() -> None:
        write(spark.range(3).selectExpr("string(id) value"), kafka_cluster, kafka_topic)

    with ThreadPoolExecutor(1) as pool:
        # What `thread_target` is for: without it Spark says that there is no such data source.
        with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
            pool.submit(work).result()
        pool.submit(thread_target(spark)(work)).result()
    assert visible(kafka_cluster, kafka_topic) == [0, 1, 2]


def activate(session: SparkSession) -> None:
    """Have this thread find Python data sources."""
    assert session._jvm is not None
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def test_two_writes_of_a_micro_batch_under_one_sink_id_are_refused(
    stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    other = f"{kafka_topic}-other"
    kafka_cluster.create_topic(other, partitions=1)

    def each(rows: DataFrame, batch_id: int) -> None:
        write(rows, kafka_cluster, kafka_topic, sink__id=kafka_topic)
        write(rows, kafka_cluster, other, sink__id=kafka_topic)

    stream.add(1, 2)
    # Also if the program is started again as it is.
    for _ in range(3):
        with pytest.raises(
            PySparkException,
            match=r"2 rows, as many as were decided.*two writes of a micro-batch have the same s",
        ):
            stream.run(foreach=each)
    assert visible(kafka_cluster, other) == []
    kafka_cluster.delete_topic(other)


def test_a_batch_write_with_an_id_is_there_once_however_often_it_runs(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    for tasks in (2, 3):
        write(numbers(spark, 0, 500, tasks), kafka_cluster, kafka_topic, write__id=f"{kafka_topic}-monday")
    write(numbers(spark, 500, 600), kafka_cluster, kafka_topic, write__id=f"{kafka_topic}-tuesday")
    write(numbers(spark, 0, 500), kafka_cluster, kafka_topic, write__id=f"{kafka_topic}-monday")
    assert visible(kafka_cluster, kafka_topic) == list(range(600))
    with pytest.raises(
        PySparkException, match=r"499 rows where 500 were decided.*Nothing was written this time.*write\.id"
    ):
        write(numbers(spark, 0, 499), kafka_cluster, kafka_topic, write__id=f"{kafka_topic}-monday")
    assert visible(kafka_cluster, kafka_topic) == list(range(600))


def test_other_rows_under_the_id_of_a_write_are_done_where_the_option_says_so_but_not_within_one_run(
    spark: SparkSession, stream: Stream, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    other_rows = {"sink__same__rows": "false"}
    for end in (500, 499):
        write(numbers(spark, 0, end), kafka_cluster, kafka_topic, write__id=f"{kafka_topic}-monday", **other_rows)
    assert visible(kafka_cluster, kafka_topic) == list(range(500))

    def twice(rows: DataFrame, batch_id: int) -> None:
        for changed in (rows, rows.selectExpr("cast(value + 10 as string) value")):
            write(changed, kafka_cluster, kafka_topic, sink__id=kafka_topic, write__id=str(batch_id), **other_rows)

    stream.add(1000, 2000)
    with pytest.raises(PySparkException, match=r"in this same run.*have the same sink\.id"):
        stream.run(foreach=twice)
    assert visible(kafka_cluster, kafka_topic) == [*range(500), 1000, 2000]


def test_decisions_are_kept_where_the_option_says(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    control, name = f"{kafka_topic}-control", f"{kafka_topic}-write"
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        before = {*admin.list_topics()}
        for _ in range(2):
            write(numbers(spark, 0, 20), kafka_cluster, kafka_topic, write__id=name, sink__control__topic=control)
        assert visible(kafka_cluster, kafka_topic) == list(range(20))
        assert {*admin.list_topics()} - before == {control, f"{control}_markers"}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (
            "'v' value, if(id = 399, 'no-such-topic', '{topic}') topic",
            "'no-such-topic' could not be used within kafka.max.block",
        ),
        ("'v' value, if(id = 399, null, '{topic}') topic", "Column 'topic' is null in row"),
        ("repeat('v', if(id = 399, 2000000, 1)) value, '{topic}' topic", "MESSAGE_TOO_LARGE"),
        (
            "'v' value, if(id = 399, timestamp'1950-01-01', current_timestamp()) timestamp, '{topic}' topic",
            "before 1970",
        ),
        (
            "'v' value, if(id = 399, timestamp'9999-01-01', current_timestamp()) timestamp, '{topic}' topic",
            "INVALID_TIME",
        ),
        (
            "'v' value, array(named_struct('key', if(id = 399, null, 'h'), 'value', cast('x' as binary))) headers, "
            "'{topic}' topic",
            "Column 'headers' has a null header, or one without a name",
        ),
    ],
)
def test_a_write_of_which_one_row_cannot_be_written_shows_none(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, bad: str, told: str
) -> None:
    options = {"write.id": kafka_topic, "kafka.max.request.size": "4000000"}

    def write_all(rows: DataFrame, **more: str) -> None:
        servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
        rows.write.format("ottla").mode("append").options(**servers, **options, **more).save()

    rows = spark.range(0, 400, 1, 2)
    not_all = rows.selectExpr(f"struct({bad.format(topic=kafka_topic)}) row").select("row.*")
    with pytest.raises(PySparkException, match=told):
        write_all(not_all, **({"kafka.max.block.ms": "3000"} if "no-such-topic" in bad else {}))
    assert visible(kafka_cluster, kafka_topic) == []
    # It was not decided, so that the same write may come with rows that are mended.
    write_all(rows.selectExpr("cast(id as string) value", f"'{kafka_topic}' topic"))
    assert visible(kafka_cluster, kafka_topic) == list(range(400))


def test_writes_of_one_sink_follow_one_another(spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str) -> None:
    write(numbers(spark, 0, 10), kafka_cluster, kafka_topic, sink__id=kafka_topic, write__id="1")
    write(numbers(spark, 0, 10), kafka_cluster, kafka_topic, sink__id=kafka_topic, write__id="1")
    write(numbers(spark, 10, 20), kafka_cluster, kafka_topic, sink__id=kafka_topic)
    write(numbers(spark, 20, 30), kafka_cluster, kafka_topic, sink__id=kafka_topic)
    assert visible(kafka_cluster, kafka_topic) == list(range(30))


def test_a_transaction_timeout_that_brokers_do_not_allow_is_refused_when_planning(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    with pytest.raises(PySparkException, match=r" kafka\.transaction\.timeout\.ms=2000000 is more than"):
        write(
            numbers(spark, 0, 9), kafka_cluster, kafka_topic, write__id="w", kafka__transaction__timeout__ms="2000000"
        )
    assert visible(kafka_cluster, kafka_topic) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "PythonTable is not in the sink allowlist for Real-Time Mode"),
        # Whoever leaves that list aside is told by Spark what else is missing; PySpark 4.2 looks at the source first.
        (
            {"allowlistCheck": "false"},
            "Sink ottla does not support async progress tracking|REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED",
        ),
    ],
)
def test_real_time_mode_is_refused(
    settings: dict[str, str],
    told: str,
    spark: SparkSession,
    kafka_cluster: Cluster,
    kafka_topic: str,
    tmp_path: Path,
) -> None:
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.streaming.realTimeMode.{name}", value)
    rows = spark.readStream.format("rate").load().selectExpr("cast(value as string) value")
    writer = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
    writer = writer.option("topic", kafka_topic).option("sink.id", kafka_topic).outputMode("update")
    try:
        with pytest.raises(Exception, match=told):
            writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start().awaitTermination()
    finally:
        for name in settings:
            spark.conf.unset(f"spark.sql.streaming.realTimeMode.{name}")
    assert visible(kafka_cluster, kafka_topic) == []
