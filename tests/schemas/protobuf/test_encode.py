"""Columns become messages that Protobuf's own runtime reads the same values from."""

from __future__ import annotations

import math
import struct
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schemas.protobuf.drawn_messages import fill, row_of, schemas
from tests.soak import IS_SOAK

from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.encode import ProtobufEncoder
from ottla.schemas.protobuf.errors import ProtobufDataError
from ottla.schemas.protobuf.schema import ProtobufSchema

THOROUGH = settings(max_examples=1000 if IS_SOAK else 40, deadline=None, suppress_health_check=list(HealthCheck))


def encoded(schema: ProtobufSchema | str, data: Any, **how: Any) -> list[bytes | None]:
    made = pa.array(ProtobufEncoder(schema, "M").encode(data, **how))
    made.validate(full=True)
    return list(made.to_pylist())


@THOROUGH
@given(st.data())
def test_every_row_becomes_its_message(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas()))
    kind = schema.message_class("M")
    messages = []
    for _ in range(data.draw(st.integers(1, 5))):
        message = kind()
        fill(data.draw, message)
        messages.append(message)
    payloads = [message.SerializeToString() for message in messages]
    rows = pa.array(ProtobufDecoder(schema, "M").decode(pa.array([None, *payloads], pa.binary())))
    for skip in {0, data.draw(st.integers(0, len(payloads)))}:
        got = encoded(schema, rows.slice(skip), prefix=b"head")
        assert [each is None for each in got] == [i == 0 for i in range(skip, len(payloads) + 1)]
        for payload, message in zip(got[::-1], messages[::-1], strict=False):
            if payload is not None:
                assert payload[:4] == b"head"
                assert row_of(kind.FromString(payload[4:])) == row_of(message)
                # Nothing is written that the runtime would not have written.
                assert len(payload) - 4 == len(message.SerializeToString())


# ---------------------------------------------------------------------- one thing at a time

