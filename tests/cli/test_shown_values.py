"""What `ottla read` shows of decoded values is JSON, and `ottla produce` makes the same values of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schemas.avro_drawn import Names, encoded, types, values
from tests.schemas.protobuf.drawn_messages import fill, schemas

from ottla.cli.shown_values import BYTES_TEXTS, shown_values
from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.encode_rows import AvroRowEncoder
from ottla.schemas.avro.from_json import from_json
from ottla.schemas.avro.schema import parse_schema
from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.schema import ProtobufSchema


def shown(schema: Any, payloads: list[bytes]) -> list[str]:
    column = pa.array(AvroDecoder(json.dumps(schema)).decode(pa.array(payloads, pa.binary())))
    lines = [json.dumps(value, allow_nan=False) for value in shown_values(column, BYTES_TEXTS["avro"])]
    assert [json.dumps(value) for value in shown_values(column[1:], BYTES_TEXTS["avro"])] == lines[1:]
    return lines


def written(schema: Any, line: str) -> bytes:
    text = json.dumps(schema)
    value = from_json(json.loads(line, parse_float=Decimal), parse_schema(text))
    return AvroRowEncoder(text).encode_one(value)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_values_of_avro_are_the_same_again(data: Any) -> None:
    schema = data.draw(types(Names()))
    payloads = [encoded(schema, each) for each in data.draw(st.lists(values(schema), max_size=4))]
    assert [written(schema, line) for line in shown(schema, payloads)] == payloads


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_messages_of_protobuf_are_the_same_again(data: Any) -> None:
    schema = ProtobufSchema(data.draw(schemas()))
    message = schema.message_class("M")()
    fill(data.draw, message)
    column = pa.array(ProtobufDecoder(schema, "M").decode(pa.array([message.SerializeToString()])))
    [value] = shown_values(column, BYTES_TEXTS["protobuf"])
    again = json_format.ParseDict(json.loads(json.dumps(value, allow_nan=False)), schema.message_class("M")())
    # As texts, because NaN is not equal to itself.
    assert json_format.MessageToDict(again) == json_format.MessageToDict(message)


NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
RECORD = {"type": "record", "name": "shop.R", "fields": [{"name": "long", "type": "long"}]}
MAP = {"type": "map", "values": ["null", "string"]}


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        (NANOS, 1_700_000_000_123_456_789, '"2023-11-14T22:13:20.123456789+00:00"'),
        (NANOS, -1, '"1969-12-31T23:59:59.999999999+00:00"'),
        (LOCAL_NANOS, 1_000, '"1970-01-01T00:00:00.000001"'),
        (LOCAL_NANOS, 1, '"1970-01-01T00:00:00.000000001"'),
        (MICROS, datetime(2024, 1, 1, microsecond=500_000, tzinfo=UTC), '"2024-01-01T00:00:00.500+00:00"'),
        (DATE, 19_782, '"2024-02-29"'),
        ("float", 0.1, "0.1"),
        ("double", float("nan"), '"NaN"'),
        ("float", float("-inf"), '"-Infinity"'),
        ({"type": "fixed", "name": "F", "size": 2}, b"\xff\x00", r'"\u00ff\u0000"'),
        (["null", "int", "long"], ("long", 5), '{"member0": null, "member1": 5}'),
        ([DATE, "string"], ("string", "2024-02-29"), '{"member0": null, "member1": "2024-02-29"}'),
        (["string", MAP], ("string", "tea"), '{"member0": "tea", "member1": null}'),
        (["string", MAP], ("map", {"a": "b"}), '{"member0": null, "member1": {"a": "b"}}'),
        ([RECORD, {**RECORD, "name": "shop.S"}], ("shop.S", {"long": 1}), '{"member0": null, "member1": {"long": 1}}'),
    ],
)
def test_value_is_shown_and_taken(schema: Any, value: Any, line: str) -> None:
    payload = AvroRowEncoder(json.dumps(schema)).encode_one(value)
    assert shown(schema, [payload]) == [line]
    assert written(schema, line) == payload


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        (["null", "string"], '{"string": "tea"}', "tea"),
        (["null", "long", "string"], '{"long": 5}', 5),
        (["string", "bytes"], '{"bytes": "\\u00ff"}', b"\xff"),
        (["null", RECORD], '{"shop.R": {"long": 5}}', {"long": 5}),
        # May be a value itself.
        (["null", RECORD], '{"long": 5}', {"long": 5}),
        (["null", {"type": "map", "values": "int"}], '{"map": 5}', {"map": 5}),
    ],
)
def test_a_branch_may_be_named_as_in_avros_json(schema: Any, line: str, value: Any) -> None:
    assert written(schema, line) == AvroRowEncoder(json.dumps(schema)).encode_one(value)


def test_times_that_pythons_objects_cannot_hold_are_shown() -> None:
    far = [253_402_300_800, -62_135_596_801, None]
    kind = pa.timestamp("s", "UTC")
    told = ["+10000-01-01T00:00:00+00:00", "+0000-12-31T23:59:59+00:00", None]
    assert shown_values(pa.array(far, pa.int64()).cast(kind), BYTES_TEXTS["avro"]) == told
    days = pa.array([2_932_896, 2_932_897], pa.int32()).cast(pa.date32())
    assert shown_values(days, BYTES_TEXTS["avro"]) == ["9999-12-31", "+10000-01-01"]
