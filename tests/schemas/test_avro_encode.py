"""Columns as payloads of Avro: the bytes that fastavro writes; what does not fit is told with column and row."""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schemas.avro_drawn import Names, decoded, encoded, types, values

from ottla.errors import RecordError
from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.encode import AvroEncoder

UTC = datetime.UTC


def of(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def payloads(schema: Any, data: Any, prefix: bytes = b"") -> list[bytes | None]:
    column = pa.array(AvroEncoder(json.dumps(schema)).encode(data, prefix=prefix))
    column.validate(full=True)
    return column.to_pylist()


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{i}", "type": each} for i, each in enumerate(fields)]}


def encode_values(schema: Any, array: pa.Array) -> list[Any]:
    """What fastavro reads of a column's payloads, each in a record."""
    written = payloads(record(schema), pa.table({"f0": array}))
    return [decoded(each, record(schema))["f0"] for each in written]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_columns_become_the_bytes_that_fastavro_writes(data):
    schema = data.draw(types(Names()))
    written = [encoded(schema, each) for each in data.draw(st.lists(values(schema), max_size=6))]
    decoder = AvroDecoder(json.dumps(schema))
    columns = pa.array(decoder.decode(pa.array(written, pa.binary())))
    assert payloads(schema, columns) == written
    assert payloads(schema, columns[1:], b"\0\0\0\0\7") == [b"\0\0\0\0\7" + each for each in written[1:]]
    some = pa.concat_arrays([columns, columns[:2], columns])[2:]
    assert payloads(schema, some) == (written + written[:2] + written)[2:]


WHOLE = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


@pytest.mark.parametrize("kind", WHOLE, ids=str)
@pytest.mark.parametrize("schema", ["int", "long"])
def test_whole_numbers_of_any_width_are_taken_within_the_range(kind, schema):
    assert encode_values(schema, pa.array([0, 100], kind)) == [0, 100]
    high = (1 << (kind.bit_width - (1 if str(kind).startswith("int") else 0))) - 1
    if high <= (1 << (31 if schema == "int" else 63)) - 1:
        assert encode_values(schema, pa.array([high], kind)) == [high]
    else:
        with pytest.raises(
            RecordError, match=f"Row 1 cannot be encoded: the value of 'f0' is a number beyond .* {schema}"
        ):
            encode_values(schema, pa.array([0, high], kind))


TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
ENUM = {"type": "enum", "name": "E", "symbols": ["CC", "A", "abc", "B"]}


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_texts_and_symbols_of_any_layout_are_taken(kind):
    assert encode_values("string", pa.array(["abc", "", "ä" * 20], pa.string()).cast(kind)) == ["abc", "", "ä" * 20]
    assert encode_values(ENUM, pa.array(["B", "CC", "abc", "A"]).cast(kind)) == ["B", "CC", "abc", "A"]
    assert encode_values(["null", "string"], pa.array(["a", None], pa.string()).cast(kind)) == ["a", None]


@pytest.mark.parametrize("kind", BYTES, ids=str)
def test_bytes_of_any_layout_are_taken(kind):
    for schema in ("bytes", {"type": "fixed", "name": "F", "size": 3}):
        assert encode_values(schema, pa.array([b"abc", b"\0\xff\1"], pa.binary()).cast(kind)) == [b"abc", b"\0\xff\1"]


def test_a_dictionary_may_hold_a_null():
    array = pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", None]))
    assert encode_values(["null", "string"], array) == ["a", None, None]


AT = datetime.datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)
TIMES = [
    (of("int", "date"), datetime.date(1900, 1, 1), [pa.date32(), pa.date64()]),
    (
        of("int", "time-millis"),
        datetime.time(1, 2, 3),
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    ),
    (
        of("long", "time-micros"),
        datetime.time(1, 2, 3),
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    ),
    *(
        (of("long", f"timestamp-{unit}"), AT, [pa.timestamp(each, "UTC") for each in ("s", "ms", "us", "ns")])
        for unit in ("millis", "micros")
    ),
    *(
        (
            of("long", f"local-timestamp-{unit}"),
            AT.replace(tzinfo=None),
            [pa.timestamp(each) for each in ("s", "ms", "us", "ns")],
        )
        for unit in ("millis", "micros")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "kinds"), TIMES)
def test_times_are_brought_to_the_unit_of_the_schema(schema, value, kinds):
    for kind in kinds:
        assert encode_values(schema, pa.array([value], kind)) == [value]


