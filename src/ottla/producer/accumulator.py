"""Each partition's queue (waiting batches, batches in flight, sequence), and which partitions may send to which node.

A batch is added here with its first record. While it is open, `records/append` (compiled) adds more records to it. It
is closed there when it is full, or here by `take` when it can be sent with the next request. It is ready for that when
`linger.ms` is over, or when a call of flush, commit or close is made, or a call waits for memory (`release_open`). A
batch that is ready stays open, and takes records up to `batch.size`, until its request is sent.

A partition that may send is in exactly one list. Three lists belong to its leader's node: `sendable` (its first batch
is finished), `due` (its first batch is open and ready) and `lingering` (open and not ready yet). Two are for all nodes:
partitions that wait for a retry backoff, and partitions without a known leader. A partition is in no list while an
answer must come first, while the coordinator of its transaction does not have it yet (`admitted`), or while another
thread compresses its first batch; afterwards it is put into one.

Invariants, all per partition: batches are sent in the order in which they came, first attempts and retries alike. A
batch that is sent again is alone in flight. All batches in flight are on one node. With idempotence, nothing is sent
after the first batch of a producer id and epoch until that is stored: a broker without state for a producer accepts any
first sequence, so it could accept a second batch after it refused the first. The same holds for the first batch after
a pause in which the broker may have removed the producer's state.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

from ottla.connection.core import ConnectionCore
from ottla.producer.batch import UNNUMBERED, Batch, BatchState
from ottla.producer.idempotence import Idempotence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.records.delivery import SealedBatch


# Brokers remove the state of an idle producer after `producer.id.expiration.ms` (theirs; a day by default).
FORGOTTEN_AFTER_US = 60_000_000


# How many entries of `_lingers` may be of batches that were sent, before these are removed.
_LINGERS_KEPT = 64


class OpenBatches(Protocol):
    """What closes open batches: the appender, `records/append.py`."""

    def close(self, batch: SealedBatch) -> bool:
        """Close the batch so that it can be sent; False while another thread compresses it."""
        ...


class PartitionQueue:
    """One partition's batches: `waiting` (oldest first, retries too, the open one last) and `in_flight`."""

    __slots__ = (
        "admitted",
        "blocked_until_us",
        "established",
        "hole",
        "in_flight",
        "is_due",
        "lingers",
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
        # The topic id of the log that was last sent to; None before the first time.
        self.topic_id: bytes | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.next_number = 0
        self.node_id = -1
        self.blocked_until_us = 0
        # When a batch was last sent.
        self.sent_us = 0
        # Whether it is in a list; and whether that is `lingering` or `due` of its node.
        self.listed = False
        self.lingers = False
        self.is_due = False
        # A batch that is being sent again is in flight: no other is sent meanwhile.
        self.retrying = False
        # For idempotence: see idempotence.py.
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.established = True
        self.hole = False
        # False while the partition has to be added to the transaction first.
        self.admitted = True

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def put_back(self, batch: Batch) -> None:
        """Queue a batch again, in front of all younger ones."""
        index = 0
        for other in self.waiting:
            if other.number > batch.number:
                break
            index += 1
        self.waiting.insert(index, batch)

    def is_oldest(self, batch: Batch) -> bool:
        """Tell whether every batch before this one is settled."""
        ahead = bool(self.waiting) and self.waiting[0].number < batch.number
        return not ahead and not any(other.number < batch.number for other in self.in_flight)

    def may_send(self, in_flight_max: int) -> bool:
        """Tell whether the first waiting batch may be sent while others are in flight."""
        if not self.in_flight:
            return self.admitted
        if self.retrying or self.hole or not self.established or self.waiting[0].attempts:
            return False
        return len(self.in_flight) < in_flight_max


class NodeQueues:
    """The partitions that one node leads and that have something to send."""

    __slots__ = ("due", "due_comes_first", "lingering", "sendable")

    def __init__(self) -> None:
        self.sendable: deque[PartitionQueue] = deque()
        # Dicts keep the order, and any partition can be removed quickly.
        self.due: dict[PartitionQueue, None] = {}
        self.lingering: dict[PartitionQueue, None] = {}
        # Finished batches filled the last request, so `due` comes first in the next one.
        self.due_comes_first = False


class Accumulator:
    """All partitions' queues; the connection core has their leaders."""

    def __init__(
        self,
        connection: ConnectionCore,
        idempotence: Idempotence,
        in_flight_max: int,
        delivery_timeout_us: int,
        linger_us: int = 0,
        *,
        tells_closed: bool = False,
    ) -> None:
        """With `tells_closed`, each batch is put into `closed` when it is closed."""
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self.nodes: dict[int, NodeQueues] = {}
        self.leaderless: list[PartitionQueue] = []
        # Closes open batches; None where every batch that is added is finished.
        self.open_batches: OpenBatches | None = None
        self.closed: list[SealedBatch] = []
        # Node id -> when batches were last sent to it.
        self.drained_us: dict[int, int] = {}
        self._connection = connection
        self._idempotence = idempotence
        self._in_flight_max = in_flight_max
        self._delivery_timeout_us = delivery_timeout_us
        self._linger_us = linger_us
        self._tells_closed = tells_closed
        # The batches that may be open, in the order in which they were added.
        self._open: dict[Batch, None] = {}
        self._lingers: list[tuple[int, int, Batch]] = []
        self._resting: list[tuple[int, int, PartitionQueue]] = []
        self._rest_count = 0
        # Not after the earliest deadline of an unsettled batch; computed again only when this time has come.
        self._expiry_us: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether any partition with a leader has a batch that could be sent."""
        return any(node.sendable or node.due for node in self.nodes.values())

    # --- batches that are added ----------------------------------------------------------------------------------

    def add(self, sealed: SealedBatch, now_us: int) -> None:
        """Queue one batch, open or finished, behind those of its partition."""
        key = sealed.topic, sealed.partition
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = PartitionQueue(*key)
            self._look_for_new_log(queue)
        self._connection.use_topic(queue.topic, now_us)
        created_us = sealed.created_us
        deadline_us = created_us + self._delivery_timeout_us
        batch = Batch(sealed, queue, UNNUMBERED, deadline_us)
        if not sealed.is_finished:
            self._open[batch] = None
            if self._linger_us:
                batch.ready_us = created_us + self._linger_us
        queue.waiting.append(batch)
        if self._expiry_us is None or deadline_us < self._expiry_us:
            self._expiry_us = deadline_us
        if not queue.listed:
            self.schedule(queue, now_us)

    def filled(self, sealed: SealedBatch, now_us: int) -> None:
        """A batch that was added before it was finished can be sent now."""
        queue = self.queues[sealed.topic, sealed.partition]
        if queue.waiting:
            # Its deadline may have passed while it was compressed, see `expired`.
            deadline_us = queue.waiting[0].deadline_us
            if self._expiry_us is None or deadline_us < self._expiry_us:
                self._expiry_us = deadline_us
        self.schedule(queue, now_us)

    def release_open(self, now_us: int) -> None:
        """Make all open batches ready: for a flush, a commit, closing, or a call that waits for memory."""
        for batch in list(self._open):
            batch.ready_us = 0
            queue = batch.queue
            if queue.lingers and queue.waiting[0] is batch:
                self._unlist(queue)
                self.schedule(queue, now_us)

    # --- which list a partition is in ----------------------------------------------------------------------------

    def schedule(self, queue: PartitionQueue, now_us: int) -> None:
        """Put a partition into its list, if it may send and is in none."""
        if (queue.lingers or queue.is_due) and queue.waiting[0].sealed.is_finished:
            # The open batch was finished, or a batch that is sent again is before it now.
            self._unlist(queue)
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
        batch = queue.waiting[0]
        sealed = batch.sealed
        if not sealed.is_finished and not sealed.is_open:
            return  # it is being compressed; `filled` is called when that is done
        queue.node_id = node_id
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = NodeQueues()
        if sealed.is_finished:
            node.sendable.append(queue)
        elif batch.ready_us <= now_us:
            node.due[queue] = None
            queue.is_due = True
        else:
            node.lingering[queue] = None
            queue.lingers = True
            if not batch.is_timed:
                self._note_linger(batch)
        queue.listed = True

    def _note_linger(self, batch: Batch) -> None:
        """Have `rest_over` check the batch when `linger.ms` is over."""
        if len(self._lingers) > _LINGERS_KEPT + 4 * len(self._open):
            # Most entries are of batches that were sent. They stay in the heap until they are its first.
            kept = []
            for entry in self._lingers:
                if self._still_lingers(entry[2]):
                    kept.append(entry)
                else:
                    entry[2].is_timed = False
            heapify(kept)
            self._lingers = kept
        self._rest_count += 1
        heappush(self._lingers, (batch.ready_us, self._rest_count, batch))
        batch.is_timed = True

    def _unlist(self, queue: PartitionQueue) -> None:
        """Take a partition out of its node's `due` or `lingering`."""
        node = self.nodes[queue.node_id]
        del (node.due if queue.is_due else node.lingering)[queue]
        queue.listed = queue.is_due = queue.lingers = False

    def rest_over(self, now_us: int) -> None:
        """Schedule the partitions whose retry backoff is over, or for whose open batch `linger.ms` is over."""
        resting = self._resting
        while resting and resting[0][0] <= now_us:
            queue = heappop(resting)[2]
            queue.listed = False
            self.schedule(queue, now_us)
        lingers = self._lingers
        while lingers and lingers[0][0] <= now_us:
            batch = heappop(lingers)[2]
            batch.is_timed = False
            if self._still_lingers(batch):
                self._unlist(batch.queue)
                self.schedule(batch.queue, now_us)

    def _still_lingers(self, batch: Batch) -> bool:
        queue = batch.queue
        return queue.lingers and queue.waiting[0] is batch

    def leaders_changed(self, topics: Iterable[str], now_us: int) -> None:
        """Schedule again, by the new metadata, every partition that waits for a leader or is in a node's list.

        `topics` are those of which new metadata came.
        """
        for topic in topics:
            known = self._connection.metadata.topics.get(topic)
            for partition in () if known is None else known.partitions:
                queue = self.queues.get((topic, partition))
                if queue is not None:
                    self._look_for_new_log(queue)
        listed = self.leaderless
        self.leaderless = []
        for node in self.nodes.values():
            listed.extend(node.sendable)
            listed.extend(node.due)
            listed.extend(node.lingering)
        self.nodes = {}
        for queue in listed:
            queue.listed = queue.is_due = queue.lingers = False
            self.schedule(queue, now_us)

    def _look_for_new_log(self, queue: PartitionQueue) -> None:
        """Note that the partition's log has no state of this producer, if the topic was deleted and made again."""
        known = self._connection.metadata.topics.get(queue.topic)
        if not self._idempotence.enabled or known is None or known.error_code or known.topic_id == queue.topic_id:
            return
        if queue.topic_id is not None:
            queue.established = False
        queue.topic_id = known.topic_id

    # --- batches that are sent -----------------------------------------------------------------------------------

    def take(self, node_id: int, most_bytes: int, now_us: int, in_flight: int, may_close: bool) -> list[Batch]:
        """Return the batches of the next request to this node, one per partition, as many as fit; they are in flight.

        Open batches that are ready are closed and sent in it if `may_close`, or if it has a finished batch anyway. If
        there are such batches, or if nothing is in flight to the node, open batches that are not ready are sent in it
        too, while there is space: else they would soon need a request of their own. If finished batches leave no space
        for those that are ready, these come first in the next request.
        """
        node = self.nodes[node_id]
        taken: list[Batch] = []
        left = most_bytes
        if node.due_comes_first and node.due:
            left = self._take_open(node_id, node.due, taken, left, now_us)
        if left > 0:
            left = self._take_from(node_id, node.sendable, taken, left, now_us)
        if left > 0 and (may_close or taken):
            takes_lingering = bool(node.due) or (in_flight == 0 and bool(taken))
            if node.due:
                left = self._take_open(node_id, node.due, taken, left, now_us)
            if takes_lingering and left > 0 and node.lingering:
                self._take_open(node_id, node.lingering, taken, left, now_us)
        node.due_comes_first = bool(taken) and bool(node.due)
        for batch in taken:
            self.schedule(batch.queue, now_us)
        if taken:
            self.drained_us[node_id] = now_us
        return taken

    def _take_open(
        self, node_id: int, listed: dict[PartitionQueue, None], taken: list[Batch], most_bytes: int, now_us: int
    ) -> int:
        """As `_take_from`, for partitions whose first batch is open; those that are not taken are put back."""
        queues = deque(listed)
        for queue in queues:
            self._unlist(queue)
        left = self._take_from(node_id, queues, taken, most_bytes, now_us)
        for queue in queues:
            self.schedule(queue, now_us)
        return left

    def _take_from(
        self, node_id: int, queues: deque[PartitionQueue], taken: list[Batch], most_bytes: int, now_us: int
    ) -> int:
        """Take the first batch of each of these partitions; returns how many bytes are left in the request."""
        sendable = self.nodes[node_id].sendable
        left = most_bytes
        for _ in range(len(queues)):
            queue = queues.popleft()
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
            if queues is sendable and batch.sealed.is_open:
                self.schedule(queue, now_us)  # it was behind a finished batch that was given up
                continue
            if not batch.sealed.is_finished and not self._close(batch):
                continue  # another thread compresses it; `filled` is called when that is done
            if batch.number == UNNUMBERED:
                self._finish(batch)
            if queue.hole and batch.state is not BatchState.DOUBTED and not self._idempotence.start_afresh(queue):
                sendable.appendleft(queue)
                queue.listed = True
                return 0
            if taken and batch.size_bytes > left:
                sendable.appendleft(queue)
                queue.listed = True
                return 0
            left -= batch.size_bytes
            if now_us - queue.sent_us > FORGOTTEN_AFTER_US and self._idempotence.enabled:
                queue.established = False
            queue.sent_us = now_us
            queue.waiting.popleft()
            queue.in_flight.append(batch)
            queue.retrying = batch.attempts > 0
            taken.append(batch)
        return left

    def _close(self, batch: Batch) -> bool:
        """Close an open batch; False where another thread is compressing it."""
        assert self.open_batches is not None
        return self.open_batches.close(batch.sealed)

    def _finish(self, batch: Batch) -> None:
        """The batch is closed: note its size, and give it its number in the partition."""
        sealed, queue = batch.sealed, batch.queue
        batch.size_bytes = sealed.size_bytes
        batch.number = queue.next_number
        queue.next_number += sealed.record_count
        self._open.pop(batch, None)
        if self._tells_closed:
            self.closed.append(sealed)

    def back(self, batch: Batch) -> None:
        """Take a batch out of flight, because its request was answered or lost."""
        queue = batch.queue
        if queue.in_flight[0] is batch:
            queue.in_flight.popleft()
        else:
            queue.in_flight.remove(batch)
        if not queue.in_flight:
            queue.retrying = False

    # --- timeouts ------------------------------------------------------------------------------------------------

    def deadline_us(self) -> int | None:
        """Return when `rest_over` or `expired` must be called next."""
        earliest = self._expiry_us
        lingers = self._lingers
        while lingers and not self._still_lingers(lingers[0][2]):
            heappop(lingers)[2].is_timed = False
        if self._resting and (earliest is None or self._resting[0][0] < earliest):
            earliest = self._resting[0][0]
        if lingers and (earliest is None or lingers[0][0] < earliest):
            earliest = lingers[0][0]
        return earliest

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
                dropped = self.drop_first(queue)
                if dropped is None:
                    break  # another thread compresses it; `filled` is called when that is done
                found.append(dropped)
            if queue.waiting:
                due_us = queue.waiting[0].deadline_us
                if due_us > now_us and (next_us is None or due_us < next_us):
                    next_us = due_us
        self._expiry_us = next_us
        return found

    def drop_first(self, queue: PartitionQueue) -> Batch | None:
        """Take the first batch out of a partition's queue, to give it up; None where none can be taken out now.

        One that another thread is compressing stays until it is finished: its size and its memory are known then.
        """
        if not queue.waiting:
            return None
        batch = queue.waiting[0]
        if not batch.sealed.is_finished and not self._close(batch):
            return None
        if queue.lingers or queue.is_due:
            self._unlist(queue)
        queue.waiting.popleft()
        if batch.number == UNNUMBERED:
            self._finish(batch)
        return batch

    def give_up_all(self) -> list[Batch]:
        """Return every unsettled batch, in order; waiting ones are taken out of their queues."""
        found: list[Batch] = []
        for queue in self.queues.values():
            found.extend(batch for batch in queue.in_flight if batch.state < BatchState.ACKED)
            while (dropped := self.drop_first(queue)) is not None:
                found.append(dropped)
        self._expiry_us = None
        return found
