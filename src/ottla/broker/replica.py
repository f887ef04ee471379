"""A follower's side of replication: one Fetch at a time to each leader, for all partitions followed from it.

What arrives is checked (CRC, growing offsets; gaps are left by compaction) and appended as it is, offsets and epochs
included; the next Fetch then shows the leader how far this replica has come. Where the logs diverge, this one is cut.
After `replica_fetch_backoff_ms` a partition that failed is fetched again, and a leader that could not be reached is
asked again.

The Fetches to one leader are a fetch session (KIP-227): the first one is full; each later one names the partitions
whose fetch has changed, and those to forget. When an answer is lost, or the leader does not know the session, the next
one is full again.

When partitions come or go while a Fetch is waiting at the leader, a new one is sent at once; the leader ends the
older one. An answer to an older Fetch is still good: whatever is below the log's end by then is skipped.

Invariants: a follower appends only at its log's end, and only what the leader it follows has there. `fetch_asked` of a
partition is what its leader's session has, or None; where that is not true any more, the partition is in `_changed` or
`_forgotten`. A partition in `_resting` that the session still has is in `_forgotten`.
"""

from __future__ import annotations

import logging
from typing import Any

from ottla.broker.events import AskPeer
from ottla.broker.fetch_sessions import INITIAL_EPOCH, NO_SESSION, next_epoch
from ottla.broker.partition import Partition
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Buffer
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.records.batch_header import BatchHeader, CorruptBatch, check_crc, iterate_headers

logger = logging.getLogger("ottla.broker")

