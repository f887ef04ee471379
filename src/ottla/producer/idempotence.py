"""The producer id, and the sequence numbers that let a broker recognise a batch that is sent again (KIP-98).

The id is requested from any broker before the first batch is sent; a broker that did not give one is asked again only
when no other can be reached. Every partition counts its own records from 0.

When a batch is given up after it was numbered, the numbers after it do not continue those in the broker's log: the
partition has a hole. Once nothing of it is in flight, it starts afresh: with the next epoch, at sequence 0 (KIP-360),
which brokers accept. Before that, a batch that may be stored under its old number is sent once more under the same
number. Either the broker has it (it is acked), or it answers "out of order": then the batch is unknown, because the
earlier request may still reach the log.

A partition also starts afresh when its log does not continue where the last acknowledged batch ended (an election of a
replica that lagged, a topic deleted and made again, a broker without state of the producer): the batch that was refused
is not stored, and is sent under the next epoch. A partition that has used up the 32,768 epochs of its producer id gets
a new id.

Invariants: under one id and epoch, a number that was sent always stands for the same records. A batch that may be
stored under one number is never sent under another.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ottla.connection.core import ConnectionCore
from ottla.connection.request import Answer
from ottla.errors import OttlaError
from ottla.producer.batch import Batch, BatchEvent, BatchState
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.producer.accumulator import PartitionQueue

EPOCH_MAX = 0x7FFF
_SEQUENCE_MASK = 0x7FFFFFFF


class IdentityState(IntEnum):
    """Whether there is a producer id."""

    ABSENT = 0
    ASKING = 1
    KNOWN = 2
    REFUSED = 3


class IdentityEvent(IntEnum):
    """What changes it."""

    ASK = 0
    GIVEN = 1
    UNANSWERED = 2
    DENIED = 3
    USED_UP = 4
    ADOPT = 5


TRANSITIONS: dict[tuple[IdentityState, IdentityEvent], IdentityState] = {
    (IdentityState.ABSENT, IdentityEvent.ASK): IdentityState.ASKING,
    (IdentityState.ASKING, IdentityEvent.GIVEN): IdentityState.KNOWN,
    (IdentityState.ASKING, IdentityEvent.UNANSWERED): IdentityState.ABSENT,
    (IdentityState.ASKING, IdentityEvent.DENIED): IdentityState.REFUSED,
    (IdentityState.KNOWN, IdentityEvent.USED_UP): IdentityState.ABSENT,
    # For transactional producers: their coordinator gives identities, see transactions.py.
    (IdentityState.ABSENT, IdentityEvent.ADOPT): IdentityState.KNOWN,
    (IdentityState.KNOWN, IdentityEvent.ADOPT): IdentityState.KNOWN,
}


class Idempotence:
    """Holds the producer id and epoch and numbers batches; where `enabled` is False, it only writes checksums."""

    def __init__(self, enabled: bool, connection: ConnectionCore, backoff: Callable[[int], int]) -> None:
        self.enabled = enabled
        self.state = IdentityState.ABSENT
        self.producer_id = -1
        self.producer_epoch = -1
        # Why there is no id (yet).
        self.error: OttlaError | None = None
        # Not None: batches are part of transactions, and the id is given by `adopt`.
        self.transactional_id: str | None = None
        self._connection = connection
        self._backoff = backoff
        self._failures = 0
        self._not_before_us = 0
        self._failed_node_id: int | None = None

    @property
    def mends_sequences(self) -> bool:
        """Whether a partition may start afresh when its log lacks acknowledged batches.

        Not in a transaction, of which a part would be lost then.
        """
        return self.enabled and self.transactional_id is None

    def ready(self, now_us: int) -> bool:
        """Tell whether batches may be numbered; requests the id where there is none."""
        if not self.enabled or self.state is IdentityState.KNOWN:
            return True
        if self.transactional_id is None and self.state is IdentityState.ABSENT and self._not_before_us <= now_us:
            self._move(IdentityEvent.ASK)
            message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
            self._connection.ask(message, self, now_us, avoid=self._failed_node_id)
        return False

    def deadline_us(self) -> int | None:
        """Return when the id may be asked for again."""
        if self.enabled and self.state is IdentityState.ABSENT and self._failures:
            return self._not_before_us
        return None

    def take_answer(self, answer: Answer, now_us: int) -> None:
        """Take in the answer to the request for an id."""
        response: Any = answer.message
        node_id = answer.node_id
        broker_id = node_id if node_id is not None and node_id >= 0 else None
        if response is None or response.error_code:
            code = response.error_code if response is not None else ErrorCode.NETWORK_EXCEPTION
            if answer.unsupported:
                code = ErrorCode.UNSUPPORTED_VERSION
            detail = "asking for a producer id"
            if answer.failure:
                detail += f": {answer.failure}"
            error = kafka_error(code, detail, broker_id=broker_id)
            self.error = error
            if not error.retriable:
                self._move(IdentityEvent.DENIED)
                return
            self._move(IdentityEvent.UNANSWERED)
            self._failures += 1
            self._failed_node_id = node_id
            self._not_before_us = now_us + self._backoff(self._failures)
            return
        self._move(IdentityEvent.GIVEN)
        self.producer_id = response.producer_id
        self.producer_epoch = response.producer_epoch
        self.error = None
        self._failures = 0

    def number(self, batch: Batch) -> None:
        """Give a batch the next sequence number of its partition, and have its header and checksum written."""
        batch.numbered = True
        if not self.enabled:
            batch.sealed.assign(-1, -1, -1)
            return
        queue = batch.queue
        if queue.producer_epoch < 0:
            self._identify(queue)
        is_transactional = self.transactional_id is not None
        batch.sealed.assign(queue.producer_id, queue.producer_epoch, queue.next_sequence, is_transactional)
        queue.next_sequence = (queue.next_sequence + batch.sealed.record_count) & _SEQUENCE_MASK

    def adopt(self, producer_id: int, producer_epoch: int, queues: Iterable[PartitionQueue]) -> None:
        """Take a new identity for batches to come, each partition from 0 on; no batch may be unsettled or in flight."""
        self._move(IdentityEvent.ADOPT)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        for queue in queues:
            queue.producer_epoch = -1
            queue.next_sequence = 0
            queue.hole = False

    def start_afresh(self, queue: PartitionQueue) -> bool:
        """Begin the partition's next epoch: the batches that wait are numbered again, from 0.

        The first batch that waits is certainly not stored, and no attempt of it can still reach the log. So no batch
        after it can be stored under its old number, now or later: the sequence would have a gap.

        False where the epochs of the producer id are used up, and there is no new id yet.
        """
        if queue.producer_epoch < EPOCH_MAX:
            queue.producer_epoch += 1
            queue.established = False
        elif self.producer_id == queue.producer_id:
            if self.state is IdentityState.KNOWN:
                self._move(IdentityEvent.USED_UP)
            return False
        else:
            self._identify(queue)
        queue.hole = False
        queue.next_sequence = 0
        for batch in queue.waiting:
            batch.numbered = False
            if batch.state is BatchState.DOUBTED:
                batch.move(BatchEvent.DISPROVE)
        return True

    def _identify(self, queue: PartitionQueue) -> None:
        queue.producer_id = self.producer_id
        queue.producer_epoch = self.producer_epoch
        queue.established = False

    def _move(self, event: IdentityEvent) -> None:
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            raise RuntimeError(f"producer id: {event.name} cannot happen in {self.state.name}") from None
