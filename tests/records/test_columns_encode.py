"""Columns into record batches: every Arrow type and layout against the plain decoder."""

from __future__ import annotations

import datetime
import gc

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.records.arrow_data import chunks
from ottla.records.buffers import BufferPool
from ottla.records.encode_columns import StickyPartition, encode_stream
from ottla.records.plain import decode_batches, partition_for_key

BLOB_TYPES = [
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.uint32(), pa.large_binary()),
]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW_MS = 1_700_000_000_000

blobs = st.none() | st.binary(max_size=30)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=4), blobs), max_size=3)
table_rows = st.lists(
    st.tuples(blobs, blobs, header_lists, st.none() | st.integers(0, 3), st.none() | st.integers(0, 1 << 50)),
    max_size=40,
)


def encode(data, **named):
    """(batches, row -> (partition, record)) of one call."""
    arguments = {"topic": "t", "partition_count": 4, "clock_ms": lambda: NOW_MS, **named}
    batches = [batch for step in encode_stream(data, **arguments) for batch in step]
    found = {}
    for batch in batches:
        [(header, records)] = decode_batches(b"".join(batch.buffers()))
        assert header.size_bytes == batch.size_bytes
        assert len(records) == batch.record_count
        rows = batch.rows
        numbers = list(range(batch.first_row, batch.first_row + len(records))) if rows is None else rows.tolist()
        assert numbers == sorted(numbers)
        for number, record in zip(numbers, records, strict=True):
            assert number not in found
            found[number] = (batch.partition, record)
    return batches, found


def header_structs(headers):
    return None if headers is None else [{"key": key, "value": value} for key, value in headers]


def as_table(rows, blob_type):
    columns = list(zip(*rows, strict=True)) or [()] * 5
    blob = pa.array(columns[0], pa.binary()).cast(blob_type) if not pa.types.is_dictionary(blob_type) else None
    if blob is None:
        blob = pa.array(columns[0], pa.binary()).dictionary_encode().cast(blob_type)
    return pa.table(
        {
            "v": blob,
            "k": pa.array(columns[1], pa.binary()),
            "h": pa.array([header_structs(headers) for headers in columns[2]], HEADERS),
            "p": pa.array(columns[3], pa.int32()),
            "ts": pa.array(columns[4], pa.timestamp("ms", "UTC")),
        }
    )


@settings(deadline=None)
@given(
    table_rows,
    st.sampled_from(BLOB_TYPES),
    st.integers(0, 5),
    st.integers(1, 50),
    st.sampled_from([61, 200, 100_000]),
    st.sampled_from(["none", "lz4"]),
)
def test_every_row_becomes_its_record(rows, blob_type, skip, chunk_rows, batch_size, codec):
    whole = as_table(rows, blob_type).slice(skip)
    pieces = [whole.slice(at, chunk_rows) for at in range(0, whole.num_rows, chunk_rows)]
    table = pa.concat_tables(pieces) if pieces else whole
    batches, found = encode(
        table, value="v", key="k", headers="h", partition="p", timestamp="ts", batch_size=batch_size, compression=codec
    )
    assert sorted(found) == list(range(max(0, len(rows) - skip)))
    for number, (value, key, headers, partition, timestamp) in enumerate(rows[skip:]):
        where, record = found[number]
        assert (record.value, record.key) == (value, key)
        assert record.headers == tuple(headers or ())
        assert record.timestamp_ms == (NOW_MS if timestamp is None else timestamp)
        if partition is not None:
            assert where == partition
        elif key is not None:
            assert where == partition_for_key(key, 4)
    assert all(batch.size_bytes <= batch_size or batch.record_count == 1 for batch in batches)


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("offset", [0, 3])
def test_text_of_every_type_is_sent_as_utf8(kind, offset):
    texts = ["a", None, "größer als zwölf Zeichen", "", "a", "x" * 12, "x" * 13]
    column = pa.array(texts).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(texts, kind)
    _, found = encode(pa.table({"v": column}).slice(offset), value="v")
    assert [found[i][1].value for i in range(len(found))] == [t if t is None else t.encode() for t in texts[offset:]]


def test_fixed_size_null_and_absent_columns_are_taken():
    table = pa.table({"v": pa.array([b"abc", None, b"def"], pa.binary(3)), "n": pa.nulls(3)}).slice(1)
    _, found = encode(table, value="v", key="n")
    assert [found[i][1][2:4] for i in range(2)] == [(None, None), (None, b"def")]
    _, found = encode(table, value=None)
    assert [found[i][1].value for i in range(2)] == [None, None]


