"""Fetch, versions 4 to 18: whole record batches from a partition's log, for consumers and for followers.

Consumers (replica id -1) read below the high watermark or, with `isolation_level` 1, below the last stable offset, and
get the list of aborted transactions among them (KIP-98). Followers (a broker's id) read to the log's end. Their fetch
offset shows the leader how far they have come; if their log diverges from the leader's, the answer has the epoch and
the offset to cut at (KIP-279, KIP-595). The answer to a follower has only the partitions with news, and a newer Fetch
of the same follower ends the older one at once.

A request with less than `min_bytes` to give waits for up to `max_wait_ms`; `max_bytes` bounds the answer except for
its first batch (KIP-74). A consumer may name its rack (KIP-392). Then the leader's answer names the replica there that
has the records, if `replica.selector.class` is the rack-aware one, and followers give it records up to their high
watermark (Apache Kafka's followers serve consumers without a rack, too). Requests of a fetch session (KIP-227, see
`fetch_sessions`) name the partitions that changed; the answer has those with records, an error, or another high
watermark or log start than in the last answer. A Fetch that waits when the next one of its session comes gets
INVALID_FETCH_SESSION_EPOCH. Records are sent as file slices, to followers also as batches that are still in memory.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.client_quotas import CONSUMED
from ottla.broker.fetch_sessions import (
    CONSUMER,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    SessionPartition,
    follower_id,
)
from ottla.broker.log.leader_epochs import NO_EPOCH
from ottla.broker.log.log import Log
from ottla.broker.partition import NO_BROKER, Partition
from ottla.broker.request import Request
from ottla.broker.topic_ids import FROM_VERSION as TOPIC_IDS_FROM_VERSION
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_LEADERS_FROM_VERSION = 12
_RACKS_FROM_VERSION = 11
_NO_REPLICA = -1
_READ_UNCOMMITTED = 0
_ENDPOINTS_FROM_VERSION = 16


def _is_at_the_end(asked: FetchPartition, partition: Partition, log: Log) -> bool:
    """Whether a follower has this log to its end, and nothing that is deleted here: there is nothing to answer."""
    return (
        asked.fetch_offset == log.log_end_offset
        and asked.last_fetched_epoch == log.epochs.latest
        and asked.current_leader_epoch == partition.leader_epoch
        and partition.leader == partition.broker_id
        and asked.log_start_offset >= log.log_start_offset
    )


def _size_of(responses: list[FetchableTopicResponse]) -> int:
    """The bytes of all records in an answer."""
    size = 0
    for topic in responses:
        for answer in topic.partitions:
            records = answer.records
            if records:
                size += records.size if hasattr(records, "size") else sum(map(len, records))
    return size


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer a Fetch, or let it wait."""
    message: FetchRequest = request.message
    follower = follower_id(message)
    by_id = follower == CONSUMER and request.version >= TOPIC_IDS_FROM_VERSION
    sessions = broker.fetch_sessions
    is_full = message.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    session: FetchSession | None
    if is_full:
        if message.session_id:
            sessions.close_number(message.session_id)
        session = sessions.begin(message, follower, by_id)
        error_code = 0
    else:
        session, error_code = sessions.go_on(message, follower, by_id, now_us)
    if session is None:
        broker.answer(request, FetchResponse(error_code=error_code), now_us)
        return
    if follower != CONSUMER:
        older = sessions.of_followers.get(follower)
        if older is not None:
            if older.parked is not None:
                older.parked.end(now_us)
            if older is not session:
                sessions.close(older)
        sessions.of_followers[follower] = session
    elif session.parked is not None:
        session.parked.end(now_us)
    PendingFetch(broker, request, session, is_full).start(now_us)


