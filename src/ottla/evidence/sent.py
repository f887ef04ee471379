"""What was sent and what became of it, from a workload's ledger, for the part that is judged record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.audit.chronicles.chronicle import SentRecord
from ottla.evidence.times import BatchTimes
from ottla.evidence.witness import TopicWitness
from ottla.ledger import schema
from ottla.ledger.checksum import headers_crc

_LEDGER_COLUMNS = [
    schema.SEQUENCE,
    schema.PARTITION,
    schema.KEY_CRC,
    schema.VALUE_CRC,
    schema.OUTCOME,
    schema.OFFSET,
    schema.ERROR,
]


def note_sent(witness: TopicWitness, ledger: Path, given: Callable[[range], pa.RecordBatch], times: BatchTimes) -> None:
    """Write down, of the part that is judged record by record, what was sent and what the producer was told.

    `given`: a row for each record of these numbers: `key` as text, and the `partition` that was asked for, null where
    the key decides.
    """
    (producer,) = witness.chronicle.producers
    ordinals = dict.fromkeys(witness.top, 0)
    for row, asked in sent_rows(ledger, given, range(max(witness.top.values(), default=-1) + 1), "key", "partition"):
        place = witness.promise.topic, row[schema.PARTITION]
        if row[schema.SEQUENCE] > witness.top.get(place, -1):
            continue
        sent_us, told_us = times.of(place[1], ordinals[place])
        ordinals[place] += 1
        witness.chronicle.sent.append(
            SentRecord(
                number=row[schema.SEQUENCE],
                producer=producer.producer,
                instance=0,
                topic=place[0],
                partition=place[1],
                key_crc=row[schema.KEY_CRC],
                value_crc=row[schema.VALUE_CRC],
                outcome=row[schema.OUTCOME],
                offset=row[schema.OFFSET],
                error=row[schema.ERROR],
                sent_us=sent_us,
                told_us=told_us,
                # The record's number was the only header.
                headers_crc=headers_crc(()),
                **_placed(asked),
            )
        )


def sent_rows(
    ledger: Path, given: Callable[[range], pa.RecordBatch], numbers: range, *columns: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The ledger's row of each record of these numbers, beside these columns of what was handed over."""
    number = pc.field(schema.SEQUENCE)
    within = (number >= numbers.start) & (number < numbers.stop)
    rows = pq.read_table(ledger, columns=_LEDGER_COLUMNS, filters=within).sort_by(schema.SEQUENCE)
    asked = given(numbers).select(list(columns))
    return zip(rows.to_pylist(), asked.to_pylist(), strict=True)


def _placed(asked: Mapping[str, Any]) -> dict[str, Any]:
    """How the partition of a record was chosen: by its sender, or else by its key."""
    if asked["partition"] is not None:
        return {"chosen_partition": asked["partition"]}
    return {"hashed_key": None if asked["key"] is None else asked["key"].encode()}
