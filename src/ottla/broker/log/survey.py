"""What a file of a partition's folder holds, sound or not: for tools that show it, not for the broker.

A survey walks over one file and gives its rows (batches, records or entries) as they come; what is damaged is noted
with its position, and the walk goes on wherever the next batch can still be found. A broker cuts a log at the first
damage; a survey only reports it.

Invariants: nothing is written; of a segment no more than 1 MiB, or one batch, is in memory; `facts` and `damages` are
complete once `rows` has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from ottla.broker.log import files
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc, read_header
from ottla.records.plain import Record, decode_batches

Row = dict[str, Any]

_READ_BYTES = 1 << 20
_OFFSET_DIGITS = 20
# What Kafka adds to a file's name while it replaces or removes the file.
_PASSING_SUFFIXES = (".deleted", ".cleaned", ".swap")
_KINDS = {
    "log": "segment",
    "checkpoint": "metadata snapshot",
    "index": "offset index",
    "timeindex": "time index",
    "txnindex": "transaction index",
    "snapshot": "producer snapshot",
}
_NAMED = {"leader-epoch-checkpoint": "leader epochs", "partition.metadata": "partition metadata"}
SEGMENT_KINDS = ("segment", "metadata snapshot")
# The control records a batch may hold (KIP-98, KIP-595, KIP-630, KIP-853).
_CONTROLS = ("abort", "commit", "leader change", "snapshot header", "snapshot footer", "kraft version", "kraft voters")


class SurveyedFile(Protocol):
    """A file to look into: `StorageFile` without the means to change it."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> bytes: ...


class Damage(NamedTuple):
    """`size_bytes` from `position` on are not what they should be."""

    position: int
    size_bytes: int
    what: str


class Kind(NamedTuple):
    """What a file's name says: `base_offset` is None where it holds none; `certain` where only Kafka names files so."""

    name: str
    base_offset: int | None
    certain: bool


def kind_of(file_name: str) -> Kind | None:
    """What a file with this name should be; None for names that Kafka gives to nothing surveyed here."""
    for suffix in _PASSING_SUFFIXES:
        file_name = file_name.removesuffix(suffix)
    if file_name in _NAMED:
        return Kind(_NAMED[file_name], None, True)
    stem, _, suffix = file_name.rpartition(".")
    kind = _KINDS.get(suffix)
    if kind is None or not stem:
        return None
    # A metadata snapshot is named by offset and epoch, and holds offsets of its own.
    digits = stem.split("-")[0]
    certain = len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit()
    return Kind(kind, int(digits) if certain and kind != "metadata snapshot" else None, certain)


