"""Kafka's small files: what is written is read back, and nothing that Kafka would not write passes for sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log import files
from ottla.broker.log.files import (
    AbortedTransaction,
    CorruptFile,
    EpochEntry,
    OffsetEntry,
    ProducerSnapshotEntry,
    TimeEntry,
)

from .index_bytes import offset_index, time_index

int16, int32, int64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
natural32, natural64 = st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 63) - 1)


def growing(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[list[int]]:
    return st.lists(numbers, unique=True, max_size=8).map(sorted)


def paired(
    make: Callable[[int, int], Any], first: st.SearchStrategy[int], second: st.SearchStrategy[int]
) -> st.SearchStrategy[list[Any]]:
    return st.tuples(growing(first), growing(second)).map(
        lambda both: [make(*each) for each in zip(*both, strict=False)]
    )


offset_entries = paired(OffsetEntry, natural32, st.integers(1, (1 << 31) - 1))
time_entries = paired(TimeEntry, natural64, natural32)
epochs = paired(EpochEntry, natural32, natural64)
producers = st.lists(
    st.builds(ProducerSnapshotEntry, int64, int16, int32, int64, int32, int64, int32, int64), max_size=5
)
aborted = st.tuples(growing(natural64), int64, int64).map(
    lambda given: [AbortedTransaction(given[1], last // 2, last, given[2]) for last in given[0]]
)

Format = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
OFFSETS: Format = (offset_index, files.read_offset_index)
TIMES: Format = (time_index, files.read_time_index)
ABORTED: Format = (files.write_transaction_index, files.read_transaction_index)
PRODUCERS: Format = (files.write_producer_snapshot, files.read_producer_snapshot)
EPOCHS: Format = (files.write_leader_epochs, files.read_leader_epochs)


def any_file(*formats: tuple[Format, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Format, list[Any]]]:
    return st.one_of([st.tuples(st.just(each), entries) for each, entries in formats])


INDEXES = any_file((OFFSETS, offset_entries), (TIMES, time_entries), (ABORTED, aborted))
COUNTED = any_file((PRODUCERS, producers), (EPOCHS, epochs))


@given(st.one_of(INDEXES, COUNTED))
def test_what_is_written_is_read_back(case: tuple[Format, list[Any]]) -> None:
    (write, read), entries = case
    assert read(write(entries)) == entries


@given(INDEXES, st.data())
def test_a_cut_index_keeps_its_whole_entries(case: tuple[Format, list[Any]], data: st.DataObject) -> None:
    (write, read), entries = case
    whole = write(entries)
    cut = data.draw(st.integers(0, len(whole)))
    entry_bytes = len(whole) // max(1, len(entries)) or 1
    count = cut // entry_bytes
    if cut % entry_bytes == 0:
        assert read(whole[:cut]) == entries[:count]
        return
    with pytest.raises(CorruptFile, match="no whole entry") as caught:
        read(whole[:cut])
    assert (caught.value.entries, caught.value.position) == (entries[:count], count * entry_bytes)


@given(COUNTED, st.data())
def test_a_cut_snapshot_or_checkpoint_is_never_sound(case: tuple[Format, list[Any]], data: st.DataObject) -> None:
    (write, read), entries = case
    whole = write(entries)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptFile) as caught:
        read(whole[:cut])
    assert caught.value.entries == entries[: len(caught.value.entries)]
    assert 0 <= caught.value.position <= cut


@given(st.one_of(INDEXES, COUNTED), st.sampled_from([b"\0", b"\x7f", b"1 2\n", b"\xff" * 7]))
def test_trailing_bytes_are_seen(case: tuple[Format, list[Any]], more: bytes) -> None:
    (write, read), entries = case
    with pytest.raises(CorruptFile) as caught:
        read(write(entries) + more)
    assert caught.value.entries[: len(entries)] == entries


@given(producers, st.data())
def test_every_flipped_bit_of_a_producer_snapshot_shows(
    entries: list[ProducerSnapshotEntry], data: st.DataObject
) -> None:
    damaged = bytearray(files.write_producer_snapshot(entries))
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptFile):
        files.read_producer_snapshot(bytes(damaged))


@given(st.binary(max_size=120), st.sampled_from([OFFSETS, TIMES, ABORTED, PRODUCERS, EPOCHS]))
def test_any_bytes_are_read_or_refused(data: bytes, each: Format) -> None:
    write, read = each
    try:
        entries = read(data)
    except CorruptFile:
        return
    # Of an index in use the room in front of it is not part of what it says.
    assert data.startswith(write(entries)) or each is EPOCHS


@pytest.mark.parametrize(
    ("each", "entries"),
    [(OFFSETS, [OffsetEntry(9, 4096), OffsetEntry(256, 8192)]), (TIMES, [TimeEntry(0, 0), TimeEntry(1 << 40, 256)])],
)
@pytest.mark.parametrize("free_entries", [0, 1, 1000])
def test_room_made_in_advance_is_no_entry(each: Format, entries: Sequence[Any], free_entries: int) -> None:
    write, read = each
    data = write(entries)
    assert read(data + bytes(free_entries * len(data) // len(entries))) == entries


def test_a_record_of_1970_alone_has_its_time_entry() -> None:
    assert files.read_time_index(time_index([TimeEntry(0, 0)])) == [TimeEntry(0, 0)]
    assert files.read_time_index(bytes(120)) == []


@pytest.mark.parametrize(
    ("read", "data", "words"),
    [
        (files.read_offset_index, bytes.fromhex("0000000500001000 0000000500002000"), "does not come after 5"),
        (files.read_offset_index, bytes.fromhex("0000000500001000 0000000600001000"), "cannot follow"),
        (files.read_time_index, bytes.fromhex("ffffffffffffffff 00000001"), "timestamp -1"),
        (files.read_transaction_index, b"\0\1" + bytes(32), "version 1"),
        (files.read_producer_snapshot, b"\0\2" + bytes(8), "version 2"),
        (files.read_producer_snapshot, b"\0\1" + bytes(4) + b"\xff" * 4, "-1 producers"),
        (files.read_producer_snapshot, b"\0\1" + bytes(4) + b"\x7f\xff\xff\xff", "claims 2147483647 producers"),
        (files.read_leader_epochs, b"1\n0\n", "version '1'"),
        (files.read_leader_epochs, b"0\n2\n0 0\n", "claims 2 entries and holds 1"),
        (files.read_leader_epochs, b"0\n2\n3 0\n2 9\n", "epoch 2 at offset 9 cannot follow"),
        (files.read_leader_epochs, b"0\n1\n3 x\n", "is not an epoch"),
        (files.read_leader_epochs, b"0\nmany\n", "'many' is not a number"),
        (files.read_leader_epochs, b"0\n1\n0 0", "middle of a line"),
        (files.read_leader_epochs, b"0\n1\n\xb2 0\n", "is not an epoch"),
        (files.read_partition_metadata, b"version: 1\n", "begins with 'version: 1'"),
        (files.read_partition_metadata, b"version: 0\ntopic_id: short\n", "22 characters"),
    ],
)
def test_what_is_wrong_is_said(read: Callable[[bytes], Any], data: bytes, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        read(data)


@pytest.mark.parametrize(
    ("write", "entries"),
    [
        (files.write_transaction_index, [AbortedTransaction(1, 7, 6, 0)]),
        (files.write_producer_snapshot, [ProducerSnapshotEntry(1 << 63, 0, 0, 0, 0, 0, 0, 0)]),
        (files.write_leader_epochs, [EpochEntry(1, 5), EpochEntry(2, 5)]),
        (files.write_partition_metadata, "no id"),
    ],
)
def test_what_no_reader_would_take_is_not_written(write: Callable[[Any], bytes], entries: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        write(entries)


def test_a_topic_id_is_read_back() -> None:
    topic_id = "TNiG-b59QrWoLhUwieF8BQ"
    written = files.write_partition_metadata(topic_id)
    assert files.read_partition_metadata(written) == topic_id
    assert files.read_partition_metadata(written + b"\n") == topic_id
    for wrong in (written[:-1], written + b"x", written + b"\nmore\n"):
        with pytest.raises(CorruptFile, match="22 characters"):
            files.read_partition_metadata(wrong)
