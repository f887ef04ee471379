"""Produce, versions 3 to 13: appends one record batch for each partition named and answers with its base offset.

Each batch is checked by its header: format 2, exactly one batch, CRC-32C, a known compression, one offset for each
record, not larger than `max.message.bytes`, no control batch. Records are decoded only where the topic's settings
demand it (`log/validation.py`). Then come sequence numbers (a batch that is stored already is answered with the offset
it has), and the append. Each partition succeeds or fails by itself.

The first batch of a transaction in a partition is held back until the transaction's coordinator has been asked whether
it is open (see transactions/verification); one that belongs to no transaction gets INVALID_TXN_STATE or what the
coordinator says.

acks=0 is not answered; where something failed the connection is closed, as Kafka does, so that the producer asks again
for the leaders. acks=1 is answered after the append, acks=all when the high watermark has passed the batch, or with
REQUEST_TIMED_OUT after the request's timeout. Errors for partitions led elsewhere name the leader (KIP-951).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.client_quotas import PRODUCED
from ottla.broker.log.validation import DECODED_BYTES_MAX, NAMED_MAX, is_plain, prepare
from ottla.broker.partition import Partition
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.topic_names import INTERNAL_TOPICS
from ottla.faults.plan import Action
from ottla.faults.request_fault import Does
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.batch_header import (
    CODECS,
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
)
from ottla.records.compression import Allowance

if TYPE_CHECKING:
    from ottla.broker.log.log import Log
    from ottla.broker.transactions.verification import Verified

_CODECS, _ZSTD = len(CODECS), CODECS.index("zstd")
_ZSTD_FROM_VERSION = 7
_CODEC_MASK = 0x07
_MAGIC_POSITION = 16
_MAGIC = 2
_NOTHING_VERIFIED: Mapping[tuple[str, int], Verified] = {}


class PendingProduce:
    """acks=all: answered when all partitions that were appended to are replicated.

    Once it has been answered, or its client has gone, no partition keeps it, nor the frame that its records came in.
    """

    __slots__ = ("_broker", "_outstanding", "_request", "_response", "bucket")

    def __init__(self, broker: BrokerPort, request: Request, response: ProduceResponse) -> None:
        self.bucket = 0
        self._broker = broker
        self._request = request
        self._response = response
        # By order: where it is waited for, up to which offset, and what is answered.
        self._outstanding: dict[int, tuple[Partition, int, PartitionProduceResponse]] = {}

    def await_partition(self, partition: Partition, end_offset: int, answer: PartitionProduceResponse) -> None:
        """Wait for this partition, too."""
        order = self._broker.next_number()
        self._outstanding[order] = partition, end_offset, answer
        partition.await_replication(end_offset, order, self)

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """One partition is replicated, or never will be."""
        awaited = self._outstanding.pop(order, None)
        if awaited is None:
            return
        if error_code:
            _fail_after_append(awaited[2], error_code, None)
        if not self._outstanding:
            self._broker.purgatory.remove(self)
            _answer(self._broker, self._request, self._response, now_us)

    def expire(self, now_us: int) -> None:
        """Too few replicas have it in time: the records are in the log, and may stay there."""
        for _, _, answer in self._outstanding.values():
            _fail_after_append(answer, ErrorCode.REQUEST_TIMED_OUT, "appended, but not replicated in time")
        self._stop_waiting()
        _answer(self._broker, self._request, self._response, now_us)

    def cancel(self) -> None:
        """Its client has gone: there will be no answer."""
        self._broker.purgatory.remove(self)
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        outstanding, self._outstanding = self._outstanding, {}
        for order, (partition, end_offset, _) in outstanding.items():
            partition.stop_waiting(end_offset, order)


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Append what a producer sent; the first batches of a transaction when its coordinator has been asked."""
    if request.message.transactional_id is None:
        _append_all(broker, request, _NOTHING_VERIFIED, now_us)
        return

    def append(verified: Mapping[tuple[str, int], Verified], later_us: int) -> None:
        _append_all(broker, request, verified, later_us)

    broker.verification.verify_produce(request, append, now_us)