class Survey:
    """One file's rows, as dictionaries, and what was found on the way.

    `rows_name` is "batches", "records" or "entries"; at most `rows_max` are given (None: all) and the rest of the file
    is checked all the same.
    """

    __slots__ = ("damages", "facts", "kind", "rows", "rows_name", "size_bytes")

    def __init__(
        self, kind: Kind, source: SurveyedFile, *, with_records: bool = False, rows_max: int | None = None
    ) -> None:
        self.kind = kind
        self.size_bytes = source.size
        self.damages: list[Damage] = []
        self.facts: Row = {}
        if kind.name in SEGMENT_KINDS:
            self.rows_name = "records" if with_records else "batches"
            self.rows = self._segment(source, with_records, rows_max)
        else:
            self.rows_name = "entries"
            self.rows = self._entries(source.read(0, source.size), rows_max)

    @property
    def is_something_else(self) -> bool:
        """Whether it may be no broker's file at all, in spite of its name; valid after the first row.

        A valid batch header is no accident; some valid entries of an index can be one.
        """
        return bool(self.damages) and not self.facts.get("batch_count")

    def _entries(self, data: bytes, rows_max: int | None) -> Iterator[Row]:
        try:
            found = _READERS[self.kind.name](data)
        except files.CorruptFile as error:
            found = error.entries
            self.damages.append(Damage(error.position, len(data) - error.position, str(error)))
        if isinstance(found, str):
            self.facts["topic_id"] = found
            return
        self.facts["entry_count"] = len(found)
        entry_bytes = {"offset index": 8, "time index": 12}.get(self.kind.name)
        if entry_bytes and not self.damages:
            self.facts["free_bytes"] = len(data) - len(found) * entry_bytes
        for entry in found[:rows_max]:
            row: Row = entry._asdict()
            if self.kind.base_offset is not None and "relative_offset" in row:
                row = {"offset": self.kind.base_offset + row["relative_offset"], **row}
            yield row

    def _segment(self, source: SurveyedFile, with_records: bool, rows_max: int | None) -> Iterator[Row]:
        facts = self.facts
        facts.update(batch_count=0, record_count=0, first_offset=None, last_offset=None, max_timestamp_ms=None)
        given = 0
        for header, batch, crc_ok in self._batches(source):
            facts["batch_count"] += 1
            facts["record_count"] += header.record_count
            if facts["first_offset"] is None:
                facts["first_offset"] = header.base_offset
            facts["last_offset"] = header.last_offset
            facts["max_timestamp_ms"] = max(header.max_timestamp, facts["max_timestamp_ms"] or header.max_timestamp)
            wanted = rows_max is None or given < rows_max
            if not with_records:
                if wanted:
                    yield _batch_row(header, crc_ok)
                    given += 1
            elif wanted and crc_ok:
                for record in self._records(header, batch):
                    if rows_max is None or given < rows_max:
                        yield record
                        given += 1

    def _records(self, header: BatchHeader, batch: bytes) -> Iterator[Row]:
        try:
            records = next(decode_batches(batch, verify=False))[1]
        except CorruptBatch as error:
            self.damages.append(Damage(header.position, header.size_bytes, str(error)))
            return
        for record in records:
            yield _record_row(header, record)

    def _batches(self, source: SurveyedFile) -> Iterator[tuple[BatchHeader, bytes, bool]]:
        """(header, the batch's bytes, whether its CRC is right) as long as one batch leads to the next."""
        end = self.size_bytes
        position = 0
        chunk, chunk_begin = b"", 0
        next_offset = self.kind.base_offset or 0
        while position < end:
            at = position - chunk_begin
            if len(chunk) - at < min(HEADER_BYTES, end - position):
                chunk, chunk_begin, at = source.read(position, _READ_BYTES), position, 0
            try:
                header = read_header(chunk, at)
            except CorruptBatch as error:
                self._lost(source, position, str(error))
                return
            header.position = position
            size = header.size_bytes
            if size > end - position:
                what = f"the batch at offset {header.base_offset} claims {size} bytes and {end - position} are left"
                self._lost(source, position, f"{what}: torn, or still being written")
                return
            if len(chunk) - at < size:
                chunk, chunk_begin, at = source.read(position, max(size, _READ_BYTES)), position, 0
            batch = chunk[at : at + size]
            crc_ok = self._is_sound(header, batch, next_offset)
            next_offset = max(next_offset, header.last_offset + 1)
            yield header, batch, crc_ok
            position += size

    def _is_sound(self, header: BatchHeader, batch: bytes, next_offset: int) -> bool:
        crc_ok = True
        try:
            check_crc(batch, header, 0)
            header.codec  # noqa: B018  # a number that names no codec raises
        except CorruptBatch as error:
            crc_ok = False
            what = str(error).replace("at position 0 ", f"at position {header.position} ")
            self.damages.append(Damage(header.position, header.size_bytes, what))
        if header.base_offset < next_offset:
            what = f"the batch begins at offset {header.base_offset}; {next_offset} is the first that may follow"
            self.damages.append(Damage(header.position, header.size_bytes, what))
        return crc_ok

    def _lost(self, source: SurveyedFile, position: int, what: str) -> None:
        """From here to the end no batch can be found."""
        at, zeros = position, True
        while zeros and at < self.size_bytes:
            chunk = source.read(at, _READ_BYTES)
            zeros = bool(chunk) and not chunk.strip(b"\0")
            at += len(chunk)
        if zeros:
            what = "only zeros from here on: room made in advance, or data that never reached the disk"
        left = self.size_bytes - position
        if not zeros and left < HEADER_BYTES:
            what = f"{left} bytes are left and a batch's header has {HEADER_BYTES}: torn, or still being written"
        self.damages.append(Damage(position, left, what))


def _batch_row(header: BatchHeader, crc_ok: bool) -> Row:
    try:
        codec = header.codec
    except CorruptBatch:
        codec = "unknown"
    return {
        "position": header.position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "base_timestamp_ms": header.base_timestamp,
        "max_timestamp_ms": header.max_timestamp,
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "codec": codec,
        "crc": header.crc,
        "crc_ok": crc_ok,
    }


def _record_row(header: BatchHeader, record: Record) -> Row:
    row: Row = record._asdict()
    row["headers"] = list(record.headers)
    if header.is_control:
        row["control"] = _control_name(record.key)
    return row


def _control_name(key: bytes | None) -> str:
    """A control record's key is an int16 version and an int16 type."""
    number = int.from_bytes(key[2:4], "big") if key is not None and len(key) >= 4 else len(_CONTROLS)
    return _CONTROLS[number] if number < len(_CONTROLS) else "unknown"


_READERS: dict[str, Callable[[bytes], Any]] = {
    "offset index": files.read_offset_index,
    "time index": files.read_time_index,
    "transaction index": files.read_transaction_index,
    "producer snapshot": files.read_producer_snapshot,
    "leader epochs": files.read_leader_epochs,
    "partition metadata": files.read_partition_metadata,
}
