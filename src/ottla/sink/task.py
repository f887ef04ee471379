"""Step 2, in a task: write every row and a receipt in a transaction, and leave it open for the driver.

The task returns an `Entry`: the identity of its transaction, the number of rows and their digest, and the offset of its
receipt. The receipt has the offsets that the task wrote, which are read from the acknowledgements.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from ottla.client.interceptors import BatchSeen
from ottla.client.producer import Producer
from ottla.errors import OttlaError, TransactionError, UserMistake
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import Attempt, BatchId, Entry, Plan, Prepared, Skipped, Span, Totals
from ottla.sink.deciding import is_fenced
from ottla.sink.receipt import encode_receipt
from ottla.sink.refusals import Role, check_rewritten, is_too_large, longer, receipt_too_large, role
from ottla.sink.session import Session
from ottla.sink.taking import over_for, take_identity

_log = logging.getLogger("ottla.sink")

Write = Callable[[Callable[[], Producer]], Totals]
Drain = Callable[[], Totals]


def prepare(
    session: Session, plan: Plan, batch: BatchId, attempt: Attempt, write: Write, drain: Drain
) -> Prepared | Skipped:
    """Write a task's rows, or count them if their batch is decided: calls `write` or `drain`, once, or neither.

    `write(producer)` sends every row with `producer()` and returns their totals; it need not wait for deliveries.
    `producer()` returns an `ottla.Producer` in an open transaction, which is made with the first call. `drain()`
    returns the totals alone. Raises UserMistake for a batch that does not match the last decision, DeliveryError,
    TransactionError, KafkaError.
    """
    settings = session.settings
    session.version = plan.version
    what = role(settings, plan.last, batch, attempt.partition_id)
    if what is Role.SKIP:
        kept = None if plan.last is None else plan.last.kept.get(attempt.partition_id)
        if kept is not None:
            # Other tasks must write lost rows again. This task does not read its rows, so that they can begin sooner:
            # otherwise a batch that takes longer than its transactions may last might never be complete.
            return Skipped(plan, batch, attempt, kept)
        totals = drain()
        if plan.last is not None and plan.last.lost:
            check_rewritten(settings, plan.last, attempt.partition_id, totals)
        return Skipped(plan, batch, attempt, totals)
    task = TaskTransaction(session, plan, batch, attempt)
    try:
        totals = write(task.producer)
        if what is Role.REWRITE and plan.last is not None:
            check_rewritten(settings, plan.last, attempt.partition_id, totals)
        entry = task.prepare(totals)
    except BaseException as error:
        task.give_up()
        if task.outlived_its_transaction and isinstance(error, OttlaError) and not isinstance(error, UserMistake):
            raise TransactionError(
                f"task {attempt.partition_id} of {batch} takes longer than its transaction may "
                f"({settings.timeout_name}={settings.transaction_timeout_ms}): raise that, and "
                "transaction.max.timeout.ms of the brokers where it is less, or divide the rows among more tasks. "
                f"The first cause: {error}"
            ) from error
        if is_fenced(error):
            raise over_for(session, batch, attempt) from error
        raise
    task.leave()
    reach(Barrier.TASK_END)
    return Prepared(plan, batch, attempt, totals, entry)


class OffsetsSeen:
    """Collects the offsets that were written, by topic and partition."""

    def __init__(self, receipts_topic: str) -> None:
        self._receipts_topic = receipts_topic
        self.rows = 0
        self._spans: dict[tuple[str, int], Span] = {}

    def on_ack(self, batch: BatchSeen) -> None:
        """Add a record batch that is stored."""
        if batch.outcome != "acked" or batch.topic == self._receipts_topic:
            return
        self.rows += batch.record_count
        if batch.base_offset < 0:
            return  # a duplicate that is stored, for which the broker no longer knows the offset
        place = batch.topic, batch.partition
        span = Span(*place, batch.base_offset, batch.base_offset + batch.record_count - 1, batch.record_count)
        known = self._spans.get(place)
        self._spans[place] = span if known is None else known.joined(span)

    def spans(self) -> tuple[Span, ...]:
        """The offsets that were written, sorted by topic and partition."""
        return tuple(sorted(self._spans.values()))


class TaskTransaction:
    """One attempt's producer and its transaction."""

    def __init__(self, session: Session, plan: Plan, batch: BatchId, attempt: Attempt) -> None:
        self._session = session
        self._settings = settings = session.settings
        self._plan = plan
        self._batch = batch
        self._attempt = attempt
        self._seen = OffsetsSeen(settings.receipts_topic)
        self._producer: Producer | None = None
        self._identity: TransactionIdentity | None = None
        self._began_s: float | None = None

    def producer(self) -> Producer:
        """The producer; the first call makes it and begins its transaction."""
        if self._producer is None:
            self._tell_late()
            reach(Barrier.TASK_IDENTITY)
            self._identity = identity = take_identity(self._session, self._plan, self._batch, self._attempt)
            self._producer = self._session.port.producer(
                self._settings.for_sending(), identity, self._plan.version, self._seen.on_ack
            )
            self._began_s = self._session.port.passed_s()
            self._producer.begin_transaction()
            reach(Barrier.TASK_ROWS)
        return self._producer

    @property
    def outlived_its_transaction(self) -> bool:
        """Whether its transaction has been open for longer than transaction.timeout.ms."""
        if self._began_s is None:
            return False
        return 1000 * (self._session.port.passed_s() - self._began_s) >= self._settings.transaction_timeout_ms

    def _tell_late(self) -> None:
        """Log a warning if a task begins so late that the batch's first transactions may have timed out."""
        settings, passed_ms = self._settings, self._session.port.now_ms() - self._plan.planned_ms
        if passed_ms >= settings.transaction_timeout_ms:
            _log.warning(
                "task %d of %s begins to write %d ms after its batch was planned, if the clocks of this machine and of "
                "the driver's agree: transactions of the first tasks may have timed out (%s=%d). Have more "
                "tasks run at once, or %s",
                self._attempt.partition_id,
                self._batch,
                passed_ms,
                settings.timeout_name,
                settings.transaction_timeout_ms,
                longer(settings),
            )

    def prepare(self, totals: Totals) -> Entry | None:
        """Wait until all rows are stored and write the receipt; returns the entry, None if there was no row."""
        producer, identity = self._producer, self._identity
        if producer is None or identity is None:
            if totals.rows:
                raise OttlaError(
                    f"task {self._attempt.partition_id} of {self._batch} sent no row of {totals.rows}: nothing of the "
                    "batch is visible; this is a bug of ottla: please report it"
                )
            return None
        producer.flush()
        stored = self._seen.rows
        if stored != totals.rows:
            raise OttlaError(
                f"task {self._attempt.partition_id} of {self._batch} has {totals.rows} rows, and {stored} were stored "
                "in its transaction: nothing of the batch is visible; this is a bug of ottla: please report it"
            )
        if not stored:
            producer.abort_transaction()
            return None
        entry = Entry(self._attempt.partition_id, identity, totals, -1)
        reach(Barrier.TASK_RECEIPT)
        value = encode_receipt(self._batch, self._attempt, entry, self._seen.spans())
        receipt = producer.send(self._settings.receipts_topic, value, identity.transactional_id.encode(), partition=0)
        reach(Barrier.TASK_PREPARE)
        try:
            producer.prepare_transaction()
        except OttlaError as error:
            if is_too_large(error):
                raise receipt_too_large(self._settings, self._batch, self._attempt.partition_id) from error
            raise
        return entry._replace(receipt_offset=receipt.result().offset)

    def leave(self) -> None:
        """Leave the prepared transaction open for the driver, and keep the producer for the next task."""
        if self._producer is not None:
            self._session.port.keep(self._producer)

    def give_up(self) -> None:
        """Abort the transaction; errors of that are not raised, because the first error is the one to report."""
        if self._producer is not None:
            try:
                with contextlib.suppress(OttlaError):
                    self._producer.abort_transaction()
                self._producer.close()
            except (OttlaError, TimeoutError) as error:
                _log.warning(
                    "the transaction of task %d of %s could not be aborted: %s. The end of the batch or the next start "
                    "aborts it; until then readers with read_committed wait",
                    self._attempt.partition_id,
                    self._batch,
                    error,
                )