def _append_all(
    broker: BrokerPort, request: Request, verified: Mapping[tuple[str, int], Verified], now_us: int
) -> None:
    message = request.message
    acks = message.acks
    wall_ms = broker.wall_ms(now_us)
    allowance = Allowance(DECODED_BYTES_MAX)
    names_left = NAMED_MAX
    failed = False
    stored: list[tuple[str, int]] = []
    waiting: list[tuple[Partition, int, PartitionProduceResponse]] = []
    responses: list[TopicProduceResponse] = []
    for topic in message.topic_data:
        partitions = broker.topics.get(topic.name)
        answers: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                partition = _leading(broker, request, topic.name, partitions, data.index)
                check = verified.get((topic.name, data.index))
                end_offset = _append(partition, request, data, answer, check, now_us, wall_ms, allowance)
            except Refused as refused:
                failed = True
                _count_failed(broker, topic.name)
                _fail(answer, refused.error_code, str(refused))
                named = refused.records[: max(1, names_left)]
                names_left -= len(named)
                answer.record_errors = [
                    BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=told)
                    for number, told in named
                ]
                continue
            stored.append((topic.name, data.index))
            if acks == -1 and end_offset > partition.high_watermark:
                waiting.append((partition, end_offset, answer))
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if request.context is not None:
        broker.records_stored(request, tuple(stored), now_us)
    response = ProduceResponse(responses=responses)
    if failed and acks == 0:
        broker.hang_up(request, "a Produce request with acks=0 failed")
    elif waiting:
        pending = PendingProduce(broker, request, response)
        for partition, end_offset, answer in waiting:
            pending.await_partition(partition, end_offset, answer)
        broker.purgatory.add(pending, now_us + max(0, message.timeout_ms) * 1000)
        if request.after is None:
            # With a fault for its answer a request is not cancelled: the fault happens even if the client has gone.
            broker.park(request, pending)
    else:
        _answer(broker, request, response, now_us)


def _count_failed(broker: BrokerPort, topic: str) -> None:
    traffic = broker.traffic(topic)
    traffic.produces += 1
    traffic.failed_produces += 1


def _leading(
    broker: BrokerPort, request: Request, topic: str, partitions: dict[int, Partition] | None, index: int
) -> Partition:
    """The partition, if this broker leads it and no fault of the plan refuses it; raises Refused."""
    refusal = request.refusal
    if refusal is not None and _concerns(refusal, topic, index):
        raise Refused(refusal.error, "refused by the fault plan")
    partition = partitions.get(index) if partitions is not None else None
    if topic in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by coordinators alone")
    if partition is None or not partition.is_leader:
        raise broker.why_not_here(topic, index)
    return partition


def _append(
    partition: Partition,
    request: Request,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    verified: Verified | None,
    now_us: int,
    wall_ms: int,
    allowance: Allowance,
) -> int:
    """Append one partition's batch, fill in its answer, and return the offset to be replicated up to."""
    acks = request.message.acks
    if acks != -1 and acks != 1 and acks != 0:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; -1, 0 and 1 are allowed")
    records = _contiguous(data.records)
    header = _checked_header(records, request.version)
    if header.attributes & TRANSACTIONAL and request.message.transactional_id is None:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction without a transactional id")
    if verified is not None and verified.error_code:
        raise Refused(verified.error_code, "the transaction's coordinator says so")
    if len(records) > partition.settings.max_message_bytes:
        limit = partition.settings.max_message_bytes
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(records)} bytes; max.message.bytes is {limit}")
    if not is_plain(header, partition.settings, wall_ms):
        records, header = prepare(records, header, partition.settings, wall_ms, allowance)
        if header.log_append_time:
            answer.log_append_time_ms = header.max_timestamp
    if acks == -1 and len(partition.isr) < partition.min_isr:
        enough = partition.min_isr
        raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} replicas in sync, {enough} wanted")
    try:
        log = partition.log
        if log is None:
            if not partition.open_log():
                raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be opened")
            log = partition.log
            assert log is not None
        if header.producer_id >= 0:
            if request.client is not None:
                request.client.producer_id = header.producer_id
            error_code, base_offset, detail, stored_ms = log.producers.check(header)
            if error_code:
                raise Refused(error_code, detail or "")
            if base_offset >= 0:
                answer.log_append_time_ms = stored_ms  # whatever the topic's timestamp type, as in Apache Kafka
        else:
            base_offset = -1
        if base_offset < 0:
            if header.attributes & TRANSACTIONAL:
                _check_transaction(log, header, verified)
            base_offset = partition.append(records, header, now_us)
            traffic = partition.traffic
            traffic.produces += 1
            traffic.bytes_in += len(records)
            traffic.messages_in += header.record_count
    except OSError as error:
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror or str(error)) from error
    answer.base_offset = base_offset
    answer.log_start_offset = log.log_start_offset
    return base_offset + header.last_offset_delta + 1


