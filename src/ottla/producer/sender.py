"""Turns waiting batches into Produce requests, and answers into outcomes of the batches.

A request takes one batch per partition of one leader, up to `max.request.size`. At most
`max.in.flight.requests.per.connection` requests per node have no answer (with acks=0 there is no limit); open batches
use only as many as make them faster (`flight_limit.py`). An answer settles each of its batches (acked, failed, unknown)
or puts it back into its queue, by the table in batch.py. A batch is sent again after an error that Kafka calls
retriable, an answer that leaves its partition out, or some errors about its sequence (`_out_of_sequence`): `retries`
times at most, and not after `delivery.timeout.ms`.

A batch that is too large for the broker is split in two, again and again; a single record that is too large fails
alone. A record that the broker names as the reason why it refuses a batch fails alone, too: nothing of the batch was
stored, and its other records are sent again. With sequences, a batch that may be stored is not split.

`_leaves_it_open` decides which errors say "not appended" and which do not say. An error with a base offset was answered
after the append (by a leader that lost its leadership while it waited for replicas).

KIPs: 91 (delivery timeout), 98 (idempotence), 126 (splitting), 360 (epochs), 467 (refused records), 951 (leaders in
answers).
"""

from __future__ import annotations

from typing import Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.errors import KafkaError, OttlaError
from ottla.producer.accumulator import Accumulator
from ottla.producer.batch import Batch, BatchEvent, BatchState
from ottla.producer.events import BatchAcked, BatchFailed, BatchSplit, BatchUnknown
from ottla.producer.flight_limit import FlightLimit
from ottla.producer.idempotence import Idempotence, IdentityState
from ottla.producer.in_flight import InFlightRequest
from ottla.producer.metrics import ProducerMetrics
from ottla.producer.settings import ProducerSettings
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.split import split, split_out

# Looked up once: to look up a member of an enumeration is slow, and each batch makes these moves.
_SEND = BatchEvent.SEND
_ACK = BatchEvent.ACK

# DUPLICATE_SEQUENCE_NUMBER says that an earlier attempt was stored.
_STORED = frozenset((ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
# The log lacks what comes before the batch, or (before Kafka 2.5) the broker has no state of the producer. Newer
# brokers without state accept any first sequence.
_OUT_OF_SEQUENCE = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID))

# The batch may be too large, and none of its records.
_TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))

# Nothing of the batch is stored. If the answer names records, only these are refused.
_RECORDS_REFUSED = frozenset((ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP))

