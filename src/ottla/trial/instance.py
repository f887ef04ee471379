"""One start of the application: a producer, what it was handed over, and what it was told of that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from ottla.client.producer import Producer
from ottla.errors import ConfigError, DeliveryError, DeliveryUnknown, OttlaError, TransactionUnfinished
from ottla.trial.ledger import SideLedger
from ottla.trial.scenario import Side
from ottla.trial.side_cluster import SideCluster
from ottla.trial.workload import WorkRecord

PRODUCER = {
    "request_timeout_ms": 1_500,
    "retry_backoff_ms": 20,
    "delivery_timeout_ms": 30_000,
    "max_block_ms": 10_000,
    "linger_ms": 0,
    "batch_size": 2_000,
}
"""Patient with a busy machine, and short enough that a lost answer is asked for again soon."""
_PATIENCE_S = 30.0
# How often the end of a transaction is asked for without an answer, `max.block.ms` each time.
_ASKED_MAX = 3


class Ended(Enum):
    """What became of a transaction. Of an aborted one everything may be sent again."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Instance:
    """One producer, the `start`-th of its side. `is_over`: it cannot go on, and another one has to be started."""

    def __init__(self, cluster: SideCluster, side: Side, start: int, ledger: SideLedger) -> None:
        self._ledger = ledger
        self._topic = cluster.topic
        self._is_transactional = bool(side.transaction_records)
        settings: dict[str, Any] = {**PRODUCER, **side.producer, **cluster.client_settings}
        if self._is_transactional:
            mine = cluster.transactional_id
            settings["transactional_id"] = f"{mine}-{start}" if side.new_id else mine
        try:
            self._producer = Producer(cluster.bootstrap_servers, **settings)
        except TypeError as error:
            raise ConfigError(f"the producer of side {side.name!r}: {error}") from None
        self._deliveries: list[tuple[int, Any]] = []
        self._open: list[int] = []
        self._is_begun = False
        self.is_over = False

    @property
    def open_records(self) -> list[int]:
        """The records of the open transaction, in their order."""
        return list(self._open)

    def hand_over(self, record: WorkRecord) -> None:
        """Send a record, in a transaction where the side has some; what cannot be sent has failed."""
        number, partition, key, value = record
        self._ledger.hand_over(number, partition, key, value)
        try:
            if self._is_transactional and not self._is_begun:
                self._producer.begin_transaction()
                self._is_begun = True
            delivery = self._producer.send(self._topic, value, key, headers=record.headers, partition=partition)
        except OttlaError as error:
            self._ledger.count_error(error)
            self._ledger.tell_failed(number)
            self.is_over = self.is_over or error.fatal
        else:
            self._deliveries.append((number, delivery))
            if partition is None:
                self._ledger.note_partition(number, delivery.partition)
        if self._is_transactional:
            self._open.append(number)

    def settle(self) -> None:
        """Wait until everything sent has an outcome."""
        # A record that was not delivered has that outcome in its own delivery.
        with suppress(DeliveryError):
            self._producer.flush()
        if not self._is_transactional:
            self._note()

    def commit(self, send_offsets: Callable[[Producer], None] | None = None) -> Ended:
        """Commit the open transaction, or abort it where something in it was not stored.

        `send_offsets` puts a group's offsets into it first.
        """
        return self._take_down(self._end(send_offsets) if self._is_begun else Ended.ABORTED)

    def abort(self) -> None:
        """Abort the open transaction, if there is one: all its records have failed."""
        if self._is_begun:
            self._take_down(self._abort())

    def _take_down(self, ended: Ended) -> Ended:
        records, self._open, self._is_begun = tuple(self._open), [], False
        if ended is Ended.COMMITTED:
            self._note()
        else:
            self._deliveries.clear()
            for number in records:
                (self._ledger.tell_failed if ended is Ended.ABORTED else self._ledger.tell_unknown)(number)
        if ended is not Ended.ABORTED:
            self._ledger.transactions.append(records)
        return ended

    def _end(self, send_offsets: Callable[[Producer], None] | None) -> Ended:
        if self.is_over:
            return Ended.UNKNOWN
        if send_offsets is not None:
            try:
                send_offsets(self._producer)
            except OttlaError as error:
                self._ledger.count_error(error)
                return self._give_up() if error.fatal else self._abort()
        for _ in range(_ASKED_MAX):
            try:
                self._producer.commit_transaction()
            except TransactionUnfinished as error:
                last = error
            except OttlaError as error:
                self._ledger.count_error(error)
                return self._give_up() if error.fatal else self._abort()
            else:
                return Ended.COMMITTED
        self._ledger.count_error(last)
        return self._give_up()

    def _abort(self) -> Ended:
        for _ in range(_ASKED_MAX):
            try:
                self._producer.abort_transaction()
            except TransactionUnfinished:
                continue
            except OttlaError as error:
                self._ledger.count_error(error)
                return self._give_up()
            return Ended.ABORTED
        return self._give_up()

    def _give_up(self) -> Ended:
        self.is_over = True
        return Ended.UNKNOWN

    def die(self) -> None:
        """End as a process does that is killed: nothing is waited for, and an open transaction stays open."""
        with suppress(OttlaError, TimeoutError):
            self._producer.close(0)
        if not self._is_transactional:
            self._note(counts_errors=False)
        self._deliveries.clear()
        self._open.clear()

    def close(self) -> None:
        """End in order, and note the last outcomes."""
        with suppress(OttlaError):
            self._producer.close()
        self._note()

    def _note(self, *, counts_errors: bool = True) -> None:
        for number, delivery in self._deliveries:
            error = delivery.exception(_PATIENCE_S)
            if error is None:
                metadata = delivery.result(0)
                if metadata.offset >= 0:
                    self._ledger.tell_acked(number, metadata.partition, metadata.offset)
                else:
                    self._ledger.tell_unknown(number)  # acks=0: no broker answers
                continue
            if counts_errors:
                self._ledger.count_error(error)
            (self._ledger.tell_unknown if isinstance(error, DeliveryUnknown) else self._ledger.tell_failed)(number)
        self._deliveries.clear()
