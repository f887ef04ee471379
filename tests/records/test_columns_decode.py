"""Record batches into columns: the compiled decoder against the plain one, on good bytes and on every kind of bad."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.records.batch_header import CODECS, CONTROL, HEADER_BYTES, CorruptBatch, stamp_crc
from ottla.records.decode_columns import decode_columns, whole_batches
from ottla.records.encode_columns import encode_stream
from ottla.records.plain import Record, decode_batches, encode_batch

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
bodies = st.tuples(st.integers(0, 1 << 60), blobs, blobs, headers)
batches = st.lists(st.tuples(st.lists(bodies, max_size=12), st.sampled_from(CODECS), st.integers(0, 9)), max_size=4)

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp_type", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def as_records(decoded):
    batch = pa.record_batch(decoded)
    batch.validate(full=True)
    assert batch.num_rows == len(decoded) == decoded.num_rows
    timestamps = batch["timestamp"].cast(pa.int64()).to_pylist()
    listed = [tuple((h["key"], h["value"]) for h in row) for row in batch["headers"].to_pylist()]
    columns = (batch["offset"].to_pylist(), timestamps, batch["key"].to_pylist(), batch["value"].to_pylist(), listed)
    return [Record(*row) for row in zip(*columns, strict=True)]


def stored(batches, gap=1):
    """Bytes of several batches with gaps between their offsets, and the records in them."""
    raw, records, offset = b"", [], 100
    for bodies, codec, skip in batches:
        rows = [Record(offset + i * gap, *body) for i, body in enumerate(bodies)]
        raw += encode_batch(rows, base_offset=offset, codec=codec, partition_leader_epoch=offset // 10)
        records += rows
        offset += len(bodies) * gap + skip + 1
    return raw, records


def in_pieces(raw, **options):
    """The records of all pieces; no piece is larger than the batch that fills it makes it."""
    found, piece, left = [], None, raw
    while piece is None or piece.tail_bytes:
        piece = decode_columns(left, after=piece, **options)
        assert len(piece) < options["rows_enough"] + 12
        assert piece.tail_bytes < len(left) or not left
        found += as_records(piece)
        left = left[len(left) - piece.tail_bytes :]
    assert piece.next_offset == decode_columns(raw).next_offset
    return found


@settings(deadline=None)
@given(batches, st.integers(1, 3))
def test_decoded_columns_hold_what_was_encoded(given_batches, gap):
    raw, records = stored(given_batches, gap)
    decoded = decode_columns(raw)
    assert as_records(decoded) == records
    assert pa.record_batch(decoded).schema == SCHEMA
    assert decoded.tail_bytes == 0
    assert [record for _, rows in decode_batches(raw) for record in rows] == records


@settings(deadline=None)
@given(batches, st.integers(90, 160), st.integers(0, 40))
def test_only_offsets_asked_for_are_given(given_batches, start, count):
    raw, records = stored(given_batches)
    decoded = decode_columns(raw, start_offset=start, end_offset=start + count)
    assert as_records(decoded) == [record for record in records if start <= record.offset < start + count]
    assert start <= decoded.next_offset <= start + count


@settings(deadline=None)
@given(batches)
def test_cut_tail_is_left_for_the_next_fetch(given_batches):
    raw, _records = stored(given_batches)
    ends = [0]
    for header, _ in decode_batches(raw):
        ends.append(ends[-1] + header.size_bytes)
    for size in range(0, len(raw), 7):
        whole = max(end for end in ends if end <= size)
        decoded = decode_columns(memoryview(raw)[:size])
        assert decoded.tail_bytes == size - whole
        assert as_records(decoded) == [record for _, rows in decode_batches(raw[:whole]) for record in rows]


def both_decode(raw, **options):
    """What the two decoders make of the same bytes, or None where they refuse them."""
    try:
        plain = [record for header, rows in decode_batches(raw, **options) if not header.is_control for record in rows]
    except CorruptBatch:
        plain = None
    try:
        decoded = decode_columns(raw, start_offset=0, verify_crc=options.get("verify", True))
        compiled = pa.record_batch(decoded) if decoded.tail_bytes == 0 else None
    except CorruptBatch:
        compiled = None
    if compiled is not None:
        compiled.validate(full=True)
        compiled = as_records(decoded)
    return plain, compiled


@settings(deadline=None, max_examples=400)
@given(
    st.lists(bodies, min_size=1, max_size=6),
    st.sampled_from(CODECS),
    st.lists(st.tuples(st.integers(HEADER_BYTES, 400), st.binary(min_size=1, max_size=4)), min_size=1, max_size=3),
)
def test_both_decoders_judge_mutated_records_alike(bodies, codec, changes):
    batch = bytearray(encode_batch([Record(i, *body) for i, body in enumerate(bodies)], codec=codec))
    for position, new in changes:
        at = HEADER_BYTES + (position - HEADER_BYTES) % max(1, len(batch) - HEADER_BYTES)
        batch[at : at + len(new)] = new[: len(batch) - at]
    stamp_crc(batch)
    plain, compiled = both_decode(bytes(batch))
    assert plain == compiled


@settings(deadline=None, max_examples=400)
@given(
    st.lists(bodies, min_size=1, max_size=3),
    st.sampled_from(CODECS),
    st.integers(0, HEADER_BYTES - 1),
    st.binary(min_size=1, max_size=9),
)
def test_both_decoders_judge_mutated_headers_alike(bodies, codec, position, new):
    batch = bytearray(encode_batch([Record(i, *body) for i, body in enumerate(bodies)], codec=codec))
    new = new[: HEADER_BYTES - position]
    batch[position : position + len(new)] = new
    assume(not batch[22] & CONTROL)  # what a control batch holds, only one of the two looks at
    plain, compiled = both_decode(bytes(batch), verify=False)
    assert plain == compiled


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.integers(0, 40), st.integers(-1, 1 << 31))
def test_garbage_behind_a_valid_header_is_judged_alike(section, count, last_delta):
    batch = bytearray(encode_batch([], base_offset=5)) + section
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[23:27] = min(last_delta, (1 << 31) - 1).to_bytes(4, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big")
    stamp_crc(batch)
    plain, compiled = both_decode(bytes(batch))
    assert plain == compiled


@given(st.binary(max_size=300))
def test_pure_garbage_is_a_cut_tail_or_corrupt(data):
    try:
        decoded = decode_columns(data)
    except CorruptBatch:
        return
    assert decoded.num_rows == 0
    assert decoded.tail_bytes == len(data)


def test_every_flipped_bit_is_noticed_or_harmless():
    raw = encode_batch([Record(i, i, b"key", b"value", (("h", b"1"),)) for i in range(3)])
    for position in range(16, len(raw)):
        broken = bytearray(raw)
        broken[position] ^= 1
        with pytest.raises(CorruptBatch):
            decode_columns(broken)


def test_claimed_record_count_allocates_nothing():
    batch = bytearray(encode_batch([Record(0, 0, b"k", b"v")]))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    stamp_crc(batch)
    with pytest.raises(CorruptBatch, match="not made of 2147483647 records"):
        decode_columns(batch)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_decompression_is_bounded(codec):
    batch = encode_batch([Record(0, 0, None, b"a" * 100_000)], codec=codec)
    with pytest.raises(CorruptBatch, match="more than the 1000 bytes allowed"):
        decode_columns(batch, decompressed_bytes_max=1000)


def test_control_batches_are_left_out_and_passed():
    marker = encode_batch([Record(2, 5, b"\0\0\0\1", b"\0" * 6)], is_control=True, is_transactional=True)
    raw = encode_batch([Record(1, 5, None, b"a")]) + marker
    decoded = decode_columns(raw)
    assert [record.offset for record in as_records(decoded)] == [1]
    assert decoded.next_offset == 3


def data(offset, producer):
    return encode_batch([Record(offset, 1, None, b"%d" % offset)], producer_id=producer, is_transactional=True)


def marker(offset, producer, commit):
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    return encode_batch(
        [Record(offset, 1, key, b"\0" * 6)], producer_id=producer, is_transactional=True, is_control=True
    )


def test_reader_of_committed_records_leaves_aborted_ones_out():
    plain = encode_batch([Record(1, 1, None, b"1")], producer_id=7)
    raw = plain + data(2, 7) + data(3, 8) + marker(4, 7, False) + data(5, 7) + marker(6, 8, True) + marker(7, 7, True)
    assert [record.offset for record in as_records(decode_columns(raw))] == [1, 2, 3, 5]
    committed = decode_columns(raw, committed=[(7, 2)])
    assert [record.offset for record in as_records(committed)] == [1, 3, 5]
    assert committed.next_offset == 8
    assert [record.offset for record in as_records(decode_columns(raw, committed=[]))] == [1, 2, 3, 5]
    raw += data(8, 7)
    assert [record.offset for record in in_pieces(raw, committed=[(7, 2)], rows_enough=1)] == [1, 3, 5, 8]


def test_a_fetch_that_begins_with_the_marker_of_an_abort_keeps_what_its_producer_committed_next():
    raw = marker(4, 7, False) + data(5, 7) + marker(6, 7, True) + data(7, 7) + marker(8, 7, False)
    committed = decode_columns(raw, start_offset=4, committed=[(7, 2), (7, 7)])
    assert [record.offset for record in as_records(committed)] == [5]


@settings(deadline=None)
@given(batches, st.sets(st.sampled_from(SCHEMA.names)))
def test_columns_that_are_not_wanted_are_left_out_and_the_others_stay_the_same(given_batches, wanted):
    raw, records = stored(given_batches)
    names = [name for name in SCHEMA.names if name in wanted]
    decoded = decode_columns(raw, columns=sorted(wanted))
    assert decoded.num_rows == len(records)
    if names:
        chosen = pa.record_batch(decoded)
        chosen.validate(full=True)
        assert chosen.equals(pa.record_batch(decode_columns(raw)).select(names))


@settings(deadline=None)
@given(batches, st.integers(1, 20), st.integers(1, 200))
def test_pieces_together_are_the_whole(given_batches, rows_enough, bytes_enough):
    raw, records = stored(given_batches)
    assert in_pieces(raw, rows_enough=rows_enough, bytes_enough=bytes_enough) == records


@settings(deadline=None)
@given(batches, st.integers(0, 300), st.none() | st.integers(90, 200))
def test_whole_batches_are_measured_by_their_headers(given_batches, cut, end):
    raw, _ = stored(given_batches)
    length = max(0, len(raw) - cut)
    size, next_offset, epoch = 0, -1, -1
    for header, _ in decode_batches(raw):
        if header.position + header.size_bytes > length:
            break
        next_offset, epoch = header.last_offset + 1, header.partition_leader_epoch
        if end is not None and header.base_offset >= end:
            break
        size += header.size_bytes
    assert whole_batches(raw[:length], end) == (size, next_offset, epoch)


def test_append_time_is_the_brokers():
    raw = encode_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")], log_append_time_ms=99)
    batch = pa.record_batch(decode_columns(raw))
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [99, 99]
    assert batch["timestamp_type"].to_pylist() == [1, 1]


def test_header_names_that_are_no_utf8_are_mended():
    raw = bytearray(encode_batch([Record(0, 5, None, b"", (("abc", b"x"), ("größe", b"y"))), Record(1, 5, None, b"")]))
    at = raw.index(b"abc")
    raw[at : at + 3] = b"a\xff\xff"
    stamp_crc(raw)
    [first, second] = as_records(decode_columns(raw))
    assert first.headers == (("a��", b"x"), ("größe", b"y"))
    assert second.headers == ()


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken_and_let_go(make):
    raw = encode_batch([Record(0, 5, None, b"a")])
    given_buffer = make(raw)
    decoded = decode_columns(given_buffer)
    if make is bytearray:
        given_buffer.clear()
    assert as_records(decoded) == [Record(0, 5, None, b"a")]
    assert as_records(decode_columns(make(b""))) == []


def test_columns_outlive_the_object_they_came_from():
    value = pa.record_batch(decode_columns(encode_batch([Record(i, 5, b"k", b"%d" % i) for i in range(1000)])))["value"]
    gc.collect()
    assert value.to_pylist() == [b"%d" % i for i in range(1000)]


@settings(deadline=None)
@given(st.lists(st.tuples(blobs, blobs), min_size=1, max_size=200), st.sampled_from(CODECS), st.integers(61, 3000))
def test_table_comes_back_as_it_went(rows, codec, batch_size):
    table = pa.table(
        {"v": pa.array([r[0] for r in rows], pa.binary()), "k": pa.array([r[1] for r in rows], pa.binary())}
    )
    steps = encode_stream(
        table, topic="t", partition_count=1, value="v", key="k", compression=codec, batch_size=batch_size
    )
    got = [
        (record.value, record.key)
        for step in steps
        for batch in step
        for record in as_records(decode_columns(batch.buffers()[0]))
    ]
    assert got == rows
