"""How a partition's leader makes sure that a batch belongs to an open transaction before it appends it (KIP-890).

Without that a batch that comes late, after its transaction has ended, would open a transaction that is never ended. The
first batch of a transaction in a partition waits until the coordinator has answered: whether the partition is in the
transaction (clients of version 1 have added it themselves), or that it is added (version 2, from Produce 12 and
TxnOffsetCommit 5 on). Later batches need no question: the transaction is open in the log.

With version 2 the coordinator may still be writing the markers of the previous transaction. Then it is asked again
(`add.partitions.to.txn.retry.backoff.ms` and `.max.ms`), each time with new guards where that marker has ended the old
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.broker.internal_topics import partition_of_key
from ottla.broker.log.producer_state import NO_GUARD, ProducerStates
from ottla.broker.outbox import Outbox
from ottla.broker.partition import Topics
from ottla.broker.purgatory import Purgatory
from ottla.broker.replicas import Replicas
from ottla.broker.request import Request
from ottla.broker.topic_names import TRANSACTIONS_TOPIC
from ottla.broker.transactions.transaction import Place
from ottla.broker.wall_clock import WallClock
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.records.batch_header import TRANSACTIONAL, CorruptBatch, read_header

_ANSWER_US = 30_000_000
_ADDED_FROM_PRODUCE_VERSION = 12
_ABORTABLE_FROM_PRODUCE_VERSION = 11
_ASK_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class First(NamedTuple):
    """What would open a producer's transaction in a partition; `producers` is None where that is led elsewhere."""

    place: Place
    producer: tuple[int, int]
    base_sequence: int
    producers: ProducerStates | None


class Verified:
    """What came of the question for one partition: an error code, 0 where it is in the transaction, and the guard under
    which it was asked.

    `taken_on_trust`: the coordinator was not asked, as `transaction.partition.verification.enable` is off.
    """

    __slots__ = ("error_code", "guard", "taken_on_trust")

    def __init__(self, error_code: int, guard: int, *, taken_on_trust: bool = False) -> None:
        self.error_code = error_code
        self.guard = guard
        self.taken_on_trust = taken_on_trust


Answered = Callable[[Mapping[Place, Verified], int], None]


class Question:
    """A question to a transaction's coordinator about the partitions of `firsts`; `answered` is called once.

    `adds`: the coordinator is to add them. Whenever the question is asked again, `look_again` returns what still waits.
    """

    def __init__(
        self,
        verification: Verification,
        transactional_id: str,
        firsts: Sequence[First],
        *,
        adds: bool,
        answered: Answered,
        look_again: Callable[[], Sequence[First]],
        now_us: int,
    ) -> None:
        self.bucket = -1
        self._replicas = verification.replicas
        self._purgatory = verification.purgatory
        self._outbox = verification.outbox
        self._clock = verification.clock
        self._transactional_id = transactional_id
        self._producer = firsts[0].producer
        self._places = [first.place for first in firsts]
        self._guards = dict.fromkeys(self._places, NO_GUARD)
        self._adds = adds
        self._look_again = look_again
        self._answered: Answered | None = answered
        settings = self._replicas.settings
        self._pause_us = settings.add_partitions_to_txn_retry_backoff_ms * 1000
        self._again_until_us = now_us + settings.add_partitions_to_txn_retry_backoff_max_ms * 1000
        self._rests = False
        self._begin(firsts, now_us)

    def _begin(self, firsts: Sequence[First], now_us: int) -> None:
        """Begin the guards, which show whether the transaction has ended meanwhile."""
        wall_ms = self._clock.ms(now_us)
        for place, producer, base_sequence, producers in firsts:
            if producers is not None:
                self._guards[place] = producers.begin_verification(
                    *producer, base_sequence, new_epochs=self._adds, wall_ms=wall_ms
                )

    def ask(self, now_us: int) -> None:
        """Ask the coordinator of the transactional id."""
        topic = self._replicas.image.topics.get(TRANSACTIONS_TOPIC)
        leader, address = -1, None
        if topic is not None:
            index = partition_of_key(self._transactional_id, len(topic.partitions))
            leader, _, address = self._replicas.leader_of(TRANSACTIONS_TOPIC, index)
        if address is None:
            self._finish(dict.fromkeys(self._places, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)), now_us)
            return
        topics: dict[str, list[int]] = {}
        for name, index in self._places:
            topics.setdefault(name, []).append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self._transactional_id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            verify_only=not self._adds,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
        )
        self._rests = False
        self._purgatory.add(self, now_us + _ANSWER_US)
        self._outbox.ask_peer(leader, AddPartitionsToTxnRequest(transactions=[transaction]), self._take)

    def expire(self, now_us: int) -> None:
        """The pause is over, or no answer has come."""
        if self._rests:
            self._begin(self._look_again(), now_us)
            self.ask(now_us)
        else:
            self._finish(dict.fromkeys(self._places, int(ErrorCode.NETWORK_EXCEPTION)), now_us)

    def _take(self, response: AddPartitionsToTxnResponse | None, now_us: int) -> None:
        if self._answered is None:
            return
        self._purgatory.remove(self)
        missing = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
        codes: dict[Place, int] = dict.fromkeys(self._places, int(missing))
        for result in response.results_by_transaction if response is not None else ():
            for topic in result.topic_results:
                for each in topic.results_by_partition:
                    codes[topic.name, each.partition_index] = each.partition_error_code
        busy = any(code == ErrorCode.CONCURRENT_TRANSACTIONS for code in codes.values())
        if busy and self._adds and now_us + self._pause_us <= self._again_until_us:
            self._rests = True
            self._purgatory.add(self, now_us + self._pause_us)
            return
        self._finish(codes, now_us)

    def _finish(self, codes: Mapping[Place, int], now_us: int) -> None:
        if self._answered is not None:
            answered, self._answered = self._answered, None
            answered(
                {place: Verified(code, self._guards.get(place, NO_GUARD)) for place, code in codes.items()}, now_us
            )


