"""Columns of Protobuf messages to Arrow and back, against Protobuf's own runtime for Python (upb), message by message.

Both sides begin and end with the same: payloads in an Arrow column, and a table. The runtime's side is what a program
does without compiled loops: a message is parsed and its fields go into lists, which become a table; a table's rows are
dicts, each makes a message. One core: processor time is compared, round by round in one process.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import pyarrow as pa

from benchmarks.parts import chosen, run_parts
from ottla.schemas.protobuf.decode import ProtobufDecoder
from ottla.schemas.protobuf.encode import ProtobufEncoder
from ottla.schemas.protobuf.schema import ProtobufSchema

MUST = 20
ROWS = 100_000
# The runtime takes fewer rows, so that a round takes as long for both.
RUNTIME_ROWS = 10_000
SCHEMAS = {
    "flights": """
        syntax = "proto3";
        message Flight {
          int32 year = 1; int32 month = 2; int32 day = 3; optional int32 dep_time = 4; optional double dep_delay = 5;
          string carrier = 6; int64 flight = 7; string tailnum = 8; string origin = 9; string dest = 10;
          double air_time = 11; double distance = 12; int64 time_hour = 13; bool late = 14; Status status = 15;
        }
        enum Status { PLANNED = 0; FLOWN = 1; CANCELLED = 2; }""",
    "orders": """
        syntax = "proto3";
        message Order {
          int64 id = 1; Customer customer = 2; repeated Item items = 3; map<string, string> labels = 4;
          repeated int32 steps = 5;
        }
        message Customer { string name = 1; string city = 2; optional string mail = 3; }
        message Item { string article = 1; int32 count = 2; double price = 3; }""",
}


def _flight(i: int, draw: random.Random) -> dict[str, Any]:
    return {
        "year": 2013,
        "month": i % 12 + 1,
        "day": i % 28 + 1,
        "dep_time": i % 2400,
        "dep_delay": draw.uniform(-10, 90),
        "carrier": draw.choice(["UA", "AA", "B6"]),
        "flight": i % 5000,
        "tailnum": f"N{i % 100_000}UA",
        "origin": draw.choice(["JFK", "EWR", "LGA"]),
        "dest": "SFO",
        "air_time": draw.uniform(30, 400),
        "distance": float(i % 3000),
        "time_hour": 1_357_034_400 + i,
        "late": i % 3 == 0,
        "status": i % 3,
    }


def _order(i: int, draw: random.Random) -> dict[str, Any]:
    return {
        "id": i,
        "customer": {"name": f"customer {i % 997}", "city": "Ljubljana", "mail": f"c{i}@example.org"},
        "items": [
            {"article": f"article {draw.randrange(500)}", "count": k + 1, "price": draw.uniform(1, 99)}
            for k in range(i % 4)
        ],
        "labels": {"channel": "web", "campaign": str(i % 10)},
        "steps": [draw.randrange(1000) for _ in range(6)],
    }


ROWS_OF = {"flights": _flight, "orders": _order}


class Shape:
    """A message with its payloads and what both sides do with them."""

    def __init__(self, name: str, repeat: int) -> None:
        self.repeat = repeat
        self.schema = ProtobufSchema(SCHEMAS[name])
        self.kind = self.schema.message_class()
        draw = random.Random(7)
        messages = [self.kind(**ROWS_OF[name](i, draw)) for i in range(ROWS)]
        self.payloads = pa.array([message.SerializeToString() for message in messages], pa.binary())
        decoded = pa.array(ProtobufDecoder(self.schema).decode(self.payloads))
        self.table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(decoded)])
        self.fields = [(each.name, _is_map(each)) for each in self.kind.DESCRIPTOR.fields]

    # ------------------------------------------------------------------ Protobuf's own runtime

    def parse(self) -> None:
        columns: dict[str, list[Any]] = {name: [] for name, _ in self.fields}
        for payload in self.payloads.slice(0, RUNTIME_ROWS).to_pylist():
            message = self.kind.FromString(payload)
            for name, value in _dict(message).items():
                columns[name].append(value)
        pa.table(columns, schema=_plain(self.table.schema))

    def serialize(self) -> None:
        rows = self.table.slice(0, RUNTIME_ROWS).to_pylist(maps_as_pydicts="strict")
        pa.array([self.kind(**row).SerializeToString() for row in rows], pa.binary())

    # ------------------------------------------------------------------ measuring

    def against(self, ours: Callable[[], object], runtime: Callable[[], object]) -> dict[str, Any]:
        ours_ns, runtime_ns = [], []
        for _ in range(max(self.repeat, 3)):
            for measured, side, rows in ((ours_ns, ours, ROWS), (runtime_ns, runtime, RUNTIME_ROWS)):
                begin = process_time()
                side()
                measured.append((process_time() - begin) / rows * 1e9)
        ratio = median(theirs / own for own, theirs in zip(ours_ns, runtime_ns, strict=True))
        return {
            "ns_per_row": round(median(ours_ns)),
            "runtime_ns_per_row": round(median(runtime_ns)),
            "bytes_per_row": self.payloads.nbytes // ROWS,
            "ratio": round(ratio, 1),
            "must": MUST,
            "ok": ratio >= MUST,
        }


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _dict(message: Any) -> dict[str, Any]:
    """A message as a dict, as short as can be."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            row[field.name] = list(value.items())
        elif field.is_repeated:
            row[field.name] = [_dict(each) for each in value] if field.message_type is not None else list(value)
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _dict(value) if field.message_type is not None else value
    return row


def _plain(schema: pa.Schema) -> pa.Schema:
    """The columns of the table, with an enum as its number."""
    return pa.schema([pa.field(each.name, pa.int32() if each.name == "status" else each.type) for each in schema])


def decode(shapes: dict[str, Shape]) -> dict[str, Any]:
    """Payloads to a table."""
    return {
        name: shape.against(lambda s=shape: pa.array(ProtobufDecoder(s.schema).decode(s.payloads)), shape.parse)
        for name, shape in shapes.items()
    }


def encode(shapes: dict[str, Shape]) -> dict[str, Any]:
    """A table to payloads."""
    return {
        name: shape.against(lambda s=shape: pa.array(ProtobufEncoder(s.schema).encode(s.table)), shape.serialize)
        for name, shape in shapes.items()
    }


PARTS = {"decode": decode, "encode": encode}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ratios of processor time."""
    wanted = chosen("protobuf", PARTS, arguments.only)
    shapes = {name: Shape(name, arguments.repeat) for name in SCHEMAS}
    return run_parts(PARTS, wanted, shapes)