# Answers that do not say whether the batch was appended.
_OPEN_ERRORS = frozenset(
    (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
# Answers to Produce which show that metadata of the topic or its leaders is wrong.
STALE_METADATA = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)


class Sender:
    """Sends what the accumulator has ready; `settled` collects the outputs about batches."""

    def __init__(
        self,
        settings: ProducerSettings,
        connection: ConnectionCore,
        accumulator: Accumulator,
        idempotence: Idempotence,
        metrics: ProducerMetrics,
    ) -> None:
        self.settled: list[BatchAcked | BatchFailed | BatchUnknown | BatchSplit] = []
        self.unsettled = 0
        self._connection = connection
        self._accumulator = accumulator
        self._idempotence = idempotence
        self._metrics = metrics
        self._acks = settings.acks
        self._answered = settings.acks != 0
        self._retries = settings.retries
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._timeout_ms = settings.connection.request_timeout_ms
        self._request_bytes_max = settings.max_request_size
        self._compression = settings.compression_type
        self._compression_level = settings.compression_level
        self._in_flight_max = settings.in_flight_max
        self._limits: dict[int, FlightLimit] = {}
        self._backoff_ms = settings.connection.retry_backoff_ms
        self._backoff_max_ms = settings.connection.retry_backoff_max_ms

    def send_ready(self, now_us: int, may_connect: bool = True) -> None:
        """Send every request that may be sent now; connects to the nodes needed, unless `may_connect` is False."""
        accumulator = self._accumulator
        if not accumulator.is_ready or not self._idempotence.ready(now_us):
            if self._idempotence.state is IdentityState.REFUSED:
                self.give_up_waiting(self._idempotence.error, now_us)
            return
        connection = self._connection
        for node_id, node in list(accumulator.nodes.items()):
            while node.sendable or node.due:
                in_flight = connection.in_flight(node_id)
                if in_flight >= self._in_flight_max:
                    break
                may_close = self._may_close(node_id, in_flight)
                if not node.sendable and not may_close:
                    break
                if not (connection.can_send(node_id, now_us) if may_connect else connection.is_open(node_id, now_us)):
                    break
                batches = accumulator.take(node_id, self._request_bytes_max, now_us, in_flight, may_close)
                if not batches:
                    break
                self._send(node_id, batches, now_us, in_flight)
        # A new producer id is requested where a partition has used up the epochs of the old one.
        self._idempotence.ready(now_us)

    def _may_close(self, node_id: int, in_flight: int) -> bool:
        """Whether open batches may be closed for one more request to this node."""
        if not self._answered:
            return True
        limit = self._limits.get(node_id)
        if limit is None:
            limit = self._limits[node_id] = FlightLimit(self._in_flight_max)
        return limit.allows(in_flight)

    def _send(self, node_id: int, batches: list[Batch], now_us: int, in_flight: int) -> None:
        topics: dict[str, TopicProduceData] = {}
        metrics = self._metrics
        for batch in batches:
            queue, sealed = batch.queue, batch.sealed
            if not batch.numbered:
                self._idempotence.number(batch)
            metrics.topic(queue.topic).sent(sealed, now_us)
            data = PartitionProduceData(index=queue.partition, records=sealed.buffers())
            topic = topics.get(queue.topic)
            if topic is None:
                topics[queue.topic] = TopicProduceData(name=queue.topic, partition_data=[data])
            else:
                topic.partition_data.append(data)
            batch.move(_SEND)
            batch.attempts += 1
        metrics.client.produce_requests += 1
        message = ProduceRequest(
            transactional_id=self._idempotence.transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )
        limit = self._limits.get(node_id)
        if limit is not None:
            limit.sent(in_flight)
        request = InFlightRequest(node_id, batches, now_us, in_flight)
        self._connection.request(node_id, message, request, now_us, self._answered)

    # --- answers -------------------------------------------------------------------------------------------------

    def take_answer(self, answer: Answer, now_us: int) -> None:
        """Take in the answer to one Produce request."""
        request: InFlightRequest = answer.token
        if answer.message is not None:
            self._connection.meters[request.node_id].produced(now_us - request.sent_us)
            limit = self._limits.get(request.node_id)
            if limit is not None:
                limit.answered(request.others, request.sent_us, now_us)
            for batch, part in request.answers(answer.message):
                self._accumulator.back(batch)
                self._take_part(batch, part, request.node_id, now_us)
                self._accumulator.schedule(batch.queue, now_us)
            return
        for batch in request.batches:
            self._accumulator.back(batch)
            if answer.failure is None:
                # acks=0: it was transmitted, and there is no answer.
                self._ack(batch, -1, -1)
            else:
                event = BatchEvent.LOSE if answer.sent else BatchEvent.REFUSE
                code = ErrorCode.UNSUPPORTED_VERSION if answer.unsupported else ErrorCode.NETWORK_EXCEPTION
                self._not_acked(batch, event, code, answer.failure, request.node_id, now_us)
            self._accumulator.schedule(batch.queue, now_us)

    def _take_part(self, batch: Batch, part: Any, node_id: int, now_us: int) -> None:
        if part is None:
            detail = "the broker's answer leaves out the partition"
            self._not_acked(batch, BatchEvent.LOSE, ErrorCode.UNKNOWN_SERVER_ERROR, detail, node_id, now_us, again=True)
            return
        code = part.error_code
        if not code or code in _STORED:
            self._ack(batch, part.base_offset, part.log_append_time_ms)
            return
        if code in STALE_METADATA:
            leader = part.current_leader
            if leader is not None:
                self._connection.learn_leader(
                    batch.queue.topic, batch.queue.partition, leader.leader_id, leader.leader_epoch
                )
            self._connection.refresh_metadata(now_us)
        detail = part.error_message or ""
        if code in _OUT_OF_SEQUENCE and self._idempotence.enabled:
            self._out_of_sequence(batch, code, detail, node_id, now_us)
            return
        if code in _TOO_LARGE and self._may_split(batch):
            self._split(batch, _batch_error(batch, code, detail, node_id, now_us))
            return
        if code in _RECORDS_REFUSED and (refused := _refused_records(batch, part)):
            if self._may_split(batch):
                self._split_out(batch, refused, code, node_id, now_us)
                return
            detail = next(iter(refused.values())) or detail
        event = BatchEvent.LOSE if _leaves_it_open(code, part.base_offset) else BatchEvent.REFUSE
        self._not_acked(batch, event, code, detail, node_id, now_us)

    def _ack(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        batch.queue.established = True
        if batch.is_settled:
            return  # given up while it was in flight
        batch.move(_ACK)
        meter = self._metrics.topic(batch.queue.topic)
        meter.records_acked += batch.sealed.record_count
        self.unsettled -= 1
        self.settled.append(BatchAcked(batch.sealed, base_offset, log_append_time_ms))

    def _may_split(self, batch: Batch) -> bool:
        """Whether the batch may be split: with sequences, only if it is certainly not stored.

        A broker that has stored the whole batch does not recognise its parts as duplicates.
        """
        if batch.sealed.record_count < 2:
            return False
        return batch.state is BatchState.SENT or (batch.state is BatchState.RESENT and not self._idempotence.enabled)

    def _split(self, batch: Batch, error: KafkaError) -> None:
        batch.error = error
        parts = split(batch.sealed, self._compression, self._compression_level)
        for part in batch.divide(parts):
            batch.queue.put_back(part)
        meter = self._metrics.topic(batch.queue.topic)
        meter.splits += 1
        self.unsettled += len(parts) - 1
        self.settled.append(BatchSplit(batch.sealed, parts))

    def _split_out(self, batch: Batch, refused: dict[int, str], code: int, node_id: int, now_us: int) -> None:
        """Fail the records that the broker refuses, and send the others of their batch again.

        With idempotence, the others get new sequence numbers, as after any batch that was given up (idempotence.py).
        """
        count = batch.sealed.record_count
        errors = {
            row: _batch_error(batch, code, f"record {row} of {count} in its batch: {told}", node_id, now_us)
            for row, told in refused.items()
        }
        batch.error = next(iter(errors.values()))
        sealed = split_out(batch.sealed, refused, self._compression, self._compression_level)
        self.unsettled += len(sealed) - 1
        self.settled.append(BatchSplit(batch.sealed, sealed))
        row = 0
        for part in batch.divide(sealed):
            error = errors.get(row)
            row += part.sealed.record_count
            if error is None:
                batch.queue.put_back(part)
            else:
                self._give_up(part, error)

    def _out_of_sequence(self, batch: Batch, code: int, detail: str, node_id: int, now_us: int) -> None:
        """Handle an error that means: the log lacks what comes before this batch, or has no state of the producer."""
        queue = batch.queue
        if batch.state is BatchState.SENT and (queue.hole or not queue.is_oldest(batch)):
            # The cause is a batch before it, which was refused and is sent again first, or was given up.
            batch.move(BatchEvent.REFUSE)
            batch.attempts -= 1
            self._put_back(batch)
            return
        if not queue.hole:
            # Everything before it was acked, so the log has lost what it had acknowledged (an election of a replica
            # that lagged, a topic made anew). The batch itself was never stored: it goes on in the next epoch.
            detail = detail or "the partition's log does not continue where the last acknowledged batch ended"
            if batch.state is BatchState.SENT and self._idempotence.mends_sequences:
                queue.hole = True
                self._not_acked(batch, BatchEvent.REFUSE, code, detail, node_id, now_us, again=True)
                return
        self._not_acked(batch, BatchEvent.REFUSE, code, detail, node_id, now_us)

    def _not_acked(
        self,
        batch: Batch,
        event: BatchEvent,
        code: int,
        detail: str,
        node_id: int,
        now_us: int,
        *,
        again: bool = False,
    ) -> None:
        """Send the batch again if the error is retriable (or with `again`), else give it up."""
        queue = batch.queue
        if batch.state >= BatchState.ACKED:
            # It was given up while in flight; after this answer its numbers may be missing in the log.
            queue.hole = queue.hole or self._idempotence.enabled
            return
        batch.move(event)
        error = _batch_error(batch, code, detail, node_id, now_us)
        batch.error = error
        if not (error.retriable or again) or batch.attempts > self._retries:
            self._give_up(batch, error)
        elif batch.deadline_us <= now_us:
            self._give_up(batch, self._too_late(batch, now_us))
        else:
            queue.blocked_until_us = now_us + self._connection.backoff_us(
                batch.attempts, self._backoff_ms, self._backoff_max_ms
            )
            self._metrics.last_retry = f"{error.name} from broker {node_id}{': ' * bool(detail)}{detail}"
            self._put_back(batch)

    def _put_back(self, batch: Batch) -> None:
        meter = self._metrics.topic(batch.queue.topic)
        meter.records_retried += batch.sealed.record_count
        batch.queue.put_back(batch)

    # --- giving up -----------------------------------------------------------------------------------------------

    def give_up_expired(self, now_us: int) -> None:
        """Give up the batches whose delivery timeout is over."""
        for batch in self._accumulator.expired(now_us):
            self._give_up(batch, self._too_late(batch, now_us))
            self._accumulator.schedule(batch.queue, now_us)

    def give_up_all(self, error: OttlaError) -> None:
        """Give up every batch: the time to close is over."""
        for batch in self._accumulator.give_up_all():
            self._give_up(batch, error)

    def give_up_waiting(self, error: OttlaError | None, now_us: int) -> None:
        """Give up every batch that waits: no producer id can be had, or its transaction cannot be committed."""
        for queue in self._accumulator.queues.values():
            while (batch := self._accumulator.drop_first(queue)) is not None:
                self._give_up(batch, error or self._too_late(batch, now_us))

    def give_up_topics_without_hope(self) -> None:
        """Give up the batches of topics whose metadata error is not retriable, such as a missing authorization."""
        for queue in self._accumulator.leaderless:
            known = self._connection.metadata.topics.get(queue.topic)
            if known is None or not known.error_code:
                continue
            error = kafka_error(known.error_code, topic=queue.topic, partition=queue.partition)
            if error.retriable:
                continue
            while (batch := self._accumulator.drop_first(queue)) is not None:
                self._give_up(batch, error)

    def _give_up(self, batch: Batch, error: OttlaError) -> None:
        was_in_flight = batch.state is BatchState.SENT or batch.state is BatchState.RESENT
        state = batch.move(BatchEvent.GIVE_UP)
        self.unsettled -= 1
        if self._idempotence.enabled and batch.numbered and not was_in_flight:
            batch.queue.hole = True
        self._metrics.topic(batch.queue.topic).gave_up(batch.sealed, unknown=state is BatchState.UNKNOWN)
        if state is BatchState.FAILED:
            self.settled.append(BatchFailed(batch.sealed, error))
        else:
            self.settled.append(BatchUnknown(batch.sealed, error))

    def _too_late(self, batch: Batch, now_us: int) -> OttlaError:
        queue = batch.queue
        if batch.error is not None:
            why = f"the last attempt ended with {batch.error}"
        elif batch.attempts:
            why = "no answer had come by then"
        elif self._idempotence.error is not None:
            why = str(self._idempotence.error)
        elif (error := self._connection.reach_error()) is not None:
            why = str(error)
        elif (leader := self._connection.leader(queue.topic, queue.partition)) is None:
            why = "its leader is not known"
        elif (reason := self._connection.why_not(leader)) is not None:
            why = f"its leader, {reason}"
        else:
            why = "it waited behind others and was never sent"
        detail = (
            f"delivery.timeout.ms={self._delivery_timeout_ms} passed for {batch.sealed.record_count} records; {why}"
        )
        return _batch_error(batch, ErrorCode.REQUEST_TIMED_OUT, detail, queue.node_id if batch.attempts else -1, now_us)


def _batch_error(batch: Batch, code: int, detail: str, node_id: int, now_us: int) -> KafkaError:
    return kafka_error(
        code,
        detail,
        topic=batch.queue.topic,
        partition=batch.queue.partition,
        # Nodes below 0 are bootstrap addresses of which no broker id is known.
        broker_id=node_id if node_id >= 0 else None,
        attempts=batch.attempts,
        age_ms=max(0, now_us - batch.sealed.created_us) // 1000,
    )


def _refused_records(batch: Batch, part: Any) -> dict[int, str]:
    """The broker's message for each record that it refuses, by the record's number in the batch, in order."""
    told = {each.batch_index: each.batch_index_error_message or "" for each in part.record_errors}
    fallback = part.error_message or "the broker does not say why"
    return {row: told[row] or fallback for row in sorted(told) if 0 <= row < batch.sealed.record_count}


def _leaves_it_open(code: int, base_offset: int) -> bool:
    return code in _OPEN_ERRORS or base_offset >= 0
