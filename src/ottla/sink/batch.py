"""The messages between plan, tasks and commit: small, plain, picklable.

plan()  -> Plan                        pickled into every task
prepare -> Prepared | Skipped          pickled into commit(), each with the Plan it belongs to
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.producer.transaction_states import TransactionIdentity

_DIGEST_MASK = (1 << 64) - 1
WRITE = -1
"""The batch id of a batch write. Each batch write has its own query id."""


class BatchId(NamedTuple):
    """A micro-batch: the streaming query's id (it survives restarts) and the batch's number in it; or a batch write."""

    query_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"write {self.query_id}" if self.batch_id == WRITE else f"batch {self.batch_id} of query {self.query_id}"


class Attempt(NamedTuple):
    """One attempt at one Spark partition.

    `task_attempt_id` is unique to this attempt. `attempt_number` tells attempts of one stage apart; if the stage is run
    again, it starts at 0 again. `run_id` names one start of the query: no engine runs a batch twice in one run.
    """

    task_attempt_id: int
    partition_id: int
    attempt_number: int = 0
    run_id: str = ""


class Totals(NamedTuple):
    """The number of rows, and the sum of their 64-bit hashes modulo 2^64, which does not depend on their order."""

    rows: int = 0
    digest: int = 0

    def plus(self, other: Totals) -> Totals:
        """The totals of both together."""
        return Totals(self.rows + other.rows, (self.digest + other.digest) & _DIGEST_MASK)


class Span(NamedTuple):
    """Rows that a task wrote to a Kafka partition: the offsets of the first and of the last one.

    Other producers may have written between them; `rows` counts this task's rows alone.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int

    def joined(self, other: Span) -> Span:
        """The rows of both spans, which must be of one partition."""
        first_offset, last_offset = min(self.first_offset, other.first_offset), max(self.last_offset, other.last_offset)
        return Span(self.topic, self.partition, first_offset, last_offset, self.rows + other.rows)


class Entry(NamedTuple):
    """A task's transaction, as a decision names it; `receipt_offset` is the offset of its receipt.

    `landed` notes that it was committed, `lost` that it timed out or had too little time left. Without such a note, its
    receipt says what became of it.
    """

    partition_id: int
    identity: TransactionIdentity
    totals: Totals
    receipt_offset: int
    landed: bool = False
    lost: bool = False


class Last(NamedTuple):
    """What tasks need to know of the last decision: its batch, its totals, how many tasks it had.

    `lost` has the totals of its lost rows, by Spark partition. If there are lost rows, `kept` has the totals of the
    others. If there are no others, the decision no longer holds. `run_id` is the run that decided it, or found later
    that it is done.
    """

    batch: BatchId
    totals: Totals
    tasks: int
    lost: dict[int, Totals]
    kept: dict[int, Totals]
    run_id: str = ""

    @property
    def is_all_lost(self) -> bool:
        """Whether no row of it is there. Then any tasks may write the batch again, with any rows."""
        return bool(self.lost) and not self.kept


class Plan(NamedTuple):
    """What the driver passes to its tasks; `driver_identity` is the one that may decide.

    `planned_ms` is the time of the plan, by the driver's clock; `version` the transaction version (KIP-890) of all that
    is done for this plan, also if the cluster's is changed meanwhile.
    """

    driver_identity: TransactionIdentity
    last: Last | None
    planned_ms: int
    version: int


class Prepared(NamedTuple):
    """The message of a task whose rows are stored and not yet visible; `entry` is None if it had no row."""

    plan: Plan
    batch: BatchId
    attempt: Attempt
    totals: Totals
    entry: Entry | None


class Skipped(NamedTuple):
    """The message of a task whose rows were decided before: it has counted them and written nothing."""

    plan: Plan
    batch: BatchId
    attempt: Attempt
    totals: Totals
