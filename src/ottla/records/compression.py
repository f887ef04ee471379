"""The record batch codecs: none, gzip, snappy, lz4, zstd (KIP-110, KIP-390 for the levels).

Each codec's library is imported when it is first used.

`decompress` is for readers, brokers and `ottla inspect`. Compressed bytes may claim any size, so its work has two
bounds: it grows with the compressed bytes, and what it returns and allocates stays within an `Allowance`, which all
batches of a request can share. A gzip member or a snappy block after the first counts as `PART_BYTES` more than it
holds, because an empty one costs work, too. Apache Kafka's brokers decompress a batch as a stream and need no such
bound; here a batch is decompressed as a whole, by the thread that serves all clients.

lz4 frames are written with independent blocks, the only ones that Kafka's Java reader takes. snappy is written raw, as
by librdkafka, and read raw or in the xerial framing of Kafka's Java clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.errors import ConfigError
from ottla.records.batch_header import CODECS, Buffer, CorruptBatch

CODEC_IDS = {name: number for number, name in enumerate(CODECS)}

# The most bytes that one batch may decompress to when it is read. A batch of 1 MiB (Kafka's max.message.bytes) that was
# compressed to a 250th is within it.
DECOMPRESSED_BYTES_MAX = 1 << 28
# What a further gzip member or snappy block costs beyond its bytes: as many as snappy-java's smallest block holds.
PART_BYTES = 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_FIRST_GUESS_BYTES_MIN = 4096
# zlib copies the input after the end of a member. So it is given little at first, and more if the member goes on.
_FIRST_WINDOW_BYTES = 256


class BatchTooLarge(CorruptBatch):
    """A batch decompresses to more bytes than are allowed."""


class Allowance:
    """How many bytes compressed batches may still decompress to."""

    __slots__ = ("bytes_max", "left_bytes")

    def __init__(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> None:
        self.bytes_max = self.left_bytes = bytes_max

    def spend(self, size: int, codec: str) -> None:
        """Take so many bytes; if fewer are left, raise BatchTooLarge, and 0 are left."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            self.left_bytes = 0
            raise BatchTooLarge(f"Batches compressed with {codec} hold more than the {self.bytes_max} bytes allowed.")


@dataclass(frozen=True, slots=True)
class Levels:
    """A codec's levels, as Kafka's setting `compression.<codec>.level` has them: `lowest` to `highest`, or `special`.

    `default_means` is the level that `default` stands for, where that is another number.
    """

    lowest: int
    highest: int
    default: int
    special: int | None = None
    default_means: int | None = None


@dataclass(frozen=True, slots=True)
class Codec:
    """How batches are compressed (data, level) and decompressed (data, allowance) with one codec.

    `levels` is None for a codec without levels; `compress` is then given 0. `arrow_streams`: Arrow decompresses it as a
    stream, piece by piece.
    """

    compress: Callable[[Buffer, int], Buffer]
    decompress: Callable[[Buffer, Allowance], Buffer]
    levels: Levels | None = None
    arrow_streams: bool = False

    @property
    def default_level(self) -> int:
        """The level that `compress` is given where none was set."""
        if self.levels is None:
            return 0
        means = self.levels.default_means
        return self.levels.default if means is None else means


def codec_of(name: str) -> Codec:
    """The codec of this name; ConfigError where there is none."""
    codec = _BY_NAME.get(name)
    if codec is None:
        raise ConfigError(f"Compression {name!r} is unknown; it can be {', '.join(CODECS)}.")
    return codec


def check_level(codec: str, level: int | None) -> None:
    """Raise ConfigError when the codec is unknown or does not have this level."""
    levels = codec_of(codec).levels
    if level is None:
        return
    if levels is None:
        raise ConfigError(f"Compression {codec} has no levels; leave the level out.")
    if not levels.lowest <= level <= levels.highest:
        raise ConfigError(f"Compression {codec} has levels {levels.lowest} to {levels.highest}, not {level}.")


def compress(codec: str, level: int | None, data: Buffer) -> Buffer:
    """`data` compressed; as it is with "none". `level` None means the codec's default."""
    known = codec_of(codec)
    return known.compress(data, known.default_level if level is None else level)


def decompress(codec: str, data: Buffer, allowance: Allowance) -> Buffer:
    """`data` decompressed; CorruptBatch when it is not whole or not `codec`, BatchTooLarge beyond the allowance."""
    return codec_of(codec).decompress(data, allowance)


def _not_valid(codec: str, cause: object) -> CorruptBatch:
    return CorruptBatch(f"A batch said to be compressed with {codec} is not: {cause}.")


def _as_it_is(data: Buffer, level: int) -> Buffer:
    return data


def _spent(data: Buffer, allowance: Allowance) -> Buffer:
    allowance.spend(len(data), "none")
    return data


def _compress_lz4(data: Buffer, level: int) -> Buffer:
    import lz4.frame  # type: ignore[import-untyped]

    framed: bytes = lz4.frame.compress(data, level, block_linked=False)
    return framed


