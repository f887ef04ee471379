"""A producer that acts out its plan in reality, on a thread of its own; see `reality`.

It does what `simulation.scripts.ProducerScript` does, act by act, with the calls of `ottla.Producer`. A process that
dies is a producer that nobody hears from any more, brokers neither: what it had open stays open until the next one of
its id begins.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

import ottla
from ottla.audit.chronicles.chronicle import Chronicle, InstanceSeen, TransactionSeen
from ottla.errors import OttlaError, TransactionUnfinished, TransactionUnknown
from ottla.simulation import plan as acts
from ottla.simulation.plan import Act, ProducerPlan
from ottla.simulation.sent_records import contents, sent_record, take_down

_PATIENCE_S = 60.0
_TRIES_TO_END = 40
_TRIES_TO_BEGIN = 5


class Stage(Protocol):
    """Where it acts; times are microseconds of the stage's own clock."""

    cluster: ottla.Cluster
    chronicle: Chronicle

    @property
    def now_us(self) -> int: ...


class Performer:
    """Acts out one `ProducerPlan`, as `simulation.scripts.ProducerScript` does."""

    def __init__(self, plan: ProducerPlan, stage: Stage) -> None:
        self.plan = plan
        self._stage = stage
        self._chronicle = stage.chronicle
        self._instance = 0
        self._open: TransactionSeen | None = None
        self._pending: list[ottla.Delivery] = []
        # Those whose processes would be dead by now, and those that only sleep.
        self._dead: list[ottla.Producer] = []
        self._asleep: list[tuple[ottla.Producer, TransactionSeen]] = []
        self._producer = self._born()

    def perform(self) -> None:
        """All acts in turn, then everything is settled."""
        for act in self.plan.acts:
            self._act(act)
        if self._open is not None:
            self._end(True)
        self._await_deliveries()

    def leave(self) -> None:
        """End the processes."""
        with suppress(OttlaError):
            self._producer.close(_PATIENCE_S)
        for producer in self._dead:
            with suppress(OttlaError):
                producer.close(0)

    def _act(self, act: Act) -> None:
        if act.do == acts.SEND:
            self._send(act)
        elif act.do == acts.PAUSE:
            threading.Event().wait(act.pause_us / 1e6)
        elif act.do == acts.FLUSH:
            self._await_deliveries()
        elif act.do == acts.BEGIN:
            self._begin()
        elif act.do == acts.OFFSETS:
            self._send_offsets(act)
        elif act.do in (acts.COMMIT, acts.ABORT):
            self._end(act.do == acts.COMMIT)
        elif act.do == acts.CRASH:
            self._die()
        elif act.do == acts.REPLACE and self._open is not None:
            self._open.is_zombie = True
            self._asleep.append((self._producer, self._open))
            self._open = None
            self._producer = self._born()

    # ---- lives and deaths ---------------------------------------------------------------------------------------

    def _born(self) -> ottla.Producer:
        self._instance += 1
        life = InstanceSeen(self.plan.name, self._instance, self._stage.now_us)
        assert self._chronicle.instances is not None
        self._chronicle.instances.append(life)
        settings = self.plan.settings | {"client_id": self._client_id}
        return ottla.Producer(self._stage.cluster.bootstrap_servers, **settings)

    @property
    def _client_id(self) -> str:
        return f"{self.plan.name}.{self._instance}"

    def _die(self) -> None:
        """As by kill -9: not one byte of it comes any more; what it had open stays so until the next one begins."""
        cluster = self._stage.cluster
        for broker in cluster.brokers():
            cluster.faults.unplug(broker, client_id=self._client_id)
        if self._open is not None:
            self._open.ended_us = self._stage.now_us
            if not self._open.commit_asked:
                self._open.outcome = "aborted"
        self._open = None
        self._dead.append(self._producer)
        self._producer = self._born()

    # ---- sending ------------------------------------------------------------------------------------------------

    def _send(self, act: Act) -> None:
        transaction = self._open
        if "transactional_id" in self.plan.settings and transaction is None:
            return
        record = contents(act)
        key, value, headers = record
        try:
            delivery = self._producer.send(act.topic, value, key, partition=act.partition, headers=headers)
        except OttlaError:
            return  # nothing was taken, and that was told at once
        number = -1 if transaction is None else transaction.number
        sent = sent_record(act, self.plan.name, self._instance, number, delivery, record, self._stage.now_us)
        self._chronicle.sent.append(sent)
        self._pending.append(delivery)
        delivery.add_done_callback(lambda done: take_down(sent, done, self._stage.now_us))

    def _await_deliveries(self) -> None:
        for delivery in self._pending:
            delivery.exception(_PATIENCE_S)
        self._pending.clear()

    # ---- transactions -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._open is not None:
            self._end(False)
        for _ in range(_TRIES_TO_BEGIN):
            try:
                self._producer.begin_transaction()
            except TransactionUnfinished:
                continue
            except OttlaError as error:
                if not error.fatal:
                    self._chronicle.stuck.append(f"{self.plan.name} could not begin, and not for good: {error}")
                self._dead.append(self._producer)
                self._producer = self._born()
                continue
            transactions = self._chronicle.transactions
            self._open = TransactionSeen(len(transactions), self.plan.name, self._instance, began_us=self._stage.now_us)
            transactions.append(self._open)
            break
        while self._asleep:
            producer, transaction = self._asleep.pop()
            self._dead.append(producer)
            self._end_transaction(producer, transaction, True)

    def _send_offsets(self, act: Act) -> None:
        if self._open is None:
            return
        group_id = f"group-{self.plan.name}"
        assert act.partition is not None
        self._open.offsets = group_id, act.topic, act.partition, act.number
        try:
            self._producer.send_offsets_to_transaction({(act.topic, act.partition): act.number}, group_id)
        except OttlaError:
            return
        self._open.offsets_taken = True

    def _end(self, committed: bool) -> None:
        transaction, self._open = self._open, None
        if transaction is None:
            return
        self._end_transaction(self._producer, transaction, committed)
        if transaction.ended_us < 0:
            self._dead.append(self._producer)
            self._producer = self._born()

    def _end_transaction(self, producer: ottla.Producer, transaction: TransactionSeen, committed: bool) -> None:
        if committed:
            transaction.commit_asked = True
            transaction.commit_asked_us = self._stage.now_us
        for _ in range(_TRIES_TO_END):
            try:
                producer.commit_transaction() if committed else producer.abort_transaction()
            except TransactionUnfinished:
                continue
            except TransactionUnknown:
                break
            except OttlaError as error:
                if error.fatal or not committed:
                    if not error.fatal:
                        self._chronicle.stuck.append(f"{self.plan.name} could not abort, and not for good: {error}")
                    transaction.outcome = "aborted"
                    break
                transaction.commit_asked = committed = False
                continue
            transaction.outcome = "committed" if committed else "aborted"
            break
        else:
            return
        transaction.ended_us = self._stage.now_us
