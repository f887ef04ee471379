"""WriteTxnMarkers, versions 1 and 2: writes a transaction's outcome into partitions led here, for its coordinator.

Each marker is appended as a control batch and answered when it is replicated; a marker in `__consumer_offsets` also
commits or drops the offsets of the transaction. From version 2 on it says which transaction version ended it, and with
2 the marker's epoch must be above that of the records (KIP-890). A late marker: INVALID_PRODUCER_EPOCH; one of an older
coordinator: TRANSACTION_COORDINATOR_FENCED. The request has no timeout field: a marker that is not replicated after 30
s is answered with REQUEST_TIMED_OUT, and the coordinator sends it again.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.log.end_markers import end_marker_batch
from ottla.broker.log.producer_state import EndMarker
from ottla.broker.partition import Partition
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from ottla.records.batch_header import read_header

_TIMEOUT_US = 30_000_000


class PendingMarkers:
    """Markers that are appended and not replicated yet; answered when all of them are.

    Once it has been answered, no partition keeps it.
    """

    def __init__(self, broker: BrokerPort, request: Request, response: WriteTxnMarkersResponse) -> None:
        self.bucket = -1
        self._broker = broker
        self._request = request
        self._response = response
        # By order: where it is waited for, up to which offset, for which marker, and what is answered.
        self._waiting: dict[int, tuple[Partition, int, WritableTxnMarker, WritableTxnMarkerPartitionResult]] = {}

    def await_marker(
        self, partition: Partition, marker: WritableTxnMarker, result: WritableTxnMarkerPartitionResult
    ) -> None:
        """Wait for this marker, too: it is the last batch of the partition's log."""
        assert partition.log is not None
        order = self._broker.next_number()
        end_offset = partition.log.log_end_offset
        self._waiting[order] = partition, end_offset, marker, result
        if end_offset > partition.high_watermark:
            partition.await_replication(end_offset, order, self)
        else:
            self._take(order, 0)

    def start(self, now_us: int) -> None:
        """Answer at once, or wait."""
        if self._waiting:
            self._broker.purgatory.add(self, now_us + _TIMEOUT_US)
        else:
            self._broker.answer(self._request, self._response, now_us)

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """One marker is replicated, or never will be."""
        if self._take(order, error_code) and not self._waiting:
            self._broker.purgatory.remove(self)
            self._broker.answer(self._request, self._response, now_us)

    def expire(self, now_us: int) -> None:
        """Too few replicas have it in time."""
        waiting, self._waiting = self._waiting, {}
        for order, (partition, end_offset, _, result) in waiting.items():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            partition.stop_waiting(end_offset, order)
        self._broker.answer(self._request, self._response, now_us)

    def _take(self, order: int, error_code: int) -> bool:
        found = self._waiting.pop(order, None)
        if found is None:
            return False
        partition, _, marker, result = found
        result.error_code = error_code
        if not error_code and partition.topic == OFFSETS_TOPIC:
            self._broker.groups.transaction_ended(partition, marker.producer_id, marker.transaction_result)
        return True


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Append the markers."""
    response = WriteTxnMarkersResponse()
    pending = PendingMarkers(broker, request, response)
    for marker in request.message.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            answers: list[WritableTxnMarkerPartitionResult] = []
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
            for index in topic.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=index)
                answers.append(answer)
                try:
                    partition = _append(broker, topic.name, index, marker, now_us)
                except Refused as refused:
                    answer.error_code = refused.error_code
                else:
                    pending.await_marker(partition, marker, answer)
    pending.start(now_us)


def _append(broker: BrokerPort, topic: str, index: int, marker: WritableTxnMarker, now_us: int) -> Partition:
    """Append one marker and return the partition that has it; raises Refused."""
    partition = broker.topics.get(topic, {}).get(index)
    if partition is None or not partition.is_leader:
        raise broker.why_not_here(topic, index)
    if not partition.open_log():
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR)
    assert partition.log is not None
    if len(partition.isr) < partition.min_isr:
        raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    producer_id, epoch, version = marker.producer_id, marker.producer_epoch, marker.transaction_version
    error_code = partition.log.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, version)
    if error_code:
        raise Refused(error_code)
    end = EndMarker(marker.transaction_result, marker.coordinator_epoch)
    batch = end_marker_batch(producer_id, epoch, end, broker.wall_ms(now_us))
    try:
        partition.append(batch, read_header(batch), now_us)
    except OSError as error:
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return partition
