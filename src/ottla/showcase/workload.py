"""Sends an input once under one guarantee, and writes down what was sent and what was learned.

The records are the same each time: value the row (`values.py`), key the key column as text, and the row's number in the
header `ottla.sequence`, by which the audit recognises a record without trusting anything else about it.

Where batches are cut depends on the input alone: the size limit follows from the number of bytes, so that there are
about `BATCHES_WANTED` of them, enough for every fault to fire at least twenty times; with a row at least per batch,
that takes 500 rows. Inputs under `ROWS_FOR_THREE_PARTITIONS` rows go to a single partition, because faults are counted
per partition: there the 25th request comes soonest. Where a record without a key goes would be the producer's own
choice, which may differ each time; here it follows from the row's number.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.audit.promises import Promise
from ottla.client.producer import Producer
from ottla.client.table_delivery import TableDelivery
from ottla.errors import BufferFull, OttlaError
from ottla.inputs.source import Source
from ottla.inputs.table import key_strings
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column
from ottla.ledger.writer import LedgerWriter
from ottla.showcase.settings import COMMON_SETTINGS
from ottla.showcase.values import JsonValues, Values

BATCHES_WANTED = 1_100
ROWS_FOR_THREE_PARTITIONS = 1_500
# What a record takes in a batch besides key and value: the sequence header and the record's own framing.
_FRAMING_BYTES = 34
_KEYLESS_RUN_ROWS = 1_000
_BUFFER_BYTES = 8 << 20
_PATIENCE_S = 120.0
_LOOK_AROUND_S = 2.0


@dataclass(slots=True, frozen=True)
class Records:
    """An input ready to be sent, a record per row.

    `partition` is null where the key decides. `size_bytes` is what the records take
    uncompressed, `batch_bytes` where a batch is cut.
    """

    values: Values
    keys: pa.StringArray
    partition: pa.Int32Array
    key_crc: pa.Int64Array
    size_bytes: int
    partitions: int
    batch_bytes: int

    @property
    def count(self) -> int:
        """How many records there are."""
        return self.values.count

    def made(self, numbers: range) -> pa.RecordBatch:
        """The records of these numbers: columns `key` (text), `value` (bytes), `headers`, `partition`."""
        begin, count = numbers.start, len(numbers)
        columns = {
            "key": self.keys.slice(begin, count),
            "value": self.values.made(numbers),
            "headers": sequence_headers(numbers),
            "partition": self.partition.slice(begin, count),
        }
        return pa.record_batch(list(columns.values()), list(columns))

    def compressed_bytes_estimate(self) -> int:
        """Rather too few than too many bytes for one copy of all records on disk, from how a sample compresses."""
        from ottla.records.compression import compress

        sample = self.values.sample()
        return int(self.size_bytes * min(1.0, 0.8 * len(compress("lz4", None, sample)) / max(1, len(sample))))


def make_records(source: Source, table: pa.Table, values: Values | None = None) -> Records:
    """The records of a table, as JSON unless `values` are given; `UserMistake` for columns that these cannot hold."""
    values = JsonValues(table) if values is None else values
    keys: Any = key_strings(table, source).combine_chunks()
    rows = table.num_rows
    size_bytes = _FRAMING_BYTES * rows + (pc.sum(pc.binary_length(keys)).as_py() or 0) + values.size_bytes()
    partitions = 3 if rows >= ROWS_FOR_THREE_PARTITIONS else 1
    return Records(
        values=values,
        keys=keys,
        partition=_partitions_of_keyless(keys, partitions),
        key_crc=crc_column(keys),
        size_bytes=size_bytes,
        partitions=partitions,
        batch_bytes=max(1, size_bytes // BATCHES_WANTED if rows > BATCHES_WANTED else 1),
    )


def sequence_headers(numbers: range) -> pa.Array[Any]:
    """A column of headers, one per row: `ottla.sequence` with the row's number as eight bytes big-endian."""
    name, rows = schema.SEQUENCE_HEADER.encode(), len(numbers)
    names = _fixed_width(pa.string(), name * rows, len(name), rows)
    encoded = np.arange(numbers.start, numbers.stop, dtype=">u8").tobytes()
    pairs = pa.StructArray.from_arrays([names, _fixed_width(pa.binary(), encoded, 8, rows)], names=["key", "value"])
    one_each: Any = pa.array(np.arange(rows + 1, dtype=np.int32))
    column: pa.Array[Any] = pa.ListArray.from_arrays(one_each, pairs)
    return column


