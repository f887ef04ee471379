"""Columns as JSON: what is written reads back as the same values, whatever the type and the layout."""

from __future__ import annotations

import datetime
import decimal
import gc
import json
import math
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import RecordError
from ottla.schemas.json_columns import json_column


def lines(data, columns=None):
    column = pa.array(json_column(data, columns))
    assert column.type == pa.binary()
    column.validate(full=True)
    return [line.decode() for line in column.to_pylist()]


def objects(data, columns=None):
    return [json.loads(line) for line in lines(data, columns)]


def values(array):
    return [row["x"] for row in objects(pa.table({"x": array}))]


WHOLE = [
    (pa.int8(), -(1 << 7), (1 << 7) - 1),
    (pa.uint8(), 0, (1 << 8) - 1),
    (pa.int16(), -(1 << 15), (1 << 15) - 1),
    (pa.uint16(), 0, (1 << 16) - 1),
    (pa.int32(), -(1 << 31), (1 << 31) - 1),
    (pa.uint32(), 0, (1 << 32) - 1),
    (pa.int64(), -(1 << 63), (1 << 63) - 1),
    (pa.uint64(), 0, (1 << 64) - 1),
]


@pytest.mark.parametrize(("kind", "low", "high"), WHOLE, ids=lambda kind: str(kind))
def test_whole_numbers_keep_every_digit(kind, low, high):
    numbers = [low, 0, None, 7, high]
    assert values(pa.array(numbers, kind)) == numbers


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_floats_read_back_the_same(numbers):
    got = values(pa.array(numbers, pa.float64()))
    assert got == numbers
    assert [math.copysign(1, a) for a in got if a is not None] == [
        math.copysign(1, a) for a in numbers if a is not None
    ]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(
    "nested",
    [
        lambda array: array,
        lambda array: pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 4], pa.int32()), array),
        lambda array: pa.LargeListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 4], pa.int64()), array),
        lambda array: pa.FixedSizeListArray.from_arrays(array, 1),
        lambda array: pa.StructArray.from_arrays([array, array], ["a", "b"]),
        lambda array: pa.MapArray.from_arrays(pa.array([0, 1, 3, 4, 4], pa.int32()), pa.array(list("abcd")), array),
        lambda array: pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 4], pa.int32()), pa.StructArray.from_arrays([array], ["a"])
        ),
    ],
    ids=["plain", "list", "large list", "fixed-size list", "struct", "map", "structs in lists"],
)
def test_what_json_does_not_know_is_refused_by_column_row_and_value(number, kind, nested):
    array = nested(pa.array([None, 0.5, number, 1.0], kind))
    row = next(row for row, value in enumerate(array.to_pylist()) if str(number) in str(value))
    table = pa.table({"y": [1.5] * len(array), "x": array})
    words = f"^Column 'x' holds {number} in row {row}, which JSON does not have: make it null or text first.$"
    with pytest.raises(RecordError, match=words):
        json_column(table)
    # Rows are counted through chunks, and from where a slice begins.
    sliced = pa.concat_tables([table.slice(0, row), table.slice(row)])
    with pytest.raises(RecordError, match=f"holds {number} in row {row},"):
        json_column(sliced)
    with pytest.raises(RecordError, match=f"holds {number} in row 0,"):
        json_column(table.slice(row))
    with pytest.raises(RecordError, match=f"holds {number} in row {row + 70},"):
        json_column(table, None, 70)
    assert len(json_column(table.slice(row + 1))) == len(array) - row - 1
    assert len(json_column(table, ["y"])) == len(array)


def test_numbers_behind_a_null_are_none():
    odd = pa.array([math.nan, 1.0, math.inf, 2.0])
    hidden = pa.array([True, False, True, False])
    struct = pa.StructArray.from_arrays([odd], ["a"], mask=hidden)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), odd, mask=hidden)
    assert values(struct) == [None, {"a": 1.0}, None, {"a": 2.0}]
    assert values(lists) == [None, [1.0], None, [2.0]]


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_single_floats_read_back_the_same(numbers):
    assert pa.array(values(pa.array(numbers, pa.float32())), pa.float32()).to_pylist() == numbers