class Verification:
    """Asks such questions for one broker."""

    def __init__(self, replicas: Replicas, purgatory: Purgatory, outbox: Outbox, clock: WallClock) -> None:
        self.replicas = replicas
        self.purgatory = purgatory
        self.outbox = outbox
        self.clock = clock

    def verify_produce(
        self, request: Request, append: Callable[[Mapping[Place, Verified], int], None], now_us: int
    ) -> None:
        """Ask about the batches of a Produce request that need it, then call `append(what came of it, now)`."""
        message, version = request.message, request.version
        topics, settings = self.replicas.topics, self.replicas.settings
        adds = version >= _ADDED_FROM_PRODUCE_VERSION
        strict = adds or settings.transaction_partition_verification_enable
        first_batches = _first_batches(topics, message)
        if not first_batches or not strict:
            append({first.place: Verified(0, NO_GUARD, taken_on_trust=True) for first in first_batches}, now_us)
            return

        def answered(verified: Mapping[Place, Verified], later_us: int) -> None:
            codes = {place: _produce_error(each.error_code, version) for place, each in verified.items()}
            append({place: Verified(codes[place], each.guard) for place, each in verified.items()}, later_us)

        Question(
            self,
            message.transactional_id,
            first_batches,
            adds=adds,
            answered=answered,
            look_again=lambda: _first_batches(topics, message),
            now_us=now_us,
        ).ask(now_us)


def _first_batches(topics: Topics, message: Any) -> list[First]:
    """The batches that would open a transaction in a partition led here; broken ones are refused later."""
    found: list[First] = []
    for topic in message.topic_data:
        partitions = topics.get(topic.name, {})
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            if partition is None or not partition.is_leader or partition.log is None or not data.records:
                continue
            records = b"".join(data.records) if isinstance(data.records, list | tuple) else data.records
            try:
                header = read_header(records)
            except CorruptBatch:
                continue
            if not header.attributes & TRANSACTIONAL or header.producer_id < 0:
                continue
            producers = partition.log.producers
            # Also for batches that are stored already, as in Apache Kafka: the coordinator adds the partition.
            producer = header.producer_id, header.producer_epoch
            if not producers.has_open_transaction(*producer):
                found.append(First((topic.name, data.index), producer, header.base_sequence, producers))
    return found


def _produce_error(error_code: int, version: int) -> int:
    """The coordinator's error as producers expect it: a transient one becomes NOT_ENOUGH_REPLICAS, which they retry.

    Producers that leave it to brokers to add partitions (KIP-890) also retry after CONCURRENT_TRANSACTIONS.
    """
    if error_code == ErrorCode.CONCURRENT_TRANSACTIONS and version >= _ADDED_FROM_PRODUCE_VERSION:
        return error_code
    if error_code in _ASK_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error_code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error_code == ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM_PRODUCE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return error_code
