"""Sealed batches waiting for their turn, partition by partition, and which partitions may send to which node now.

The open batches stand in the compiled `records/append`; here they arrive sealed and stay in order. A partition with
batches to send is in exactly one place: the ready list of its leader's node, the list of those that sit out a retry
backoff, or the list of those without a known leader; or in none, when answers it waits for will put it back.

Invariants, all per partition: batches leave in the order in which they came, first attempts and retries alike. A batch
that is sent again goes alone, when nothing else is in flight. All batches in flight are on one node. With idempotence
nothing follows the first batch of an identity until it is stored: a broker without state for a producer accepts any
first sequence, so that a second batch could otherwise overtake a refused first one. The same holds for the first batch
after a pause in which the broker may have forgotten the producer.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ottla.connection.core import ConnectionCore
from ottla.producer.batch import Batch, BatchState
from ottla.producer.idempotence import Idempotence

if TYPE_CHECKING:
    from ottla.records.delivery import SealedBatch


# Brokers forget a producer that was idle (`producer.id.expiration.ms`, a day by default, is theirs to set).
FORGOTTEN_AFTER_US = 60_000_000


class PartitionQueue:
    """One partition's batches: `waiting` (oldest first, retries at the front) and `in_flight` (in order of sending)."""

    __slots__ = (
        "admitted",
        "blocked_until_us",
        "established",
        "hole",
        "in_flight",
        "listed",
        "next_number",
        "next_sequence",
        "node_id",
        "partition",
        "producer_epoch",
        "producer_id",
        "retrying",
        "sent_us",
        "topic",
        "topic_id",
        "waiting",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        # Of the log that was last sent to; None before the first time.
        self.topic_id: bytes | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.next_number = 0
        self.node_id = -1
        self.blocked_until_us = 0
        # When a batch last left.
        self.sent_us = 0
        self.listed = False
        # A batch that is being sent again is in flight: nothing goes with it.
        self.retrying = False
        # For idempotence: see idempotence.py.
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.established = True
        self.hole = False
        # False while a transaction's coordinator has to be told of the partition first.
        self.admitted = True

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, in front of all younger ones."""
        place = 0
        for other in self.waiting:
            if other.number > batch.number:
                break
            place += 1
        self.waiting.insert(place, batch)

    def put_behind(self, batch: Batch) -> None:
        """Queue a batch again behind all others: what must never happen (the weakness "reorders_on_retry")."""
        self.waiting.append(batch)
        for each in self.waiting:
            if each.numbered:
                self.next_sequence -= each.sealed.record_count
                each.numbered = False

    def is_oldest(self, batch: Batch) -> bool:
        """Tell whether every batch before this one is settled."""
        ahead = bool(self.waiting) and self.waiting[0].number < batch.number
        return not ahead and not any(other.number < batch.number for other in self.in_flight)

    def may_send(self, in_flight_max: int) -> bool:
        """Tell whether the first waiting batch may leave beside those in flight."""
        if not self.in_flight:
            return self.admitted
        if self.retrying or self.hole or not self.established or self.waiting[0].attempts:
            return False
        return len(self.in_flight) < in_flight_max


class Accumulator:
    """All partitions' queues; time and leaders are asked of the connection core."""

    def __init__(
        self, connection: ConnectionCore, idempotence: Idempotence, in_flight_max: int, delivery_timeout_us: int
    ) -> None:
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self.ready: dict[int, deque[PartitionQueue]] = {}
        self.leaderless: list[PartitionQueue] = []
        # When a node last took batches.
        self.drained_us: dict[int, int] = {}
        self._connection = connection
        self._idempotence = idempotence
        self._in_flight_max = in_flight_max
        self._delivery_timeout_us = delivery_timeout_us
        self._resting: list[tuple[int, int, PartitionQueue]] = []
        self._rest_count = 0
        # No unsettled batch ends before this; it is looked up anew only when it has come.
        self._expiry_us: int | None = None

    def add(self, sealed: SealedBatch, now_us: int) -> None:
        """Queue one sealed batch behind those of its partition."""
        key = sealed.topic, sealed.partition
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = PartitionQueue(*key)
        self._connection.use_topic(queue.topic, now_us)
        deadline_us = sealed.created_us + self._delivery_timeout_us
        queue.waiting.append(Batch(sealed, queue, queue.next_number, deadline_us))
        queue.next_number += sealed.record_count
        if self._expiry_us is None or deadline_us < self._expiry_us:
            self._expiry_us = deadline_us
        if not queue.listed:
            self.schedule(queue, now_us)

    def schedule(self, queue: PartitionQueue, now_us: int) -> None:
        """Put a partition where it belongs now; does nothing where it is listed or has nothing it may send."""
        if queue.listed or not queue.waiting or not queue.may_send(self._in_flight_max):
            return
        if queue.blocked_until_us > now_us:
            self._rest_count += 1
            heappush(self._resting, (queue.blocked_until_us, self._rest_count, queue))
            queue.listed = True
            return
        node_id = self._connection.leader(queue.topic, queue.partition)
        if node_id is None:
            self.leaderless.append(queue)
            queue.listed = True
            return
        if queue.in_flight and queue.node_id != node_id:
            return
        queue.node_id = node_id
        ready = self.ready.get(node_id)
        if ready is None:
            ready = self.ready[node_id] = deque()
        ready.append(queue)
        queue.listed = True

    def take(self, node_id: int, most_bytes: int, now_us: int) -> list[Batch]:
        """Return the batches of the next request to this node: one per ready partition, as many as fit, in flight."""
        ready = self.ready[node_id]
        taken: list[Batch] = []
        size = 0
        for _ in range(len(ready)):
            queue = ready.popleft()
            queue.listed = False
            if (
                not queue.waiting
                or queue.node_id != node_id
                or queue.blocked_until_us > now_us
                or not queue.may_send(self._in_flight_max)
            ):
                self.schedule(queue, now_us)
                continue
            batch = queue.waiting[0]
            if queue.hole and batch.state is not BatchState.DOUBTED and not self._idempotence.start_afresh(queue):
                ready.appendleft(queue)
                queue.listed = True
                break
            size += batch.size_bytes
            if taken and size > most_bytes:
                ready.appendleft(queue)
                queue.listed = True
                break
            if now_us - queue.sent_us > FORGOTTEN_AFTER_US and self._idempotence.enabled:
                queue.established = False
            queue.sent_us = now_us
            queue.waiting.popleft()
            queue.in_flight.append(batch)
            queue.retrying = batch.attempts > 0
            taken.append(batch)
        for batch in taken:
            self.schedule(batch.queue, now_us)
        if taken:
            self.drained_us[node_id] = now_us
        return taken

    def back(self, batch: Batch) -> None:
        """Take a batch out of flight, because its answer is there."""
        queue = batch.queue
        if queue.in_flight[0] is batch:
            queue.in_flight.popleft()
        else:
            queue.in_flight.remove(batch)
        if not queue.in_flight:
            queue.retrying = False

    def rest_over(self, now_us: int) -> None:
        """Put back the partitions whose retry backoff is over."""
        resting = self._resting
        while resting and resting[0][0] <= now_us:
            queue = heappop(resting)[2]
            queue.listed = False
            self.schedule(queue, now_us)

    def leaders_changed(self, now_us: int) -> None:
        """Put every partition that waits for a leader, or for its node, where it belongs by the new metadata."""
        if self._idempotence.enabled:
            self._look_for_new_topics()
        lists: list[list[PartitionQueue] | deque[PartitionQueue]] = [self.leaderless, *self.ready.values()]
        self.leaderless = []
        self.ready = {}
        for queue in [queue for listed in lists for queue in listed]:
            queue.listed = False
            self.schedule(queue, now_us)

    def _look_for_new_topics(self) -> None:
        """A topic that was deleted and made anew has logs that know no producer."""
        topics = self._connection.metadata.topics
        for queue in self.queues.values():
            known = topics.get(queue.topic)
            if known is None or known.error_code or known.topic_id == queue.topic_id:
                continue
            if queue.topic_id is not None:
                queue.established = False
            queue.topic_id = known.topic_id

    def deadline_us(self) -> int | None:
        """Return when `rest_over` or `expired` has something to do next."""
        if self._resting and (self._expiry_us is None or self._resting[0][0] < self._expiry_us):
            return self._resting[0][0]
        return self._expiry_us

    def expired(self, now_us: int) -> list[Batch]:
        """Return the unsettled batches whose delivery timeout is over; waiting ones are taken out of their queues."""
        if self._expiry_us is None or self._expiry_us > now_us:
            return []
        found: list[Batch] = []
        next_us: int | None = None
        for queue in self.queues.values():
            for batch in queue.in_flight:
                if batch.state >= BatchState.ACKED:
                    continue
                if batch.deadline_us <= now_us:
                    found.append(batch)
                elif next_us is None or batch.deadline_us < next_us:
                    next_us = batch.deadline_us
            while queue.waiting and queue.waiting[0].deadline_us <= now_us:
                found.append(queue.waiting.popleft())
            if queue.waiting and (next_us is None or queue.waiting[0].deadline_us < next_us):
                next_us = queue.waiting[0].deadline_us
        self._expiry_us = next_us
        return found

    def give_up_all(self) -> list[Batch]:
        """Return every unsettled batch, in order; waiting ones are taken out of their queues."""
        found: list[Batch] = []
        for queue in self.queues.values():
            found.extend(batch for batch in queue.in_flight if batch.state < BatchState.ACKED)
            found.extend(queue.waiting)
            queue.waiting.clear()
        self._expiry_us = None
        return found