def _decompress_lz4(data: Buffer, allowance: Allowance) -> Buffer:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    step = max(4 * len(data), _FIRST_GUESS_BYTES_MIN)
    if len(data) > 14 and data[4] & 0x08:  # the frame says its size; lz4 makes at most 255 bytes of one
        step = min(int.from_bytes(data[6:14], "little"), 255 * len(data))
    pieces: list[bytes] = []
    size = 0
    source = data
    while not decompressor.eof:
        try:
            # One byte more than is allowed: if it comes, the batch is too large.
            piece = decompressor.decompress(source, max_length=min(step, allowance.left_bytes) + 1)
        except RuntimeError as error:
            raise _not_valid("lz4", error) from error
        source = b""
        size += len(piece)
        allowance.spend(len(piece), "lz4")
        pieces.append(piece)
        if not decompressor.eof and not piece:
            raise _not_valid("lz4", "the frame is cut short")
        step = max(2 * size, _FIRST_GUESS_BYTES_MIN)
    if decompressor.unused_data:
        raise _not_valid("lz4", "bytes follow the frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _compress_snappy(data: Buffer, level: int) -> Buffer:
    import cramjam

    return memoryview(cramjam.snappy.compress_raw(data))


def _decompress_snappy(data: Buffer, allowance: Allowance) -> Buffer:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_raw(data, allowance)
    return b"".join(snappy_blocks(data, allowance))


def snappy_blocks(data: Buffer, allowance: Allowance) -> Iterator[Buffer]:
    """Yield what `decompress` returns for snappy, block by block; raw snappy is one block."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _decompress_snappy_raw(data, allowance)
        return
    begin = position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position > begin:
            allowance.spend(PART_BYTES, "snappy")
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if length < 0 or length > len(data) - position:
            raise _not_valid("snappy", "a block is cut short")
        yield _decompress_snappy_raw(data[position : position + length], allowance)
        position += length


def _decompress_snappy_raw(data: Buffer, allowance: Allowance) -> Buffer:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(data)
        allowance.spend(size, "snappy")
        # Snappy makes at most 64 bytes out of 3: a claim beyond that is not worth an allocation.
        if size > 22 * len(data):
            raise _not_valid("snappy", f"{len(data)} bytes cannot hold the {size} they claim")
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(data, output)
    except cramjam.DecompressionError as error:
        raise _not_valid("snappy", error) from error
    if written != size:
        raise _not_valid("snappy", f"{written} bytes came out, {size} were claimed")
    return output


def _compress_zstd(data: Buffer, level: int) -> Buffer:
    import cramjam

    return memoryview(cramjam.zstd.compress(data, level))


def _decompress_zstd(data: Buffer, allowance: Allowance) -> Buffer:
    import cramjam

    guess = min(max(4 * len(data), _FIRST_GUESS_BYTES_MIN), allowance.left_bytes)
    while True:
        output = bytearray(guess)
        try:
            written = cramjam.zstd.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            # "failed to write whole buffer" means that `output` is too small; other errors have other texts.
            if "whole buffer" not in str(error):
                raise _not_valid("zstd", error) from error
            if guess >= allowance.left_bytes:
                allowance.spend(guess + 1, "zstd")
            guess = min(4 * guess, allowance.left_bytes)
            continue
        allowance.spend(written, "zstd")
        return memoryview(output)[:written]


def _compress_gzip(data: Buffer, level: int) -> Buffer:
    import cramjam

    return memoryview(cramjam.gzip.compress(data, level))


def _decompress_gzip(data: Buffer, allowance: Allowance) -> Buffer:
    import zlib

    pieces: list[bytes] = []
    rest = memoryview(data)
    while True:
        decompressor = zlib.decompressobj(wbits=31)
        window = _FIRST_WINDOW_BYTES
        while not decompressor.eof:
            if not rest:
                raise _not_valid("gzip", "the stream is cut short")
            given = rest[:window]
            try:
                piece = decompressor.decompress(given, allowance.left_bytes + 1)
            except zlib.error as error:
                raise _not_valid("gzip", error) from error
            allowance.spend(len(piece), "gzip")
            pieces.append(piece)
            rest = rest[len(given) - len(decompressor.unused_data) :]
            window *= 2
        if not rest:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        allowance.spend(PART_BYTES, "gzip")


# A new codec: a line here, and its name in `batch_header.CODECS`, whose order is that of the numbers in a batch's
# attributes. gzip's -1 leaves the level to the library. lz4's 9 stands for its fast compressor, as in Java (KIP-390):
# lz4's own level 9 has a twentieth of the speed.
_BY_NAME = {
    "none": Codec(_as_it_is, _spent),
    "gzip": Codec(_compress_gzip, _decompress_gzip, Levels(1, 9, default=-1, special=-1, default_means=6), True),
    "snappy": Codec(_compress_snappy, _decompress_snappy),
    "lz4": Codec(_compress_lz4, _decompress_lz4, Levels(1, 17, default=9, default_means=1), True),
    "zstd": Codec(_compress_zstd, _decompress_zstd, Levels(-131_072, 22, default=3), True),
}
