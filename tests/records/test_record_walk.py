"""The compiled walk over a batch's records finds what the plain decoder finds, and refuses what it refuses.

What compaction leaves of a batch is what the plain decoder reads of it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch_header import HEADER_BYTES, CorruptBatch, iterate_headers, pack_like, stamp_crc
from ottla.records.plain import Record, decode_batches, encode_batch
from ottla.records.record_walk import first_since, map_keys, refused_rows, rewritten, staying

ALWAYS = {"oldest_ms": -(1 << 63), "newest_ms": (1 << 63) - 1}
blobs = st.none() | st.binary(max_size=9)
headers = st.lists(st.tuples(st.text(max_size=3), blobs), max_size=3).map(tuple)
times = st.integers(-2, 30) | st.integers(-(1 << 62), 1 << 62)
rows = st.lists(st.tuples(times, blobs, blobs, headers), min_size=1, max_size=8)


def batch_of(found: list[tuple[Any, ...]], offset: int = 0, **more: Any) -> bytes:
    return encode_batch([Record(offset + number, *row) for number, row in enumerate(found)], **more)


def refused(batch: bytes, keyed: bool, oldest_ms: int, newest_ms: int, named_max: int = 100) -> tuple[int, int, Any]:
    [header] = iterate_headers(batch)
    section = memoryview(batch)[HEADER_BYTES:]
    return refused_rows(header, section, keyed=keyed, oldest_ms=oldest_ms, newest_ms=newest_ms, named_max=named_max)


@given(rows, st.booleans(), times, times, st.integers(0, 9), st.none() | times)
def test_the_rows_that_are_refused_are_those_of_the_plain_decoder(
    found: list[tuple[Any, ...]], keyed: bool, oldest_ms: int, newest_ms: int, named_max: int, appended_ms: int | None
) -> None:
    batch = batch_of(found, log_append_time_ms=appended_ms)
    [(_, records)] = decode_batches(batch)
    expected: list[tuple[int, int | None]] = []
    for number, record in enumerate(records):
        if keyed and record.key is None:
            expected.append((number, None))
        elif record.timestamp_ms != -1 and not oldest_ms <= record.timestamp_ms <= newest_ms:
            expected.append((number, record.timestamp_ms))
    late = sum(timestamp is not None for _, timestamp in expected)
    assert refused(batch, keyed, oldest_ms, newest_ms, named_max) == (len(expected), late, expected[:named_max])


@given(rows, times, st.integers(0, 12), st.none() | times)
def test_the_first_record_since_a_time_is_that_of_the_plain_decoder(
    found: list[tuple[Any, ...]], timestamp: int, offset: int, appended_ms: int | None
) -> None:
    batch = batch_of(found, 3, log_append_time_ms=appended_ms)
    [(header, records)] = decode_batches(batch)
    late = [(each.offset, each.timestamp_ms) for each in records]
    late = [each for each in late if each[0] >= offset and each[1] >= timestamp]
    assert first_since(header, batch[HEADER_BYTES:], timestamp, offset) == (late[0] if late else None)


keyed_rows = st.lists(
    st.tuples(times, st.none() | st.sampled_from([b"", b"a", b"bb"]), blobs, headers), min_size=1, max_size=9
)


@given(keyed_rows, st.integers(0, 12))
def test_keys_are_mapped_to_their_last_offsets(found: list[tuple[Any, ...]], begin: int) -> None:
    batch = batch_of(found, 3)
    [(header, records)] = decode_batches(batch)
    latest = {b"a": 1}
    expected = latest | {each.key: each.offset for each in records if each.key is not None and each.offset >= begin}
    new = expected.keys() - latest.keys()
    assert map_keys(header, batch[HEADER_BYTES:], begin, latest) == (len(new), sum(map(len, new)))
    assert latest == expected


@given(keyed_rows, st.dictionaries(st.sampled_from([b"", b"a", b"bb"]), st.integers(0, 14)), st.booleans(), times)
def test_records_that_stay_are_what_they_were(
    found: list[tuple[Any, ...]], latest: dict[bytes, int], expired: bool, base_ms: int
) -> None:
    batch = batch_of(found, 3)
    [(header, records)] = decode_batches(batch)
    section = memoryview(batch)[HEADER_BYTES:]
    expected = [
        each
        for each in records
        if each.key is not None and each.offset >= latest.get(each.key, -1) and not (expired and each.value is None)
    ]
    flags, count, has_tombstone = staying(header, section, latest, expired)
    assert [record for record, flag in zip(records, flags, strict=True) if flag] == expected
    assert (count, has_tombstone) == (len(expected), any(each.value is None for each in expected))
    left, newest = rewritten(header, section, flags, base_ms)
    assert newest == max((each.timestamp_ms for each in expected), default=-(1 << 63))
    again = pack_like(header, len(left), attributes=0, max_timestamp=0, base_timestamp=base_ms, record_count=count)
    [(_, kept)] = decode_batches(bytes(again + left), verify=False)
    assert kept == expected


def test_flags_of_other_records_are_refused() -> None:
    batch = batch_of([(0, b"k", b"v", ())])
    [header] = iterate_headers(batch)
    with pytest.raises(ValueError, match="2 flags for 1 records"):
        rewritten(header, batch[HEADER_BYTES:], bytearray(2), 0)


@given(rows, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3), st.integers(-2, 2))
def test_damaged_records_are_corrupt_for_both(
    found: list[tuple[Any, ...]], changes: list[tuple[int, int]], more: int
) -> None:
    batch = bytearray(batch_of(found))
    for at, byte in changes:
        batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] = byte
    batch[57:61] = (len(found) + more if len(found) + more >= 0 else 0).to_bytes(4)
    stamp_crc(batch)
    try:
        list(decode_batches(batch))
    except CorruptBatch:
        with pytest.raises(CorruptBatch, match="The batch at offset 0 is not made of"):
            refused(bytes(batch), True, 0, 0)
    else:
        refused(bytes(batch), True, 0, 0)


@pytest.mark.parametrize("size", [0, 1, 6, 7])
def test_no_byte_behind_the_section_is_read(size: int) -> None:
    batch = batch_of([(0, b"k", b"v", ())])
    [header] = iterate_headers(batch)
    with pytest.raises(CorruptBatch):
        refused_rows(header, batch[HEADER_BYTES : HEADER_BYTES + size], keyed=True, named_max=9, **ALWAYS)
