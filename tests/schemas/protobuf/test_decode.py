"""Messages become the columns that Protobuf's own runtime reads from them."""

from __future__ import annotations

import base64
import re
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schemas.protobuf.drawn_messages import comparable, fill, inner_messages, row_of, schemas
from tests.soak import IS_SOAK

from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.errors import ProtobufDataError, ProtobufSchemaError
from ottla.schemas.protobuf.schema import ProtobufSchema

THOROUGH = settings(max_examples=1000 if IS_SOAK else 40, deadline=None, suppress_health_check=list(HealthCheck))


def columns(schema: ProtobufSchema, payloads: list[bytes | None], **how: Any) -> pa.StructArray:
    made = pa.array(ProtobufDecoder(schema, "M").decode(pa.array(payloads, pa.binary()), **how))
    made.validate(full=True)
    return made


def refused(schema: ProtobufSchema, payload: bytes) -> bool:
    """Whether the payload is no message; what has another reason than its bytes is not asked of the runtime."""
    try:
        columns(schema, [payload])
    except ProtobufDataError as error:
        return "required" not in str(error) and "not a time" not in str(error) and "too far" not in str(error)
    return False


@THOROUGH
@given(st.data())
def test_every_message_becomes_its_row(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas()))
    kind = schema.message_class("M")
    messages = []
    for _ in range(data.draw(st.integers(1, 4))):
        message = kind()
        fill(data.draw, message)
        messages.append(message)
    got = columns(schema, [message.SerializeToString() for message in messages])
    assert comparable(got.to_pylist()) == [row_of(message) for message in messages]


@THOROUGH
@given(st.data())
def test_messages_behind_one_another_are_merged(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas()))
    kind = schema.message_class("M")
    payload = b""
    for _ in range(data.draw(st.integers(2, 3))):
        message = kind()
        fill(data.draw, message)
        payload += message.SerializeToString()
    merged = kind.FromString(payload)
    if has_two_signs(merged):
        with pytest.raises(ProtobufDataError, match="not a time that Protobuf has"):
            columns(schema, [payload, payload])
        return
    assert comparable(columns(schema, [payload, payload]).to_pylist()) == [row_of(merged)] * 2


def has_two_signs(message: Any) -> bool:
    """Whether it has the seconds of one Duration and the nanos of another one, which are no time together."""
    try:
        json_format.MessageToDict(message)
    except json_format.SerializeToJsonError as error:
        return "Sign mismatch" in str(error)
    return False


@THOROUGH
@given(st.data())
def test_a_payload_of_another_schema_is_read_as_the_runtime_reads_it(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas("proto3")))
    message = ProtobufSchema(data.draw(schemas())).message_class("M")()
    fill(data.draw, message)
    check_any_bytes(schema, message.SerializeToString())


@THOROUGH
@given(st.data())
def test_an_altered_payload_is_read_or_refused_as_the_runtime_does(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas("proto3")))
    message = schema.message_class("M")()
    fill(data.draw, message)
    payload = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    check_any_bytes(schema, bytes(payload))


def check_any_bytes(schema: ProtobufSchema, payload: bytes) -> None:
    kind = schema.message_class("M")
    try:
        message = kind.FromString(payload)
    except DecodeError:
        with pytest.raises(ProtobufDataError):
            columns(schema, [payload])
        return
    assert not refused(schema, payload)
    try:
        got = columns(schema, [payload])
    except ProtobufDataError:
        return
    if not leaves_out_entries(message):
        assert comparable(got.to_pylist()) == [row_of(message)]


def leaves_out_entries(message: Any) -> bool:
    """Whether the runtime left out entries of maps for a field in them that is not known; Java and C++ keep them."""
    fields = message.DESCRIPTOR.fields_by_number
    for unknown in UnknownFieldSet(message):
        if unknown.field_number in fields and fields[unknown.field_number].is_repeated and unknown.wire_type == 2:
            return True
    return any(map(leaves_out_entries, inner_messages(message)))


# ---------------------------------------------------------------------- one thing at a time

