"""Rows on their way from Spark's Arrow batches to a producer: columns, topics, order, errors by column and row."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from ottla.client.producer import Producer
from ottla.client.tables import read_table
from ottla.errors import RecordError, UserMistake
from ottla.sink.batch import Totals
from ottla.spark import sink_rows
from ottla.spark.sink_rows import SinkRows, count_rows, plan_rows, send_rows

if TYPE_CHECKING:
    from ottla.cluster.cluster import Cluster

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def planned(ddl: str, topic: str | None = "t") -> SinkRows:
    """Needs a session, which parses DDL."""
    return plan_rows(StructType.fromDDL(ddl), topic)


def batches(size: int, **columns: Any) -> list[pa.RecordBatch]:
    table = pa.table(columns)
    return table.to_batches(max_chunksize=size)


def sent(cluster: Cluster, shape: SinkRows, rows: list[pa.RecordBatch], **settings: Any) -> Totals:
    with Producer(cluster.bootstrap_servers, **settings) as producer:
        return send_rows(rows, shape, lambda: producer, digest=True)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_every_column_that_sparks_own_sink_takes_is_planned() -> None:
    shape = planned(
        "topic string, key binary, value string, headers array<struct<key string, value binary>>, "
        "partition int, timestamp timestamp",
        None,
    )
    assert shape == SinkRows(None, ("topic", "key", "value", "headers", "partition", "timestamp"))
    assert planned("value binary, key string").topic == "t"
    assert planned("value binary, topic string").topic == "t"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_columns_that_no_record_has_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        shape = planned("offset bigint, value string, key string, Key string, offset string")
    assert shape.columns == ("value", "key")
    assert "columns that no Kafka record has are not written: offset, Key" in caplog.text


def test_columns_that_are_left_out_are_neither_sent_nor_counted(kafka_cluster: Cluster, kafka_topic: str) -> None:
    rows = batches(2, value=[b"a", b"b", b"c"], number=[1, 2, 3])
    shape = SinkRows(kafka_topic, ("value",))
    totals = sent(kafka_cluster, shape, rows)
    assert totals == sent(kafka_cluster, shape, batches(2, value=[b"a", b"b", b"c"]))
    stored = read_table(kafka_cluster.bootstrap_servers, kafka_topic)
    assert sorted(stored["value"].to_pylist()) == [b"a", b"a", b"b", b"b", b"c", b"c"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("ddl", "topic", "told"),
    [
        ("key string", "t", "no column 'value'"),
        ("Value string", "t", r"'Value' would be left out: .* called 'value'; rename it"),
        # Rows would have no keys, and no order.
        ("Key string, value string", "t", r"'Key' would be left out: .* called 'key'; rename it, or drop it"),
        ("value int", "t", r"'value' is of type int.*string or binary"),
        ("value string, key bigint", "t", r"'key' is of type bigint"),
        ("value string, partition bigint", "t", r"'partition' is of type bigint.*int"),
        ("value string, timestamp bigint", "t", r"'timestamp' is of type bigint.*timestamp"),
        # What moment that is, only a cast knows, which goes by the session's time zone.
        ("value string, timestamp timestamp_ntz", "t", r"'timestamp' is of type timestamp_ntz.*to be timestamp: cast"),
        ("value string, headers map<string,binary>", "t", r"'headers' is of type map.*use map_entries\(headers\)"),
        ("value struct<a:int>", "t", r"'value' is of type struct.*use to_json\(value\), or the option value\.format"),
        ("value string, headers array<struct<key string, value string>>", "t", r"'headers'.*array<struct<key:string"),
        ("value string, headers array<struct<name string, value binary>>", "t", "'headers'"),
        ("value string", None, "option topic, or a column 'topic'"),
        ("value string, topic int", None, "'topic' is of type int"),
    ],
)
def test_columns_that_cannot_be_written_are_named_when_the_write_is_planned(ddl, topic, told) -> None:
    with pytest.raises(UserMistake, match=told):
        planned(ddl, topic)


@pytest.mark.parametrize("piece_bytes", [1, 4 << 20])
def test_rows_arrive_as_they_were_in_the_order_they_had(
    kafka_cluster: Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(sink_rows, "_PIECE_BYTES", piece_bytes)
    rows = batches(
        3,
        key=["a", None, "b", "c", "", None, "d"],
        value=pa.array([b"1", None, b"", b"4", b"5", b"6", b"7"], pa.binary()),
        headers=pa.array(
            [[{"key": "h", "value": b"x"}], None, [], [{"key": "n", "value": None}]] + [None] * 3, HEADERS
        ),
        partition=pa.array([0, 1, 2, 0, 1, 2, 0], pa.int32()),
        timestamp=pa.array([1_000_000 * n for n in range(1, 8)], pa.timestamp("us", "UTC")),
    )
    shape = SinkRows(kafka_topic, ("key", "value", "headers", "partition", "timestamp"))
    totals = sent(kafka_cluster, shape, [rows[0].slice(0, 0), *rows])
    found = read_table(kafka_cluster.bootstrap_servers, kafka_topic).to_pylist()
    assert [(row["partition"], row["key"], row["value"]) for row in found] == [
        (0, b"a", b"1"),
        (0, b"c", b"4"),
        (0, b"d", b"7"),
        (1, None, None),
        (1, b"", b"5"),
        (2, b"b", b""),
        (2, None, b"6"),
    ]
    assert [row["timestamp"].timestamp() for row in found] == [1, 4, 7, 2, 5, 3, 6]
    assert [(h["key"], h["value"]) for row in found for h in row["headers"] or []] == [("h", b"x"), ("n", None)]
    assert totals == count_rows(rows, shape)
    assert totals.rows == 7
    # The same rows to another topic are not the same.
    assert totals.digest != count_rows(rows, shape._replace(topic="another")).digest


@pytest.mark.parametrize("piece_bytes", [1, 4 << 20])
def test_each_row_goes_to_the_topic_it_names(
    kafka_cluster: Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(sink_rows, "_PIECE_BYTES", piece_bytes)
    other = f"{kafka_topic}-other"
    kafka_cluster.create_topic(other, partitions=1)
    numbers = list(range(2_000))
    topics = [other if n % 3 == 0 else kafka_topic for n in numbers]
    rows = batches(700, topic=topics, value=[str(n) for n in numbers], key=[f"k{n % 10}" for n in numbers])
    shape = SinkRows(None, ("topic", "value", "key"))
    assert sent(kafka_cluster, shape, rows).rows == len(numbers)
    for topic in (other, kafka_topic):
        found = read_table(kafka_cluster.bootstrap_servers, topic)
        assert sorted(map(int, found["value"].to_pylist())) == [n for n in numbers if topics[n] == topic]
        for partition in found["partition"].unique().to_pylist():
            values = [int(row["value"]) for row in found.to_pylist() if row["partition"] == partition]
            assert values == sorted(values)
    kafka_cluster.delete_topic(other)


@pytest.mark.parametrize("piece_bytes", [1, 4 << 20])
@pytest.mark.parametrize("by_column", [False, True])
def test_a_row_that_cannot_be_sent_is_named_by_its_place_in_the_task(
    kafka_cluster: Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch, piece_bytes: int, by_column: bool
) -> None:
    monkeypatch.setattr(sink_rows, "_PIECE_BYTES", piece_bytes)
    other = f"{kafka_topic}-other"
    kafka_cluster.create_topic(other, partitions=3)
    topics = [other if n % 2 else kafka_topic for n in range(30)]
    shape = SinkRows(None if by_column else kafka_topic, ("topic", "value", "partition"))
    columns = {"topic": topics, "value": ["v"] * 30}
    partitions = pa.array([17 if n == 23 else n % 3 for n in range(30)], pa.int32())
    with pytest.raises(RecordError, match="Column 'partition' names partition 17 in row 23;") as refused:
        sent(kafka_cluster, shape, batches(7, **columns, partition=partitions))
    assert refused.value.row == 23
    huge = columns | {"value": ["v" * (3_000_000 if n == 23 else 1) for n in range(30)]}
    with pytest.raises(RecordError, match=r"^Row 23 needs") as too_large:
        sent(kafka_cluster, SinkRows(shape.topic, ("topic", "value")), batches(7, **huge))
    assert too_large.value.row == 23
    kafka_cluster.delete_topic(other)


def test_a_row_without_a_topic_is_named(kafka_cluster: Cluster, kafka_topic: str) -> None:
    rows = batches(2, topic=[kafka_topic, kafka_topic, kafka_topic, None], value=["v"] * 4)
    with pytest.raises(RecordError, match="Column 'topic' is null in row 3: every row needs a topic") as refused:
        sent(kafka_cluster, SinkRows(None, ("topic", "value")), rows)
    assert refused.value.row == 3


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("", "Column 'topic' is empty in row 3: every row needs a topic to go to"),
        ("mine", "Column 'topic' is 'mine' in row 3, where sinks keep their decisions: name another"),
        ("mine_markers", "Column 'topic' is 'mine_markers' in row 3, where sinks keep their decisions: name another"),
        ("__ottla_sink", "Column 'topic' is '__ottla_sink' in row 3, where sinks keep their decisions: name another"),
    ],
)
def test_a_row_with_a_topic_that_cannot_be_written_to_is_named(
    topic: str, told: str, kafka_cluster: Cluster, kafka_topic: str
) -> None:
    rows = batches(2, topic=[kafka_topic, kafka_topic, kafka_topic, topic], value=["v"] * 4)
    shape = plan_rows(StructType().add("topic", "string").add("value", "string"), None, control_topic="mine")
    with pytest.raises(RecordError, match=told) as refused:
        sent(kafka_cluster, shape, rows)
    assert refused.value.row == 3


def test_without_rows_nobody_needs_a_producer() -> None:
    def producer() -> Producer:
        raise AssertionError

    empty = pa.record_batch({"value": pa.array([], pa.string())})
    assert send_rows([empty], SinkRows("t", ("value",)), producer, digest=True) == Totals(0, 0)