def test_floats_are_short():
    assert lines(pa.table({"x": [0.1, 3.0, 1e300, -0.0, 1e15]})) == [
        '{"x":0.1}',
        '{"x":3.0}',
        '{"x":1e+300}',
        '{"x":-0.0}',
        '{"x":1000000000000000.0}',
    ]
    assert lines(pa.table({"x": pa.array([0.1, 2.5], pa.float32())})) == ['{"x":0.1}', '{"x":2.5}']


@settings(deadline=None)
@given(
    st.lists(st.none() | st.text()),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())]),
    st.integers(0, 3),
)
def test_text_of_every_type_is_escaped(texts, kind, skip):
    array: pa.Array[Any] = pa.array(texts, pa.string())
    array = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array.cast(kind)
    assert values(array.slice(skip)) == texts[skip:]


def test_control_characters_are_escaped_as_json_wants():
    assert lines(pa.table({"x": ['\x00"\\\n\r\t\x1f\x7fé']})) == ['{"x":"\\u0000\\"\\\\\\n\\r\\t\\u001f\x7fé"}']


def test_booleans_and_nulls_with_offsets():
    flags = [True, False, None] * 7
    for skip in range(10):
        assert values(pa.array(flags).slice(skip)) == flags[skip:]
    assert values(pa.nulls(2)) == [None, None]


@settings(deadline=None)
@given(st.lists(st.dates(), min_size=1))
def test_dates_are_iso(dates):
    expected = [date.isoformat() for date in dates]
    assert values(pa.array(dates, pa.date32())) == expected
    assert values(pa.array(dates, pa.date64())) == expected


@settings(deadline=None)
@given(st.lists(st.datetimes(), min_size=1), st.sampled_from([None, "UTC", "America/New_York"]))
def test_timestamps_are_iso_to_the_microsecond(times, zone):
    array = pa.array(times, pa.timestamp("us")).cast(pa.timestamp("us", zone) if zone else pa.timestamp("us"))
    if zone:
        array = pa.array(times, pa.timestamp("us")).cast(pa.int64()).cast(pa.timestamp("us", zone))
    assert values(array) == [time.isoformat() + ("Z" if zone else "") for time in times]


@pytest.mark.parametrize(
    ("unit", "number", "text"),
    [
        ("s", 1_356_998_400, "2013-01-01T00:00:00"),
        ("s", -1, "1969-12-31T23:59:59"),
        ("ms", 1_356_998_400_005, "2013-01-01T00:00:00.005"),
        ("ns", -1, "1969-12-31T23:59:59.999999999"),
        ("s", -62_167_219_200 - 1, "-1-12-31T23:59:59"),
        ("s", 253_402_300_800, "10000-01-01T00:00:00"),
        ("s", (1 << 63) - 1, "292277026596-12-04T15:30:07"),
        ("s", -(1 << 63), "-292277022657-01-27T08:29:52"),
    ],
)
def test_timestamps_of_every_unit_and_age(unit, number, text):
    got = values(pa.array([number], pa.timestamp(unit)))
    assert got == [text.replace("-1-12", "-0001-12")]


def test_times_of_day_are_iso():
    time = datetime.time(23, 59, 58, 70)
    assert values(pa.array([time, None], pa.time64("us"))) == ["23:59:58.000070", None]
    assert values(pa.array([3661], pa.time32("s"))) == ["01:01:01"]


@settings(deadline=None)
@given(st.lists(st.integers(-(10**37), 10**37)), st.integers(-20, 37), st.sampled_from([16, 32]))
def test_decimals_keep_every_digit(numbers, scale, width):
    kind = pa.decimal128(38, scale) if width == 16 else pa.decimal256(70, scale)
    raw = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    array = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(raw)])
    got = [json.loads(line, parse_float=str, parse_int=str)["x"] for line in lines(pa.table({"x": array}))]
    with decimal.localcontext() as context:
        context.prec = 80
        assert [decimal.Decimal(text) for text in got] == [decimal.Decimal(n).scaleb(-scale) for n in numbers]


