"""Decompressing costs work in step with what came, and gives no more than is allowed, whatever was sent."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest

from ottla.records.batch_header import CODECS, HEADER_BYTES, CorruptBatch, stamp_crc
from ottla.records.compression import PART_BYTES, Allowance, BatchTooLarge, compress, decompress
from ottla.records.decode_columns import decode_columns
from ottla.records.plain import OBJECT_BYTES_MIN, Record, decode_batches, encode_batch

COMPRESSED = [codec for codec in CODECS if codec != "none"]
ROWS = [Record(0, 1000, b"key", b"value " * 50)]
_ATTRIBUTES_AT, _LENGTH_AT = 22, 8


def xerial(*blocks: bytes) -> bytes:
    """Blocks in the framing of snappy-java."""
    framed = b"".join(len(block).to_bytes(4) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def with_section(codec: str, section: bytes) -> bytes:
    """A batch of ROWS with other compressed bytes."""
    batch = bytearray(encode_batch(ROWS)[:HEADER_BYTES]) + section
    batch[_ATTRIBUTES_AT] = CODECS.index(codec)
    batch[_LENGTH_AT : _LENGTH_AT + 4] = (len(batch) - 12).to_bytes(4)
    stamp_crc(batch)
    return bytes(batch)


def section_of(rows: list[Record]) -> bytes:
    return encode_batch(rows)[HEADER_BYTES:]


class CountedZlib:
    """Counts the bytes that zlib is given, those that it gives back unread, and how many streams it begins."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.streams = 0
        began = zlib.decompressobj
        outer = self

        class Counted:
            def __init__(self, wbits: int) -> None:
                self._stream = began(wbits=wbits)
                outer.streams += 1

            def decompress(self, data: Any, limit: int) -> bytes:
                outer.bytes += len(data)
                piece = self._stream.decompress(data, limit)
                outer.bytes += len(self._stream.unused_data)
                return piece

            def __getattr__(self, name: str) -> Any:
                return getattr(self._stream, name)

        monkeypatch.setattr(zlib, "decompressobj", Counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> CountedZlib:
    return CountedZlib(monkeypatch)


Decode = Callable[[bytes], object]


@pytest.mark.parametrize(
    "decode", [lambda batch: list(decode_batches(batch)), decode_columns], ids=["plain", "columns"]
)
def test_empty_gzip_members_cost_work_in_step_with_their_number(decode: Decode, counted: CountedZlib) -> None:
    members = gzip.compress(b"") * 3000 + gzip.compress(section_of(ROWS))
    decode(with_section("gzip", members))
    assert counted.bytes < 40 * len(members)


def test_a_section_of_several_members_is_one_after_the_other() -> None:
    parts = [bytes([number]) * 997 for number in range(200)]
    members = b"".join(gzip.compress(part) for part in parts)
    assert bytes(decompress("gzip", members, Allowance())) == b"".join(parts)


def test_a_large_member_is_whole() -> None:
    section = bytes(range(256)) * 40_000
    assert bytes(decompress("gzip", gzip.compress(section), Allowance())) == section


def test_members_count_although_they_are_empty(counted: CountedZlib) -> None:
    allowance = Allowance(50 * PART_BYTES)
    with pytest.raises(BatchTooLarge, match=f"more than the {50 * PART_BYTES} bytes allowed"):
        decompress("gzip", gzip.compress(b"") * 100_000, allowance)
    assert counted.streams == 51


def test_snappy_blocks_count_although_they_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    into = cramjam.snappy.decompress_raw_into

    def count(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        return int(into(*arguments))

    monkeypatch.setattr(cramjam.snappy, "decompress_raw_into", count)
    empty = bytes(cramjam.snappy.compress_raw(b""))
    with pytest.raises(BatchTooLarge):
        decompress("snappy", xerial(*[empty] * 100_000), Allowance(50 * PART_BYTES))
    assert calls == 51
    parts = [bytes([number]) * 32_768 for number in range(40)]
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in parts]
    assert bytes(decompress("snappy", xerial(*blocks), Allowance())) == b"".join(parts)


def test_empty_zstd_frames_are_gone_through_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library goes through all frames by itself, once for each guess at the room that is needed."""
    seen = 0
    into = cramjam.zstd.decompress_into

    def count(data: Any, output: Any) -> int:
        nonlocal seen
        seen += len(data)
        return int(into(data, output))

    monkeypatch.setattr(cramjam.zstd, "decompress_into", count)
    frames = bytes(cramjam.zstd.compress(b"")) * 50_000
    assert bytes(decompress("zstd", frames, Allowance())) == b""
    assert seen == len(frames)
    bomb = frames + bytes(cramjam.zstd.compress(bytes(64 << 20)))
    seen = 0
    with pytest.raises(BatchTooLarge):
        decompress("zstd", bomb, Allowance(8 << 20))
    assert seen <= 8 * len(bomb)


def test_lz4_has_one_frame() -> None:
    frame = lz4.frame.compress(b"", block_linked=False)
    with pytest.raises(CorruptBatch, match="bytes follow the frame"):
        decompress("lz4", frame * 50_000, Allowance())


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_what_is_allowed_comes_out_and_not_a_byte_more(codec: str) -> None:
    data = bytes(range(256)) * 64
    packed = bytes(compress(codec, None, data))
    assert bytes(decompress(codec, packed, Allowance(len(data)))) == data
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, Allowance(len(data) - 1))


@pytest.mark.parametrize("codec", CODECS)
def test_batches_share_an_allowance(codec: str) -> None:
    data = bytes(range(256)) * 64
    packed = bytes(compress(codec, None, data))
    allowance = Allowance(2 * len(data) + 5)
    for _ in range(2):
        decompress(codec, packed, allowance)
    assert allowance.left_bytes == 5
    with pytest.raises(BatchTooLarge):
        decompress(codec, packed, allowance)


def test_a_record_counts_however_small_it_is() -> None:
    rows = [Record(number, 1000, None, None) for number in range(100)]
    batch = encode_batch(rows)
    [(_, found)] = decode_batches(batch, allowance=Allowance(100 * OBJECT_BYTES_MIN))
    assert len(found) == 100
    with pytest.raises(BatchTooLarge):
        list(decode_batches(batch, allowance=Allowance(100 * OBJECT_BYTES_MIN - 1)))


def test_a_header_counts_however_small_it_is() -> None:
    """And none is made before it has been counted: few bytes may hold millions of them in one record."""
    rows = [Record(number, 1000, b"k", None, ((("", None),) * 500)) for number in range(2)]
    batch = encode_batch(rows)
    objects = 2 + 2 * 500
    [(_, found)] = decode_batches(batch, allowance=Allowance(objects * OBJECT_BYTES_MIN))
    assert found == rows
    with pytest.raises(BatchTooLarge):
        list(decode_batches(batch, allowance=Allowance(objects * OBJECT_BYTES_MIN - 1)))


def test_records_and_headers_with_bytes_of_their_own_cost_no_more_than_these() -> None:
    rows = [Record(number, 1000, b"k" * 64, b"v" * 64, ((("name " * 13, b"x" * 64),) * 3)) for number in range(5)]
    batch = encode_batch(rows)
    [(_, found)] = decode_batches(batch, allowance=Allowance(len(batch) - HEADER_BYTES))
    assert found == rows
