"""What takes part in a transaction: partitions, offsets and groups, and which of them have yet to be added.

In transaction version 1 a partition is admitted once it was added at the coordinator (AddPartitionsToTxn); until then
its batches wait. In version 2 (KIP-890) brokers add a partition by themselves, with its first batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ottla.producer.accumulator import Accumulator, PartitionQueue
from ottla.producer.events import CommitOffsets


class TransactionParts:
    """The parts of one producer's present transaction."""

    __slots__ = ("_accumulator", "_groups_added", "_partitions", "_version", "is_begun", "offsets", "to_add")

    def __init__(self, accumulator: Accumulator) -> None:
        # The coordinator may know of the transaction, so it has to be ended.
        self.is_begun = False
        # Partitions that have yet to be added, and offsets that have yet to be committed.
        self.to_add: dict[tuple[str, int], PartitionQueue] = {}
        self.offsets: deque[CommitOffsets] = deque()
        self._accumulator = accumulator
        self._version = 0
        self._partitions: dict[tuple[str, int], PartitionQueue] = {}
        self._groups_added: dict[str, bool] = {}

    def begin(self, version: int) -> None:
        """Note that a transaction of this version is open."""
        self._version = version
        for queue in self._accumulator.queues.values():
            queue.admitted = version == 2

    def add(self, topic: str, partition: int) -> None:
        """Note that a batch was handed over: its partition takes part."""
        place = topic, partition
        if place in self._partitions:
            return
        queue = self._partitions[place] = self._accumulator.queues[place]
        if self._version == 1:
            queue.admitted = False
            self.to_add[place] = queue
        else:
            self.is_begun = True

    def admit(self, places: Iterable[tuple[str, int]], now_us: int) -> None:
        """Note that the coordinator has added these partitions: their batches may be sent."""
        for place in places:
            queue = self.to_add.pop(place, None)
            if queue is not None:
                queue.admitted = True
                self._accumulator.schedule(queue, now_us)

    def add_group(self, group: str) -> None:
        """Note that the coordinator has added this group."""
        self._groups_added[group] = True

    def has_group(self, group: str) -> bool:
        """Whether the coordinator has added the group."""
        return group in self._groups_added

    @property
    def is_empty(self) -> bool:
        """Whether nothing takes part."""
        return not (self._partitions or self.offsets or self._groups_added)

    @property
    def is_quiet(self) -> bool:
        """Whether none of its batches waits or is in flight."""
        # Batches of earlier transactions are all settled, so other partitions need not be checked.
        return not any(queue.waiting or queue.in_flight for queue in self._partitions.values())

    @property
    def has_hole(self) -> bool:
        """Whether the sequence of a partition has a gap."""
        return any(queue.hole for queue in self._partitions.values())

    def drop_plans(self) -> list[CommitOffsets]:
        """Drop the partitions and offsets that have yet to be added; return these offsets."""
        self.to_add.clear()
        dropped = list(self.offsets)
        self.offsets.clear()
        return dropped

    def clear(self) -> None:
        """Remove everything: the transaction is over."""
        self._partitions.clear()
        self.to_add.clear()
        self._groups_added.clear()
        self.is_begun = False