@pytest.mark.parametrize("kind", [pa.int64(), pa.time32("ms"), pa.time32("s"), pa.time64("us"), pa.time64("ns")])
@pytest.mark.parametrize(("logical", "unit"), [("time-millis", "ms"), ("time-micros", "us")])
def test_a_number_that_is_no_time_of_day_is_refused(logical, unit, kind):
    schema = record(of("int" if unit == "ms" else "long", logical))
    per_day = {"s": 86_400, "ms": 86_400_000, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
    day = per_day[kind.unit if pa.types.is_time(kind) else unit]
    # The smallest step that the schema's type holds.
    step = max(1, day // per_day[unit])

    def column(number):
        buffers = pa.array([number], f"int{kind.bit_width}").buffers()
        return pa.table({"f0": pa.Array.from_buffers(kind, 1, buffers)})

    assert len([payload for number in (0, day - step) for payload in payloads(schema, column(number))]) == 2
    for number in (-step, day):
        with pytest.raises(RecordError, match=rf"'f0' is a number beyond what the type \w+ \({logical}\) holds"):
            payloads(schema, column(number))


def test_decimals_are_as_short_as_java_writes_them():
    schema = of("bytes", "decimal", precision=38, scale=2)
    numbers = [Decimal(each) / 100 for each in (0, 127, 128, -128, -129, 255, 256, 10**38 - 1, 1 - 10**38)]
    array = pa.array([Decimal(f"{each:.2f}") if abs(each) < 10 else None for each in numbers], pa.decimal128(38, 2))
    whole = [
        int.from_bytes(each[1:], "big", signed=True)
        for each in payloads(record(schema), pa.table({"f0": array.drop_null()}))
    ]
    assert whole == [0, 127, 128, -128, -129, 255, 256]
    sizes = [len(each) - 1 for each in payloads(record(schema), pa.table({"f0": array.drop_null()}))]
    assert sizes == [1, 1, 2, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "kind", [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)], ids=str
)
def test_decimals_of_every_width_are_taken(kind):
    numbers = [Decimal("-1.00"), Decimal("12345.67")]
    for size in (4, 9):
        schema = {"type": "fixed", "name": "D", "size": size, "logicalType": "decimal", "precision": 9, "scale": 2}
        assert encode_values(schema, pa.array(numbers, kind)) == numbers
    schema = of("bytes", "decimal", precision=9, scale=2)
    assert encode_values(schema, pa.array(numbers, kind)) == numbers
    if kind.bit_width > 32:
        with pytest.raises(
            RecordError, match=r"Row 0 .* 'f0' has more digits than the type bytes \(decimal\) \(9 digits\)"
        ):
            encode_values(schema, pa.array([Decimal("12345678.00")], kind))


def test_lists_of_any_layout_and_maps_are_taken():
    items = [[1, None], [], [3]]
    schema = {"type": "array", "items": ["null", "int"]}
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.int32())):
        assert encode_values(schema, pa.array(items, kind)[1:]) == items[1:]
    assert encode_values(schema, pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))[1:]) == [[3, 4]]
    maps = pa.array([[("a", 1)], [("b", 2), ("c", 3)]], pa.map_(pa.string(), pa.int64()))
    assert encode_values({"type": "map", "values": "long"}, maps[1:]) == [{"b": 2, "c": 3}]


def test_polars_and_streams_of_several_chunks_are_taken():
    schema = record("long", ["null", "string"])
    frame = pl.DataFrame({"f1": ["a", None], "f0": [1, 2]})
    expected = [encoded(schema, {"f0": 1, "f1": "a"}), encoded(schema, {"f0": 2, "f1": None})]
    assert payloads(schema, frame) == expected
    assert payloads(schema, [frame, frame.to_arrow()]) == expected * 2


def test_the_example_of_the_guide_does_what_it_says(capsys):
    text = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    exec(re.search("## Avro.*?```python\n(.*?)```", text, re.DOTALL)[1], {})
    assert capsys.readouterr().out == "[{'id': 1, 'note': 'fragile'}, {'id': 2, 'note': None}]\n"


def test_a_row_that_is_null_has_no_payload():
    structs = pa.array([{"f0": 1}, None, {"f0": 2}] * 5, pa.struct({"f0": pa.int32()}))
    assert payloads(record("int"), structs) == [b"\2", None, b"\4"] * 5
    assert payloads("int", pa.array([1, None])) == [b"\2", None]


def test_a_column_that_is_missing_is_the_default():
    schema = record("int")
    schema["fields"].append({"name": "more", "type": {"type": "array", "items": "string"}, "default": ["x"]})
    assert payloads(schema, pa.table({"f0": [1]})) == [encoded(schema, {"f0": 1, "more": ["x"]})]


