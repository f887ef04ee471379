"""What a topic's settings demand of a batch before it is appended: keys, timestamps, compression.

For most topics the header is enough (`is_plain`). Otherwise:

- `cleanup.policy=compact`: every record needs a key. The answer names the records without one, and those whose time is
  refused (KIP-467). The batch is refused as a whole.
- `message.timestamp.before.max.ms`, `after.max.ms`: a record's time may not be further from the broker's than that.
  The largest timestamp is taken from the header; records are read only where old ones are refused.
- `message.timestamp.type=LogAppendTime`: the broker's clock is stamped into the header.
- If the largest timestamp is below -1 it becomes -1 in the header, as in Apache Kafka.
- `compression.type` other than `producer`: the records are compressed anew.

Invariants: a batch that comes out has a right CRC; one that needed no change comes out as it went in. The batches of a
request whose records must be read may hold `DECODED_BYTES_MAX` together, with `RECORD_BYTES_MIN` for each record; the
one that goes beyond is refused as too large. Of the records that are refused, `NAMED_MAX` are named.
"""

from __future__ import annotations

from ottla.broker.refused import Refused
from ottla.broker.settings import NEVER
from ottla.broker.topic_settings import TopicSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import (
    CODECS,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    pack_like,
    read_header,
    stamp_crc,
)
from ottla.records.compression import Allowance, BatchTooLarge, compress, decompress
from ottla.records.record_walk import refused_rows

NO_TIMESTAMP = -1
# As much as the largest request can bring without compression (socket.request.max.bytes): compressed records cost a
# broker no more work than others. MESSAGE_TOO_LARGE makes producers divide a batch and send its parts one by one.
DECODED_BYTES_MAX = 104_857_600
# Where a log is compacted the keys of its records are kept in memory, and each takes some, however short it is.
RECORD_BYTES_MIN = 64
SMALLEST_RECORD_BYTES = 7
# So many refused records the answer to a request names, and the first of each batch in any case.
NAMED_MAX = 10_000
_INT64_MAX = (1 << 63) - 1
_CODEC_MASK = 0x07
_KEYLESS = "a record without a key, in a topic with cleanup.policy=compact"


def is_plain(header: BatchHeader, settings: TopicSettings, wall_ms: int) -> bool:
    """Whether the batch can be appended as it is."""
    return (
        settings.message_timestamp_type == "CreateTime"
        and NO_TIMESTAMP <= header.max_timestamp <= wall_ms + settings.message_timestamp_after_max_ms
        and settings.message_timestamp_before_max_ms == NEVER
        and settings.compression_type == "producer"
        and "compact" not in settings.cleanup_policy
    )


def prepare(
    records: bytearray | memoryview, header: BatchHeader, settings: TopicSettings, wall_ms: int, allowance: Allowance
) -> tuple[bytearray | memoryview, BatchHeader]:
    """The batch as it is to be appended, with its header; Refused where it may not be.

    `allowance` is what the batches of its request may still hold.
    """
    stamped = settings.message_timestamp_type == "LogAppendTime"
    try:
        if "compact" in settings.cleanup_policy or settings.message_timestamp_before_max_ms != NEVER:
            _check_records(records, settings, wall_ms, allowance, with_times=not stamped)
        if not stamped and (why := _wrong_time(header.max_timestamp, settings, wall_ms)):
            _check_records(records, settings, wall_ms, allowance, with_times=True)
            raise Refused(ErrorCode.INVALID_TIMESTAMP, why)
        wanted = _wanted_codec(header, settings)
        if wanted != header.codec:
            records = _recompressed(records, header, wanted, allowance)
    except BatchTooLarge as error:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CorruptBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from error
    header = read_header(records)
    if stamped:
        header = _stamp_time(records, header, wall_ms, header.attributes | LOG_APPEND_TIME)
    elif header.max_timestamp < NO_TIMESTAMP:
        header = _stamp_time(records, header, NO_TIMESTAMP, header.attributes)
    return records, header


def _check_records(
    records: bytearray | memoryview, settings: TopicSettings, wall_ms: int, allowance: Allowance, *, with_times: bool
) -> None:
    header = read_header(records)
    section = decompress(header.codec, records[HEADER_BYTES:], allowance)
    # Where more are claimed than there is room for, the batch is corrupt, which is found next.
    count = min(header.record_count, len(section) // SMALLEST_RECORD_BYTES)
    allowance.spend(max(0, RECORD_BYTES_MIN * count - len(section)), header.codec)
    oldest_ms, newest_ms = -_INT64_MAX - 1, _INT64_MAX
    if with_times:
        oldest_ms = max(oldest_ms, wall_ms - settings.message_timestamp_before_max_ms)
        newest_ms = min(newest_ms, wall_ms + settings.message_timestamp_after_max_ms)
    refused, late, rows = refused_rows(
        header,
        section,
        keyed="compact" in settings.cleanup_policy,
        oldest_ms=oldest_ms,
        newest_ms=newest_ms,
        named_max=NAMED_MAX,
    )
    if refused:
        named = [(number, _KEYLESS if time is None else _wrong_time(time, settings, wall_ms)) for number, time in rows]
        number, why = named[0]
        detail = f"{refused} of {header.record_count} records are refused; the first is number {number}: {why}"
        raise Refused(ErrorCode.INVALID_TIMESTAMP if late else ErrorCode.INVALID_RECORD, detail, named)


def _wrong_time(timestamp: int, settings: TopicSettings, wall_ms: int) -> str:
    """What is wrong with a record's time; "" if it may be stored."""
    before, after = settings.message_timestamp_before_max_ms, settings.message_timestamp_after_max_ms
    if timestamp == NO_TIMESTAMP or -after <= wall_ms - timestamp <= before:
        return ""
    if timestamp < wall_ms:
        return f"timestamp {timestamp} is more than {before} ms before {wall_ms} (message.timestamp.before.max.ms)"
    return f"timestamp {timestamp} is more than {after} ms after {wall_ms} (message.timestamp.after.max.ms)"


def _wanted_codec(header: BatchHeader, settings: TopicSettings) -> str:
    name = settings.compression_type
    if name == "producer":
        return header.codec
    return "none" if name == "uncompressed" else name


def _recompressed(records: bytearray | memoryview, header: BatchHeader, codec: str, allowance: Allowance) -> bytearray:
    section = decompress(header.codec, records[HEADER_BYTES:], allowance)
    compressed = compress(codec, None, section)
    attributes = (header.attributes & ~_CODEC_MASK) | CODECS.index(codec)
    batch = pack_like(header, len(compressed), attributes=attributes, max_timestamp=header.max_timestamp)
    batch += compressed
    stamp_crc(batch)
    return batch


def _stamp_time(
    records: bytearray | memoryview, header: BatchHeader, max_timestamp: int, attributes: int
) -> BatchHeader:
    head = pack_like(header, len(records) - HEADER_BYTES, attributes=attributes, max_timestamp=max_timestamp)
    records[:HEADER_BYTES] = head
    stamp_crc(records)
    return read_header(records)
