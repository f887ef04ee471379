"""How long the queues of a topic's partitions are, and so where records without a key should go (KIP-794).

The compiled `records/append` chooses its sticky partition by itself, from the `PartitionLoad` that this file makes: the
partitions that have a leader, each with a share that is smaller if its queue is longer. A queue is what waits in the
accumulator, the open batch too. The queues of a slow broker grow, because its requests in flight are at their limit. If
the longest queue is L, a partition with a queue of q gets L + 1 - q shares: with 0, 3 and 1 batches, 4, 1 and 3 of
eight. There is no load where all partitions can be used and have equal queues.

With `partitioner.availability.timeout.ms`, a broker is stuck if batches have waited for it so long and none was sent to
it. Its partitions are left out until one is sent. Two differences from Java 4.3: a partition takes part before its
first batch, and a stuck broker's partition is left out also if its own queue is empty.

Invariants: a load has only partitions with a leader, and at least one. Checking all queues takes at most a hundredth of
the time: the pause between two checks grows with the number of queues and partitions. When new metadata comes, only its
topics are checked, at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.producer.events import LoadKnown
from ottla.records.partitions import PartitionLoad

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.connection.metadata import Metadata, TopicMetadata
    from ottla.producer.accumulator import Accumulator

_PAUSE_US = 1_000
# To check a queue takes some 100 ns.
_PAUSE_PER_QUEUE_US = 10


class PartitionLoads:
    """The last load of each topic, and which loads are new."""

    __slots__ = (
        "_accumulator",
        "_adaptive",
        "_availability_timeout_us",
        "_due_us",
        "_heard_of",
        "_stuck_since_us",
        "_told",
    )

    def __init__(self, accumulator: Accumulator, *, adaptive: bool, availability_timeout_us: int) -> None:
        """Begin with all partitions alike; `availability_timeout_us` 0 means that no broker counts as stuck."""
        self._accumulator = accumulator
        self._adaptive = adaptive
        self._availability_timeout_us = availability_timeout_us if adaptive else 0
        self._due_us = 0
        # A dict for its order.
        self._heard_of: dict[str, None] = {}
        # Node -> since when batches have waited for it and it has taken none.
        self._stuck_since_us: dict[int, int] = {}
        self._told: dict[str, PartitionLoad | None] = {}

    def heard_of(self, topics: Iterable[str]) -> None:
        """Have the next `news` check these topics."""
        self._heard_of.update(dict.fromkeys(topics))

    def forget(self, topic: str) -> None:
        """Remove the load of a topic that was not used for long."""
        self._told.pop(topic, None)

    def news(self, topics: Mapping[str, Any], metadata: Metadata, now_us: int) -> list[LoadKnown]:
        """Return the loads of these topics that have changed; call it after everything that can be sent was sent."""
        all_due = now_us >= self._due_us
        if not all_due and not self._heard_of:
            return []
        looked_at = topics if all_due else [topic for topic in self._heard_of if topic in topics]
        self._heard_of = {}
        if all_due and self._availability_timeout_us:
            self._look_for_stuck_nodes(metadata, now_us)
        timeout_us = self._availability_timeout_us
        stuck = {node_id: since for node_id, since in self._stuck_since_us.items() if now_us - since > timeout_us}
        found = []
        partitions = 0
        for topic in looked_at:
            known = metadata.topics.get(topic)
            if known is None or known.error_code:
                continue
            partitions += len(known.partitions)
            load = self._load(known, stuck)
            if load != self._told.get(topic):
                self._told[topic] = load
                found.append(LoadKnown(topic, load))
        if all_due:
            self._due_us = now_us + _PAUSE_US + _PAUSE_PER_QUEUE_US * (len(self._accumulator.queues) + partitions)
        return found

    def _look_for_stuck_nodes(self, metadata: Metadata, now_us: int) -> None:
        drained_us, before = self._accumulator.drained_us, self._stuck_since_us
        since_us: dict[int, int] = {}
        for (topic, partition), queue in self._accumulator.queues.items():
            node_id = metadata.leader(topic, partition) if queue.waiting and not queue.lingers else None
            if node_id is not None and node_id not in since_us:
                since_us[node_id] = max(before.get(node_id, now_us), drained_us.get(node_id, 0))
        self._stuck_since_us = since_us

    def _load(self, known: TopicMetadata, stuck: dict[int, int]) -> PartitionLoad | None:
        places = known.partitions
        led = [index for index, place in places.items() if place.leader is not None]
        usable = [index for index in led if places[index].leader not in stuck] or led
        if not usable:
            return None
        queued = self._queued(known.name, usable) if self._adaptive else [0] * len(usable)
        longest = max(queued)
        if len(usable) == len(places) and min(queued) == longest:
            return None
        total = 0
        frequencies = []
        for count in queued:
            total += longest + 1 - count
            frequencies.append(total)
        return PartitionLoad(tuple(usable), tuple(frequencies))

    def _queued(self, topic: str, partitions: list[int]) -> list[int]:
        queues = self._accumulator.queues
        counts = []
        for index in partitions:
            queue = queues.get((topic, index))
            counts.append(0 if queue is None else len(queue.waiting))
        return counts
