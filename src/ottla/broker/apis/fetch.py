"""Fetch, versions 4 to 18: whole record batches from a partition's log, for consumers and for followers.

Consumers (replica id -1) read below the high watermark or, with `isolation_level` 1, below the last stable offset, and
are told which of the transactions they read were aborted (KIP-98). Followers (a broker's id) read to the log's end, and
what they ask for tells the leader how far they have come; where their log parted from the leader's they are told the
epoch and offset (KIP-279, KIP-595). A follower is answered with the partitions that have news only, and a newer Fetch
of the same follower ends the older one at once.

A request with less than `min_bytes` to give waits for up to `max_wait_ms`; `max_bytes` bounds the answer except for
its first batch (KIP-74). There are no fetch sessions: every answer has session id 0, which clients read as "ask in
full" (KIP-227). Records leave as file slices, to followers also as batches that are still in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.leader_epochs import NO_EPOCH
from ottla.broker.log.log import Log
from ottla.broker.metrics import NO_TOPIC
from ottla.broker.partition import FetchWaiter, Partition
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

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore

CONSUMER = -1
_LEADERS_FROM_VERSION = 12
_READ_UNCOMMITTED = 0
_ENDPOINTS_FROM_VERSION = 16


def follower_id(message: FetchRequest) -> int:
    """The broker that fetches, or CONSUMER (which debugging tools with ids below -1 are, too)."""
    replica_id = message.replica_id if message.replica_state is None else message.replica_state.replica_id
    return max(CONSUMER, replica_id)


def _is_at_the_end(asked: FetchPartition, partition: Partition, log: Log) -> bool:
    """Whether a follower has this very log to its end, and begins where it begins: there is nothing to tell it."""
    return (
        asked.fetch_offset == log.log_end_offset
        and asked.last_fetched_epoch == log.epochs.latest
        and asked.current_leader_epoch == partition.leader_epoch
        and partition.leader == partition.broker_id
        and asked.log_start_offset >= log.log_start_offset
    )


def handle(core: BrokerCore, request: Request, now_us: int) -> None:
    """Answer a Fetch, or let it wait."""
    message = request.message
    if message.session_id != 0:
        core.answer(request, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), now_us)
        return
    fetch = PendingFetch(core, request)
    for topic in message.topics:
        partitions = core.topics.get(topic.topic, {})
        fetch.add(topic.topic, [(wanted, partitions.get(wanted.partition)) for wanted in topic.partitions], now_us)
    fetch.start(now_us)


class PendingFetch:
    """A Fetch from its arrival to its answer."""

    __slots__ = ("_core", "_done", "_follower_id", "_request", "_topics", "bucket")

    def __init__(self, core: BrokerCore, request: Request) -> None:
        self.bucket = -1
        self._core = core
        self._request = request
        self._follower_id = follower_id(request.message)
        self._topics: list[tuple[str, list[tuple[FetchPartition, Partition | None]]]] = []
        self._done = False

    def add(self, topic: str, wanted: list[tuple[FetchPartition, Partition | None]], now_us: int) -> None:
        """Ask for these partitions, too; a follower's offsets are noted."""
        self._topics.append((topic, wanted))
        if self._follower_id == CONSUMER:
            return
        state = self._request.message.replica_state
        broker_epoch = -1 if state is None else state.replica_epoch
        for asked, partition in wanted:
            if partition is None:
                continue
            log = partition.log
            if log is not None and (
                _is_at_the_end(asked, partition, log)
                or (
                    self._fault(asked, partition) == 0
                    and self._diverging(asked, partition) is None
                    and asked.fetch_offset <= log.log_end_offset
                )
            ):
                partition.follower_fetched(self._follower_id, asked.fetch_offset, now_us, broker_epoch)
                partition.follower_begins(self._follower_id, asked.log_start_offset, now_us)

    def start(self, now_us: int) -> None:
        """Answer at once, or wait."""
        core, message = self._core, self._request.message
        follower = self._follower_id
        if follower != CONSUMER:
            older = core.parked_followers.pop(follower, None)
            if older is not None:
                older.end(now_us)
        wait_us = max(0, message.max_wait_ms) * 1000
        if self.attempt(now_us, last=wait_us == 0 or message.min_bytes <= 0 or not self._topics):
            return
        if follower != CONSUMER:
            core.parked_followers[follower] = self
        for _, wanted in self._topics:
            for _, partition in wanted:
                if partition is not None:
                    self._waiters(partition)[self] = None
        core.park(self._request, self)
        core.purgatory.add(self, now_us + wait_us)

    def wake(self) -> None:
        """Look again once the event at hand has been dealt with."""
        self._core.woken[self] = None

    def attempt(self, now_us: int, last: bool = False) -> bool:
        """Answer if there is enough (or this is the `last` attempt); True where it is answered."""
        if self._done:
            return True
        if not last and not self._has_news():
            return False
        responses, size, failed = self._collect()
        if not last and not failed and size < self._request.message.min_bytes:
            return False
        self.cancel()
        self._count(responses)
        response = FetchResponse(responses=responses)
        if self._follower_id == CONSUMER and self._request.version >= TOPIC_IDS_FROM_VERSION:
            for told, asked in zip(responses, self._request.message.topics, strict=True):
                told.topic_id = asked.topic_id
            if failed and self._request.version >= _ENDPOINTS_FROM_VERSION:
                response.node_endpoints = self._endpoints(responses)
        self._core.answer(self._request, response, now_us)
        return True

    def _count(self, responses: list[FetchableTopicResponse]) -> None:
        core = self._core
        for topic in responses:
            traffic = core.metrics.traffic(topic.topic if topic.topic in core.topics else NO_TOPIC)
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
        """Answer with nothing: the follower has asked anew."""
        if not self._done:
            self.cancel()
            self._core.answer(self._request, FetchResponse(), now_us)

    def cancel(self) -> None:
        """Wait no more."""
        if self._done:
            return
        self._done = True
        if self.bucket < 0:
            return
        self._core.purgatory.remove(self)
        if self._core.parked_followers.get(self._follower_id) is self:
            del self._core.parked_followers[self._follower_id]
        for _, wanted in self._topics:
            for _, partition in wanted:
                if partition is not None:
                    self._waiters(partition).pop(self, None)

    def _waiters(self, partition: Partition) -> dict[FetchWaiter, None]:
        return partition.consumers_waiting if self._follower_id == CONSUMER else partition.followers_waiting

    def _end_offset(self, partition: Partition) -> int:
        if self._follower_id == CONSUMER:
            if self._request.message.isolation_level != _READ_UNCOMMITTED:
                return partition.last_stable_offset
            return partition.high_watermark
        return partition.log.log_end_offset if partition.log is not None else 0

    def _has_news(self) -> bool:
        """Whether any partition has something to say: records, an error, a diverging epoch."""
        follows = self._follower_id != CONSUMER
        for _, wanted in self._topics:
            for asked, partition in wanted:
                if partition is None or partition.log is None or not partition.is_leader:
                    return True
                if follows and _is_at_the_end(asked, partition, partition.log):
                    continue
                if asked.fetch_offset != self._end_offset(partition) or self._fault(asked, partition):
                    return True
                if self._diverging(asked, partition) is not None or self._begins_later(asked, partition):
                    return True
        return False

    def _begins_later(self, asked: FetchPartition, partition: Partition) -> bool:
        """Whether a follower still has what is deleted here."""
        log = partition.log
        return self._follower_id != CONSUMER and log is not None and asked.log_start_offset < log.log_start_offset

    def _collect(self) -> tuple[list[FetchableTopicResponse], int, bool]:
        """The answer, the size of its records in bytes, and whether a partition has an error."""
        left = min(self._request.message.max_bytes, self._core.settings.fetch_max_bytes)
        size = 0
        failed = False
        responses = []
        follows = self._follower_id != CONSUMER
        for topic, wanted in self._topics:
            answers = []
            for asked, partition in wanted:
                if follows and partition is not None:
                    log = partition.log
                    if log is not None and _is_at_the_end(asked, partition, log):
                        continue  # most of what followers ask for, most of the time
                answer = self._read(topic, asked, partition, left - size, size == 0)
                records = answer.records
                if records:
                    size += records.size if hasattr(records, "size") else sum(map(len, records))
                elif answer.error_code or answer.diverging_epoch is not None:
                    failed = True
                elif self._follower_id != CONSUMER:
                    if partition is None or not self._begins_later(asked, partition):
                        continue
                    failed = True  # nothing failed, but it is not to wait either
                answers.append(answer)
            if answers or self._follower_id == CONSUMER:
                responses.append(FetchableTopicResponse(topic=topic, partitions=answers))
        return responses, size, failed

    def _read(
        self, topic: str, asked: FetchPartition, partition: Partition | None, max_bytes: int, at_least_one: bool
    ) -> PartitionData:
        """One partition's part of the answer."""
        answer = PartitionData(partition_index=asked.partition, high_watermark=-1, records=b"")
        if self._request.message.isolation_level == _READ_UNCOMMITTED:
            answer.aborted_transactions = None
        if partition is None:
            answer.error_code = self._core.why_not_here(topic, asked.partition)[0]
        else:
            answer.error_code = self._fault(asked, partition)
        if partition is None or answer.error_code:
            self._name_leader(topic, asked.partition, answer)
            return answer
        if partition.log is None:
            # Nobody may be writing: without this its followers would ask for ever.
            partition.open_log()
        log = partition.log
        if log is None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return answer
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset
        answer.log_start_offset = log.log_start_offset
        answer.diverging_epoch = self._diverging(asked, partition)
        if answer.diverging_epoch is not None:
            return answer
        offset = asked.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            if self._follower_id == CONSUMER:
                # Followers begin anew where the leader begins; consumers ask for places by ListOffsets.
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
        if not partition.is_leader:
            return self._core.why_not_here(partition.topic, partition.index)[0]
        epoch = asked.current_leader_epoch
        if epoch < 0 or epoch == partition.leader_epoch:
            return 0
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def _diverging(self, asked: FetchPartition, partition: Partition) -> EpochEndOffset | None:
        """Where the log of whoever asks parts from this one; None where it does not."""
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
        return EpochEndOffset(epoch=own_epoch, end_offset=max(end_offset, log.log_start_offset))

    def _endpoints(self, responses: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
        """Where the leaders named in the answer are to be found (KIP-951)."""
        named = [answer.current_leader for topic in responses for answer in topic.partitions]
        leaders = [leader.leader_id for leader in named if leader is not None]
        endpoints = []
        for address in self._core.image.brokers:
            if address.broker_id in leaders:
                host, port = address.on(self._request.listener)
                endpoints.append(NodeEndpoint(node_id=address.broker_id, host=host, port=port))
        return endpoints

    def _name_leader(self, topic: str, index: int, answer: PartitionData) -> None:
        if self._request.version < _LEADERS_FROM_VERSION:
            return
        if answer.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader, epoch, _ = self._core.leader_of(topic, index)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
