"""The record batch codecs: none, gzip, snappy, lz4, zstd (KIP-110, KIP-390 for the levels).

Every codec's library is imported when it is first used. Decompression is bounded: it never gives, and never
allocates much beyond, `limit_bytes`, whatever the compressed bytes claim.

lz4 frames are written with independent blocks, the only ones Kafka's Java reader takes. snappy is written raw, as
librdkafka does, and read raw or in the xerial framing of Kafka's Java clients.
"""

from __future__ import annotations

from ottla.errors import ConfigError
from ottla.records.batch_header import CODECS, Buffer, CorruptBatch

CODEC_IDS = {name: number for number, name in enumerate(CODECS)}
# Codec -> (lowest, highest, default), as Kafka's compression.<codec>.level settings have them. lz4's default is
# the fast compressor, not Java's 9 (which is its high-compression one, a twentieth of the speed).
LEVELS = {"gzip": (1, 9, 6), "lz4": (1, 17, 1), "zstd": (-131072, 22, 3)}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_FIRST_GUESS_BYTES_MIN = 4096


def check_level(codec: str, level: int | None) -> None:
    """Raise ConfigError when the codec is unknown or does not have this level."""
    if codec not in CODEC_IDS:
        raise ConfigError(f"Compression {codec!r} is unknown; it can be {', '.join(CODECS)}.")
    if level is None:
        return
    if codec not in LEVELS:
        raise ConfigError(f"Compression {codec} has no levels; leave the level out.")
    low, high, _ = LEVELS[codec]
    if not low <= level <= high:
        raise ConfigError(f"Compression {codec} has levels {low} to {high}, not {level}.")


def compress(codec: str, level: int | None, data: Buffer) -> Buffer:
    """`data` compressed; as it is with "none". `level` None means the codec's default in LEVELS."""
    if codec == "none":
        return data
    if codec == "lz4":
        import lz4.frame  # type: ignore[import-untyped]

        framed: bytes = lz4.frame.compress(data, LEVELS["lz4"][2] if level is None else level, block_linked=False)
        return framed
    import cramjam

    if codec == "snappy":
        return memoryview(cramjam.snappy.compress_raw(data))
    if codec == "zstd":
        return memoryview(cramjam.zstd.compress(data, LEVELS["zstd"][2] if level is None else level))
    if codec == "gzip":
        return memoryview(cramjam.gzip.compress(data, LEVELS["gzip"][2] if level is None else level))
    raise ConfigError(f"Compression {codec!r} is unknown; it can be {', '.join(CODECS)}.")


def decompress(codec: str, data: Buffer, limit_bytes: int) -> Buffer:
    """`data` decompressed; CorruptBatch when it is not whole, not `codec`, or would exceed `limit_bytes`."""
    if codec == "none":
        if len(data) > limit_bytes:
            raise _too_large(codec, limit_bytes)
        return data
    if codec == "lz4":
        return _decompress_lz4(data, limit_bytes)
    if codec == "snappy":
        return _decompress_snappy(data, limit_bytes)
    if codec == "zstd":
        return _decompress_zstd(data, limit_bytes)
    if codec == "gzip":
        return _decompress_gzip(data, limit_bytes)
    raise ConfigError(f"Compression {codec!r} is unknown; it can be {', '.join(CODECS)}.")


def _too_large(codec: str, limit_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"A batch compressed with {codec} holds more than the {limit_bytes} bytes allowed.")


def _not_valid(codec: str, cause: object) -> CorruptBatch:
    return CorruptBatch(f"A batch said to be compressed with {codec} is not: {cause}.")


def _decompress_lz4(data: Buffer, limit_bytes: int) -> Buffer:
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
            # One byte more than is allowed tells "too large" from "just so".
            piece = decompressor.decompress(source, max_length=min(step, limit_bytes - size) + 1)
        except RuntimeError as error:
            raise _not_valid("lz4", error) from error
        source = b""
        size += len(piece)
        if size > limit_bytes:
            raise _too_large("lz4", limit_bytes)
        pieces.append(piece)
        if not decompressor.eof and not piece:
            raise _not_valid("lz4", "the frame is cut short")
        step = max(2 * size, _FIRST_GUESS_BYTES_MIN)
    if decompressor.unused_data:
        raise _not_valid("lz4", "bytes follow the frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> Buffer:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_snappy_raw(data, limit_bytes)
    blocks: list[Buffer] = []
    size = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if length < 0 or length > len(data) - position:
            raise _not_valid("snappy", "a block is cut short")
        block = _decompress_snappy_raw(data[position : position + length], limit_bytes - size)
        blocks.append(block)
        size += len(block)
        position += length
    return b"".join(blocks)


def _decompress_snappy_raw(data: Buffer, limit_bytes: int) -> Buffer:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit_bytes:
            raise _too_large("snappy", limit_bytes)
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


def _decompress_zstd(data: Buffer, limit_bytes: int) -> Buffer:
    import cramjam

    guess = min(max(4 * len(data), _FIRST_GUESS_BYTES_MIN), limit_bytes)
    while True:
        output = bytearray(guess)
        try:
            written = cramjam.zstd.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            # The library has one word for "no room" ("failed to write whole buffer") and others for the rest.
            if "whole buffer" not in str(error):
                raise _not_valid("zstd", error) from error
            if guess >= limit_bytes:
                raise _too_large("zstd", limit_bytes) from error
            guess = min(4 * guess, limit_bytes)
            continue
        return memoryview(output)[:written]


def _decompress_gzip(data: Buffer, limit_bytes: int) -> Buffer:
    import zlib

    pieces: list[bytes] = []
    size = 0
    rest: Buffer = data
    while True:
        decompressor = zlib.decompressobj(wbits=31)
        try:
            piece = decompressor.decompress(rest, limit_bytes - size + 1)
        except zlib.error as error:
            raise _not_valid("gzip", error) from error
        size += len(piece)
        if size > limit_bytes:
            raise _too_large("gzip", limit_bytes)
        pieces.append(piece)
        if not decompressor.eof:
            raise _not_valid("gzip", "the stream is cut short")
        rest = decompressor.unused_data
        if not rest:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