def test_nulls_inside_a_dictionary_are_tombstones():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int8()), pa.array([b"x", None]))
    _, found = encode(pa.table({"v": column}), value="v")
    assert [found[i][1].value for i in range(4)] == [b"x", None, None, None]


def test_sliced_struct_offsets_reach_the_columns():
    struct = pa.StructArray.from_arrays(
        [pa.array([b"%d" % i for i in range(9)]), pa.array([f"k{i}" for i in range(9)])], ["v", "k"]
    )
    _, found = encode(struct.slice(4, 3), value="v", key="k")
    assert [found[i][1].value for i in range(3)] == [b"4", b"5", b"6"]
    assert [found[i][1].key for i in range(3)] == [b"k4", b"k5", b"k6"]


def test_headers_may_be_a_map_or_large_and_sliced():
    pairs = [[("a", b"1")], None, [], [("b", None), ("c", b"")]]
    for kind in (pa.map_(pa.string(), pa.binary()), HEADERS, pa.large_list(HEADERS.value_type)):
        items = pairs if pa.types.is_map(kind) else [header_structs(headers) for headers in pairs]
        table = pa.table({"v": pa.nulls(4, pa.binary()), "h": pa.array(items, kind)}).slice(1)
        _, found = encode(table, value="v", headers="h")
        assert [found[i][1].headers for i in range(3)] == [(), (), (("b", None), ("c", b""))]


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_become_milliseconds(kind):
    seconds = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[kind]
    table = pa.table({"v": ["a"], "ts": pa.array([1_600_000_000 * seconds + seconds // 2], pa.timestamp(kind))})
    _, found = encode(table, value="v", timestamp="ts")
    assert found[0][1].timestamp_ms == 1_600_000_000_000 + (0 if kind == "s" else 500)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_whole_numbers_of_every_type_are_milliseconds(kind):
    _, found = encode(pa.table({"v": ["a"] * 3, "ts": pa.array([0, None, 123], kind)}), value="v", timestamp="ts")
    assert [found[i][1].timestamp_ms for i in range(3)] == [0, NOW_MS, 123]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates_are_their_first_millisecond(kind):
    table = pa.table({"v": ["a"], "ts": pa.array([datetime.date(2013, 1, 2)], kind)})
    _, found = encode(table, value="v", timestamp="ts")
    assert found[0][1].timestamp_ms == 1_357_084_800_000


def test_columns_without_a_type_are_as_if_they_were_not_there():
    table = pa.table({"v": ["a", "b"], "n": pa.nulls(2)})
    _, found = encode(table, value="v", key="n", headers="n", partition="n", timestamp="n", sticky=StickyPartition(3))
    assert [(where, *record[1:]) for where, record in found.values()] == [
        (3, NOW_MS, None, b"a", ()),
        (3, NOW_MS, None, b"b", ()),
    ]


def test_headers_are_told_apart_by_their_names():
    kind = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.dictionary(pa.int8(), pa.string()))]))
    table = pa.table({"v": ["a"], "h": pa.array([[{"value": b"1", "key": "name"}]], kind)})
    _, found = encode(table, value="v", headers="h")
    assert found[0][1].headers == (("name", b"1"),)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_partitions_of_every_whole_number_type(kind):
    _, found = encode(pa.table({"v": ["a"] * 4, "p": pa.array([3, 0, None, 2], kind)}), value="v", partition="p")
    assert [found[i][0] for i in (0, 1, 3)] == [3, 0, 2]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"value": "x"}, "no column 'x', named as value; the columns are 'v', 'i', 'f', 'bad', 'old', 'v2', 'v2'"),
        ({"value": "i"}, "Column 'i', named as value, is of type int64; it has to be a string or binary type"),
        ({"value": "v", "key": "f"}, "'f', named as key, is of type double"),
        ({"value": "v2"}, "is there 2 times"),
        ({"value": "v", "partition": "v"}, "named as partition, is of type string"),
        ({"value": "v", "partition": "i"}, "partition 7 in row 1; topic t has partitions 0 to 3"),
        ({"value": "v", "timestamp": "v"}, "it has to be a timestamp, a date, or milliseconds"),
        ({"value": "v", "timestamp": "old"}, "time in row 1 that is before 1970"),
        ({"value": "v", "headers": "v"}, "it has to be list<struct"),
        ({"value": "v", "headers": "bad"}, "null header, or one without a name, in row 1"),
        ({"value": "v", "max_request_size": 70, "batch_size": 70}, "Row 2 needs 1070 bytes .* allows 70"),
        ({"value": lambda chunk: pa.array([b"x"])}, "made 1 values of 3 rows"),
        ({"value": lambda chunk: pa.array([1, 2, 3])}, "'value', named as value, is of type int64"),
    ],
)
def test_wrong_columns_are_explained(named, words):
    table = pa.Table.from_arrays(
        [
            pa.array(["a", "b", "x" * 1000]),
            pa.array([0, 7, 1]),
            pa.array([0.5, 1, 2]),
            pa.array([[], [{"key": None, "value": b""}], []], HEADERS),
            pa.array([1, -5, 1], pa.timestamp("ms")),
            pa.array([1, 2, 3]),
            pa.array([1, 2, 3]),
        ],
        names=["v", "i", "f", "bad", "old", "v2", "v2"],
    )
    with pytest.raises(RecordError, match=words):
        encode(table, **named)


