"""The orders that `make bench ARGS=avro` encodes and decodes, drawn from a seed, and how fastavro writes them."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro

PREFIX = b"\0\0\0\0\1"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "discount", "type": ["null", "double"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT", "DONE"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "street", "type": "string"},
                    {"name": "city", "type": "string"},
                    {"name": "zip", "type": ["null", "string"]},
                ],
            },
        },
    ],
}


def orders(count: int) -> Iterator[dict[str, Any]]:
    """Orders as fastavro has them."""
    chance = random.Random(1)
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    for number in range(count):
        yield {
            "id": chance.randrange(1 << 40),
            "customer": f"customer-{chance.randrange(100_000)}",
            "price": chance.random() * 1000,
            "quantity": chance.randrange(100),
            "paid": chance.random() < 0.5,
            "at": begin + timedelta(microseconds=chance.randrange(1 << 45)),
            "note": None if chance.random() < 0.5 else f"please leave it at the door {number}",
            "discount": None if chance.random() < 0.7 else chance.random(),
            "state": chance.choice(["NEW", "PAID", "SENT", "DONE"]),
            "tags": [f"tag{chance.randrange(100)}" for _ in range(chance.randrange(4))],
            "address": {
                "street": f"Some street {chance.randrange(1000)}",
                "city": chance.choice(["Bern", "Zürich", "Genève"]),
                "zip": None if chance.random() < 0.2 else "8000",
            },
        }


def framed(values: Sequence[dict[str, Any]], parsed: Any) -> list[bytes]:
    """Each value as fastavro writes it, behind the id of its schema."""
    payloads = []
    for value in values:
        to = io.BytesIO()
        to.write(PREFIX)
        fastavro.schemaless_writer(to, parsed, value)
        payloads.append(to.getvalue())
    return payloads


def keep(path: Path, pieces: Sequence[bytes]) -> None:
    """Write pieces into a file, each behind its length."""
    path.write_bytes(b"".join(struct.pack("<I", len(piece)) + piece for piece in pieces))