def send_records(
    bootstrap_servers: str,
    topic: str,
    promise: Promise,
    records: Records,
    ledger: Path,
    run_id: str,
    advance: Callable[[int], None],
    check: Callable[[], None],
    *interceptors: object,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Send everything and write the ledger; returns the number of Produce requests once each record is settled.

    `settings`: more of the producer, such as its user. `advance` is called with the number of rows taken; `check` is
    called whenever there is no progress for a while, and raises where it knows why. With acks=0 every outcome is
    "unknown": no answer was asked for, so nothing was learned.
    """
    producer = Producer(
        bootstrap_servers,
        client_id="ottla-run",
        compression_type="lz4",
        batch_size=records.batch_bytes,
        buffer_memory=_BUFFER_BYTES,
        linger_ms=0,
        interceptor_classes=list(interceptors),
        **{**COMMON_SETTINGS, **promise.settings, **(settings or {})},
    )
    try:
        delivery = producer.send_table(
            topic, _batches(topic, records, advance), key="key", value="value", headers="headers", partition="partition"
        )
        _wait(delivery, check)
        learned = delivery.result(0)
        producer.close(_PATIENCE_S)
    except BufferFull:
        check()
        raise
    except BaseException:
        # A user who gives up now does not want to wait for records that are on their way.
        with contextlib.suppress(OttlaError, TimeoutError):
            producer.close(0)
        raise
    if learned.num_rows != records.count:
        raise OttlaError(f"{records.count:,} records were sent to {topic}, but {learned.num_rows:,} were settled")
    outcome = _outcomes(learned) if promise.is_answered else pa.repeat(schema.UNKNOWN, records.count)
    with LedgerWriter(ledger, run_id=run_id, guarantee=promise.guarantee, topic=topic) as book:
        book.add(
            sequence=pa.array(np.arange(records.count, dtype=np.int64)),
            partition=learned.column("partition"),
            key_crc=records.key_crc,
            value_crc=records.values.checksums(),
            outcome=outcome,
            offset=learned.column("offset"),
            error=learned.column("error"),
        )
    return int(producer.metrics()["ottla-produce-request-total"])


def _partitions_of_keyless(keys: Any, partitions: int) -> Any:
    """Runs of rows without a key go to one partition after the other; null for rows with a key."""
    rows = np.arange(len(keys), dtype=np.int32) // _KEYLESS_RUN_ROWS % partitions
    return pc.if_else(pc.is_null(keys), pa.array(rows), pa.scalar(None, pa.int32()))


def _wait(delivery: TableDelivery, check: Callable[[], None]) -> None:
    """Wait until every record is settled, and call `check` while it takes long."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return delivery.wait(_LOOK_AROUND_S)
        except TimeoutError as error:
            check()
            if time.monotonic() > deadline:
                raise OttlaError(str(error)) from None


def _outcomes(learned: pa.Table) -> Any:
    """The ledger's word for each row of what a `TableDelivery` learned."""
    error = learned.column("error")
    bad = pc.if_else(pc.starts_with(error, pattern="failed"), schema.FAILED, schema.UNKNOWN)
    return pc.if_else(pc.is_null(error), schema.ACKED, bad)


def _batches(topic: str, records: Records, advance: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """The records piece by piece."""
    for numbers in records.values.pieces():
        records.values.begin(topic, numbers)
        yield records.made(numbers)
        advance(len(numbers))


def _fixed_width(kind: Any, data: bytes, width: int, rows: int) -> pa.Array[Any]:
    offsets: Any = np.arange(0, width * rows + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
