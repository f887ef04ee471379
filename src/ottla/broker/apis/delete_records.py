"""DeleteRecords, versions 0 to 2: forget the records of a partition below an offset (KIP-107).

The leader moves the beginning of its log at once; followers get it with their next Fetch. The answer waits until every
replica on a live broker has done the same, or says REQUEST_TIMED_OUT. It has the low watermark: no live replica has a
record below it. Offset -1 stands for the high watermark. Above that, and below 0: OFFSET_OUT_OF_RANGE; a topic that is
only compacted: POLICY_VIOLATION; an internal topic: INVALID_TOPIC_EXCEPTION. The next check for retention removes the
segments that are in front of the new beginning as a whole.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.partition import Partition
from ottla.broker.request import Request
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_TO_HIGH_WATERMARK = -1
_INTERNAL_TOPICS = (OFFSETS_TOPIC, "__transaction_state")


class PendingDeletion:
    """A DeleteRecords that waits for followers."""

    __slots__ = ("_broker", "_request", "_response", "_waiting", "bucket")

    def __init__(self, broker: BrokerPort, request: Request, response: DeleteRecordsResponse) -> None:
        self.bucket = 0
        self._broker = broker
        self._request = request
        self._response = response
        self._waiting: dict[Partition, list[tuple[int, DeleteRecordsPartitionResult]]] = {}

    def add(self, partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        """Wait for this partition's replicas to begin at `offset`."""
        self._waiting.setdefault(partition, []).append((offset, result))
        partition.deletions_waiting[self] = None

    def log_start_moved(self, partition: Partition, now_us: int) -> None:
        """Look whether there is still something to wait for."""
        waiting = self._waiting.pop(partition, [])
        if partition.is_leader:
            low_watermark = partition.low_watermark
            left = []
            for offset, result in waiting:
                if low_watermark >= offset:
                    result.low_watermark = low_watermark
                else:
                    left.append((offset, result))
            if left:
                self._waiting[partition] = left
                return
        else:
            error_code = self._broker.why_not_here(partition.topic, partition.index).error_code
            for _, result in waiting:
                _fail(result, error_code)
        partition.deletions_waiting.pop(self, None)
        if not self._waiting:
            self._broker.purgatory.remove(self)
            self._broker.answer(self._request, self._response, now_us)

    def expire(self, now_us: int) -> None:
        """Not all replicas have followed in time; the leader's log begins at the new offset all the same."""
        for partition, waiting in self._waiting.items():
            partition.deletions_waiting.pop(self, None)
            for _, result in waiting:
                _fail(result, ErrorCode.REQUEST_TIMED_OUT)
        self._broker.answer(self._request, self._response, now_us)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Delete, and answer when all replicas have."""
    response = DeleteRecordsResponse()
    pending = PendingDeletion(broker, request, response)
    waits = False
    for topic in request.message.topics:
        partitions = broker.topics.get(topic.name, {})
        results = []
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            results.append(result)
            partition = partitions.get(asked.partition_index)
            if topic.name in _INTERNAL_TOPICS:
                result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif partition is None or not partition.is_leader:
                result.error_code = broker.why_not_here(topic.name, asked.partition_index).error_code
            else:
                offset = _delete(partition, asked.offset, result)
                if not result.error_code and result.low_watermark < offset:
                    pending.add(partition, offset, result)
                    waits = True
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if waits:
        broker.purgatory.add(pending, now_us + max(0, request.message.timeout_ms) * 1000)
    else:
        broker.answer(request, response, now_us)


def _delete(partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> int:
    """Move the beginning of the leader's log; the offset all replicas are to begin at."""
    log = partition.log
    if offset == _TO_HIGH_WATERMARK:
        offset = partition.high_watermark
    if log is None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif "delete" not in partition.settings.cleanup_policy:
        result.error_code = ErrorCode.POLICY_VIOLATION
    elif not 0 <= offset <= partition.high_watermark:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        if log.advance_log_start(offset):
            partition.log_start_moved()
        result.low_watermark = partition.low_watermark
    return offset


def _fail(result: DeleteRecordsPartitionResult, error_code: int) -> None:
    result.low_watermark = -1
    result.error_code = error_code