class PendingFetch:
    """A Fetch from its arrival to its answer."""

    __slots__ = ("_broker", "_done", "_follower_id", "_is_full", "_request", "_session", "bucket")

    def __init__(self, broker: BrokerPort, request: Request, session: FetchSession, is_full: bool) -> None:
        self.bucket = -1
        self._broker = broker
        self._request = request
        self._session = session
        self._is_full = is_full
        self._follower_id = session.follower_id
        self._done = False

    def start(self, now_us: int) -> None:
        """Answer at once, or wait."""
        broker, message, session = self._broker, self._request.message, self._session
        if self._follower_id != CONSUMER:
            self._note_follower(now_us)
        wait_us = max(0, message.max_wait_ms) * 1000
        if self.attempt(now_us, last=wait_us == 0 or message.min_bytes <= 0 or not session.partitions):
            return
        session.listen()
        session.parked = self
        broker.park(self._request, self)
        broker.purgatory.add(self, now_us + wait_us)

    def _note_follower(self, now_us: int) -> None:
        """Note how far the follower has come, in partitions with news and in those where it is not in sync (`joining`).

        In all others it has the log to its end, as with its last Fetch of them.
        """
        broker, session, follower = self._broker, self._session, self._follower_id
        state = self._request.message.replica_state
        broker_epoch = -1 if state is None else state.replica_epoch
        broker.heard_from_follower(follower, now_us)
        joining = session.joining
        for each in (*session.news, *joining) if joining else tuple(session.news):
            partition, asked = each.partition, each.asked
            log = partition.log if partition is not None else None
            if (
                partition is not None
                and log is not None
                and (
                    _is_at_the_end(asked, partition, log)
                    or (
                        self._fault(asked, partition) == 0
                        and self._diverging(asked, partition) is None
                        and asked.fetch_offset <= log.log_end_offset
                    )
                )
            ):
                partition.follower_fetched(follower, asked.fetch_offset, now_us, broker_epoch)
                partition.follower_begins(follower, asked.log_start_offset, now_us)
                if follower in partition.isr:
                    joining.pop(each, None)
                    continue
            joining[each] = None

    def wake(self) -> None:
        """Look again once the event at hand has been dealt with."""
        self._broker.wake(self)

    def attempt(self, now_us: int, last: bool = False) -> bool:
        """Answer if there is enough (or this is the `last` attempt); True where it is answered."""
        if self._done:
            return True
        if not last and not self._has_news():
            return False
        broker, message, session = self._broker, self._request.message, self._session
        left = min(message.max_bytes, broker.settings.fetch_max_bytes)
        answers: dict[SessionPartition, PartitionData] = {}
        size, failed = self._collect(answers, left)
        if not last and not failed and size < message.min_bytes:
            return False
        if self._is_full and self._follower_id == CONSUMER:
            answers, failed = self._completed(answers)
        else:
            self._collect_untold(answers)
        self._finish(kept=True)
        if self._is_full and message.session_epoch == INITIAL_EPOCH and session.partitions:
            broker.fetch_sessions.keep(session, now_us)
        if not session.is_kept:
            session.end()
        responses = self._by_topic(answers)
        self._count(responses)
        response = FetchResponse(session_id=session.id, responses=responses)
        if failed and self._follower_id == CONSUMER and self._request.version >= _ENDPOINTS_FROM_VERSION:
            response.node_endpoints = self._endpoints(responses)
        if broker.quotas is not None and self._follower_id == CONSUMER:
            # The records are sent, and the next Fetch waits; Apache Kafka sends none, and they are read once more.
            response.throttle_time_ms = broker.throttle(CONSUMED, self._request, _size_of(responses), now_us)
        broker.answer(self._request, response, now_us)
        return True

    def _by_topic(self, answers: dict[SessionPartition, PartitionData]) -> list[FetchableTopicResponse]:
        by_id = self._session.uses_topic_ids
        topics: dict[Any, FetchableTopicResponse] = {}
        for each, data in answers.items():
            each.told_high_watermark = data.high_watermark
            each.told_log_start = data.log_start_offset
            key = each.topic_id if by_id else each.topic
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchableTopicResponse(topic=each.topic or "", partitions=[])
                if by_id:
                    topic.topic_id = each.topic_id
            topic.partitions.append(data)
        return list(topics.values())

    def _count(self, responses: list[FetchableTopicResponse]) -> None:
        broker = self._broker
        for topic in responses:
            traffic = broker.traffic(topic.topic)
            size = 0
            for answer in topic.partitions:
                records = answer.records
                if records:
                    size += records.size if hasattr(records, "size") else sum(map(len, records))
                elif answer.error_code:
                    traffic.failed_fetches += 1
            if self._follower_id == CONSUMER:
                traffic.fetches += len(topic.partitions)
                traffic.bytes_out += size
            else:
                traffic.replication_bytes_out += size

    def expire(self, now_us: int) -> None:
        """Time is up: answer with what there is."""
        self.attempt(now_us, last=True)

    def end(self, now_us: int) -> None:
        """Answer without records: the same client or follower has sent another Fetch."""
        if not self._done:
            self._finish(kept=False)
            error_code = 0 if self._follower_id != CONSUMER else ErrorCode.INVALID_FETCH_SESSION_EPOCH
            response = FetchResponse(error_code=error_code, session_id=self._session.id)
            self._broker.answer(self._request, response, now_us)

    def cancel(self) -> None:
        """Wait no more."""
        if not self._done:
            self._finish(kept=False)

    def _finish(self, kept: bool) -> None:
        self._done = True
        if self.bucket >= 0:
            self._broker.purgatory.remove(self)
            self._session.parked = None
        if not kept and not self._session.is_kept:
            self._session.end()

    def _end_offset(self, partition: Partition) -> int:
        if self._follower_id == CONSUMER:
            if self._request.message.isolation_level != _READ_UNCOMMITTED:
                return partition.last_stable_offset
            return partition.high_watermark
        return partition.log.log_end_offset if partition.log is not None else 0

    def _has_news(self) -> bool:
        """Whether a partition has something to answer: records, an error, a diverging epoch; others leave `news`."""
        follows = self._follower_id != CONSUMER
        news = self._session.news
        for each in tuple(news):
            partition, asked = each.partition, each.asked
            if partition is None or partition.log is None or not (partition.is_leader or self._may_follow(partition)):
                return True
            if not (follows and _is_at_the_end(asked, partition, partition.log)) and (
                asked.fetch_offset != self._end_offset(partition)
                or self._nearest(asked, partition) != _NO_REPLICA
                or self._fault(asked, partition)
                or self._diverging(asked, partition) is not None
                or self._begins_later(asked, partition)
            ):
                return True
            self._let_go(each, partition)
        return False

    def _let_go(self, each: SessionPartition, partition: Partition) -> None:
        """Nothing to read: take the partition out of `news` until something happens; its high watermark may be new."""
        session = self._session
        del session.news[each]
        if each.told_high_watermark != partition.high_watermark:
            session.untold[each] = None

    def _begins_later(self, asked: FetchPartition, partition: Partition) -> bool:
        """Whether a follower still has what is deleted here."""
        log = partition.log
        return self._follower_id != CONSUMER and log is not None and asked.log_start_offset < log.log_start_offset

    def _collect(self, answers: dict[SessionPartition, PartitionData], left: int) -> tuple[int, bool]:
        """Read the partitions with news; the size of their records in bytes, and whether any of them cannot wait."""
        size = 0
        failed = False
        session = self._session
        news = session.news
        follows = self._follower_id != CONSUMER
        for each in tuple(news):
            partition, asked = each.partition, each.asked
            if partition is None or not partition.is_leader:
                session.find(each)
                partition = each.partition
            if follows and partition is not None:
                log = partition.log
                if log is not None and _is_at_the_end(asked, partition, log):
                    self._let_go(each, partition)
                    continue
            answer = self._read(each, left - size, size == 0)
            records = answer.records
            if records:
                size += records.size if hasattr(records, "size") else sum(map(len, records))
                # A partition that gave records goes behind the others, so that each is served.
                del news[each]
                news[each] = None
            elif (
                answer.error_code or answer.diverging_epoch is not None or answer.preferred_read_replica != _NO_REPLICA
            ):
                failed = True
            else:
                assert partition is not None
                if self._begins_later(asked, partition):
                    failed = True  # nothing failed, but the answer must not wait
                else:
                    if asked.fetch_offset == self._end_offset(partition):
                        self._let_go(each, partition)
                    continue
            answers[each] = answer
            if size >= left > 0:
                break
        return size, failed

    def _completed(
        self, answers: dict[SessionPartition, PartitionData]
    ) -> tuple[dict[SessionPartition, PartitionData], bool]:
        """The answer to a full request: every partition in the order asked for, and whether any has an error."""
        self._session.untold = {}
        found = {}
        failed = False
        for each in self._session.partitions.values():
            answer = answers.get(each)
            if answer is None:
                answer = self._read(each, 0, False)
            failed = failed or answer.error_code != 0
            found[each] = answer
        return found, failed

    def _collect_untold(self, answers: dict[SessionPartition, PartitionData]) -> None:
        """Add the partitions of which nothing but the high watermark or the log's start is new."""
        session = self._session
        if not session.untold:
            return
        untold, session.untold = session.untold, {}
        for each in untold:
            partition = each.partition
            if each in answers or partition is None or partition.log is None or not partition.is_leader:
                continue
            if (
                each.told_high_watermark != partition.high_watermark
                or each.told_log_start != partition.log.log_start_offset
            ):
                answers[each] = self._read(each, 0, False)

    def _read(self, each: SessionPartition, max_bytes: int, at_least_one: bool) -> PartitionData:
        """One partition's part of the answer."""
        asked, partition = each.asked, each.partition
        answer = PartitionData(partition_index=asked.partition, high_watermark=-1, records=b"")
        if self._request.message.isolation_level == _READ_UNCOMMITTED:
            answer.aborted_transactions = None
        if partition is None:
            answer.error_code = self._broker.why_not_here(each.topic, each.index).error_code
        else:
            answer.error_code = self._fault(asked, partition)
        if partition is None or answer.error_code:
            self._name_leader(each.topic, each.index, answer)
            return answer
        if partition.log is None:
            # Without writes nothing else opens the log, and its followers would ask for ever.
            partition.open_log()
        log = partition.log
        if log is None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return answer
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        answer.preferred_read_replica = self._nearest(asked, partition)
        if answer.preferred_read_replica != _NO_REPLICA:
            return answer
        answer.diverging_epoch = self._diverging(asked, partition)
        if answer.diverging_epoch is not None:
            return answer
        offset = asked.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            if self._follower_id == CONSUMER:
                # A follower begins anew at the leader's log start, so it gets that; a consumer uses ListOffsets.
                answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
            return answer
        end_offset = self._end_offset(partition)
        max_bytes = min(max_bytes, asked.partition_max_bytes)
        if offset >= end_offset or (max_bytes <= 0 and not at_least_one):
            return answer
        try:
            if self._follower_id == CONSUMER:
                found = log.slice(offset, end_offset, max_bytes, at_least_one)
                answer.records = found or b""
                if found is not None and log.aborted and answer.aborted_transactions is not None:
                    upper = min(end_offset, log.bound_behind(offset, found.size))
                    answer.aborted_transactions = [
                        AbortedTransaction(producer_id=row.producer_id, first_offset=row.first_offset)
                        for row in log.aborted.between(offset, upper)
                    ]
            else:
                answer.records = partition.slice_for_follower(offset, max_bytes, at_least_one) or b""
        except OSError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer

    def _fault(self, asked: FetchPartition, partition: Partition) -> int:
        """The error that keeps this partition from being read here and now; 0 for none."""
        if not partition.is_leader and not self._may_follow(partition):
            return self._broker.why_not_here(partition.topic, partition.index).error_code
        epoch = asked.current_leader_epoch
        if epoch < 0 or epoch == partition.leader_epoch:
            return 0
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _says_its_rack(self) -> bool:
        return (
            self._follower_id == CONSUMER
            and self._request.version >= _RACKS_FROM_VERSION
            and bool(self._request.message.rack_id)
        )

    def _may_follow(self, partition: Partition) -> bool:
        """Whether this consumer may read from a replica that follows a leader."""
        return partition.leader != NO_BROKER and self._says_its_rack()

    def _nearest(self, asked: FetchPartition, partition: Partition) -> int:
        """As leader: the replica in sync that is in the consumer's rack and has most of what it asks for.

        -1: none, or this one is in its rack.
        """
        broker = self._broker
        if not partition.is_leader or not self._says_its_rack() or not broker.settings.replica_selector_class:
            return _NO_REPLICA
        rack = self._request.message.rack_id
        near = {address.broker_id for address in broker.image.brokers if address.rack == rack}
        if partition.broker_id in near:
            return _NO_REPLICA
        found, reached = _NO_REPLICA, -1
        for broker_id in partition.isr:
            follower = partition.followers.get(broker_id)
            if (
                follower is not None
                and broker_id in near
                and follower.end_offset >= asked.fetch_offset >= follower.log_start_offset
                and follower.end_offset > reached
            ):
                found, reached = broker_id, follower.end_offset
        return found

    def _diverging(self, asked: FetchPartition, partition: Partition) -> EpochEndOffset | None:
        """Where the log of the client or follower diverges from this one; None where it does not."""
        epoch = asked.last_fetched_epoch
        log = partition.log
        if epoch < 0 or log is None or asked.fetch_offset < log.log_start_offset:
            return None
        if epoch == log.epochs.latest and asked.fetch_offset <= log.log_end_offset:
            return None
        own_epoch, end_offset = log.epochs.end_of(epoch, log.log_end_offset)
        if own_epoch == NO_EPOCH and self._follower_id == CONSUMER:
            # The log holds no record, so a consumer's epoch cannot diverge from it.
            own_epoch, end_offset = epoch, log.log_start_offset
        if own_epoch == epoch and asked.fetch_offset <= end_offset:
            return None
        if self._follower_id == CONSUMER:
            end_offset = max(end_offset, log.log_start_offset)
        # A follower truncates also below the beginning of this log, and is then told to start at it.
        return EpochEndOffset(epoch=own_epoch, end_offset=end_offset)

    def _endpoints(self, responses: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
        """The addresses of the leaders that the answer names (KIP-951)."""
        named = [answer.current_leader for topic in responses for answer in topic.partitions]
        leaders = [leader.leader_id for leader in named if leader is not None]
        endpoints = []
        for address in self._broker.image.brokers:
            if address.broker_id in leaders:
                host, port = address.on(self._request.listener)
                endpoints.append(NodeEndpoint(node_id=address.broker_id, host=host, port=port))
        return endpoints

    def _name_leader(self, topic: str | None, index: int, answer: PartitionData) -> None:
        if self._request.version < _LEADERS_FROM_VERSION:
            return
        if answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader, epoch, _ = self._broker.leader_of(topic or "", index)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
