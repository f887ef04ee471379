"""The plain twin, the header and the codecs: known bytes, round trips, and everything that can be wrong with them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigError
from ottla.records.batch_header import (
    CODECS,
    HEADER_BYTES,
    CorruptBatch,
    check_crc,
    iterate_headers,
    read_header,
    stamp_crc,
    stamp_offset,
)
from ottla.records.compression import PART_BYTES, Allowance, check_level, compress, decompress
from ottla.records.plain import Record, decode_batches, encode_batch, murmur2, partition_for_key

KNOWN_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple)
timestamps = st.integers(0, 1 << 62)
rows = st.lists(st.tuples(timestamps, blobs, blobs, headers), max_size=8)


def records_of(rows, first_offset=0):
    return [Record(first_offset + i, *row) for i, row in enumerate(rows)]


@pytest.mark.parametrize(("key", "digest"), KNOWN_HASHES.items())
def test_murmur2_is_kafkas(key, digest):
    assert murmur2(key) == digest
    assert partition_for_key(key, 7) == (digest & 0x7FFFFFFF) % 7


@given(rows, st.integers(0, 1 << 60), st.sampled_from(CODECS))
def test_batch_survives_the_round_trip(rows, offset, codec):
    records = records_of(rows, offset)
    batch = encode_batch(records, base_offset=offset, codec=codec, producer_id=7, base_sequence=3)
    [(header, decoded)] = decode_batches(batch)
    assert decoded == records
    assert header.size_bytes == len(batch)
    assert (header.codec, header.record_count, header.producer_id, header.base_sequence) == (codec, len(rows), 7, 3)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_noticed(codec):
    batch = encode_batch([Record(0, 5, b"k", b"value" * 3, (("h", b"1"),))], codec=codec)
    for size in range(1, len(batch)):
        with pytest.raises(CorruptBatch):
            list(decode_batches(batch[:size]))
    with pytest.raises(CorruptBatch):
        list(decode_batches(batch + b"\0"))


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_byte_under_the_crc_is_noticed(codec):
    batch = encode_batch([Record(0, 5, b"k", b"value", ())], codec=codec)
    for position in range(16, len(batch)):
        broken = bytearray(batch)
        broken[position] ^= 0x40
        with pytest.raises(CorruptBatch):
            list(decode_batches(broken))


@given(st.integers(0, 200), st.integers(0, 255), st.sampled_from(CODECS))
def test_nonsense_with_a_good_crc_is_a_corrupt_batch_or_other_records(position, byte, codec):
    batch = bytearray(encode_batch([Record(i, i, b"k", b"v" * 9, (("h", b"1"),)) for i in range(4)], codec=codec))
    batch[HEADER_BYTES + position % (len(batch) - HEADER_BYTES)] = byte
    stamp_crc(batch)
    try:
        [(header, records)] = decode_batches(batch)
    except CorruptBatch:
        return
    assert len(records) == header.record_count


def test_stamped_offset_keeps_the_crc():
    batch = bytearray(encode_batch(records_of([(1, None, b"a", ())]), base_offset=0))
    stamp_offset(batch, 0, 1234, 9)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (1234, 1234, 9)
    check_crc(batch, header)


def test_headers_of_several_batches_know_their_positions():
    first = encode_batch(records_of([(1, None, b"a", ())]), base_offset=0)
    second = encode_batch(records_of([(1, None, b"a", ())] * 2, 1), log_append_time_ms=99)
    headers = list(iterate_headers(first + second))
    assert [header.position for header in headers] == [0, len(first)]
    assert [header.last_offset for header in headers] == [0, 2]
    assert [record.timestamp_ms for _, records in decode_batches(first + second) for record in records] == [1, 99, 99]
    assert headers[1].log_append_time
    assert not headers[1].is_control
    assert not headers[1].is_transactional


def test_old_message_format_is_named():
    batch = bytearray(encode_batch(records_of([(1, None, b"a", ())])))
    batch[16] = 1
    with pytest.raises(CorruptBatch, match="format 1; only format 2"):
        read_header(batch)


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_impossible_length_is_refused(length):
    batch = bytearray(encode_batch(records_of([(1, None, b"a", ())])))
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match="claims a length"):
        read_header(batch)


def test_claimed_records_beyond_the_bytes_are_refused():
    batch = bytearray(encode_batch(records_of([(1, None, b"a", ())])))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    stamp_crc(batch)
    with pytest.raises(CorruptBatch, match="are claimed"):
        list(decode_batches(batch))


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=300))
def test_codec_round_trip(codec, data):
    assert bytes(decompress(codec, compress(codec, None, data), Allowance(len(data)))) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [100, 70_000, 1_000_000])
def test_decompression_stops_at_the_limit(codec, size):
    compressed = compress(codec, None, b"a" * size)
    assert bytes(decompress(codec, compressed, Allowance(size))) == b"a" * size
    with pytest.raises(CorruptBatch, match="allowed"):
        decompress(codec, compressed, Allowance(size - 1))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_bytes_cut_or_followed_by_others_are_refused(codec):
    compressed = bytes(compress(codec, None, bytes(range(256)) * 20))
    for size in [*range(0, len(compressed), 7), len(compressed) - 1]:
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], Allowance(1 << 20))
    with pytest.raises(CorruptBatch):
        decompress(codec, compressed + b"trailing", Allowance(1 << 20))


@pytest.mark.parametrize("codec", CODECS[1:])
@given(data=st.binary(max_size=200))
def test_garbage_is_refused_by_every_codec(codec, data):
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, Allowance(1 << 16))) <= 1 << 16


def test_snappy_size_that_cannot_be_true_is_refused_before_it_is_allocated():
    with pytest.raises(CorruptBatch, match="cannot hold"):
        decompress("snappy", b"\xff\xff\xff\x7f" + b"abc", Allowance(1 << 30))


def test_xerial_snappy_of_the_java_clients_is_read():
    blocks = [bytes(compress("snappy", None, part)) for part in (b"first ", b"second")]
    framed = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    framed += b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    assert decompress("snappy", framed, Allowance(12 + PART_BYTES)) == b"first second"
    with pytest.raises(CorruptBatch):
        decompress("snappy", framed[:-1], Allowance())
    with pytest.raises(CorruptBatch, match="allowed"):
        decompress("snappy", framed, Allowance(11 + PART_BYTES))


def test_gzip_of_several_members_is_read():
    framed = bytes(compress("gzip", 1, b"one ")) + bytes(compress("gzip", 9, b"two"))
    assert decompress("gzip", framed, Allowance(7 + PART_BYTES)) == b"one two"


def test_lz4_blocks_are_independent():
    assert compress("lz4", None, b"a" * 200_000)[4] & 0x20


def test_wrong_codec_and_level_are_explained():
    with pytest.raises(ConfigError, match=", ".join(CODECS)):
        check_level("lzma", None)
    with pytest.raises(ConfigError, match="no levels"):
        check_level("snappy", 3)
    with pytest.raises(ConfigError, match="levels 1 to 9"):
        check_level("gzip", 10)
    check_level("zstd", -5)
    header = read_header(encode_batch(records_of([(1, None, b"a", ())])))
    header.attributes = 7
    with pytest.raises(CorruptBatch, match="compression 7"):
        _ = header.codec
