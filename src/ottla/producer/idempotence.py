"""The producer id, and the sequence numbers by which a broker tells a batch sent again from a new one (KIP-98).

The id is asked for once, of any broker, before the first batch leaves; a broker that did not give one is asked again
only when no other can be reached. Every partition counts its own records from 0.
When a batch is given up after it was numbered, the numbers after it no longer follow on what the broker's log holds:
the partition has a hole. Once nothing of it is in flight it starts afresh with the next epoch at sequence 0 (KIP-360),
which brokers accept as a new beginning. Before that, a batch that may be stored under its old number is sent once more
under exactly that number: the broker either knows it (stored, acked) or calls it out of order, and then it is unknown,
because the earlier request may still be on its way to the log.

A partition also starts afresh when its log does not continue where the last acknowledged batch ended (an election of a
replica that lagged, a topic deleted and made anew, a broker that has forgotten the producer): what was refused was not
stored, and is stored under the next epoch. A partition that has used up the 32,768 epochs of its producer id goes on
with a new one.

Invariants: a number once sent stands for the same records for ever. A batch that may be stored under one number is
never sent under another.
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
    """How the producer stands to its producer id."""

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
    # The way of transactional producers: their coordinator gives identities, see transactions.py.
    (IdentityState.ABSENT, IdentityEvent.ADOPT): IdentityState.KNOWN,
    (IdentityState.KNOWN, IdentityEvent.ADOPT): IdentityState.KNOWN,
}


class Idempotence:
    """Holds the identity; does nothing at all where `enabled` is False."""

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
        """Whether a partition may start afresh when its log lacks what was acknowledged.

        Not within a transaction, part of which is lost then.
        """
        return self.enabled and self.transactional_id is None

    def ready(self, now_us: int) -> bool:
        """Tell whether batches may be numbered; asks for the id where that has to be done first."""
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
        """Take in what became of the request for an id."""
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
        """Give a batch its place in the partition's sequence, once, and seal it with a checksum."""
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
        """Take a new identity for batches to come, each partition from 0 on; nothing may be unsettled or in flight."""
        self._move(IdentityEvent.ADOPT)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        for queue in queues:
            queue.producer_epoch = -1
            queue.next_sequence = 0
            queue.hole = False

    def start_afresh(self, queue: PartitionQueue) -> bool:
        """Begin the partition's next epoch: what waits in it is numbered again, from 0.

        The first batch that waits is certainly not stored, and none of its attempts is still on its way. So nothing
        behind it can be stored under its old number either, now or later: the sequence would have a gap.

        False where that has to wait for a new producer id, because the epochs of the old one are used up.
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