def test_a_union_takes_the_first_type_that_fits_a_column():
    assert encode_values(["null", "string", "long"], pa.array([1, None])) == [1, None]
    assert encode_values(["null", "string", "long"], pa.array(["a", None])) == ["a", None]
    assert encode_values(["null", "string", "long"], pa.nulls(2)) == [None, None]


MAP = {"type": "map", "values": "int"}
FIXED = {"type": "fixed", "name": "F", "size": 2}
STRUCT = pa.struct({"member0": pa.string(), "member1": pa.int64()})


@pytest.mark.parametrize(
    ("schema", "array", "said"),
    [
        ("int", pa.array([1, None]), "Row 1 cannot be encoded: the value of 'f0' is null, which the type int does not"),
        ({"type": "array", "items": "int"}, pa.array([[1], [None]]), r"Row 1 .* 'f0\[\]' is null"),
        (MAP, pa.array([[("a", None)]], pa.map_("string", "int32")), "Row 0 .* 'f0{}' is null"),
        (ENUM, pa.array(["A", "D"]), "Row 1 .* 'f0' is 'D', none of the symbols of the type enum E"),
        (FIXED, pa.array([b"a"]), r"another number of bytes than the type fixed F \(2 bytes\)"),
        (of("int", "time-millis"), pa.array([1], pa.time64("us")), "more exact than the type .*time-millis"),
        (of("long", "timestamp-micros"), pa.array([1 << 62], pa.timestamp("s", "UTC")), "beyond what"),
        (["string", "long"], pa.array([{"member0": "a", "member1": 1}], STRUCT), "more than one member"),
        (["string", "long"], pa.array([{}], STRUCT), "is null"),
        ("double", pa.array([1]), "The column 'f0' is of type int64; the Avro type double takes float or double"),
        ("float", pa.array([1.0]), "takes float"),
        ("string", pa.array([b"a"]), "is of type binary; the Avro type string takes string"),
        ("bytes", pa.array(["a"]), "is of type string; the Avro type bytes takes binary"),
        ("int", pa.nulls(1), "is of type null; the Avro type int takes whole numbers"),
        (of("long", "timestamp-millis"), pa.array([1], pa.timestamp("ms")), "with a time zone"),
        (of("long", "local-timestamp-millis"), pa.array([1], pa.timestamp("ms", "UTC")), "without a time zone"),
        ("long", pa.array([1], pa.timestamp("ms")), "is of type timestamp; the Avro type long takes whole numbers"),
        (of("bytes", "decimal", precision=4), pa.array([Decimal("1.5")]), r"scale 1, .* cast it to decimal\(4, 0\)"),
        (MAP, pa.array([[("a", 1)]], pa.map_("binary", "int32")), "'f0{key}' is of type binary"),
        (["string", "long"], pa.array([True]), "takes a column of one of its types, or a struct"),
    ],
)  # fmt: skip
def test_a_value_or_a_type_that_does_not_fit_is_told_with_column_and_row(schema, array, said):
    with pytest.raises(RecordError, match=said):
        payloads(record(schema), pa.table({"f0": array}))


def test_columns_and_fields_that_do_not_meet_are_named():
    with pytest.raises(RecordError, match="no field for the column 'other': leave it out"):
        payloads(record("int"), pa.table({"f0": [1], "other": [2]}))
    with pytest.raises(RecordError, match="There is no column 'f0', and the Avro schema has no default"):
        payloads(record("int"), pa.array([{}], pa.struct([])))
    with pytest.raises(RecordError, match="'f0' is there more than once"):
        payloads(record("int"), pa.table([[1], [2]], names=["f0", "f0"]))
    with pytest.raises(
        RecordError, match="The data is of type int64; the Avro type record R takes a struct, or a table"
    ):
        payloads(record("int"), pa.array([1]))


@pytest.mark.parametrize(
    ("union", "kind", "branch"),
    [
        (["null", "int", "long"], pa.int64(), 2),
        (["int", "long"], pa.uint32(), 1),
        (["int", "long"], pa.int32(), 0),
        (["int", "null"], pa.int64(), 0),
        ([of("int", "date"), "long"], pa.int64(), 1),
        ([of("int", "date"), "long"], pa.date32(), 0),
    ],
)
def test_of_int_and_long_a_column_is_what_holds_all_its_values(union, kind, branch):
    [payload] = payloads(union, pa.array([5], pa.int32()).cast(kind))
    assert payload == bytes([2 * branch, 10])
