"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended in this log (KIP-101, KIP-279, KIP-320).

A client compares it with what it has read, to see a truncation. The answer has the newest epoch not above the one asked
for and the offset behind its last record; for the leader's own epoch that is the log's end. An epoch newer than any
known: (-1, -1). One older than the log: the log's beginning.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.log.leader_epochs import NO_EPOCH
from ottla.broker.partition import Partition
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Look every epoch up."""
    topics = []
    for topic in request.message.topics:
        partitions = broker.topics.get(topic.topic, {})
        answers = [_look_up(broker, topic.topic, partitions.get(asked.partition), asked) for asked in topic.partitions]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    broker.answer(request, OffsetForLeaderEpochResponse(topics=topics), now_us)


def _look_up(
    broker: BrokerPort, topic: str, partition: Partition | None, asked: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition, leader_epoch=-1, end_offset=-1)
    if partition is None or not partition.is_leader:
        answer.error_code = broker.why_not_here(topic, asked.partition).error_code
    elif 0 <= asked.current_leader_epoch < partition.leader_epoch:
        answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
    elif asked.current_leader_epoch > partition.leader_epoch:
        answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
    elif partition.log is None:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        answer.leader_epoch, answer.end_offset = _end_of(partition, asked.leader_epoch)
    return answer


def _end_of(partition: Partition, epoch: int) -> tuple[int, int]:
    log = partition.log
    assert log is not None
    if epoch == partition.leader_epoch:
        # The leader's own epoch counts from its election, also without a record.
        return epoch, log.log_end_offset
    if epoch < 0 or epoch > partition.leader_epoch:
        return NO_EPOCH, -1
    found = log.epochs.end_of(epoch, partition.epoch_start_offset)
    return found if found[0] != NO_EPOCH else (epoch, log.log_start_offset)
