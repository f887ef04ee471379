"""Whole tables to a topic: every row once, in order, and told row by row where it went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from tests.read_back import stored_records

import ottla
from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.client.tables import read_table, write_table
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import iterate_headers
from ottla.records.plain import partition_for_key

ROWS = 10_000


@pytest.fixture
def table() -> pa.Table:
    return pa.table(
        {
            "tail": [f"N{number % 97}" if number % 5 else None for number in range(ROWS)],
            "value": [b"value %d" % number for number in range(ROWS)],
        }
    )


def stored(cluster: ottla.Cluster, topic: str) -> dict[tuple[int, int], bytes | None]:
    found = read_table(cluster.bootstrap_servers, topic)
    places = zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)
    return dict(zip(places, found["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("settings", [{}, {"batch_size": 2000}, {"compression_type": "lz4"}, {"buffer_memory": 50_000}])
def test_every_row_is_stored_where_the_result_says(
    kafka_cluster: ottla.Cluster, kafka_topic: str, table: pa.Table, settings: dict[str, Any]
) -> None:
    with Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
        told = producer.send_table(kafka_topic, table, key="tail", value="value").result(60)
    assert told.schema.names == ["partition", "offset", "error"]
    assert told["error"].null_count == ROWS
    places = list(zip(told["partition"].to_pylist(), told["offset"].to_pylist(), strict=True))
    found = stored(kafka_cluster, kafka_topic)
    assert [found[place] for place in places] == table["value"].to_pylist()
    assert len(found) == ROWS
    for key, (partition, _) in zip(table["tail"].to_pylist(), places, strict=True):
        assert key is None or partition == partition_for_key(key.encode(), 3)
    for partition in range(3):
        offsets = [offset for place, offset in places if place == partition]
        assert offsets == list(range(len(offsets)))


def test_batches_are_about_a_megabyte_unless_a_size_was_given(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": [b"x" * 1000] * 4000, "partition": pa.array([0] * 4000, pa.int32())})

    def sizes(producer: Producer) -> list[int]:
        with Admin(kafka_cluster.bootstrap_servers) as admin:
            before = admin.end_offsets(kafka_topic)[0]
        producer.send_table(kafka_topic, table, value="value", partition="partition").result(60)
        assignments = {(kafka_topic, 0): (before, "latest")}
        with ottla.Reader(kafka_cluster.bootstrap_servers, assignments=assignments) as reader:
            return [header.size_bytes for fetched in reader.iter_raw() for header in iterate_headers(fetched.records)]

    with Producer(kafka_cluster.bootstrap_servers) as producer:
        assert 4 <= len(sizes(producer)) <= 6
    with Producer(kafka_cluster.bootstrap_servers, batch_size=16_384) as producer:
        given = sizes(producer)
    assert max(given) <= 16_384
    assert len(given) > 200


def test_rows_follow_what_send_has_appended_before(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": ["second", "third"], "partition": [1, 1]})
    with Producer(kafka_cluster.bootstrap_servers, linger_ms=10_000) as producer:
        producer.send(kafka_topic, b"first", partition=1)
        producer.send_table(kafka_topic, table, value="value", partition="partition")
        producer.send(kafka_topic, b"fourth", partition=1)
    found = stored(kafka_cluster, kafka_topic)
    assert [found[1, offset] for offset in range(4)] == [b"first", b"second", b"third", b"fourth"]


def test_values_can_be_json_of_several_columns(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"origin": ["JFK", "LGA"], "delay": [7, None], "tail": ["N1", "N2"]})
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send_table(kafka_topic, table, key="tail", value=["origin", "delay"], value_format="json").result(60)
    assert set(stored(kafka_cluster, kafka_topic).values()) == {
        b'{"origin":"JFK","delay":7}',
        b'{"origin":"LGA","delay":null}',
    }


def test_polars_and_iterators_of_batches_are_taken_too(
    kafka_cluster: ottla.Cluster, kafka_topic: str, table: pa.Table
) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        frame = pl.DataFrame({"value": ["a", "b", None]})
        assert producer.send_table(kafka_topic, frame, value="value").result(60).num_rows == 3
        batches = iter(table.to_batches(max_chunksize=1000))
        assert producer.send_table(kafka_topic, batches, value="value").result(60).num_rows == ROWS
    assert len(stored(kafka_cluster, kafka_topic)) == ROWS + 3


class LikeDuckdb:
    """A result that hands its data out by Arrow's C interface and is nothing else, as duckdb's are."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class LikeARecordBatch:
    """One batch by the other half of that interface."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


ROW = {"tail": "N14228", "value": "größer", "minute": 1_357_084_800, "delay": 7, "share": 0.5}


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_reader(),
        lambda table: pl.from_arrow(table),
        lambda table: table.to_pandas(),
        LikeDuckdb,
        lambda table: LikeARecordBatch(table.to_batches()[0]),
        lambda table: [LikeARecordBatch(batch) for batch in table.to_batches()],
    ],
    ids=["pyarrow", "reader", "polars", "pandas", "duckdb", "array", "list of arrays"],
)
def test_arrow_data_of_whatever_library_is_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, make: Callable[[pa.Table], Any]
) -> None:
    rows = [ROW, {**ROW, "value": None, "delay": 8}]
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        raw = producer.send_table(kafka_topic, make(pa.Table.from_pylist(rows)), key="tail", value="value")
        assert raw.result(60)["error"].null_count == 2
        told = producer.send_table(
            kafka_topic,
            make(pa.Table.from_pylist(rows)),
            key="tail",
            value=["tail", "delay", "share"],
            value_format="json",
            timestamp_ms="minute",
        ).result(60)
    assert told["offset"].to_pylist() == [2, 3]
    found = read_table(kafka_cluster.bootstrap_servers, kafka_topic)
    assert found["value"].to_pylist() == [
        "größer".encode(),
        None,
        b'{"tail":"N14228","delay":7,"share":0.5}',
        b'{"tail":"N14228","delay":8,"share":0.5}',
    ]
    assert found["key"].to_pylist() == [b"N14228"] * 4


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"])
@pytest.mark.parametrize("is_dictionary", [False, True], ids=["plain", "dictionary"])
def test_keys_and_values_of_every_type_are_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kind: str, is_dictionary: bool
) -> None:
    type_ = getattr(pa, kind)()
    values = ["short", None, "longer than twelve bytes", "", "short"]
    column: pa.Array[Any] = pa.array([None if value is None else value.encode() for value in values], pa.binary())
    if is_dictionary:
        codes = column.dictionary_encode()
        column = pa.DictionaryArray.from_arrays(codes.indices, codes.dictionary.cast(pa.string()).cast(type_))
    else:
        column = column.cast(pa.string()).cast(type_)
    table = pa.table({"key": column, "value": column, "partition": pa.array([2] * 5, pa.int64())})
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send_table(kafka_topic, table, key="key", value="value", partition="partition").result(60)
    found = read_table(kafka_cluster.bootstrap_servers, kafka_topic)
    assert found["value"].to_pylist() == [None if value is None else value.encode() for value in values]
    assert found["key"].to_pylist() == found["value"].to_pylist()
    assert found["partition"].to_pylist() == [2] * 5


def test_headers_and_timestamps_arrive_with_their_rows(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table(
        {
            "value": ["a", "b"],
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "at": pa.array([1_357_084_800_123_456_789, 0], pa.timestamp("ns", "UTC")),
            "partition": [0, 0],
        }
    )
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send_table(
            kafka_topic, table, value="value", headers="headers", timestamp_ms="at", partition="partition"
        ).result(60)
    [records] = stored_records(kafka_cluster, kafka_topic).values()
    assert [(record.timestamp_ms, record.headers) for record in records] == [
        (1_357_084_800_123, (("h", b"1"), ("n", None))),
        (0, ()),
    ]


def test_a_table_delivery_counts_its_rows_by_what_became_of_them(
    kafka_cluster: ottla.Cluster, kafka_topic: str, table: pa.Table
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        told = producer.send_table(kafka_topic, table, key="tail", value="value")
        told.wait(30)
        rows = table.num_rows
        assert repr(told) == (
            f"<TableDelivery of {rows} rows to {kafka_topic!r}: {rows} acked, 0 failed, 0 unknown, 0 pending>"
        )


def test_an_empty_table_is_an_empty_result(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        delivery = producer.send_table(kafka_topic, pa.table({"value": pa.array([], pa.binary())}), value="value")
        assert (len(delivery), delivery.done(), delivery.result(60).num_rows) == (0, True, 0)


def test_rows_that_failed_say_why_and_are_not_raised_again(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": [b"x"] * 30, "partition": [number % 3 for number in range(30)]})
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with kafka_cluster.faults.refuse(topic=kafka_topic, partition=1, error=ErrorCode.INVALID_RECORD):
            told = producer.send_table(kafka_topic, table, value="value", partition="partition").result(60)
        producer.flush()
    for number, row in enumerate(told.to_pylist()):
        assert row["partition"] == number % 3
        if number % 3 == 1:
            assert row["offset"] is None
            assert row["error"].startswith("failed: INVALID_RECORD")
        else:
            assert (row["offset"], row["error"]) == (number // 3, None)


def test_failures_in_the_middle_are_named_by_their_rows(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.table({"value": [b"x" * 100] * 3000, "partition": [number % 3 for number in range(3000)]})
    with Producer(kafka_cluster.bootstrap_servers, batch_size=1100, enable_idempotence=False, retries=0) as producer:
        producer.partitions_for(kafka_topic)
        with kafka_cluster.faults.refuse(topic=kafka_topic, partition=1, nth=40, error=ErrorCode.INVALID_RECORD):
            delivery = producer.send_table(kafka_topic, table, value="value", partition="partition")
            told, failures = delivery.result(60), delivery.failures()
        producer.flush()
    assert failures.schema.names == ["row", "partition", "error"]
    rows = failures["row"].to_pylist()
    assert 0 < len(rows) < 100
    assert 3 * 40 < rows[0] < rows[-1] < 2990
    assert set(failures["partition"].to_pylist()) == {1}
    assert all(error.startswith("failed: INVALID_RECORD") for error in failures["error"].to_pylist())
    errors = told["error"].to_pylist()
    assert [row for row in range(3000) if errors[row] is not None] == rows
    found = stored(kafka_cluster, kafka_topic)
    places = zip(told["partition"].to_pylist(), told["offset"].to_pylist(), strict=True)
    assert len({place for place in places if place[1] is not None} & found.keys()) == len(found) == 3000 - len(rows)


def test_a_table_without_failures_has_none(kafka_cluster: ottla.Cluster, kafka_topic: str, table: pa.Table) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        failures = producer.send_table(kafka_topic, table, value="value").failures(60)
    assert (failures.num_rows, failures.schema.names) == (0, ["row", "partition", "error"])


def test_a_row_that_cannot_be_sent_is_named_and_those_before_arrive(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    good = pa.record_batch({"value": [b"x"] * 100, "partition": [number % 3 for number in range(100)]})
    bad = pa.record_batch({"value": [b"x"] * 100, "partition": [0] * 41 + [3] + [0] * 58})
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError, match="Column 'partition' names partition 3 in row 141") as caught:
            producer.send_table(kafka_topic, iter([good, bad]), value="value", partition="partition")
        assert caught.value.__notes__ == [
            "100 rows of the table were taken before this exception and are being sent. flush() waits for them and "
            "reports those that fail. The attribute table of this exception is their TableDelivery."
        ]
        assert caught.value.row == 141
        producer.flush()
    assert len(stored(kafka_cluster, kafka_topic)) == 100


@pytest.mark.parametrize("number", [3, 2**63, 2**64 - 1])
def test_a_partition_of_any_size_is_named_as_it_was_given(
    kafka_cluster: ottla.Cluster, kafka_topic: str, number: int
) -> None:
    table = pa.table({"value": ["x", "y"], "partition": pa.array([0, number], pa.uint64())})
    with (
        Producer(kafka_cluster.bootstrap_servers) as producer,
        pytest.raises(ottla.RecordError, match=f"names partition {number} in row 1"),
    ):
        producer.send_table(kafka_topic, table, value="value", partition="partition")


def test_rows_that_failed_and_nobody_looked_at_are_raised_by_close(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers)
    with kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD):
        producer.send_table(kafka_topic, pa.table({"value": [b"x"] * 30}), value="value")
        with pytest.raises(ottla.DeliveryError, match="30 records were not delivered"):
            producer.close()


def test_acks_0_has_no_offsets_and_no_errors(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers, acks=0) as producer:
        told = producer.send_table(kafka_topic, pa.table({"value": ["a", "b"]}), value="value").result(60)
    assert told["offset"].to_pylist() == [-1, -1]
    assert told["error"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"value": "valeu"}, "valeu.*value"),
        ({"value": ["tail", "value"]}, "name one text or binary column"),
        ({}, "name one text or binary column"),
        ({"value": "value", "value_format": "xml"}, "allowed are 'raw', 'json', 'avro' and 'protobuf'"),
    ],
)
def test_columns_that_cannot_be_sent_are_named(
    kafka_cluster: ottla.Cluster, kafka_topic: str, arguments: dict[str, Any], sentence: str
) -> None:
    table = pa.table({"tail": ["N1"], "value": ["x"], "number": [1.5]})
    with Producer(kafka_cluster.bootstrap_servers) as producer, pytest.raises(ottla.RecordError, match=sentence):
        producer.send_table(kafka_topic, table, **arguments)


def test_what_is_not_arrow_is_refused(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Producer(kafka_cluster.bootstrap_servers) as producer, pytest.raises(ottla.RecordError, match="Arrow"):
        producer.send_table(kafka_topic, {"value": [1]}, value="value")


@pytest.mark.parametrize(
    "make",
    [lambda table: table, pl.from_arrow, lambda table: table.to_batches(), lambda table: tuple(table.to_batches())],
    ids=["pyarrow", "polars", "list", "tuple"],
)
def test_of_a_table_with_a_number_json_does_not_know_nothing_is_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, make: Callable[[pa.Table], Any]
) -> None:
    good, bad = pa.table({"x": [0.5] * 100}), pa.table({"x": [1.0, float("nan")]})
    with (
        Producer(kafka_cluster.bootstrap_servers) as producer,
        pytest.raises(ottla.RecordError, match="Column 'x' holds nan in row 101, which JSON does not have"),
    ):
        producer.send_table(kafka_topic, make(pa.concat_tables([good, bad])), value_format="json")
    assert stored(kafka_cluster, kafka_topic) == {}


def test_of_a_stream_the_chunks_before_such_a_number_are_sent(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    table = pa.concat_tables([pa.table({"x": [0.5] * 100}), pa.table({"x": [1.0, float("inf")]})])
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError, match="Column 'x' holds inf in row 101") as caught:
            producer.send_table(kafka_topic, table.to_reader(), value_format="json")
        assert (len(caught.value.table), caught.value.row) == (100, 101)
    assert len(stored(kafka_cluster, kafka_topic)) == 100


def test_write_table_returns_when_all_is_stored(
    kafka_cluster: ottla.Cluster, kafka_topic: str, table: pa.Table
) -> None:
    delivery = write_table(kafka_cluster.bootstrap_servers, kafka_topic, table, key="tail", value="value")
    assert delivery.done()
    assert len(delivery) == len(stored(kafka_cluster, kafka_topic)) == ROWS


def test_write_table_names_the_rows_that_were_not_stored(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    rows = pa.table({"value": [b"x"] * 9, "partition": [number % 3 for number in range(9)]})
    with (
        kafka_cluster.faults.refuse(topic=kafka_topic, partition=1, error=ErrorCode.INVALID_RECORD),
        pytest.raises(ottla.DeliveryError, match="3 records were not delivered") as caught,
    ):
        write_table(kafka_cluster.bootstrap_servers, kafka_topic, rows, value="value", partition="partition")
    assert caught.value.table.failures()["row"].to_pylist() == [1, 4, 7]


@pytest.mark.parametrize("rows", [{"origin": ["JFK"]}, [{"origin": "JFK"}]], ids=["dict", "list"])
def test_plain_python_is_told_how_it_becomes_a_table(kafka_cluster: ottla.Cluster, kafka_topic: str, rows: Any) -> None:
    with pytest.raises(ottla.RecordError) as caught:
        ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, rows, value="origin")
    assert str(caught.value) == (
        "The data is Arrow data (a table or record batch of pyarrow, polars, pandas or duckdb, or an iterator of "
        "record batches), not dict: polars.DataFrame(...) makes a table of it."
    )
    ottla.write_table(kafka_cluster.bootstrap_servers, kafka_topic, pl.DataFrame(rows), value="origin")
    assert ottla.read_table(kafka_cluster.bootstrap_servers, kafka_topic)["value"].to_pylist() == [b"JFK"]
