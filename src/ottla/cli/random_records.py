"""The records of `ottla produce --random`: a name, a location, and a status that is an enum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from ottla.showcase.tour_knobs import CITIES, Status

_NAMES = 1_000
_STATUSES = [each.name for each in Status]

SCHEMAS = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Shop",
            "fields": [
                {"name": "name", "type": "string"},
                {"name": "location", "type": "string"},
                {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": _STATUSES}},
            ],
        }
    ),
    "protobuf": (
        'syntax = "proto3";\n'
        "message Shop {\n  string name = 1;\n  string location = 2;\n  Status status = 3;\n}\n"
        "enum Status {\n" + "".join(f"  {name} = {number};\n" for number, name in enumerate(_STATUSES)) + "}\n"
    ),
    "json": json.dumps(
        {
            "type": "object",
            "title": "Shop",
            "properties": {
                "name": {"type": "string"},
                "location": {"type": "string"},
                "status": {"enum": _STATUSES},
            },
            "required": ["name", "location", "status"],
        }
    ),
}
"""The schema of such a record, by --value-format."""


def random_records(count: int, rng: Random) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of so many records: JSON objects, with the name as key."""
    for _ in range(count):
        name = f"shop-{rng.randrange(_NAMES):03d}"
        location = f"{rng.choice(CITIES)}, street {rng.randrange(1, 1_000)}"
        record = {"name": name, "location": location, "status": rng.choice(_STATUSES)}
        yield name.encode(), json.dumps(record).encode()