def test_time_beyond_what_kafka_holds_is_refused():
    table = pa.table({"v": ["a"], "ts": pa.array([1 << 60], pa.timestamp("s"))})
    with pytest.raises(RecordError, match="out of range"):
        encode(table, value="v", timestamp="ts")


@pytest.mark.parametrize("data", [5, "text", {"v": [1]}, [1, 2], None])
def test_what_is_not_arrow_data_is_named(data):
    with pytest.raises(RecordError, match="Arrow data"):
        encode(data, value="v")


def test_a_single_column_is_not_a_table():
    with pytest.raises(RecordError, match="has to be a table, not a column of string"):
        encode(pa.chunked_array([["a"]]), value="v")


def test_rows_null_as_a_whole_are_refused():
    struct = pa.array([{"v": "a"}, None], pa.struct([("v", pa.string())]))
    with pytest.raises(RecordError, match="null as a whole"):
        encode(struct, value="v")


@pytest.mark.parametrize("count", [0, 1, 50])
def test_tables_of_polars_and_iterators_of_batches_are_read(count):
    values = [f"value number {i}" for i in range(count)]
    frame = pl.DataFrame({"v": pl.Series(values, dtype=pl.String)})
    batches = pa.table({"v": pa.array(values, pa.string())}).to_batches(max_chunksize=7)
    for data in (
        frame,
        iter(batches),
        [frame],
        pa.RecordBatchReader.from_batches(pa.schema([("v", pa.string())]), batches),
    ):
        _, found = encode(data, value="v")
        assert [found[i][1].value.decode() for i in range(count)] == values


def test_error_inside_the_stream_is_passed_on():
    def batches():
        yield pa.record_batch({"v": ["a"]})
        raise ValueError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("v", pa.string())]), batches())
    with pytest.raises(OSError, match="the source broke"):
        encode(reader, value="v")


def test_function_makes_the_values_of_each_chunk():
    def shout(chunk):
        return pa.array([text.as_py().upper() for text in pa.record_batch(chunk)["v"]])

    table = pa.concat_tables([pa.table({"v": ["a", "b"]}), pa.table({"v": ["c"]})])
    _, found = encode(table, value=shout, key="v")
    assert [found[i][1][2:4] for i in range(3)] == [(b"a", b"A"), (b"b", b"B"), (b"c", b"C")]


def test_keyless_rows_fill_batches_and_go_on_where_the_last_call_stopped():
    table = pa.table({"v": ["x" * 90] * 1000})
    sticky = StickyPartition(2)
    batches, _ = encode(table, value="v", batch_size=1000, sticky=sticky)
    assert [batch.record_count for batch in batches].count(9) == 111
    assert next(batch.first_row for batch in batches if batch.partition == 2) == 0
    assert {batch.partition for batch in batches} == {0, 1, 2, 3}
    assert (sticky.partition, sticky.sent_bytes) == ((2 + 111) % 4, 100)
    batches, _ = encode(table.slice(0, 1), value="v", batch_size=1000, sticky=sticky)
    assert batches[0].partition == (2 + 111) % 4
    assert all(batch.rows is None for batch in batches)


def test_cuts_depend_on_the_input_alone():
    table = pa.table({"v": [f"{i:050}" for i in range(5000)], "k": [f"{i % 97}" for i in range(5000)]})

    def cuts(clock):
        batches, _ = encode(table, value="v", key="k", batch_size=3000, clock_ms=clock)
        return [(batch.partition, batch.first_row, batch.record_count, batch.size_bytes) for batch in batches]

    assert cuts(lambda: 1) == cuts(None)


