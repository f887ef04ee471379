"""Changes of the replicas in sync that a broker's leaders propose to the controller by AlterPartition (KIP-497).

Partitions register here; all that wait go in one request, and only one request is under way. A change counts for the
partition when the answer, or a newer image, has it; until then the larger of the two sets counts. Twice in
`replica.lag.time.max.ms` every partition led here is searched for followers that stay behind.

`alive` holds the brokers that may be in sync, by id, each with its newest start (broker epoch); `heard_us` when each of
them last fetched here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.broker.outbox import Outbox
from ottla.broker.partition import Partition, Topics
from ottla.broker.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

# After these the partition waits for a newer image; the same request would get the same answer.
_WAIT_FOR_IMAGE = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class IsrProposals:
    """The proposals of one broker; `due_us`: when to look after them again."""

    __slots__ = (
        "_broker_epoch",
        "_broker_id",
        "_check_us",
        "_half_lag_us",
        "_is_asking",
        "_outbox",
        "_settings",
        "_topics",
        "_waiting",
        "alive",
        "heard_us",
        "lag_us",
        "send_us",
    )

    def __init__(
        self, broker_id: int, broker_epoch: int, settings: BrokerSettings, topics: Topics, outbox: Outbox
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._topics = topics
        self._outbox = outbox
        self.lag_us = settings.replica_lag_time_max_ms * 1000
        self._half_lag_us = max(1, self.lag_us // 2)
        self.alive: dict[int, int] = {}
        self.heard_us: dict[int, int] = {}
        self._waiting: dict[Partition, None] = {}
        self._is_asking = False
        self._check_us: int | None = None
        self.send_us = 0

    @property
    def due_us(self) -> int | None:
        """When something is due without an event; None: never."""
        if self._waiting and not self._is_asking and (self._check_us is None or self.send_us < self._check_us):
            return self.send_us
        return self._check_us

    def propose(self, partition: Partition) -> None:
        """The partition has a proposal."""
        self._waiting[partition] = None

    def apply(self, brokers: dict[int, int], now_us: int) -> None:
        """These brokers are alive: the high watermark does not wait for others, and these may be in sync again."""
        if brokers != self.alive:
            self.alive = brokers
            for partition in self._led():
                partition.reconsider(now_us)
        if self._check_us is None:
            self._check_us = now_us + self._half_lag_us

    def tick(self, now_us: int) -> None:
        """Look for followers that stay behind, when that is due."""
        if self._check_us is not None and self._check_us <= now_us:
            self._check_us = now_us + self._half_lag_us
            for partition in self._led():
                partition.drop_laggards(now_us)

    def send(self, now_us: int) -> None:
        """Send what waits to the controller, unless a request is under way."""
        if self._waiting and not self._is_asking and now_us >= self.send_us:
            self._ask_controller()

    def _ask_controller(self) -> None:
        waiting, self._waiting = self._waiting, {}
        topics: dict[bytes, RequestTopicData] = {}
        asked: dict[tuple[bytes, int], Partition] = {}
        for partition in waiting:
            if partition.proposed is None or not partition.is_leader:
                continue
            asked[partition.topic_id, partition.index] = partition
            data = RequestPartitionData(
                partition_index=partition.index,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=each, broker_epoch=partition.broker_epoch_of(each))
                    for each in partition.proposed
                ],
                partition_epoch=partition.partition_epoch,
            )
            topic = topics.setdefault(partition.topic_id, RequestTopicData(topic_id=partition.topic_id))
            topic.partitions.append(data)
        if not asked:
            return
        self._is_asking = True
        message = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch, topics=list(topics.values())
        )
        self._outbox.ask_controller(message, lambda answer, answered_us: self._answered(asked, answer, answered_us))

    def _answered(self, asked: dict[tuple[bytes, int], Partition], message: Any, now_us: int) -> None:
        self._is_asking = False
        if not isinstance(message, AlterPartitionResponse) or message.error_code:
            self.send_us = now_us + self._settings.replica_fetch_backoff_ms * 1000
            self._waiting.update(dict.fromkeys(asked.values()))
            return
        for topic in message.topics:
            for result in topic.partitions:
                self._take(asked[topic.topic_id, result.partition_index], result, now_us)

    def _take(self, partition: Partition, result: ResponsePartitionData, now_us: int) -> None:
        if partition.proposed is None:
            return  # a newer image has settled it
        if not result.error_code:
            if result.leader_epoch == partition.leader_epoch:
                partition.settle_isr(tuple(result.isr), result.partition_epoch, now_us)
        elif result.error_code == ErrorCode.INELIGIBLE_REPLICA:
            partition.proposed = None
            partition.advance_high_watermark(now_us)
        elif result.error_code not in _WAIT_FOR_IMAGE:
            self.send_us = now_us + self._settings.replica_fetch_backoff_ms * 1000
            self._waiting[partition] = None

    def _led(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            for partition in partitions.values():
                if partition.is_leader:
                    yield partition
