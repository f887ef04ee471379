"""Single messages: dicts to bytes and back, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schemas.protobuf.drawn_messages import fill, row_of, schemas

from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.errors import ProtobufDataError
from ottla.schemas.protobuf.objects import ProtobufObjects
from ottla.schemas.protobuf.schema import ProtobufSchema

SCHEMA = ProtobufSchema("""
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message M {
  int32 id = 1; repeated Kind kinds = 2; map<string, M> inner = 3; google.protobuf.Timestamp at = 4;
  google.protobuf.Duration took = 5; google.protobuf.Int64Value box = 6; google.protobuf.Struct any = 7;
  oneof choice { string text = 8; bytes data = 9; } repeated M more = 10; map<int32, Kind> kind_of = 11;
}
enum Kind { NONE = 0; BIG = 1; }
message Other { message In { int32 a = 1; } }
""")
EMPTY: dict[str, Any] = {
    "id": 0, "kinds": [], "inner": {}, "at": None, "took": None, "box": None, "any": None, "text": None, "data": None,
    "more": [], "kind_of": {},
}  # fmt: skip

DURATION = 'syntax = "proto3"; import "google/protobuf/duration.proto"; message M { google.protobuf.Duration d = 1; }'


def test_a_dict_comes_back() -> None:
    objects = ProtobufObjects(SCHEMA)
    value = EMPTY | {
        "id": -1,
        "kinds": ["BIG", "NONE", 7],
        "inner": {"a": EMPTY, "b": EMPTY | {"id": 2}},
        "at": datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        "took": timedelta(days=-1, microseconds=5),
        "box": 0,
        "any": {"x": [1.0, None, {"y": "z"}]},
        "data": b"",
        "more": [EMPTY],
        "kind_of": {3: "BIG"},
    }
    assert objects.decode_one(objects.encode_one(value)) == value
    assert objects.decode_one(b"") == EMPTY
    assert objects.indexes == (0,)
    assert ProtobufObjects(SCHEMA, "Other.In").indexes == (1, 0)


def test_times_without_a_zone_are_in_utc_and_others_are_converted() -> None:
    objects = ProtobufObjects(SCHEMA)
    for at in (datetime(2024, 1, 1, 12), datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))):
        got = objects.decode_one(objects.encode_one({"at": at}))
        assert got["at"] == datetime(2024, 1, 1, 12, tzinfo=UTC)


def test_a_message_of_the_runtime_is_taken_as_it_is() -> None:
    objects = ProtobufObjects(SCHEMA)
    message = SCHEMA.message_class("M")(id=5)
    message.more.add(text="a")
    assert objects.encode_one(message) == message.SerializeToString()
    assert objects.decode_one(objects.encode_one({"more": [message]}))["more"][0]["id"] == 5
    with pytest.raises(ProtobufDataError, match=r"is a message 'shop.Other'; the schema has 'shop.M'"):
        objects.encode_one(SCHEMA.message_class("Other")())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"idd": 1}, "There is no field 'idd'; the fields there are 'id', 'kinds'"),
        ({"inner": {"k": {"idd": 1}}}, "There is no field 'inner.k.idd'"),
        ({"id": "1"}, r"Field 'id' is '1' \(str\): its type is int(32|64)\."),
        ({"kinds": [1, "HUGE", b"x"]}, "Field 'kinds': 'HUGE' is no name of enum shop.Kind"),
        ({"kinds": [b"x"]}, r"Field 'kinds' is \[b'x'\] \(list\): its type is repeated shop\.Kind\."),
        ({"id": 1 << 40}, "Field 'id': "),
        ({"more": [{}, {"id": None}, None]}, r"Field 'more\[2\]' is None"),
        ({"more": {}}, "Field 'more' is repeated: give a list, not dict"),
        ({"inner": []}, "Field 'inner' is a map: give a dict, not list"),
        ({"kinds": ["HUGE"]}, "Field 'kinds': 'HUGE' is no name of enum shop.Kind"),
        ({"text": "a", "data": b"b"}, "'text' of the same oneof is set, too"),
        ({"at": 5}, "Field 'at' is a message 'google.protobuf.Timestamp': give a dict, not int"),
        ({"any": {"x": {1, 2}}}, "Field 'any': "),
        ({"text": b"\xff"}, "Field 'text': "),
        (5, "The value is a message 'shop.M': give a dict, not int"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(value: Any, words: str) -> None:
    with pytest.raises(ProtobufDataError, match=words):
        ProtobufObjects(SCHEMA).encode_one(value)


def test_a_dict_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["more"] = [value]
    with pytest.raises(ProtobufDataError, match="is in more than 100 messages"):
        ProtobufObjects(SCHEMA).encode_one(value)


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(ProtobufDataError, match=r"These 2 bytes are no message 'shop.M'"):
        ProtobufObjects(SCHEMA).decode_one(b"\x08\xff")
    schema = 'syntax = "proto2"; message M { required int32 a = 1; }'
    with pytest.raises(ProtobufDataError, match="Field 'a' is required, and missing"):
        ProtobufObjects(schema).decode_one(b"")
    with pytest.raises(ProtobufDataError, match="Field 'a' is required, and missing"):
        ProtobufObjects(schema).encode_one({})
    far = SCHEMA.message_class("M")()
    far.at.seconds = 1 << 60
    with pytest.raises(ProtobufDataError, match="are no time that Protobuf has"):
        ProtobufObjects(SCHEMA).decode_one(far.SerializeToString())


def test_messages_of_generated_classes_are_taken_inside_of_dicts() -> None:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    objects = ProtobufObjects(SCHEMA)
    at = Timestamp(seconds=5, nanos=7)
    made = SCHEMA.message_class("M").FromString(objects.encode_one({"at": at}))
    assert (made.at.seconds, made.at.nanos) == (5, 7)
    with pytest.raises(ProtobufDataError, match=r"Field 'at' is a message 'google\.protobuf\.Duration'; its type is"):
        objects.encode_one({"at": Duration(seconds=5)})


def test_nanoseconds_of_a_duration_of_pandas_are_kept() -> None:
    pandas = pytest.importorskip("pandas")
    objects = ProtobufObjects(DURATION)
    read = ProtobufSchema(DURATION).message_class("M").FromString
    for nanos in (1, -1, 1_000_000_001, -1_000_000_001, -999):
        made = read(objects.encode_one({"d": pandas.Timedelta(nanos, "ns")})).d
        assert 10**9 * made.seconds + made.nanos == nanos
        assert made.seconds * made.nanos >= 0
    with pytest.raises(ProtobufDataError, match=r"'d' is NaT\. Give None where there is no value"):
        objects.encode_one({"d": pandas.NaT})


def test_a_duration_that_protobuf_does_not_have_is_refused() -> None:
    with pytest.raises(ProtobufDataError, match="'d': a duration is 10,000 years at most"):
        ProtobufObjects(DURATION).encode_one({"d": timedelta(days=4_000_000)})


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_one_message_and_a_column_of_them_hold_the_same(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas()))
    message = schema.message_class("M")()
    fill(data.draw, message)
    objects = ProtobufObjects(schema, "M")
    value = objects.decode_one(message.SerializeToString())
    again = schema.message_class("M").FromString(objects.encode_one(value))
    # Else each of the two has the entries of a map in an order of its own.
    column, us = (
        ProtobufDecoder(schema, "M", time_unit="us").decode(pa.array([each.SerializeToString(deterministic=True)]))
        for each in (message, again)
    )
    assert str(pa.array(us)) == str(pa.array(column))
    assert set(row_of(again)) == set(value)


MAP = ProtobufSchema("""
syntax = "proto2";
message Top { map<int32, Item> items = 1; repeated Item more = 2; optional Item one = 3; }
message Item { required int32 count = 1; map<string, bool> tags = 3; }
""")


@pytest.mark.parametrize(
    ("value", "payload", "field"),
    [
        (
            {"items": {5: {"tags": {"a": True, "b": True}}, 6: {}}},
            "0a120805120e1a050a016110011a050a016210010a0408061200",
            r"items\[[56]\]\.count",
        ),
        ({"more": [{"count": 1}, {}]}, "120208011200", r"more\[1\]\.count"),
        ({"one": {}}, "1a00", r"one\.count"),
    ],
)
def test_a_required_field_that_is_missing_anywhere_is_named(value: Any, payload: str, field: str) -> None:
    """In a message of a map, the runtime's own functions for that end the process."""
    objects = ProtobufObjects(MAP, "Top")
    with pytest.raises(ProtobufDataError, match=rf"Field '{field}' is required, and missing"):
        objects.encode_one(value)
    with pytest.raises(ProtobufDataError, match=rf"Field '{field}' is required, and missing"):
        objects.decode_one(bytes.fromhex(payload))


def test_what_columns_refuse_is_refused_one_by_one() -> None:
    text = ProtobufObjects('syntax = "proto2"; message M { optional string s = 1; }')
    with pytest.raises(ProtobufDataError, match=r"Field 's' has bytes that are not UTF-8"):
        text.decode_one(b"\x0a\x01\xff")
    # One nanosecond before, and a thousand million of them.
    for nanos in (b"\x10" + b"\xff" * 9 + b"\x01", b"\x10\x80\x94\xeb\xdc\x03"):
        with pytest.raises(ProtobufDataError, match=r"Field 'at': 0 seconds and -?\d+ nanoseconds are no time that"):
            ProtobufObjects(SCHEMA).decode_one(b"\x22" + bytes([len(nanos)]) + nanos)


def test_a_required_field_of_an_extension_is_told() -> None:
    text = """syntax = "proto2";
    message M { extensions 100 to 200; } message X { required int32 a = 1; } extend M { optional X x = 100; }"""
    with pytest.raises(ProtobufDataError, match="A field of an extension is required, and missing"):
        ProtobufObjects(text, "M").decode_one(b"\xa2\x06\x00")
