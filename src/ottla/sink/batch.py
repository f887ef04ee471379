"""What travels between planning, tasks and commit: small, plain, picklable.

plan()  -> Plan                        pickled into every task
prepare -> Prepared | Skipped          pickled into commit(), each with the Plan it belongs to
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.producer.transaction_states import TransactionIdentity

_DIGEST_MASK = (1 << 64) - 1
WRITE = -1
"""The batch id of a batch write, of which each has a query id of its own."""


class BatchId(NamedTuple):
    """A micro-batch: the streaming query's id (it survives restarts) and the batch's number in it; or a batch write."""

    query_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"write {self.query_id}" if self.batch_id == WRITE else f"batch {self.batch_id} of query {self.query_id}"


class Attempt(NamedTuple):
    """One attempt at one partition: the number that is the attempt's own, the partition's, and Spark's of the attempt.

    `attempt_number` tells attempts of one stage apart; a stage that is run again counts from 0.
    `run_id` is one of the query's starts: no engine runs a batch twice in one run.
    """

    task_attempt_id: int
    partition_id: int
    attempt_number: int = 0
    run_id: str = ""


class Totals(NamedTuple):
    """How many rows, and the sum of their 64-bit hashes, whatever their order."""

    rows: int = 0
    digest: int = 0

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        return Totals(self.rows + other.rows, (self.digest + other.digest) & _DIGEST_MASK)


class Span(NamedTuple):
    """Rows that a task wrote to a Kafka partition: the offsets of the first and of the last one.

    Others may have written between them; `rows` are this task's.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int

    def joined(self, other: Span) -> Span:
        """The rows of both, which are of one partition."""
        first_offset, last_offset = min(self.first_offset, other.first_offset), max(self.last_offset, other.last_offset)
        return Span(self.topic, self.partition, first_offset, last_offset, self.rows + other.rows)


class Entry(NamedTuple):
    """A task's transaction, as the decision holds it; `marker_offset` is where it left its marker.

    `landed` and `lost` are notes of what became of it: committed, or taken back by a timeout. Without a note it is
    open, or its marker must be asked.
    """

    partition_id: int
    identity: TransactionIdentity
    totals: Totals
    marker_offset: int
    landed: bool = False
    lost: bool = False


class Last(NamedTuple):
    """The last decision as far as tasks need to know it: its batch, its totals, how many tasks it had.

    `lost` are the rows of it that a timeout took back, by partition; where there are any, `kept` are the others. Where
    there are no others, the decision is void. `run_id` is the run in which it was decided.
    """

    batch: BatchId
    totals: Totals
    tasks: int
    lost: dict[int, Totals]
    kept: dict[int, Totals]
    run_id: str = ""

    @property
    def is_void(self) -> bool:
        """Whether nothing of it is there: it can be written again by any tasks, with any rows."""
        return bool(self.lost) and not self.kept


class Plan(NamedTuple):
    """What planning found: who may decide, what was decided last, which ids tasks may take.

    `planned_ms` is the driver's clock.
    """

    coordinator: TransactionIdentity
    last: Last | None
    idle: tuple[TransactionIdentity, ...]
    planned_ms: int


class Prepared(NamedTuple):
    """A task's rows, stored and not yet visible; `entry` is None where it had none."""

    plan: Plan
    batch: BatchId
    attempt: Attempt
    totals: Totals
    entry: Entry | None


class Skipped(NamedTuple):
    """A task whose rows were decided before: it has counted them and written nothing."""

    plan: Plan
    batch: BatchId
    attempt: Attempt
    totals: Totals
