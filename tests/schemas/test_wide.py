"""Tables of 60 columns of mixed types: written and read by us and by the other library, each way round."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa

from ottla.schemas.avro.decode import AvroDecoder
from ottla.schemas.avro.encode import AvroEncoder
from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.encode import ProtobufEncoder
from ottla.schemas.protobuf.schema import ProtobufSchema

COLUMNS, ROWS = 60, 300
SEED = 20
Draw = Callable[[random.Random], Any]


def text(draw: random.Random) -> str:
    return draw.choice(["", "a", "žvižg", "long " * draw.randrange(60)])


def moment(draw: random.Random) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=draw.randrange(-(1 << 50), 1 << 50))


AVRO: list[tuple[Any, Any, Draw]] = [
    ("int", pa.int32(), lambda draw: draw.randrange(-(1 << 31), 1 << 31)),
    ("long", pa.int64(), lambda draw: draw.randrange(-(1 << 63), 1 << 63)),
    ("double", pa.float64(), random.Random.random),
    ("float", pa.float32(), lambda draw: draw.randrange(1 << 20) / 8),
    ("string", pa.string(), text),
    ("boolean", pa.bool_(), lambda draw: draw.random() < 0.5),
    ("bytes", pa.binary(), lambda draw: draw.randbytes(draw.randrange(9))),
    (
        {"type": "int", "logicalType": "date"},
        pa.date32(),
        lambda draw: date(1970, 1, 1) + timedelta(draw.randrange(40_000)),
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC"), moment),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        pa.decimal128(20, 3),
        lambda draw: Decimal(draw.randrange(-(10**20) + 1, 10**20)).scaleb(-3),
    ),
    ({"type": "array", "items": "long"}, pa.list_(pa.int64()), lambda draw: [draw.randrange(9)] * draw.randrange(4)),
    (
        {"type": "record", "name": "N", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]},
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda draw: {"a": draw.randrange(9), "b": text(draw)},
    ),
    ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, pa.string(), lambda draw: draw.choice("XY")),
]


def named(type_: Any, number: int) -> Any:
    """The type, with a name that no other column's has."""
    return {**type_, "name": f"{type_['name']}{number}"} if isinstance(type_, dict) and "name" in type_ else type_


def test_sixty_columns_of_avro_are_those_of_fastavro() -> None:
    draw = random.Random(SEED)
    fields: list[dict[str, Any]] = []
    columns: dict[str, Any] = {}
    for number in range(COLUMNS):
        type_, kind, value = AVRO[number % len(AVRO)]
        is_optional = number % 3 == 0
        type_ = named(type_, number)
        fields.append({"name": f"c{number}", "type": ["null", type_] if is_optional else type_})
        drawn = [None if is_optional and draw.random() < 0.3 else value(draw) for _ in range(ROWS)]
        columns[f"c{number}"] = pa.array(drawn, kind)
    schema = {"type": "record", "name": "Wide", "fields": fields}
    parsed = fastavro.parse_schema(schema)
    rows = pa.table(columns).to_pylist()

    theirs = []
    for row in rows:
        to = io.BytesIO()
        fastavro.schemaless_writer(to, parsed, row)
        theirs.append(to.getvalue())
    ours = pa.array(AvroEncoder(json.dumps(schema)).encode(pa.table(columns))).to_pylist()
    assert ours == theirs
    decoder = AvroDecoder(json.dumps(schema))
    assert pa.array(decoder.decode(pa.array(theirs))).to_pylist() == rows

    # A reader with half of the columns in another order, and one more.
    kept = draw.sample(fields, COLUMNS // 2)
    reader = {**schema, "fields": [*kept, {"name": "new", "type": "string", "default": "-"}]}
    parsed_reader = fastavro.parse_schema(reader)
    found = pa.array(AvroDecoder(json.dumps(schema), json.dumps(reader)).decode(pa.array(theirs))).to_pylist()
    assert found == [fastavro.schemaless_reader(io.BytesIO(each), parsed, parsed_reader) for each in theirs]


PROTOBUF: list[tuple[str, Any, Draw]] = [
    ("int32", pa.int32(), lambda draw: draw.randrange(-(1 << 31), 1 << 31)),
    ("sint64", pa.int64(), lambda draw: draw.randrange(-(1 << 63), 1 << 63)),
    ("uint64", pa.uint64(), lambda draw: draw.randrange(1 << 64)),
    ("fixed32", pa.uint32(), lambda draw: draw.randrange(1 << 32)),
    ("double", pa.float64(), random.Random.random),
    ("float", pa.float32(), lambda draw: draw.randrange(1 << 20) / 8),
    ("string", pa.string(), text),
    ("bool", pa.bool_(), lambda draw: draw.random() < 0.5),
    ("bytes", pa.binary(), lambda draw: draw.randbytes(draw.randrange(9))),
    ("repeated int64", pa.list_(pa.int64()), lambda draw: [draw.randrange(9)] * draw.randrange(4)),
    ("E", pa.string(), lambda draw: draw.choice("XY")),
]


def test_sixty_columns_of_protobuf_are_those_of_its_own_runtime() -> None:
    draw = random.Random(SEED)
    lines: list[str] = []
    columns: dict[str, Any] = {}
    for number in range(COLUMNS):
        type_, layout, value = PROTOBUF[number % len(PROTOBUF)]
        is_optional = number % 3 == 0 and "repeated" not in type_
        lines.append(f"{'optional ' if is_optional else ''}{type_} c{number} = {number + 1};")
        drawn = [None if is_optional and draw.random() < 0.3 else value(draw) for _ in range(ROWS)]
        columns[f"c{number}"] = pa.array(drawn, layout)
    source = f'syntax = "proto3"; enum E {{ X = 0; Y = 1; }} message Wide {{ {" ".join(lines)} }}'
    schema = ProtobufSchema(source)
    kind = schema.message_class("Wide")
    rows = pa.table(columns).to_pylist()

    messages = [kind(**{name: value for name, value in row.items() if value is not None}) for row in rows]
    theirs = [message.SerializeToString() for message in messages]
    ours = pa.array(ProtobufEncoder(schema, "Wide").encode(pa.table(columns))).to_pylist()
    # Both write fields by their numbers, and there is no map: the very bytes.
    assert ours == theirs
    assert pa.array(ProtobufDecoder(schema, "Wide").decode(pa.array(theirs))).to_pylist() == rows
