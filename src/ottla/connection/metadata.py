"""What a client knows of the cluster: brokers, topics, and the leader and leader epoch of each partition.

`Metadata` is filled from Metadata responses; leaders also come in answers to Produce and Fetch (KIP-951). If a response
has an older leader epoch for a partition, and the same topic id, it is stale (its broker lags behind the controller):
what is known of the partition stays. A new topic id means that the topic was deleted and made again: then everything is
replaced. See KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from typing import Any

NO_ID = bytes(16)


class PartitionMetadata:
    """One partition: `leader` is None where there is none now; `leader_epoch` is -1 where it is not known."""

    __slots__ = ("error_code", "isr", "leader", "leader_epoch", "replicas")

    def __init__(
        self, leader: int | None, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], error_code: int
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.isr = isr
        self.error_code = error_code


class TopicMetadata:
    """One topic: `partitions` by number (empty where `error_code` says why), `topic_id` 16 bytes (zeros: none)."""

    __slots__ = ("error_code", "is_internal", "name", "partitions", "topic_id")

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        error_code: int,
        partitions: dict[int, PartitionMetadata],
        is_internal: bool = False,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.partitions = partitions
        self.is_internal = is_internal


class BrokerMetadata:
    """One broker: where it listens for clients."""

    __slots__ = ("broker_id", "host", "port", "rack")

    def __init__(self, broker_id: int, host: str, port: int, rack: str | None) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack


class Metadata:
    """What is known of the cluster; `version` grows with everything taken in (0: nothing is known yet).

    `updated_us` is when metadata of all topics in use last came in one answer. `heard_of` has the topics of which new
    metadata has come since the last `take_heard_of`.
    """

    __slots__ = ("brokers", "cluster_id", "controller_id", "heard_of", "topics", "updated_us", "version")

    def __init__(self) -> None:
        self.version = 0
        self.updated_us = 0
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        # A dict for its order.
        self.heard_of: dict[str, None] = {}

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the leader's node id, None where the topic, the partition or its leader is not known."""
        known = self.topics.get(topic)
        if known is None:
            return None
        place = known.partitions.get(partition)
        return None if place is None else place.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the leader epoch, -1 where it is not known."""
        known = self.topics.get(topic)
        place = None if known is None else known.partitions.get(partition)
        return -1 if place is None else place.leader_epoch

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has, 0 where it is not known."""
        known = self.topics.get(topic)
        return 0 if known is None else len(known.partitions)

    def take_in(self, response: Any, now_us: int, *, for_all: bool = True) -> bool:
        """Take in one MetadataResponse; only an answer `for_all` topics sets `updated_us`.

        True if topics that are not in the answer lost a leader, because its broker is not in the answer either.
        """
        self.version += 1
        if for_all:
            self.updated_us = now_us
        if response.cluster_id is not None:
            self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        before = self.brokers
        if response.brokers:
            self.brokers = {b.node_id: BrokerMetadata(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        for topic in response.topics or ():
            if topic.name is not None:
                self.topics[topic.name] = _merged(topic, self.topics.get(topic.name), self.brokers)
                self.heard_of[topic.name] = None
        return not before.keys() <= self.brokers.keys() and self._lose_leaders()

    def _lose_leaders(self) -> bool:
        """Forget the leaders that are not among the brokers: without an address nothing can be sent to them."""
        lost = False
        for name, topic in self.topics.items():
            for place in topic.partitions.values():
                if place.leader is not None and place.leader not in self.brokers:
                    place.leader = None
                    self.heard_of[name] = None
                    lost = True
        return lost

    def take_heard_of(self) -> dict[str, None]:
        """Return the topics with new metadata since the last call."""
        taken, self.heard_of = self.heard_of, {}
        return taken

    def refuse(self, topic: str, error_code: int) -> None:
        """Note an error for a topic that is not requested, because no broker can have it."""
        self.version += 1
        self.topics[topic] = TopicMetadata(topic, NO_ID, error_code, {})
        self.heard_of[topic] = None

    def learn_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Take a newer leader from a Produce or Fetch answer (KIP-951); True if it replaced the one known."""
        known = self.topics.get(topic)
        place = None if known is None else known.partitions.get(partition)
        if place is None or leader not in self.brokers or leader_epoch <= place.leader_epoch:
            return False
        place.leader = leader
        place.leader_epoch = leader_epoch
        self.version += 1
        self.heard_of[topic] = None
        return True


def _merged(told: Any, known: TopicMetadata | None, brokers: dict[int, BrokerMetadata]) -> TopicMetadata:
    partitions = {}
    for place in sorted(told.partitions, key=_partition_index):
        # Nothing can be sent to a leader that is not among the live brokers: it counts as none.
        leader = place.leader_id if place.leader_id in brokers else None
        partitions[place.partition_index] = PartitionMetadata(
            leader,
            place.leader_epoch,
            tuple(place.replica_nodes),
            tuple(place.isr_nodes),
            place.error_code,
        )
    if known is not None and told.error_code == 0 and told.topic_id == known.topic_id:
        for index, place in partitions.items():
            before = known.partitions.get(index)
            if before is not None and 0 <= place.leader_epoch < before.leader_epoch:
                partitions[index] = before
                if before.leader not in brokers:
                    # The newest answer does not have that broker: without its address nothing can be sent to it.
                    before.leader = None
    return TopicMetadata(told.name, told.topic_id, told.error_code, partitions, told.is_internal)


def _partition_index(place: Any) -> int:
    index: int = place.partition_index
    return index
