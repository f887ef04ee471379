"""Batches decoded once: the same bytes lie on three replicas and are read by several readers.

Batches are decoded by the plain codec; its result for the same bytes is remembered for the length of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.audit.chronicles.chronicle import BatchSeen, RecordSeen
from ottla.ledger.checksum import headers_crc, record_crc
from ottla.ledger.schema import NO_TIMESTAMP, SEQUENCE_HEADER, unpack_sequence
from ottla.reader.events import Fetched
from ottla.records.batch_header import BatchHeader, CorruptBatch, check_crc, iterate_headers, read_header
from ottla.records.plain import decode_batches

NO_NUMBER = -1
_ABORT, _COMMIT = 0, 1


class Batch:
    """One batch: `records` is None where its CRC is wrong; `commits` only for the markers of transactions."""

    __slots__ = ("commits", "header", "records")

    def __init__(self, header: BatchHeader, records: list[RecordSeen] | None, commits: bool | None) -> None:
        self.header = header
        self.records = records
        self.commits = commits


class DecodedBatches:
    """Of one run, by their bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, Batch] = {}

    def of(self, content: Any) -> Iterator[Batch]:
        """The batches that `content` is made of; CorruptBatch where one is cut short or has no header."""
        for header in iterate_headers(content):
            piece = bytes(content[header.position : header.position + header.size_bytes])
            found = self._known.get(piece)
            if found is None:
                found = self._known[piece] = _decoded(piece)
            yield found

    def seen_in(self, content: Any) -> list[BatchSeen]:
        """The same, as the chronicle takes it down of a replica's log."""
        return [
            BatchSeen(
                batch.header.base_offset,
                batch.header.last_offset,
                batch.header.partition_leader_epoch,
                batch.header.producer_id,
                batch.header.producer_epoch,
                batch.header.base_sequence,
                batch.header.is_transactional,
                batch.header.is_control,
                batch.commits,
                batch.records is not None,
                batch.records or [],
            )
            for batch in self.of(content)
        ]


def heads_in(content: Any) -> list[BatchSeen]:
    """The batches in a log of coordinators, whose records are not the plan's and are not decoded."""
    return [head_seen(content, header) for header in iterate_headers(content)]


def head_seen(content: Any, header: BatchHeader) -> BatchSeen:
    """A batch in a log by its header and its CRC, without its records."""
    try:
        check_crc(content, header)
        crc_is_right = True
    except CorruptBatch:
        crc_is_right = False
    return BatchSeen(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
        None,
        crc_is_right,
        [],
    )


def _decoded(piece: bytes) -> Batch:
    header = read_header(piece)
    try:
        records = next(decode_batches(piece))[1]
    except CorruptBatch:
        return Batch(header, None, None)
    if header.is_control:
        return Batch(header, [], _commits(records))
    return Batch(header, [_seen(record, is_timed_by_broker=header.log_append_time) for record in records], None)


def _commits(records: list[Any]) -> bool | None:
    """Whether a marker commits or aborts: its key is a version and a type, two bytes each (KIP-98)."""
    key = records[0].key if records else None
    kind = int.from_bytes(key[2:4], "big") if key is not None and len(key) >= 4 else -1
    return {_ABORT: False, _COMMIT: True}.get(kind)


def _seen(record: Any, *, is_timed_by_broker: bool) -> RecordSeen:
    number, headers = None, record.headers
    for place, (name, value) in enumerate(headers):
        if name == SEQUENCE_HEADER:
            number, headers = unpack_sequence(value), (*headers[:place], *headers[place + 1 :])
            break
    return RecordSeen(
        record.offset,
        NO_NUMBER if number is None else number,
        record_crc(record.key),
        record_crc(record.value),
        NO_TIMESTAMP if is_timed_by_broker else record.timestamp_ms,
        headers_crc(headers),
    )


def readable(fetched: list[Fetched], known: DecodedBatches, *, committed_only: bool) -> list[RecordSeen]:
    """The records in what was fetched of one partition, without markers; CorruptBatch.

    With `committed_only` without those of aborted transactions, which each client finds out by itself.
    """
    kept: list[RecordSeen] = []
    aborted: dict[int, None] = {}
    for buffer in fetched:
        begun = sorted((first, producer_id) for producer_id, first in buffer.aborted_transactions)
        for batch in known.of(buffer.records):
            header = batch.header
            if batch.records is None:
                raise CorruptBatch(f"the batch at offset {header.base_offset} has another CRC than its header says")
            while begun and begun[0][0] <= header.last_offset:
                aborted[begun.pop(0)[1]] = None
            if header.is_control:
                aborted.pop(header.producer_id, None)
            elif not (committed_only and header.is_transactional and header.producer_id in aborted):
                kept += [record for record in batch.records if record.offset >= buffer.fetch_offset]
    return kept