def test_small_decimals_have_a_digit_before_the_point():
    array = pa.array([decimal.Decimal("0.05"), decimal.Decimal("-0.50"), decimal.Decimal("0")], pa.decimal128(5, 2))
    assert lines(pa.table({"x": array})) == ['{"x":0.05}', '{"x":-0.50}', '{"x":0.00}']


def test_zero_of_a_negative_scale_is_a_number():
    array = pa.array([decimal.Decimal(0), decimal.Decimal("1.2E+3")], pa.decimal128(5, -2))
    assert lines(pa.table({"x": array})) == ['{"x":0}', '{"x":1200}']


@settings(deadline=None)
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3), "b": st.none() | st.integers(0, 9)}
        ),
        max_size=12,
    ),
    st.integers(0, 4),
)
def test_nested_values_keep_their_shape(rows, skip):
    fields = [("a", pa.list_(pa.string())), ("b", pa.int8())]
    for kind in (pa.struct(fields), pa.struct([("a", pa.large_list(pa.string())), ("b", pa.int8())])):
        assert values(pa.array(rows, kind).slice(skip)) == rows[skip:]
    lists = [None if row is None else [row, None] for row in rows]
    assert values(pa.array(lists, pa.list_(pa.struct(fields))).slice(skip)) == lists[skip:]


def test_maps_and_fixed_size_lists():
    assert values(pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int8())).slice(0)) == [
        {"a": 1, "b": None},
        None,
        {},
    ]
    assert values(pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)).slice(1)) == [None, [3, 4]]


def test_columns_are_written_in_the_order_asked_for():
    table = pa.table({"a": [1], 'b"ß': ["x"], "c": [None]})
    assert lines(table) == ['{"a":1,"b\\"ß":"x","c":null}']
    assert lines(table, ["c", "a"]) == ['{"c":null,"a":1}']
    assert lines(table, []) == ["{}"]


def test_chunks_and_other_makers_of_arrow_data():
    table = pa.concat_tables([pa.table({"x": [1, 2]}), pa.table({"x": [3]})])
    expected = [{"x": 1}, {"x": 2}, {"x": 3}]
    assert objects(table) == expected
    assert objects(iter(table.to_batches())) == expected
    assert objects(pl.from_arrow(table)) == expected
    assert objects(table.slice(1)) == expected[1:]
    assert lines(table.slice(0, 0)) == []
    assert len(json_column(table)) == 3


def test_many_rows_are_all_there():
    table = pa.table({"x": range(5000), "f": [i / 7 for i in range(5000)]})
    assert objects(table) == table.to_pylist()
    assert objects(table.drop(["f"])) == [{"x": i} for i in range(5000)]


def test_column_outlives_the_object_it_came_from():
    array = pa.array(json_column(pa.table({"x": range(1000)})))
    gc.collect()
    assert array[999].as_py() == b'{"x":999}'


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (pa.array([b"a"]), "'x' holds bytes, which JSON cannot; cast it to text"),
        (pa.array([b"a"]).dictionary_encode(), "dictionary of something else than text"),
        (pa.array([1], pa.duration("s")), "'x' is of type duration; JSON takes a number"),
        (pa.array([1.0], pa.float16()), "'x' is of type half float; JSON"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])]), "'x' is of type union; JSON"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), "map whose keys are not text"),
        (pa.array([[b"a"]]), "'x' holds bytes"),
    ],
)
def test_types_json_cannot_hold_are_named(array, words):
    with pytest.raises(RecordError, match=words):
        json_column(pa.table({"x": array}))


def test_unknown_and_ambiguous_columns_are_named():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(RecordError, match="no column 'b'; the columns are 'a', 'a'"):
        json_column(table, ["b"])
    with pytest.raises(RecordError, match="more than one column 'a'"):
        json_column(table)
    with pytest.raises(RecordError, match="column 'b' is named more than once"):
        json_column(pa.table({"a": [1], "b": [2]}), ["b", "a", "b"])
    with pytest.raises(RecordError, match="single column"):
        json_column(pa.chunked_array([[1]]))


def test_lists_of_no_items_are_written():
    empty = pa.array([[], None, []], pa.list_(pa.int32(), 0))
    assert values(empty) == [[], None, []]
    assert values(empty[1:]) == [None, []]
