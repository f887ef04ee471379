"""ListOffsets, versions 1 to 11: the first, the last, and the first offset at or after a time.

-1 asks for the end (the high watermark; with `isolation_level` 1 the last stable offset), -2 for the beginning,
-3 for the record with the largest timestamp (KIP-734), -4 for the beginning of what is stored locally, which is the
same here (KIP-405), -5 and -6 for what is or is not yet in remote storage, of which there is none: offset -1 (KIP-1005,
KIP-1023); other negative times, and these in versions that did not have them yet, get UNSUPPORTED_VERSION.

With replica id -2 (tools that compare replicas) a follower answers, too, and the end is that replica's log end offset,
which may be beyond the high watermark.

A time from 0 on gives the first record with that timestamp or a later one; its batch is decompressed for that, so a
partition that is named more than once gets INVALID_REQUEST, as in Apache Kafka. A new leader whose high watermark has
not reached the start of its epoch answers OFFSET_NOT_AVAILABLE for the end, which clients retry (KIP-207).
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.apis.port import BrokerPort
from ottla.broker.log.log import Log
from ottla.broker.partition import Partition
from ottla.broker.request import Request
from ottla.errors import OttlaError
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.records.batch_header import HEADER_BYTES, check_crc, read_header
from ottla.records.compression import Allowance, decompress
from ottla.records.record_walk import first_since

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FROM_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_LEADER_EPOCH_FROM_VERSION = 4
_OFFSET_NOT_AVAILABLE_FROM_VERSION = 5
_READ_COMMITTED = 1
_CLIENT = -1
_DEBUGGING = -2


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer a ListOffsets request."""
    topics = []
    named = Counter(
        (topic.name, asked.partition_index) for topic in request.message.topics for asked in topic.partitions
    )
    for topic in request.message.topics:
        partitions = broker.topics.get(topic.name, {})
        answers = []
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            partition = partitions.get(asked.partition_index)
            if named[topic.name, asked.partition_index] > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            elif partition is None or not (partition.is_leader or request.message.replica_id == _DEBUGGING):
                answer.error_code = broker.why_not_here(topic.name, asked.partition_index).error_code
            else:
                _look_up(partition, asked, request, answer)
            if request.version < _LEADER_EPOCH_FROM_VERSION:
                answer.leader_epoch = -1  # these versions cannot carry it
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    broker.answer(request, ListOffsetsResponse(topics=topics), now_us)


def _look_up(
    partition: Partition, asked: ListOffsetsPartition, request: Request, answer: ListOffsetsPartitionResponse
) -> None:
    epoch, log = asked.current_leader_epoch, partition.log
    if epoch >= 0 and epoch != partition.leader_epoch:
        older = epoch < partition.leader_epoch
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return
    if log is None:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    is_client = request.message.replica_id == _CLIENT
    if not is_client:
        end_offset = log.log_end_offset
    elif request.message.isolation_level == _READ_COMMITTED:
        end_offset = partition.last_stable_offset
    else:
        end_offset = partition.high_watermark
    if asked.timestamp < 0 and request.version < _FROM_VERSION.get(asked.timestamp, request.version + 1):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
    elif asked.timestamp == LATEST:
        if is_client and partition.high_watermark < partition.epoch_start_offset:
            told = request.version >= _OFFSET_NOT_AVAILABLE_FROM_VERSION
            answer.error_code = ErrorCode.OFFSET_NOT_AVAILABLE if told else ErrorCode.LEADER_NOT_AVAILABLE
        else:
            answer.offset = end_offset
            answer.leader_epoch = partition.leader_epoch if partition.is_leader else log.epochs.latest
    elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
        # A leader's epoch begins with its election, not with its first record.
        begun = partition.is_leader and log.log_start_offset >= partition.epoch_start_offset
        answer.leader_epoch = partition.leader_epoch if begun else log.epochs.at(log.log_start_offset)
    elif asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
        _search(log, asked.timestamp, end_offset, answer)


def _search(log: Log, timestamp: int, end_offset: int, answer: ListOffsetsPartitionResponse) -> None:
    """The first record below `end_offset` with the timestamp or a later one (MAX_TIMESTAMP: the largest there is)."""
    try:
        wanted = log.max_timestamp if timestamp == MAX_TIMESTAMP else timestamp
        # A batch may begin in front of the log's start, or its header have a timestamp that none of its records has.
        found = (_first_since(batch, wanted, log.log_start_offset) for batch in log.batches_since(wanted))
        first = next(filter(None, found), None)
    except OSError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    except OttlaError:
        answer.error_code = ErrorCode.CORRUPT_MESSAGE
        return
    if first is not None and first[0] < end_offset:
        answer.offset, answer.timestamp = first
        answer.leader_epoch = log.epochs.at(answer.offset)


def _first_since(batch: bytes, timestamp: int, offset: int) -> tuple[int, int] | None:
    header = read_header(batch)
    check_crc(batch, header)
    section = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], Allowance())
    return first_since(header, section, timestamp, offset)
