"""What the tour sends and which settings ("knobs") it changes: a record of three fields, six partitions, one at a time.

The other rows of a knob are compared with its first row, the defaults. It is measured again for each knob, so that a
machine that is busy for a while does not look like the effect of a setting. All else stays as it is.

At full speed batches are full whatever linger.ms is. So the rows of that knob send at a pace that fills none in 5 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.producer.diagnosis import Diagnosis

PARTITIONS = 6
PACE = 20_000
# The figures of a row, in the order of the table.
RECORDS_PER_S = "records/s"
MB_PER_S = "MB/s"
BATCH = "batch-size-avg"
PER_REQUEST = "records-per-request-avg"
COMPRESSION = "compression-rate-avg"
LATENCY = "request-latency-avg"
QUEUE = "record-queue-time-avg"
REQUESTS = "requests"
FIGURES = (RECORDS_PER_S, MB_PER_S, BATCH, PER_REQUEST, COMPRESSION, LATENCY, QUEUE, REQUESTS)
# More than fit into a batch of 1 MB: records that come again would compress better than any topic does.
_DISTINCT = 40_000


class Status(Enum):
    """The record's third field, an enum: its name is what is sent."""

    OPEN = 1
    CLOSED = 2
    MOVED = 3


CITIES = ("Bern", "Lagos", "Lima", "Oslo", "Quito", "Seoul", "Tunis", "Wellington")


def make_records() -> list[tuple[bytes, bytes]]:
    """(key, value) of distinct records: JSON objects with name, location and status; the name is the key."""
    statuses = list(Status)
    records = []
    for number in range(_DISTINCT):
        name = f"shop-{number * 7919 % 100_003:06d}"
        record = {
            "name": name,
            "location": f"{CITIES[number * 31 % 17 % len(CITIES)]}, street {number * 613 % 997}",
            "status": statuses[number * number % 7 % len(statuses)].name,
        }
        records.append((name.encode(), json.dumps(record).encode()))
    return records


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a knob: its name in tables and in sentences, and its settings in Kafka's names."""

    label: str
    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting, its rows (the first is "before"), and the figure its chart shows.

    `pace`: how many records a second are sent; 0: as fast as it goes.
    """

    name: str
    words: str
    rows: tuple[Row, ...]
    shows: str = RECORDS_PER_S
    pace: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one row: its figures by the names of `FIGURES` (None where there is none), and the diagnosis."""

    row: Row
    records: int
    seconds: float
    figures: Mapping[str, float | None]
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Turned:
    """A knob and the results of its rows, in their order."""

    knob: Knob
    rows: tuple[Measured, ...]


def _rows(setting: str, *values: Any) -> tuple[Row, ...]:
    """A row for each value; the first one is the default."""
    texts = [f"{value:,}" if isinstance(value, int) else str(value) for value in values]
    return tuple(
        Row(text + " (default)" * (number == 0), f"{setting}={value}", {setting: value})
        for number, (text, value) in enumerate(zip(texts, values, strict=True))
    )


def _zstd(level: int) -> Row:
    name = f"zstd, level {level}"
    return Row(name, name, {"compression.type": "zstd", "compression.zstd.level": level})


KNOBS: tuple[Knob, ...] = (
    Knob(
        "batch.size",
        "the bytes at which a batch is full",
        (
            *_rows("batch.size", 16_384, 2_048, 65_536),
            Row(
                "1 MB, linger 100",
                "batch.size=1000000 with linger.ms=100",
                {"batch.size": 1_000_000, "linger.ms": 100},
            ),
        ),
    ),
    Knob("linger.ms", "how long a batch waits for more records", _rows("linger.ms", 5, 0, 100), BATCH, PACE),
    Knob(
        "compression.type",
        "how batches are compressed, and how hard",
        (*_rows("compression.type", "none", "lz4"), _zstd(1), _zstd(12)),
        COMPRESSION,
    ),
    Knob(
        "partitioner.class",
        "how a record gets its partition",
        (
            Row("by key (default)", "records placed by their key", {}),
            Row("keys ignored", "partitioner.ignore.keys=true", {"partitioner.ignore.keys": True}),
            Row("round_robin", "partitioner.class=round_robin", {"partitioner.class": "round_robin"}),
        ),
        BATCH,
        PACE,
    ),
    Knob("acks", "who must have a batch before it counts", _rows("acks", "all", "1", "0"), LATENCY, PACE),
)
