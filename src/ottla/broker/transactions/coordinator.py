"""The transactions this broker coordinates: those whose partition of `__transaction_state` it leads.

Every change of a transactional id is written to its partition's log and counts when it is replicated; until then
requests for the id get CONCURRENT_TRANSACTIONS. A broker that begins to lead a partition reads it as soon as its
records are replicated, since transactions may be half ended there: their markers are written (again), and open ones are
aborted when their timeout is over. A broker that leads a partition no more forgets its transactions; requests that wait
get NOT_COORDINATOR.

An ended transaction is PrepareCommit or PrepareAbort first. With that in the log the outcome is decided and the
producer is answered; then `MarkerWriter` has the marker written into every partition, and CompleteCommit or
CompleteAbort follows. A transaction that is open for longer than the producer's timeout is aborted, and the producer's
epoch raised. Transactional ids that were not used for `transactional.id.expiration.ms` are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.broker.internal_topics import InternalTopic, replicated_batches
from ottla.broker.outbox import Outbox
from ottla.broker.partition import Partition
from ottla.broker.purgatory import Purgatory
from ottla.broker.refused import Refused
from ottla.broker.replicas import Replicas
from ottla.broker.transactions.markers import MarkerWriter
from ottla.broker.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from ottla.broker.transactions.transaction import (
    COMPLETE,
    PREPARED,
    DoneAlready,
    Place,
    ProducerIdWanted,
    Transaction,
    TransactionData,
    TransactionState,
    added_data,
    check_expected,
    completed_data,
    ended_data,
    fenced_data,
    initialized_data,
    new_data,
)
from ottla.broker.wall_clock import WallClock
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.records.batch_header import CorruptBatch

APPEND_TIMEOUT_MS = 30_000
# How often a log is tried again that could not be read; Kafka looks as often for transactions that last too long.
_LOAD_AGAIN_US = 10_000_000
_EPOCH_PER_TRANSACTION = 2
# Called with an error code (0: done) and the time.
Done = Callable[[int, int], None]


class CoordinatedTransaction(Transaction):
    """A transactional id of `partition`; the purgatory calls it when its open transaction has lasted too long."""

    def __init__(
        self, coordinator: TransactionCoordinator, partition: Partition, transactional_id: str, data: TransactionData
    ) -> None:
        super().__init__(transactional_id, data)
        self.bucket = -1
        self.partition = partition
        self.coordinator_epoch = partition.leader_epoch
        self.markers: MarkerWriter | None = None
        self._coordinator = coordinator

    def expire(self, now_us: int) -> None:
        """The open transaction's timeout is over."""
        self._coordinator.time_out(self, now_us)


class _Later:
    """Something that the coordinator does later: forget unused ids, load what could not be read."""

    def __init__(self, do: Callable[[int], None]) -> None:
        self.bucket = -1
        self._do = do

    def expire(self, now_us: int) -> None:
        """It is time."""
        self._do(now_us)


