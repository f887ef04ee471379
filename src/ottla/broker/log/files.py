"""The small files beside a partition's segments, as Apache Kafka writes them: bytes to entries and back.

| file | what it holds |
|---|---|
| `NNN.index` | offset index: int32 offset relative to the segment's, int32 position of the batch that ends with it |
| `NNN.timeindex` | time index: int64 largest timestamp so far in ms, int32 relative offset of its record |
| `NNN.txnindex` | aborted transactions (KIP-98): int16 version 0, int64 producer id, first, last, last stable offset |
| `NNN.snapshot` | producers at offset NNN (KIP-98): int16 version 1, CRC-32C of the rest, int32 count, entries |
| `leader-epoch-checkpoint` | text (KIP-101): version 0, count, then `epoch start_offset` a line |
| `partition.metadata` | text (KIP-516): `version: 0`, `topic_id: ` and 22 characters of base64 |

Binary numbers are big-endian. Kafka makes the two indexes of an active segment large at once (10 MiB of zeros) and cuts
them when the segment is closed, so zeros behind the last entry are free space, not entries. Ours are written while
the segment grows (`segment_index.py`).

Invariants: what `write_*` gives `read_*` reads back; a reader takes a whole file and raises CorruptFile for whatever
Kafka would not have written, with the entries that were sound in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

from ottla.errors import OttlaError
from ottla.records.crc import crc32c

TRANSACTION_INDEX_VERSION = 0
PRODUCER_SNAPSHOT_VERSION = 1
CHECKPOINT_VERSION = 0

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_ABORTED_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_POSITION = 2
_SNAPSHOT_CRC_BEGIN = 6
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_TOPIC_ID_CHARACTERS = 22


class OffsetEntry(NamedTuple):
    """The batch at `position` ends with the record at `relative_offset`."""

    relative_offset: int
    position: int


class TimeEntry(NamedTuple):
    """No record up to `relative_offset` has a timestamp above `timestamp_ms`."""

    timestamp_ms: int
    relative_offset: int


class AbortedTransaction(NamedTuple):
    """One aborted transaction; `last_offset` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerSnapshotEntry(NamedTuple):
    """One idempotent producer's last batch; -1 stands for none (`last_sequence`, `last_offset`, transaction)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


class EpochEntry(NamedTuple):
    """A leader's epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class CorruptFile(OttlaError):
    """A file is not what its name says from byte `position` on; `entries` are the sound ones read before."""

    def __init__(self, message: str, position: int, entries: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.entries = list(entries)


def read_offset_index(data: bytes) -> list[OffsetEntry]:
    """The entries of an offset index, without the free space behind them; CorruptFile."""
    used = _used_bytes(data, _OFFSET_ENTRY.size)
    return _read_entries(data, used, _OFFSET_ENTRY, OffsetEntry, _offset_entry_fault)


def read_time_index(data: bytes) -> list[TimeEntry]:
    """The entries of a time index, without the free space behind them; CorruptFile."""
    # A record of 1970-01-01 alone in its segment leaves one entry that is all zeros.
    only_epoch = len(data) == _TIME_ENTRY.size
    used = len(data) if only_epoch else _used_bytes(data, _TIME_ENTRY.size)
    return _read_entries(data, used, _TIME_ENTRY, TimeEntry, _time_entry_fault)


def read_transaction_index(data: bytes) -> list[AbortedTransaction]:
    """The aborted transactions of a segment; CorruptFile."""
    try:
        rows = _read_entries(data, len(data), _ABORTED_ENTRY, _VersionedAborted, _aborted_fault)
    except CorruptFile as error:
        error.entries = [row.transaction for row in error.entries]
        raise
    return [row.transaction for row in rows]


def write_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The transaction index of these entries; ValueError where their last offsets do not grow."""
    rows = [_VersionedAborted(TRANSACTION_INDEX_VERSION, *entry) for entry in entries]
    return _write_entries(rows, _ABORTED_ENTRY, _aborted_fault)


def read_producer_snapshot(data: bytes) -> list[ProducerSnapshotEntry]:
    """The producers in a snapshot; CorruptFile where version, length or CRC are wrong."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptFile(f"a producer snapshot needs {_SNAPSHOT_HEAD.size} bytes; there are {len(data)}", 0)
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != PRODUCER_SNAPSHOT_VERSION:
        raise CorruptFile(
            f"it claims version {version} of producer snapshots; only {PRODUCER_SNAPSHOT_VERSION} exists", 0
        )
    whole = (len(data) - _SNAPSHOT_HEAD.size) // _SNAPSHOT_ENTRY.size
    entries = [
        ProducerSnapshotEntry(*_SNAPSHOT_ENTRY.unpack_from(data, _SNAPSHOT_HEAD.size + number * _SNAPSHOT_ENTRY.size))
        for number in range(max(0, min(count, whole)))
    ]
    end = _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size
    if count < 0 or end > len(data):
        position = _SNAPSHOT_HEAD.size + len(entries) * _SNAPSHOT_ENTRY.size
        raise CorruptFile(f"it claims {count} producers and holds {whole}", position, entries)
    if end < len(data):
        raise CorruptFile(f"{len(data) - end} bytes follow the last of {count} producers", end, entries)
    computed = crc32c(data[_SNAPSHOT_CRC_BEGIN:])
    if crc != computed:
        sentence = f"its entries have CRC {computed:#010x}; it says {crc:#010x}"
        raise CorruptFile(sentence, _SNAPSHOT_CRC_POSITION, entries)
    return entries


def write_producer_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """A producer snapshot with its CRC; ValueError for a number out of its field's range."""
    rows = list(entries)
    section = len(rows).to_bytes(4, "big") + b"".join(_pack(_SNAPSHOT_ENTRY, row) for row in rows)
    head = PRODUCER_SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(section).to_bytes(4, "big")
    return head + section


def read_leader_epochs(data: bytes) -> list[EpochEntry]:
    """The epochs of a `leader-epoch-checkpoint`, oldest first; CorruptFile."""
    lines, rest = _text_lines(data)
    if len(lines) < 2:
        raise CorruptFile("it ends before the number of entries", len(data))
    if lines[0] != str(CHECKPOINT_VERSION):
        raise CorruptFile(f"it claims version {lines[0][:40]!r} of checkpoints; only {CHECKPOINT_VERSION} exists", 0)
    position = len(lines[0]) + 1
    count = _number(lines[1], _INT32_MAX)
    if count is None:
        raise CorruptFile(f"{lines[1][:40]!r} is not a number of entries", position)
    position += len(lines[1]) + 1
    entries: list[EpochEntry] = []
    for line in lines[2:]:
        words = line.split(" ")
        epoch = _number(words[0], _INT32_MAX)
        start = _number(words[1], _INT64_MAX) if len(words) == 2 else None
        if epoch is None or start is None:
            raise CorruptFile(f"{line[:60]!r} is not an epoch and its start offset", position, entries)
        entry = EpochEntry(epoch, start)
        fault = _epoch_fault(entries[-1] if entries else None, entry)
        if fault:
            raise CorruptFile(fault, position, entries)
        entries.append(entry)
        position += len(line) + 1
    if rest:
        raise CorruptFile(f"it ends in the middle of a line, {rest[:60]!r}", position, entries)
    if len(entries) != count:
        raise CorruptFile(f"it claims {count} entries and holds {len(entries)}", position, entries)
    return entries


def write_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The text of a `leader-epoch-checkpoint`; ValueError where epochs or offsets do not grow."""
    rows = list(entries)
    _check_all(rows, _epoch_fault)
    lines = [str(CHECKPOINT_VERSION), str(len(rows)), *(f"{row.epoch} {row.start_offset}" for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def read_partition_metadata(data: bytes) -> str:
    """The topic id in a `partition.metadata`, 22 characters as Kafka prints it; CorruptFile."""
    lines, rest = _text_lines(data)
    # Kafka writes no line end behind the id; older versions of this broker wrote one.
    if rest:
        lines.append(rest)
    if not lines or lines[0] != f"version: {CHECKPOINT_VERSION}":
        found = lines[0][:40] if lines else ""
        raise CorruptFile(f"it begins with {found!r} instead of 'version: {CHECKPOINT_VERSION}'", 0)
    position = len(lines[0]) + 1
    name, _, topic_id = (lines[1] if len(lines) > 1 else "").partition(": ")
    if len(lines) != 2 or name != "topic_id" or not _is_topic_id(topic_id):
        raise CorruptFile("its second and last line is not 'topic_id: ' with 22 characters of base64", position)
    return topic_id


def write_partition_metadata(topic_id: str) -> bytes:
    """The text of a `partition.metadata`; ValueError for what is no topic id."""
    if not _is_topic_id(topic_id):
        raise ValueError(f"{topic_id!r} is not a topic id: 22 characters of URL-safe base64")
    return f"version: {CHECKPOINT_VERSION}\ntopic_id: {topic_id}".encode()


class _VersionedAborted(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def transaction(self) -> AbortedTransaction:
        return AbortedTransaction(*self[1:])


def _offset_entry_fault(before: OffsetEntry | None, entry: OffsetEntry) -> str | None:
    # Kafka adds the first entry behind the first batch, so that no entry is at position 0.
    offset, position = (0, 0) if before is None else before
    if entry.position <= position or entry.relative_offset < 0:
        return (
            f"an entry of relative offset {entry.relative_offset} and position {entry.position} "
            f"cannot follow one of {offset} and {position}"
        )
    if before is not None and entry.relative_offset <= offset:
        return f"relative offset {entry.relative_offset} does not come after {offset}"
    return None


def _time_entry_fault(before: TimeEntry | None, entry: TimeEntry) -> str | None:
    if entry.timestamp_ms < 0 or entry.relative_offset < 0:
        return f"an entry has timestamp {entry.timestamp_ms} and relative offset {entry.relative_offset}"
    if before is not None and entry.timestamp_ms <= before.timestamp_ms:
        return f"timestamp {entry.timestamp_ms} does not come after {before.timestamp_ms}"
    if before is not None and entry.relative_offset < before.relative_offset:
        return f"relative offset {entry.relative_offset} comes after {before.relative_offset}"
    return None


def _aborted_fault(before: _VersionedAborted | None, entry: _VersionedAborted) -> str | None:
    if entry.version != TRANSACTION_INDEX_VERSION:
        return f"an entry claims version {entry.version}; only {TRANSACTION_INDEX_VERSION} exists"
    if not 0 <= entry.first_offset <= entry.last_offset:
        return f"a transaction claims offsets {entry.first_offset} to {entry.last_offset}"
    if before is not None and entry.last_offset <= before.last_offset:
        return f"last offset {entry.last_offset} does not come after {before.last_offset}"
    return None


def _epoch_fault(before: EpochEntry | None, entry: EpochEntry) -> str | None:
    if entry.epoch < 0 or entry.start_offset < 0:
        return f"epoch {entry.epoch} claims to begin at offset {entry.start_offset}"
    if before is not None and (entry.epoch <= before.epoch or entry.start_offset <= before.start_offset):
        return (
            f"epoch {entry.epoch} at offset {entry.start_offset} cannot follow {before.epoch} at {before.start_offset}"
        )
    return None


def _used_bytes(data: bytes, entry_bytes: int) -> int:
    """Where the free space begins: whole entries of zeros at the end."""
    last = len(data.rstrip(b"\0"))
    return min(len(data), -(-last // entry_bytes) * entry_bytes) if len(data) % entry_bytes == 0 else len(data)


def _read_entries(
    data: bytes, used: int, layout: Struct, make: Callable[..., Any], fault: Callable[[Any, Any], str | None]
) -> list[Any]:
    entries: list[Any] = []
    before = None
    whole = used - used % layout.size
    for position, fields in zip(
        range(0, whole, layout.size), layout.iter_unpack(memoryview(data)[:whole]), strict=True
    ):
        entry = make(*fields)
        sentence = fault(before, entry)
        if sentence:
            raise CorruptFile(sentence, position, entries)
        entries.append(entry)
        before = entry
    if whole != used:
        raise CorruptFile(f"{used - whole} bytes are no whole entry of {layout.size}", whole, entries)
    return entries


def _write_entries(entries: Iterable[Any], layout: Struct, fault: Callable[[Any, Any], str | None]) -> bytes:
    rows = list(entries)
    _check_all(rows, fault)
    return b"".join(_pack(layout, row) for row in rows)


def _check_all(rows: Sequence[Any], fault: Callable[[Any, Any], str | None]) -> None:
    before = None
    for row in rows:
        sentence = fault(before, row)
        if sentence:
            raise ValueError(sentence)
        before = row


def _pack(layout: Struct, row: Iterable[int]) -> bytes:
    try:
        return layout.pack(*row)
    except StructError as error:
        raise ValueError(f"{row} does not fit its fields: {error}") from None


def _text_lines(data: bytes) -> tuple[list[str], str]:
    """The whole lines of a text file and what follows the last of them; a character is a byte."""
    *lines, rest = data.decode("latin-1").split("\n")
    return lines, rest


def _number(text: str, most: int) -> int | None:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        return None
    number = int(text)
    return number if number <= most else None


def _is_topic_id(text: str) -> bool:
    return len(text) == _TOPIC_ID_CHARACTERS and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