ORDERS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message M {
  int32 id = 1; string name = 2; repeated int64 numbers = 3; Sub sub = 4; map<string, Sub> by_name = 5;
  google.protobuf.Timestamp at = 6; google.protobuf.Duration took = 7; repeated fixed32 fixed = 8; Kind kind = 9;
  message Sub { string text = 1; repeated Sub2 deep = 2; } message Sub2 { bytes data = 1; }
}
message Other { M.Sub sub = 1; }
enum Kind { NONE = 0; BIG = 1; }
"""
SCHEMA = ProtobufSchema(ORDERS)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"\x08", r"Row 2, field 'id': the bytes end in the middle of a value\."),
        (b"\x08" + b"\xff" * 10, "field 'id': a number is longer than ten bytes"),
        (b"\x12\x05ab", "field 'name': the bytes end in the middle of a value"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field 'name': the bytes end"),
        (b"\x12\x02\xc3\x28", "field 'name': the text is not UTF-8"),
        (b"\x00\x01", "there is no field with such a number"),
        (b"\x0e", "there is no field with such a number or wire type"),
        (b"\x22\x06\x12\x04\x0a\x05ab", "field 'sub.deep.data': the bytes end in the middle"),
        (b"\x2a\x05\x12\x03\x0a\x01\xff", "field 'by_name.value.text': the text is not UTF-8"),
        (b"\x42\x03abc", "field 'fixed': the bytes of its numbers are not a whole count"),
        (b"\xa3\x06", "a group has no end"),
        (b"\xa4\x06", "a group ends that was not begun"),
        (b"\xa3\x06" * 200, "messages nest more than 100 deep"),
        (b"\x32\x0b\x10" + b"\xff" * 9 + b"\x01", "field 'at': seconds and nanos are not a time"),
        (b"\x32\x06\x08\xff\xdf\x9d\xf4\x57", "field 'at': the time is before 1677 or after 2262"),
    ],
)
def test_what_is_no_message_is_refused_with_row_and_field(payload: bytes, words: str) -> None:
    good = b"\x08\x07\x22\x04\x12\x02\x0a\x00\x2a\x03\x0a\x01k"
    with pytest.raises(ProtobufDataError, match=words):
        columns(SCHEMA, [good, None, payload, good])
    decoded = ProtobufDecoder(SCHEMA, "M").decode(pa.array([good, None, payload, good], pa.binary()), mode="null")
    rows = pa.array(decoded).to_pylist()
    assert rows[1] is rows[2] is None
    assert rows[0] == rows[3]
    assert rows[0]["sub"] == {"text": "", "deep": [{"data": b""}]}
    assert decoded.failed_count == 1
    [(row, reason)] = decoded.failed_rows
    assert row == 2
    assert re.search(words.removeprefix("Row 2, ").removesuffix(r"\."), reason)


def test_rows_are_counted_from_the_first_row_over_all_chunks() -> None:
    chunked = pa.chunked_array([pa.array([b""] * 3, pa.binary()), pa.array([b"", b"\x08"], pa.binary())])
    with pytest.raises(ProtobufDataError, match="Row 104"):
        ProtobufDecoder(SCHEMA).decode(chunked, first_row=100)
    assert len(ProtobufDecoder(SCHEMA).decode(chunked, mode="null")) == 5


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())])
def test_payloads_may_be_in_any_column_of_bytes(kind: pa.DataType) -> None:
    payloads = pa.array([b"\x08\x01", None, b"\x08\x02" * 20], pa.binary()).cast(kind).slice(1)
    assert [row and row["id"] for row in pa.array(ProtobufDecoder(SCHEMA).decode(payloads)).to_pylist()] == [None, 2]


def test_a_frame_names_the_schema_and_the_message() -> None:
    def framed(message: str, payload: bytes, **how: Any) -> Any:
        decoder = ProtobufDecoder(SCHEMA, message)
        return pa.array(decoder.decode(pa.array([payload], pa.binary()), framed=True, **how)).to_pylist()[0]

    head = b"\0\0\0\0\x05"
    assert framed("M", head + b"\0\x08\x07", schema_id=5)["id"] == 7
    assert framed("M", head + b"\x02\0\x08\x07")["id"] == 7
    assert framed("shop.Other", head + b"\x02\x02")["sub"] is None
    with pytest.raises(ProtobufDataError, match="does not begin with the magic byte 0"):
        framed("M", b"\1\0\0\0\x05\0")
    with pytest.raises(ProtobufDataError, match="names another schema"):
        framed("M", head + b"\0", schema_id=6)
    with pytest.raises(ProtobufDataError, match="holds another message"):
        framed("Other", head + b"\0")
    with pytest.raises(ProtobufDataError, match="the bytes end"):
        framed("Other", head + b"\x02")


def test_times_are_exact_in_nanoseconds_or_cut_off_in_microseconds() -> None:
    kind = SCHEMA.message_class("M")
    message = kind()
    message.at.FromJsonString("9999-12-31T23:59:59.999999999Z")
    message.took.FromNanoseconds(-1_500_000_001_999)
    made = ProtobufDecoder(SCHEMA, time_unit="us").decode(pa.array([message.SerializeToString()]))
    row = pa.array(made)
    assert row.field("at").cast(pa.int64()).to_pylist() == [253402300799999999]
    assert row.field("took").cast(pa.int64()).to_pylist() == [-1_500_000_001]
    message.at.FromJsonString("2262-04-11T23:47:15.854775807Z")
    got = columns(SCHEMA, [message.SerializeToString()])
    assert got.field("at").cast(pa.int64()).to_pylist() == [message.at.ToNanoseconds()]
    assert got.field("took").cast(pa.int64()).to_pylist() == [-1_500_000_001_999]


def test_of_entries_with_the_same_key_the_last_one_counts_however_many_there_are() -> None:
    kind = SCHEMA.message_class("M")
    payload = b""
    for i in range(3000):
        message = kind()
        message.by_name[str(i % 700)].deep.add(data=str(i).encode())
        payload += message.SerializeToString()
    row = columns(SCHEMA, [payload]).to_pylist()[0]["by_name"]
    assert len(row) == 700
    assert {key: int(value["deep"][0]["data"]) for key, value in row} == {
        str(i % 700): i for i in range(3000 - 700, 3000)
    }


def test_few_bytes_cannot_make_columns_without_bounds() -> None:
    fields = " ".join(f"fixed64 f{i} = {i + 1};" for i in range(2000))
    schema = ProtobufSchema(f'syntax = "proto3"; message M {{ repeated N n = 1; }} message N {{ {fields} }}')
    with pytest.raises(ProtobufDataError, match="hold too much"):
        columns(schema, [b"\x0a\x00" * 100_000], memory_bytes_max=1 << 26)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message M { M m = 1; }", "Field 'm': M contains itself"),
        ("message M { N n = 1; } message N { repeated O o = 1; } message O { map<int32, N> n = 1; }",
         r"Field 'n.o.n.value': N contains itself"),
        ('import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }', "contains itself"),
        (" ".join(f"message {'M' if i == 0 else f'N{i}'} {{ N{i + 1} a = 1; N{i + 1} b = 2; }}" for i in range(25))
         + " message N25 { }", "more than 20000 columns"),
        (" ".join(f"message {'M' if i == 0 else f'N{i}'} {{ N{i + 1} a = 1; }}" for i in range(70))
         + " message N70 { }", "columns nest 64 deep"),
    ],
)  # fmt: skip
def test_a_schema_that_has_no_columns_is_refused(text: str, words: str) -> None:
    with pytest.raises(ProtobufSchemaError, match=words):
        ProtobufDecoder(f'syntax = "proto3"; {text}', "M")


def test_a_message_that_is_not_there_is_refused() -> None:
    with pytest.raises(ProtobufSchemaError, match=r"no message 'N' in schema.proto; it has 'shop.M', 'shop.Other'"):
        ProtobufDecoder(SCHEMA, "N")


def test_a_message_inside_more_messages_than_protoc_allows_is_refused_by_name() -> None:
    def deep(messages: int) -> ProtobufDecoder:
        file = descriptor_pb2.FileDescriptorProto(name="deep.proto", syntax="proto3")
        message = file.message_type.add(name="M0")
        for number in range(1, messages):
            message = message.nested_type.add(name=f"M{number}")
        message.field.add(name="a", number=1, type=5, label=1)
        schema = ProtobufSchema(base64.b64encode(file.SerializeToString()).decode())
        return ProtobufDecoder(schema, ".".join(f"M{number}" for number in range(messages)))

    def framed(messages: int) -> pa.Array:
        payload = b"\0\0\0\0\1" + bytes([2 * messages, *bytes(messages)]) + b"\x08\x07"
        return pa.array([payload], pa.binary())

    assert pa.array(deep(32).decode(framed(32), framed=True)).to_pylist() == [{"a": 7}]
    with pytest.raises(ProtobufSchemaError, match=r"M39 lies inside 39 other messages.*at most 31"):
        deep(40).decode(framed(40), framed=True)