ORDERS = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message M {
  int32 id = 1; string name = 2; repeated int64 numbers = 3; Sub sub = 4; map<string, int32> by_name = 5;
  google.protobuf.Timestamp at = 6; google.protobuf.Duration took = 7; float single = 8; Kind kind = 9; bytes data = 10;
  oneof choice { string text = 11; int64 number = 12; } optional uint32 small = 13;
  google.protobuf.StringValue note = 14; repeated Kind kinds = 15; uint64 big = 16; sint32 zigzag = 17;
  double double = 18; repeated string words = 19;
  repeated google.protobuf.Int64Value boxes = 20; bool yes = 21;
  message Sub { string text = 1; repeated Sub2 deep = 2; } message Sub2 { bytes data = 1; }
}
enum Kind { option allow_alias = true; NONE = 0; BIG = 1; LARGE = 1; MINUS = -2; }
"""
SCHEMA = ProtobufSchema(ORDERS)
KIND = SCHEMA.message_class("M")


def messages(**columns: Any) -> list[Any]:
    return [KIND.FromString(payload) for payload in encoded(SCHEMA, pa.table(columns)) if payload is not None]


def test_columns_of_any_arrow_type_that_fits_are_taken() -> None:
    times = pa.array([-1, 1_700_000_000_123], pa.timestamp("ms"))
    got = messages(
        id=pa.array([1, -2], pa.int8()),
        name=pa.array(["a", "b"]).dictionary_encode(),
        numbers=pa.array([[1, 2], [3, 4]], pa.list_(pa.uint16(), 2)),
        by_name=pa.array(
            [[{"k": "x", "v": 1}], []], pa.large_list(pa.struct({"k": pa.string_view(), "v": pa.int64()}))
        ),
        at=times,
        took=pa.array([-1_500, None], pa.duration("ms")),
        single=pa.array([0.1, math.inf]),
        kind=pa.array(["LARGE", "-2"], pa.large_string()),
        data=pa.array([b"ab", b"cd"], pa.binary(2)),
        note=pa.array(["", None]).dictionary_encode(),
        kinds=pa.array([["BIG", "7"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        boxes=pa.array([[0, 5], []], pa.list_(pa.int32())),
        small=pa.nulls(2),
        sub=pa.array([{"deep": [{"data": "bytes as text"}]}, None]),
        big=pa.array([(1 << 64) - 1, 0], pa.uint64()),
    )
    first = KIND(id=1, name="a", numbers=[1, 2], by_name={"x": 1}, single=0.1, kind=1, data=b"ab", kinds=[1, 7])
    first.at.FromMilliseconds(-1)
    first.took.FromMilliseconds(-1_500)
    first.note.SetInParent()
    first.boxes.add()
    first.boxes.add(value=5)
    first.sub.deep.add(data=b"bytes as text")
    first.big = (1 << 64) - 1
    second = KIND(id=-2, name="b", numbers=[3, 4], single=math.inf, kind=-2, data=b"cd")
    second.at.FromMilliseconds(1_700_000_000_123)
    assert got == [first, second]


def test_frames_of_polars_are_taken() -> None:
    frame = pl.DataFrame(
        {"id": [1, 2], "name": ["a", None], "numbers": [[1], []], "sub": [{"text": "x"}, {"text": None}]},
        schema_overrides={"name": pl.Categorical},
    )
    got = [KIND.FromString(payload) for payload in encoded(SCHEMA, frame) if payload is not None]
    assert got == [KIND(id=1, name="a", numbers=[1], sub={"text": "x"}), KIND(id=2, sub={})]


def test_floats_are_written_bit_by_bit() -> None:
    bits = [0x7FF8000000000123, 0xFFF0000000000000, 1, 0x8000000000000000]
    column = pa.array(struct.unpack("<4d", struct.pack("<4Q", *bits)))
    got = encoded(SCHEMA, pa.table({"double": column}))
    assert [payload[-8:] for payload in got if payload] == [struct.pack("<Q", each) for each in bits]


def test_long_messages_inside_messages_have_their_lengths() -> None:
    text = "long" * 100_000
    got = messages(sub=pa.array([{"text": text, "deep": [{"data": b"y" * size} for size in (126, 127, 128, 20_000)]}]))
    assert got[0].sub.text == text
    assert [len(each.data) for each in got[0].sub.deep] == [126, 127, 128, 20_000]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"idd": [1]}, r"Column 'idd' is no field of the message; its fields are 'id', 'name'"),
        ({"sub": [{"txt": "a"}]}, "Column 'sub.txt' is no field of the message; its fields are 'text', 'deep'"),
        ({"id": ["a"]}, "Column 'id' is of type string; the field takes whole numbers"),
        ({"id": [1.0]}, "Column 'id' is of type double; the field takes whole numbers"),
        ({"double": [1]}, "Column 'double' is of type int64; the field takes float or double"),
        ({"name": [b"a"]}, "Column 'name' is of type binary; the field takes text"),
        ({"yes": [1]}, "Column 'yes' is of type int64; the field takes booleans"),
        ({"sub": ["a"]}, "Column 'sub' is of type string; the field takes a struct"),
        ({"numbers": [1]}, "Column 'numbers' is of type int64; the field takes a list"),
        ({"by_name": [[1]]}, r"Column 'by_name' is of type list; the field takes a map \(or a list"),
        ({"at": [1]}, "Column 'at' is of type int64; the field takes a timestamp"),
        ({"id": [0, 1 << 31]}, "Row 1: column 'id' holds a number that the field's type has no room for"),
        ({"small": [0, -1]}, "Row 1: column 'small' holds a number"),
        ({"big": [0, -1]}, "Row 1: column 'big' holds a number"),
        ({"number": pa.array([0, 1 << 63], pa.uint64())}, "Row 1: column 'number' holds a number"),
        ({"kind": ["NONE", "HUGE"]}, "Row 1: column 'kind' holds a text that is no name of the enum"),
        ({"kind": ["NONE", "99999999999"]}, "Row 1: column 'kind' holds a number that"),
        ({"kind": ["NONE", "-"]}, "Row 1: column 'kind' holds a text"),
        ({"numbers": [[1], [1, None]]}, "Row 1: column 'numbers' holds a null, which lists and maps"),
        ({"words": [["a"], [None]]}, "Row 1: column 'words' holds a null"),
        ({"kinds": [["BIG"], [None]]}, "Row 1: column 'kinds' holds a null"),
        ({"numbers": [[], [None]]}, "Row 1: column 'numbers' holds a null"),
        (
            {"text": ["a", "b"], "number": [None, 1]},
            "Row 1: column 'number' is set, and so is another member of its oneof",
        ),
        ({"single": [1.0, 1e39]}, "Row 1: column 'single' holds a number that is too large for a float"),
        ({"at": pa.array([253402300800], pa.timestamp("s"))}, "Row 0: column 'at' holds a time"),
        ({"took": pa.array([1 << 50], pa.duration("s"))}, "Row 0: column 'took' holds a time"),
    ],
)
def test_what_does_not_fit_is_refused_with_row_and_column(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtobufDataError, match=words):
        encoded(SCHEMA, pa.table(columns))


def test_a_required_field_has_to_be_there() -> None:
    schema = (
        'syntax = "proto2"; message M { required int32 a = 1; optional N n = 2; } message N { required int32 b = 1; }'
    )
    with pytest.raises(
        ProtobufDataError, match="Row 1: column 'a' is null or has no column, and the field is required"
    ):
        encoded(schema, pa.table({"a": [1, None]}))
    with pytest.raises(ProtobufDataError, match=r"Row 0: column 'n\.b' is null or has no column"):
        encoded(schema, pa.table({"a": [1], "n": pa.array([{}], pa.struct([]))}))
    assert encoded(schema, pa.table({"a": [0]})) == [b"\x08\0"]


def test_columns_are_chosen_and_rows_are_counted_over_all_chunks() -> None:
    table = pa.table({"id": pa.chunked_array([[1], [2, None]]), "other": ["a", "b", "c"]})
    assert encoded(SCHEMA, table, columns=["id"], prefix=b"\0") == [b"\0\x08\1", b"\0\x08\2", b"\0"]
    with pytest.raises(ProtobufDataError, match="There is no column 'gone'; the columns are 'id', 'other'"):
        encoded(SCHEMA, table, columns=["gone"])
    with pytest.raises(ProtobufDataError, match="'id' is named more than once"):
        encoded(SCHEMA, table, columns=["id", "id"])
    table = pa.table({"id": pa.chunked_array([[1], [2, 1 << 40]])})
    with pytest.raises(ProtobufDataError, match="Row 12"):
        encoded(SCHEMA, table, first_row=10)


def test_a_single_column_is_no_message() -> None:
    with pytest.raises(
        ProtobufDataError, match="made of a table's columns or of a struct; the data given is of type int64"
    ):
        encoded(SCHEMA, pa.array([1]))
    assert encoded(SCHEMA, pa.table({"id": pa.array([], pa.int32())})) == []