def _check_transaction(log: Log, header: BatchHeader, verified: Verified | None) -> None:
    """Refuse a batch that would open a transaction its coordinator does not know of (KIP-890)."""
    producers = log.producers
    if producers.has_open_transaction(header.producer_id, header.producer_epoch):
        return
    if verified is None or not (verified.taken_on_trust or producers.is_verified(header.producer_id, verified.guard)):
        raise Refused(ErrorCode.INVALID_TXN_STATE, "the record was not part of an ongoing transaction")


def _contiguous(records: Any) -> bytearray | memoryview:
    """The records in memory that may be written to; frames off a socket are passed through."""
    if type(records) is memoryview and not records.readonly:
        return records
    if records is None:
        return bytearray()
    if isinstance(records, list | tuple):
        return bytearray(b"".join(records))
    return bytearray(records)


def _checked_header(records: bytearray | memoryview, version: int) -> BatchHeader:
    size = len(records)
    if size < HEADER_BYTES:
        raise Refused(ErrorCode.INVALID_RECORD, "no record batch")
    if records[_MAGIC_POSITION] != _MAGIC:
        raise Refused(ErrorCode.INVALID_RECORD, f"message format {records[_MAGIC_POSITION]}; only 2 is supported")
    try:
        header = read_header(records)
        if header.size_bytes != size:
            if header.size_bytes < size:
                raise Refused(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")
            raise Refused(ErrorCode.CORRUPT_MESSAGE, f"a batch of {header.size_bytes} bytes cut to {size}")
        check_crc(records, header)
    except CorruptBatch as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    attributes = header.attributes
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        count, last = header.record_count, header.last_offset_delta
        raise Refused(ErrorCode.INVALID_RECORD, f"{count} records with a last offset delta of {last}")
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"offsets from {header.base_offset} on; producers count from 0")
    if attributes & CONTROL:
        raise Refused(ErrorCode.INVALID_RECORD, "producers write no control batches")
    codec = attributes & _CODEC_MASK
    if codec >= _CODECS or (codec == _ZSTD and version < _ZSTD_FROM_VERSION):
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {codec} in Produce version {version}")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise Refused(ErrorCode.INVALID_RECORD, "a producer id without an epoch or a sequence number")
    return header


def _answer(broker: BrokerPort, request: Request, response: ProduceResponse, now_us: int) -> None:
    after = request.after
    if after is not None and after.does is Does.REFUSE:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if _concerns(after, topic.name, answer.index):
                    _fail_after_append(answer, after.error, "refused by the fault plan after the append")
    if request.version >= 10:
        _name_leaders(broker, request, response)
    if broker.quotas is not None:
        response.throttle_time_ms = broker.throttle(PRODUCED, request, request.size, now_us)
    broker.answer(request, response, now_us)


def _name_leaders(broker: BrokerPort, request: Request, response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader, epoch, address = broker.leader_of(topic.name, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                if address is not None and all(known.node_id != leader for known in response.node_endpoints):
                    host, port = address.on(request.listener)
                    response.node_endpoints.append(NodeEndpoint(node_id=leader, host=host, port=port))


def _concerns(action: Action, topic: str, index: int) -> bool:
    return not action.partitions or (topic, index) in action.partitions


def _fail(answer: PartitionProduceResponse, error_code: int, detail: str | None) -> None:
    answer.error_code = error_code
    answer.base_offset = -1
    answer.error_message = detail


def _fail_after_append(answer: PartitionProduceResponse, error_code: int, detail: str | None) -> None:
    """The base offset stays, as with Kafka: it is how a client learns that the records are in the log all the same."""
    if answer.error_code:
        return  # refused before the append
    answer.error_code = error_code
    answer.error_message = detail