class TransactionCoordinator:
    """The transactions of one broker, made when it holds a partition of their `topic` or first needs it."""

    def __init__(
        self, topic: InternalTopic, replicas: Replicas, purgatory: Purgatory, outbox: Outbox, clock: WallClock
    ) -> None:
        self.settings = replicas.settings
        self._topic = topic
        self._replicas = replicas
        self._purgatory = purgatory
        self._outbox = outbox
        self._clock = clock
        # Partition index -> (leader epoch it was loaded in, its transactions by transactional id)
        self._loaded: dict[int, tuple[int, dict[str, CoordinatedTransaction]]] = {}
        # Partition index -> (leader epoch, offset) whose replication is waited for before it is loaded
        self._awaited: dict[int, tuple[int, int]] = {}
        self._sweep = _Later(self.forget_expired)
        self._loading_again = _Later(self.image_changed)

    # Requests: each calls `done` once, or raises Refused.

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        done: Callable[[int, int, int, int], None],
        now_us: int,
        new_producer_id: int | None = None,
    ) -> None:
        """Give a producer its id and epoch: `done(error code, producer id, epoch, now)`; older ones are fenced."""
        partition, transactions = self._beside(transactional_id, now_us)
        wall_ms = self._clock.ms(now_us)
        transaction = transactions.get(transactional_id)
        try:
            if transaction is None:
                if new_producer_id is None:
                    raise ProducerIdWanted
                data = new_data(new_producer_id, timeout_ms, wall_ms)
                transaction = CoordinatedTransaction(self, partition, transactional_id, data)
                transactions[transactional_id] = transaction
            if transaction.pending is not None or transaction.data.state in PREPARED:
                raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
            check_expected(transaction.data, expected)
            if transaction.data.state is TransactionState.ONGOING:
                self._fence(transaction, lambda code, later: done(code or _CONCURRENT, -1, -1, later), now_us)
                return
            data = initialized_data(transaction.data, timeout_ms, expected, new_producer_id, wall_ms)
        except ProducerIdWanted:

            def given(answer: Any, later_us: int) -> None:
                if answer is None or answer.error_code:
                    done(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1, later_us)
                    return
                try:
                    self.initialize(transactional_id, timeout_ms, expected, done, later_us, answer.producer_id)
                except Refused as refusal:
                    done(refusal.error_code, -1, -1, later_us)

            self._outbox.ask_controller(InitProducerIdRequest(transactional_id=None), given)
            return

        def stored(error_code: int, later_us: int) -> None:
            if error_code:
                done(error_code, -1, -1, later_us)
            else:
                done(0, data.producer_id, data.epoch, later_us)

        self._store(transaction, data, stored, now_us)

    def add(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        places: Iterable[Place],
        client_version: int,
        done: Done,
        now_us: int,
    ) -> None:
        """Add partitions to the transaction of this (producer id, epoch), which may begin with them."""
        transaction = self.known(transactional_id, now_us)
        wall_ms = self._clock.ms(now_us)
        try:
            data = added_data(transaction, *producer, places, client_version, wall_ms)
        except DoneAlready:
            done(0, now_us)
            return
        self._store(transaction, data, done, now_us)

    def end(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        committed: bool,
        client_version: int,
        done: Callable[[int, int, int, int], None],
        now_us: int,
        new_producer_id: int | None = None,
    ) -> None:
        """Commit or abort: `done(error code, producer id, epoch, now)` with what the next transaction is to use."""
        transaction = self.known(transactional_id, now_us)
        wall_ms = self._clock.ms(now_us)
        try:
            data = ended_data(transaction, *producer, committed, client_version, new_producer_id, wall_ms)
        except ProducerIdWanted:

            def given(answer: Any, later_us: int) -> None:
                if answer is None or answer.error_code:
                    done(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1, later_us)
                    return
                given_id = answer.producer_id
                try:
                    self.end(transactional_id, producer, committed, client_version, done, later_us, given_id)
                except Refused as refusal:
                    done(refusal.error_code, -1, -1, later_us)

            self._outbox.ask_controller(InitProducerIdRequest(transactional_id=None), given)
            return
        except DoneAlready:
            done(0, transaction.data.producer_id, transaction.data.epoch, now_us)
            return
        follows = completed_data(data, wall_ms)

        def stored(error_code: int, later_us: int) -> None:
            if error_code:
                done(error_code, -1, -1, later_us)
            else:
                done(0, follows.producer_id, follows.epoch, later_us)

        self._store(transaction, data, stored, now_us)

    def known(self, transactional_id: str, now_us: int) -> CoordinatedTransaction:
        """The transactional id that a producer's request names; Refused."""
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        found = self.find(transactional_id, now_us)
        if found is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def find(self, transactional_id: str, now_us: int) -> CoordinatedTransaction | None:
        """The transactional id, or None where there is no such; Refused."""
        return self._beside(transactional_id, now_us)[1].get(transactional_id)

    def all_transactions(self, now_us: int) -> Iterator[CoordinatedTransaction]:
        """Every transactional id coordinated here; Refused."""
        for partition in list(self._topic.partitions.values()):
            if partition.is_leader:
                yield from list(self._transactions_of(partition, now_us).values())

    # The course of a transaction.

    def _fence(self, transaction: CoordinatedTransaction, done: Done, now_us: int) -> None:
        """Abort an open transaction and fence its producer; Refused."""
        data = fenced_data(transaction, self.settings.transaction_version, self._clock.ms(now_us))
        self._store(transaction, data, done, now_us)

    def time_out(self, transaction: CoordinatedTransaction, now_us: int) -> None:
        """A transaction's timeout is over: abort it if it is open, or look again later if it is about to change."""
        if transaction.data.state is not TransactionState.ONGOING:
            return
        if transaction.pending is None:
            try:
                self._fence(transaction, _ignore, now_us)
                return
            except Refused:
                pass  # It cannot be stored now.
        again_ms = self.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._purgatory.add(transaction, now_us + again_ms * 1000)

    def markers_written(self, transaction: CoordinatedTransaction, now_us: int) -> bool:
        """All partitions have the marker: the transaction is complete. False where that cannot be stored yet."""
        assert transaction.pending is not None
        transaction.pending = None
        data = completed_data(transaction.data, self._clock.ms(now_us))
        try:
            self._store(transaction, data, _ignore, now_us)
        except Refused:
            transaction.pending = data
            return False
        return True

    def _store(self, transaction: CoordinatedTransaction, data: TransactionData, done: Done, now_us: int) -> None:
        """Append what comes next, take it over when it is replicated, then call `done`; Refused."""
        transaction.prepare(data)
        partition = transaction.partition
        version = 1 if self.settings.transaction_version >= _EPOCH_PER_TRANSACTION else 0
        pair = (transaction_key(transaction.transactional_id), transaction_value(data, version))
        try:
            end_offset = self._topic.append(partition, [pair], now_us)
        except Refused:
            transaction.pending = None
            raise

        def apply(later_us: int) -> None:
            if self._is_loaded(transaction):
                transaction.settle()
                self._go_on(transaction, later_us)

        self._topic.await_replication(partition, end_offset, APPEND_TIMEOUT_MS, apply, done, now_us)

    def _go_on(self, transaction: CoordinatedTransaction, now_us: int) -> None:
        """Start what the state needs: the timeout of an open transaction, or markers."""
        data = transaction.data
        self._purgatory.remove(transaction)
        if data.state is TransactionState.ONGOING:
            # A start in the future (the clock was ahead then) counts as now: it must not make the timeout longer.
            left_ms = min(data.started_ms - self._clock.ms(now_us), 0) + data.timeout_ms
            self._purgatory.add(transaction, now_us + max(0, left_ms) * 1000)
        elif data.state in PREPARED:
            transaction.prepare(completed_data(data, self._clock.ms(now_us)))

            def written(later_us: int) -> bool:
                return self.markers_written(transaction, later_us)

            transaction.markers = MarkerWriter(
                self._replicas, self._purgatory, self._outbox, transaction, transaction.coordinator_epoch, written
            )
            transaction.markers.write(now_us)
        else:
            transaction.markers = None

    # Loading, letting go, forgetting.

    def image_changed(self, now_us: int) -> None:
        """Load what is coordinated here now, and forget what is not any more."""
        partitions = self._topic.partitions
        for index, (epoch, transactions) in list(self._loaded.items()):
            partition = partitions.get(index)
            if partition is None or not partition.is_leader or partition.leader_epoch != epoch:
                del self._loaded[index]
                for transaction in transactions.values():
                    self._let_go(transaction)
        for partition in list(partitions.values()):
            if partition.is_leader and partition.index not in self._loaded:
                self._load(partition, now_us)

    def _load(self, partition: Partition, now_us: int) -> None:
        try:
            self._transactions_of(partition, now_us)
        except Refused:
            if partition.high_watermark >= partition.epoch_start_offset:
                # The storage fails. Requests try again; without any, transactions must end, too.
                self._purgatory.remove(self._loading_again)
                self._purgatory.add(self._loading_again, now_us + _LOAD_AGAIN_US)
                return
            awaited = partition.leader_epoch, partition.epoch_start_offset
            if self._awaited.get(partition.index) != awaited:
                self._awaited[partition.index] = awaited

                def replicated(later_us: int) -> None:
                    self._load(partition, later_us)

                self._topic.await_replication(partition, awaited[1], APPEND_TIMEOUT_MS, replicated, _ignore, now_us)

    def forget_expired(self, now_us: int) -> None:
        """Forget transactional ids that were not used for long, and look again later."""
        settings = self.settings
        before_ms = self._clock.ms(now_us) - settings.transactional_id_expiration_ms
        for _, transactions in self._loaded.values():
            for transaction in list(transactions.values()):
                data = transaction.data
                unused = data.state is TransactionState.EMPTY or data.state in COMPLETE
                if unused and transaction.pending is None and data.updated_ms <= before_ms:
                    self._forget(transactions, transaction, now_us)
        again_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._purgatory.add(self._sweep, now_us + again_ms * 1000)

    def _forget(
        self, transactions: dict[str, CoordinatedTransaction], transaction: CoordinatedTransaction, now_us: int
    ) -> None:
        data = transaction.data._replace(state=TransactionState.DEAD, partitions=())
        transaction.prepare(data)

        def apply(later_us: int) -> None:
            transaction.settle()
            transactions.pop(transaction.transactional_id, None)

        pair = (transaction_key(transaction.transactional_id), None)
        try:
            end_offset = self._topic.append(transaction.partition, [pair], now_us)
        except Refused:
            transaction.pending = None
            return
        partition = transaction.partition
        self._topic.await_replication(partition, end_offset, APPEND_TIMEOUT_MS, apply, _ignore, now_us)

    def _let_go(self, transaction: CoordinatedTransaction) -> None:
        self._purgatory.remove(transaction)
        if transaction.markers is not None:
            transaction.markers.cancel()

    def _is_loaded(self, transaction: CoordinatedTransaction) -> bool:
        found = self._loaded.get(transaction.partition.index)
        return found is not None and found[1].get(transaction.transactional_id) is transaction

    def _beside(self, transactional_id: str, now_us: int) -> tuple[Partition, dict[str, CoordinatedTransaction]]:
        partition = self._topic.partition_of(transactional_id)
        if partition is None:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        return partition, self._transactions_of(partition, now_us)

    def _transactions_of(self, partition: Partition, now_us: int) -> dict[str, CoordinatedTransaction]:
        found = self._loaded.get(partition.index)
        if found is not None and found[0] == partition.leader_epoch:
            return found[1]
        if not partition.open_log():
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            transactions = self._read(partition, now_us)
        except (OSError, CorruptBatch) as error:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        if not self._loaded:
            again_ms = self.settings.transaction_remove_expired_transaction_cleanup_interval_ms
            self._purgatory.remove(self._sweep)
            self._purgatory.add(self._sweep, now_us + again_ms * 1000)
        self._loaded[partition.index] = (partition.leader_epoch, transactions)
        for transaction in transactions.values():
            self._go_on(transaction, now_us)
        return transactions

    def _read(self, partition: Partition, now_us: int) -> dict[str, CoordinatedTransaction]:
        transactions: dict[str, CoordinatedTransaction] = {}
        for header, records in replicated_batches(partition, now_us):
            for record in () if header.is_control else records:
                try:
                    transactional_id = read_transaction_key(record.key or b"")
                    if transactional_id is None:
                        continue
                    if record.value is None:
                        transactions.pop(transactional_id, None)
                        continue
                    data = read_transaction_value(record.value)
                except MalformedMessage:
                    continue  # Not understood, as records of newer brokers may be: passed over, as Kafka does.
                transactions[transactional_id] = CoordinatedTransaction(self, partition, transactional_id, data)
        return transactions


_CONCURRENT = int(ErrorCode.CONCURRENT_TRANSACTIONS)


def _ignore(error_code: int, now_us: int) -> None:
    """No request waits for this."""