def test_a_large_chunk_is_encoded_slice_by_slice():
    table = pa.table({"v": ["x" * 1000] * 40_000})
    steps = encode_stream(table, topic="t", partition_count=1, value="v", batch_size=1 << 20)
    batches = [batch for step in steps for batch in step]
    full = max(batch.record_count for batch in batches)
    ends = [batch.first_row + batch.record_count for batch in batches if batch.record_count < full]
    assert ends == [16562, 2 * 16562, 40_000]


def test_batches_are_encoded_when_they_are_asked_for():
    pool = BufferPool(1 << 30)
    table = pa.table({"v": ["x" * 1000] * 5000, "p": [0, 1] * 2500})
    partitions, memory = [], set()
    for batches in encode_stream(
        table, topic="t", partition_count=2, value="v", partition="p", batch_size=200_000, pool=pool
    ):
        for batch in batches:
            partitions.append(batch.partition)
            memory.add(id(batch.buffers()[0]))
            batch.complete(0)
    assert partitions == [0, 1] * 13
    assert len(memory) <= 8


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ({"v": "x" * 100_000}, "Row 2000 needs 100072 bytes"),
        ({"t": -1}, "time in row 2000"),
        ({"p": 2}, "partition 2 in row 2000"),
        ({"h": [{"key": None, "value": b""}]}, "in row 2000"),
    ],
)
def test_an_error_comes_before_any_batch_of_its_slice(last, message):
    good = {"v": "x" * 100, "t": 1, "p": 1, "h": []}
    rows = pa.Table.from_pylist(
        [good] * 2000 + [good | last],
        schema=pa.schema([("v", pa.string()), ("t", pa.int64()), ("p", pa.int32()), ("h", HEADERS)]),
    )
    named = {"value": "v", "timestamp": "t", "partition": "p", "headers": "h"}
    encoder = encode_stream(rows, topic="t", partition_count=2, max_request_size=50_000, **named)
    for _ in range(2):
        with pytest.raises(RecordError, match=message):
            next(encoder)


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 3))
def test_a_row_is_too_large_by_the_byte(key_bytes, value_bytes, header_count):
    headers = [{"key": "h", "value": b"12"}] * header_count
    table = pa.table(
        {
            "k": pa.array([b"k" * key_bytes], pa.binary()),
            "v": pa.array([b"v" * value_bytes], pa.binary()),
            "h": pa.array([headers], HEADERS),
        }
    )
    named = {"value": "v", "key": "k", "headers": "h"}
    batches, _ = encode(table, **named)
    assert encode(table, **named, max_request_size=batches[0].size_bytes)[0][0].size_bytes == batches[0].size_bytes
    with pytest.raises(RecordError, match=f"needs {batches[0].size_bytes} bytes"):
        encode(table, **named, max_request_size=batches[0].size_bytes - 1)


def test_chunks_can_be_handed_on_and_outlive_each_other():
    table = pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode(), "s": pa.array([{"x": 1}, None, {"x": 3}])})
    [chunk] = chunks(table)
    again = pa.record_batch(chunk)
    pieces = [pa.record_batch(chunk).column(1)]
    assert len(chunk) == 3
    chunk.__arrow_c_array__()
    del chunk
    gc.collect()
    assert again.to_pylist() == table.to_pylist()
    del again
    gc.collect()
    assert pieces[0].to_pylist() == [{"x": 1}, None, {"x": 3}]


def test_one_thread_at_a_time():
    encoder = encode_stream(pa.table({"v": ["a"]}), topic="t", partition_count=1, value=lambda chunk: next(encoder))
    with pytest.raises(ValueError, match="one thread"):
        next(encoder)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_says_how_large_it_was_and_how_large_its_largest_record(codec):
    values = pa.table({"v": [b"a" * 10, b"b" * 500, b"c" * 20]})
    batches, _ = encode(values, value="v", partition_count=1, batch_size=16_384, compression=codec)
    assert [batch.record_bytes_max for batch in batches] == [2 + 1 + 1 + 1 + 1 + 2 + 500 + 1]
    assert [batch.uncompressed_bytes for batch in batches] == [61 + 17 + 509 + 27]
    assert (batches[0].size_bytes < batches[0].uncompressed_bytes) == (codec != "none")


def test_python_objects_in_a_column_of_polars_are_refused():
    frame = pl.DataFrame({"value": pl.Series([object(), "text"], dtype=pl.Object)})
    for data in (frame, [frame], frame["value"]):
        with pytest.raises(RecordError, match="Column 'value' has polars' type Object, whose values are any Python"):
            list(chunks(data))
