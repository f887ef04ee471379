"""The errors of a partition that cannot be read."""

from __future__ import annotations

from ottla.errors import KafkaError, LogTruncated
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.fetch import PartitionData
from ottla.reader.position import Position
from ottla.records.batch_header import CorruptBatch


def topic_error(topic: str, error_code: int, partition: int | None = None) -> KafkaError:
    """The error for a topic's error code in metadata."""
    detail = ""
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        detail = "the topic does not exist; check its name, or create it first"
    return kafka_error(error_code, detail, topic=topic, partition=partition)


def made_anew(position: Position) -> KafkaError:
    """The error for a topic that was deleted and made anew under the same name."""
    return kafka_error(
        ErrorCode.INCONSISTENT_TOPIC_ID,
        f"topic {position.topic} was deleted and made anew; its old records are gone: start again in the new one",
        topic=position.topic,
        partition=position.partition,
    )


def out_of_range(position: Position, told: PartitionData, broker_id: int | None) -> KafkaError:
    """The error for an offset that the partition does not hold."""
    held = ""
    if told.log_start_offset >= 0 and told.high_watermark >= 0:
        held = f"; the partition holds {told.log_start_offset} to {told.high_watermark}"
    return kafka_error(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {position.fetch_offset} cannot be read{held}; start from an offset that is there",
        topic=position.topic,
        partition=position.partition,
        broker_id=broker_id,
    )


def no_whole_batch(position: Position, size: int, broker_id: int | None) -> CorruptBatch:
    """The error for an answer that has bytes, and no whole batch from the offset asked for on."""
    return CorruptBatch(
        f"{position.topic}-{position.partition}: the broker's answer for offset {position.fetch_offset} has {size} "
        "bytes, but no complete batch at or after that offset: the log is damaged there; to read on, seek to a later "
        "offset",
        topic=position.topic,
        partition=position.partition,
        broker_id=broker_id,
    )


def truncated(position: Position, log_end: int, broker_id: int | None) -> LogTruncated:
    """The error for a leader whose log lacks records; `log_end`: where the epoch read ends in it, -1: not known."""
    offset, epoch = position.claim()
    first = min(log_end, offset) if log_end >= 0 else None
    if position.checks_end:
        what = "were to be read"
    else:
        what = "were read" if position.has_read else "come before those to be read"
    if first is None or first >= offset:
        lost = f"records before offset {offset} of leader epoch {epoch}, which {what}"
    else:
        lost = f"offsets {first} to {offset - 1} of leader epoch {epoch}, which {what}"
    error = kafka_error(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"the log was truncated: {lost}, are not in the log of the leader of epoch {position.asked_epoch}; other "
        "records may have these offsets now: start again at an offset of your choice",
        topic=position.topic,
        partition=position.partition,
        broker_id=broker_id,
    )
    return LogTruncated(error, offset=offset, leader_epoch=epoch, truncated_from=first)