_NONE_ASKED = -1
_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class ReplicaFetcher:
    """Fetches from one leader what this broker follows; `ask_again_us` is when to ask without an event."""

    __slots__ = (
        "_broker_epoch",
        "_broker_id",
        "_changed",
        "_cuts",
        "_epoch",
        "_followed",
        "_forgotten",
        "_full_token",
        "_leader_id",
        "_resting",
        "_session_id",
        "_settings",
        "_token",
        "ask_again_us",
    )

    def __init__(self, broker_id: int, broker_epoch: int, leader_id: int, settings: BrokerSettings) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._leader_id = leader_id
        self._settings = settings
        self._followed: dict[tuple[str, int], Partition] = {}
        # Partitions to look at for the next Fetch, those that wait after a failure, and those that the leader is to
        # forget.
        self._changed: dict[Partition, None] = {}
        self._resting: dict[Partition, None] = {}
        self._forgotten: dict[tuple[str, int], None] = {}
        # By partition: leader epoch and offset of the last cut, and whether it was asked for once more.
        self._cuts: dict[Partition, tuple[int, int, bool]] = {}
        self._session_id = NO_SESSION
        # Of the next Fetch; INITIAL_EPOCH: it is full.
        self._epoch = INITIAL_EPOCH
        self._token = self._full_token = _NONE_ASKED
        self.ask_again_us: int | None = None

    def follow(self, partition: Partition, number: int) -> None:
        """Fetch this partition, too, from the next question on; questions with a token below `number` do not count."""
        self.unfollow(partition.topic, partition.index)
        place = partition.topic, partition.index
        # Its leader's session may have it from before: then it stays in `_forgotten` until it is fetched again.
        partition.followed_from = number
        partition.fetch_asked = None
        partition.fetcher = self
        self._followed[place] = partition
        self._changed[partition] = None

    def unfollow(self, topic: str, index: int) -> None:
        """Fetch this partition no more."""
        partition = self._followed.pop((topic, index), None)
        if partition is None:
            return
        partition.fetcher = None
        self._cuts.pop(partition, None)
        self._changed.pop(partition, None)
        self._resting.pop(partition, None)
        self._forget(partition)

    def changed(self, partition: Partition) -> None:
        """The fetch offset or log start of this partition may have changed."""
        self._changed[partition] = None

    def question(self, token: int, now_us: int) -> AskPeer | None:
        """The next Fetch, for everything that need not wait; None where that is nothing."""
        self.ask_again_us = None
        is_full = self._epoch == INITIAL_EPOCH
        for partition in [each for each in self._resting if each.fetch_again_us <= now_us]:
            del self._resting[partition]
            self._changed[partition] = None
        changed, self._changed = self._changed, {}
        topics: dict[bytes, FetchTopic] = {}
        for partition in tuple(self._followed.values()) if is_full else changed:
            if partition.log is None and partition.fetch_again_us <= now_us and not partition.open_log():
                self._set_back(partition, now_us)
            if partition.fetch_again_us > now_us:
                self._resting[partition] = None
                self._forget(partition)
                continue
            before = partition.fetch_asked
            if before is None:
                self._forgotten.pop((partition.topic, partition.index), None)
            wanted = self._wanted(partition)
            if is_full or wanted is not before:
                topic = topics.get(partition.topic_id)
                if topic is None:
                    topic = FetchTopic(topic=partition.topic, topic_id=partition.topic_id, partitions=[])
                    topics[partition.topic_id] = topic
                topic.partitions.append(wanted)
        for partition in self._resting:
            self._ask_again(partition.fetch_again_us)
        if len(self._resting) == len(self._followed):
            self._token = _NONE_ASKED
            return None
        message = FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch),
            max_wait_ms=self._settings.replica_fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=self._settings.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics.values()),
        )
        self._token = token
        if is_full:
            self._full_token = token
        else:
            self._epoch = next_epoch(self._epoch)
            message.forgotten_topics_data = self._forgotten_topics()
        self._forgotten = {}
        return AskPeer(self._leader_id, token, message)

    def answered(self, token: int, response: FetchResponse | None, now_us: int) -> bool:
        """Append what came; True where the next question is due."""
        if response is None:
            if token >= self._full_token:
                # The leader may count as sent what was lost.
                self._epoch = INITIAL_EPOCH
        else:
            for topic in response.responses:
                for data in topic.partitions:
                    partition = self._followed.get((topic.topic, data.partition_index))
                    if partition is None or token < partition.followed_from:
                        continue  # asked in another leader epoch: the logs may have diverged since
                    self._changed[partition] = None
                    if not self._take(partition, data, is_newest=token == self._token):
                        self._set_back(partition, now_us)
        if token != self._token:
            return False
        self._token = _NONE_ASKED
        if response is not None and not response.error_code:
            if token == self._full_token:
                self._session_id = response.session_id
                self._epoch = INITIAL_EPOCH if response.session_id == NO_SESSION else next_epoch(INITIAL_EPOCH)
            elif response.session_id != self._session_id:
                self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
            return True
        self._epoch = INITIAL_EPOCH
        if response is not None and response.error_code in _SESSION_LOST:
            return True
        self._ask_again(now_us + self._settings.replica_fetch_backoff_ms * 1000)
        return False

    def _forget(self, partition: Partition) -> None:
        """Remove a partition from the leader's session, if it is in it."""
        if partition.fetch_asked is not None:
            partition.fetch_asked = None
            self._forgotten[partition.topic, partition.index] = None

    def _forgotten_topics(self) -> list[ForgottenTopic]:
        topics: dict[str, ForgottenTopic] = {}
        for name, index in self._forgotten:
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ForgottenTopic(topic=name, partitions=[])
            topic.partitions.append(index)
        return list(topics.values())

    def _wanted(self, partition: Partition) -> FetchPartition:
        log, settings = partition.log, self._settings
        assert log is not None
        epoch = log.epochs.latest
        last = partition.fetch_asked
        if (
            last is not None
            and last.fetch_offset == log.log_end_offset
            and last.current_leader_epoch == partition.leader_epoch
            and last.last_fetched_epoch == epoch
            and last.log_start_offset == log.log_start_offset
            and last.partition_max_bytes == settings.replica_fetch_max_bytes
        ):
            return last  # as nothing has come since
        partition.fetch_asked = last = FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=settings.replica_fetch_max_bytes,
        )
        return last

    def _take(self, partition: Partition, data: PartitionData, *, is_newest: bool) -> bool:
        """Append or cut one partition; False where it failed."""
        log = partition.log
        if log is None:
            return False
        try:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                begin = data.log_start_offset
                # An empty log has no epoch that the leader could compare. This happens when a power cut took from the
                # leader records that are deleted here.
                is_ahead = is_newest and 0 <= begin < log.log_start_offset == log.log_end_offset
                if begin > log.log_end_offset or is_ahead:
                    partition.start_anew(begin)
                    return True
            if data.error_code:
                return False
            if data.diverging_epoch is not None:
                if not is_newest:
                    return True  # this log has changed since that Fetch
                epoch, end_offset = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                own_end = log.epochs.end_of(epoch, log.log_end_offset)[1]
                return self._cut(partition, max(0, min(end_offset, own_end)))
            buffers, headers = next_batches(data.records, log.log_end_offset)
            if headers:
                partition.append_copies(buffers, headers)
        except (OSError, CorruptBatch):
            # The log may be opened again with what was cut.
            self._cuts.pop(partition, None)
            return False
        partition.follow_high_watermark(data.high_watermark)
        partition.follow_log_start(data.log_start_offset)
        return True

    def _cut(self, partition: Partition, offset: int) -> bool:
        """Cut the log; False, and no cut, if it was cut at this offset before in this leader epoch.

        The leader then contradicts itself: its log was not cut meanwhile. It would give the same batches once more.
        """
        before = self._cuts.get(partition)
        if before is None or before[:2] != (partition.leader_epoch, offset):
            partition.truncate(offset)
            self._cuts[partition] = partition.leader_epoch, offset, False
            return True
        if not before[2]:
            self._cuts[partition] = partition.leader_epoch, offset, True
            logger.warning(
                "broker %d: leader %d asks it to truncate %s to offset %d again, after it sent the same records again. "
                "The leader's epochs contradict its batches. The log is not truncated; the leader is asked again every "
                "%d ms. Restart the leader: it then reads its epochs from its batches",
                self._broker_id,
                self._leader_id,
                partition.folder,
                offset,
                self._settings.replica_fetch_backoff_ms,
            )
        return False

    def _set_back(self, partition: Partition, now_us: int) -> None:
        partition.fetch_again_us = now_us + self._settings.replica_fetch_backoff_ms * 1000
        self._ask_again(partition.fetch_again_us)

    def _ask_again(self, time_us: int) -> None:
        if self.ask_again_us is None or time_us < self.ask_again_us:
            self.ask_again_us = time_us


def next_batches(records: Any, next_offset: int) -> tuple[list[Buffer], list[BatchHeader]]:
    """The batches of a Fetch answer from `next_offset` on, checked; what lies below is skipped.

    `records` is None, a bytes-like, a file slice, or a list of those. Raises CorruptBatch for a wrong CRC. Offsets may
    be missing between batches: the leader's log was compacted.
    """
    buffers: list[Buffer] = []
    headers: list[BatchHeader] = []
    for part in records if isinstance(records, list | tuple) else (records,):
        if not part:
            continue
        buffer: Buffer = part.read() if hasattr(part, "read") else part
        begin = end = 0
        for header in iterate_headers(buffer):
            if header.base_offset < next_offset:
                begin = end = header.position + header.size_bytes
                continue
            check_crc(buffer, header)
            headers.append(header)
            next_offset = header.last_offset + 1
            end = header.position + header.size_bytes
        if end > begin:
            buffers.append(buffer if begin == 0 else memoryview(buffer)[begin:end])
    return buffers, headers
