"""What the sink refuses, with reason and remedy, and whether a task writes, skips or writes again. Pure.

Each function compares what Spark is about to do with the last decision R. What does not match R is refused before any
of it becomes visible. R says what is in Kafka. A checkpoint that disagrees with R was lost or rolled back, or belongs
to another query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import OttlaError, TransactionError, TransactionUnfinished, UserMistake
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.batch import WRITE, BatchId, Entry, Last, Plan, Prepared, Skipped, Totals
from ottla.sink.commands import alter_command, recover_command
from ottla.sink.decision import Decision
from ottla.sink.settings import SinkSettings

Message = Prepared | Skipped
ONGOING = "Ongoing"
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# Any receipt fits into so many bytes.
_RECEIPT_ROOM = 64 * 1024
AGAIN = "Start the query, or the write, again; if it happens again, report it as a bug of ottla"
_OTHER_ID = "give this query a sink.id of its own"
_RESTORE, _ALL_IS_WRITTEN = (
    "restore the checkpoint that belongs to the sink. Or",
    "then all that it reads is written, also rows that are stored already",
)
# A query keeps its id with its checkpoint, so another sink.id alone would be refused by `renamed`.
_CHECKPOINT = f"{_RESTORE} start this query with a new checkpoint and a sink.id of its own: {_ALL_IS_WRITTEN}"


class Role(Enum):
    """What a task does with its rows."""

    WRITE = "write"
    SKIP = "skip"
    REWRITE = "rewrite"


def role(settings: SinkSettings, last: Last | None, batch: BatchId, partition_id: int) -> Role:
    """What this task must do with its rows; UserMistake if the batch cannot follow the last decision."""
    if last is None:
        return Role.WRITE
    sink_id, decided = settings.sink_id, last.batch
    if decided.query_id != batch.query_id:
        # Each batch write has its own query id, so another id is no mistake.
        if decided.batch_id == batch.batch_id == WRITE:
            _refuse_lost(settings, last)
            return Role.WRITE
        if WRITE in (decided.batch_id, batch.batch_id):
            raise _other_kind(sink_id, decided, f"{batch}")
        raise _foreign(sink_id, decided, f"{batch}")
    if batch.batch_id < decided.batch_id:
        raise UserMistake(
            f"sink {sink_id!r} has written batch {decided.batch_id}, and this is batch {batch.batch_id} of the same "
            f"query: the checkpoint was rolled back; {_CHECKPOINT}"
        )
    if batch.batch_id == decided.batch_id and last.is_all_lost:
        return Role.WRITE
    if batch.batch_id == decided.batch_id:
        return Role.REWRITE if partition_id in last.lost else Role.SKIP
    _refuse_lost(settings, last)
    return Role.WRITE


def check_query(sink_id: str, last: BatchId, query_id: str) -> None:
    """UserMistake if the last decision is of another query; called before a plan, if the query is known by then."""
    if last.query_id != query_id:
        this = f"query {query_id}"
        raise _other_kind(sink_id, last, this) if last.batch_id == WRITE else _foreign(sink_id, last, this)


def moved(sink_id: str, query_id: str, was: str) -> UserMistake:
    """The query has decided as another sink: its checkpoint was moved, or its location is written in another way."""
    return UserMistake(
        f"query {query_id} has written as sink {was!r}, and is sink {sink_id!r} now: a sink without sink.id is named "
        f"after the checkpoint's location, and the checkpoint was moved, or its location is spelt in another way. A "
        f"batch could be written twice. To go on, give the query the option sink.id={was!r}. If this checkpoint is a "
        f"copy, and the other query still runs, start this query with a new checkpoint"
    )


def renamed(sink_id: str, batch: BatchId, other: Decision) -> UserMistake:
    """The query's sink.id was added or changed before Spark had noted that a decided batch is done."""
    return UserMistake(
        f"{batch} was to be written by sink {sink_id!r}, and sink {other.sink_id!r} has decided {other.batch} already: "
        "the query's sink.id was added or changed, and this batch would be written twice. To go on, give the query "
        f"the option sink.id={other.sink_id!r}, until a batch has ended; after that another sink.id can be given. If "
        "the checkpoint is a copy of another query's, start this query with a checkpoint of its own"
    )


def _foreign(sink_id: str, last: BatchId, this: str) -> UserMistake:
    return UserMistake(
        f"sink {sink_id!r} belongs to {last}, and this is {this}: the checkpoint was lost, or another query has the "
        f"same sink.id; {_RESTORE} {_OTHER_ID}: {_ALL_IS_WRITTEN}"
    )


def _other_kind(sink_id: str, last: BatchId, this: str) -> UserMistake:
    """The error if a query meets the sink of a batch write, which has no checkpoint; or the other way round."""
    own = _OTHER_ID if last.batch_id == WRITE else "give this write a sink.id of its own"
    return UserMistake(
        f"sink {sink_id!r} belongs to {last}, and this is {this}: a sink.id is either of one query or of batch writes; "
        f"{own}"
    )


def _refuse_lost(settings: SinkSettings, last: Last) -> None:
    if last.lost:
        rows = sum(totals.rows for totals in last.lost.values())
        is_write = last.batch.batch_id == WRITE
        remedy = (
            f"Run that write again with write.id={last.batch.query_id}: it writes them"
            if is_write
            else "Restore a backup of the checkpoint from before that batch, and start the query: then they are written"
        )
        raise UserMistake(
            f"{rows} rows of {last.batch} are missing in Kafka, and this is a later batch: that one was decided "
            f"for sink {settings.sink_id!r}, and transactions timed out before all of it was committed. "
            f"{remedy}{or_accept(settings)}"
        )


def taken_over(sink_id: str) -> OttlaError:
    """The error if another query or write has planned since."""
    said = (
        f"another query or write has begun a batch of sink {sink_id!r}, or ottla sink recover has stopped this one. If "
        "this query was started twice, stop one of them. If two queries or writes have this sink.id, give each its own"
    )
    return kafka_error(ErrorCode.PRODUCER_FENCED, said)


def forgotten(what: str) -> TransactionError:
    """The error if brokers have forgotten the driver's transactional id since the plan."""
    return TransactionError(
        f"{what} is not decided, and nothing of it is visible: brokers have forgotten the driver's transactional "
        "id since the batch was planned. Raise transactional.id.expiration.ms of the brokers: it must be longer "
        "than a batch"
    )


def behind(settings: SinkSettings, waited_s: float) -> TransactionUnfinished:
    """The error if the leader of the control topic does not have the control marker of the fence."""
    return TransactionUnfinished(
        f"the last decision of sink {settings.sink_id!r} is not known: the broker that answers as the leader of topic "
        f"{settings.control_topic!r} has been behind for {waited_s:.0f} s. Check whether it is cut off from the other "
        "brokers, and start again"
    )


def behind_plan(settings: SinkSettings, batch: BatchId) -> TransactionError:
    """The error if the leader of the control topic does not have the decision that the plan has read."""
    return TransactionError(
        f"{batch} of sink {settings.sink_id!r} cannot be completed now, and nothing of this attempt is visible: the "
        f"broker that answers as the leader of topic {settings.control_topic!r} is behind, and does not have the last "
        "decision. Check whether it is cut off from the other brokers, and start again"
    )


def or_accept(settings: SinkSettings) -> str:
    """The remedy if the rows cannot be computed again."""
    command = recover_command(settings, "--accept-loss")
    return f". If that is not possible, this command lets the batch count as done without the lost rows: {command}"


def other_tasks(settings: SinkSettings, last: Last, tasks: int) -> UserMistake:
    """The error if a batch with lost rows came again with other tasks."""
    return UserMistake(
        f"{last.batch} of sink {settings.sink_id!r} has {tasks} tasks and had {last.tasks}: the rows that were lost "
        f"by a timeout can only be written again by the same tasks; {_again(settings, last)}"
    )


def _again(settings: SinkSettings, last: Last) -> str:
    return (
        f"run it with as many tasks as it had ({last.tasks}; see the source's partitions, "
        f"spark.sql.shuffle.partitions and coalesce) and the same rows{or_accept(settings)}"
    )


def check_rewritten(settings: SinkSettings, last: Last, partition_id: int, totals: Totals) -> None:
    """Compare the rows of a Spark partition with the decision; UserMistake if they are other ones."""
    wanted = last.lost.get(partition_id) or last.kept.get(partition_id) or Totals()
    if totals != wanted:
        raise UserMistake(
            f"task {partition_id} of {last.batch} of sink {settings.sink_id!r} has {_rows(totals, wanted)}: the rows "
            "that were lost by a timeout can only be written again by the same tasks with the same rows; "
            f"{_again(settings, last)}"
        )


def _rows(found: Totals, wanted: Totals) -> str:
    noun = "row" if found.rows == 1 else "rows"
    if found.rows == wanted.rows:
        return f"{found.rows} {noun}, as many as were decided, but they are not the same, or go to another topic"
    return f"{found.rows} {noun} where {wanted.rows} were decided"


def is_same_again(settings: SinkSettings, last: Last, messages: Sequence[Message]) -> bool:
    """Whether a batch that was decided before has the same rows again; UserMistake if it must have them and does not.

    A batch that is done may have other rows if Spark crashed before it noted that the batch is done: `rand()`,
    clocks and sums after a shuffle give other ones. It must have the same rows in a run that has decided it or found
    that it is done, because Spark never runs a batch twice in one run, and also if some of its rows are lost. A batch
    write may have other rows only if the settings say so.
    """
    sink_id, totals = settings.sink_id, sum_of(messages)
    if last.lost and len(messages) != last.tasks:
        # Rows that are there were not read again, so the totals of other tasks mean nothing.
        raise other_tasks(settings, last, len(messages))
    if totals == last.totals:
        return True
    told = (
        f"{last.batch} of sink {sink_id!r} has {_rows(totals, last.totals)}. Nothing was written this time; what "
        "was decided before stays as it is. The reason"
    )
    if last.lost:
        raise UserMistake(
            f"{told}: a part of the batch was lost by a timeout, and only the same rows can complete it; "
            f"{_again(settings, last)}"
        )
    is_write = last.batch.batch_id == WRITE
    run_id = messages[0].attempt.run_id
    # A batch write outside of a query has no run.
    if run_id == last.run_id if run_id else not is_write:
        raise UserMistake(
            f"{told}: it was decided, or found to be done, in this same run of the query, as far as Spark's job group "
            "tells. Most likely two writes of a micro-batch have the same sink.id: give the second one another "
            "sink.id. (If there is only one write, do not repeat it in your function: let it fail, and start the query "
            "again. If your program sets a job group that is the same in each run, do not set it)"
        )
    if is_write:
        if settings.same_rows is False:
            return False
        raise UserMistake(
            f"{told}: a write.id is for the same rows to the same topic, however often they are written. If this is "
            "the same write, it is done: do not run it again. (If Spark runs it again, because it is part of a "
            f"micro-batch, set {settings.other_rows_name}: then it is done with the rows it had.) If it is another "
            "write, give it a write.id of its own; two writes of one micro-batch also need a sink.id each"
        )
    if settings.same_rows:
        raise UserMistake(
            f"{told}: the checkpoint was rolled back, the source does not repeat what it gave, or the rows now go to "
            f"another topic, and {settings.same_rows_name} refuses that; {_CHECKPOINT}. Or leave that option "
            "out: then the batch counts as done with the rows that it was decided with"
        )
    return False


def sum_of(messages: Iterable[Message]) -> Totals:
    """The sum of all tasks' totals."""
    totals = Totals()
    for message in messages:
        totals = totals.plus(message.totals)
    return totals


def check_together(settings: SinkSettings, messages: Sequence[Message]) -> tuple[Plan, BatchId]:
    """The plan and batch of all messages; OttlaError if they are of different ones, or if two are of one task."""
    plan, batch = messages[0].plan, messages[0].batch
    seen: set[int] = set()
    for message in messages:
        if message.plan.driver_identity != plan.driver_identity or message.batch != batch:
            raise OttlaError(
                f"tasks of two plans came to one commit of sink {settings.sink_id!r} ({batch} and {message.batch}): "
                f"nothing of the batch is visible. {AGAIN}"
            )
        if message.attempt.partition_id in seen:
            raise OttlaError(
                f"task {message.attempt.partition_id} of {batch} came to one commit twice: nothing of the batch is "
                f"visible. {AGAIN}"
            )
        seen.add(message.attempt.partition_id)
    return plan, batch


class Late(NamedTuple):
    """A task's transaction that cannot be committed in time; in messages, `why` comes after the number of the task."""

    entry: Entry
    why: str


def is_open(entry: Entry, described: Mapping[str, TransactionDescription]) -> bool:
    """Whether this very transaction is open, as its coordinator says."""
    now = described.get(entry.identity.transactional_id)
    return now is not None and (
        TransactionIdentity(now.transactional_id, now.producer_id, now.producer_epoch) == entry.identity
        and now.state == ONGOING
    )


def too_late(
    settings: SinkSettings,
    entries: Iterable[Entry],
    described: Mapping[str, TransactionDescription],
    earliest_ms: int,
    now_ms: int,
) -> list[Late]:
    """The transactions that are not open any more, or have less time left than the margin.

    `now_ms` is by the brokers' clocks, as the transactions' start times are. No transaction began before `earliest_ms`:
    if `now_ms` is by the driver's clock, that is the plan's time by it, in case that clock is ahead of the brokers'.
    """
    found: list[Late] = []
    for entry in entries:
        now = described.get(entry.identity.transactional_id)
        if now is None or not is_open(entry, described):
            state = "unknown" if now is None else now.state
            found.append(Late(entry, f"lost its transaction before the batch was decided (state of its id: {state})"))
            continue
        began_ms = max(earliest_ms, now.started_ms or earliest_ms)
        left_ms = now.timeout_ms - (now_ms - began_ms)
        if left_ms < settings.margin:
            why = (
                f"has {max(left_ms, 0)} ms left of {settings.timeout_name} ({now.timeout_ms}), and {settings.margin} "
                "are needed to commit safely"
            )
            found.append(Late(entry, why))
    return found


def took_too_long(settings: SinkSettings, batch: BatchId, late: Sequence[Late]) -> TransactionError:
    """The error if a batch takes longer than its transactions may last, and is not decided."""
    first = late[0]
    return TransactionError(
        f"task {first.entry.partition_id} of {batch} {first.why}; nothing of this attempt is visible (tasks that are "
        f"too late: {len(late)}). A batch must be decided within {settings.timeout_name} "
        f"({settings.transaction_timeout_ms}) less {settings.margin_name} ({settings.margin}): {longer(settings)}"
    )


def longer(settings: SinkSettings) -> str:
    """What to do if a batch takes longer than its transactions may last."""
    told = (
        f"raise {settings.timeout_name} (and transaction.max.timeout.ms of the brokers, if that is less), or make "
        "batches smaller (one that has begun keeps its size when it is run again)"
    )
    if settings.same_rows:
        return told
    return (
        f"{told}; if it has the same rows each time it is run, set {settings.same_rows_name}: then each run commits "
        "what ends in time, and the next start writes the rest"
    )


def partly_there(settings: SinkSettings, decision: Decision) -> TransactionError:
    """The error if a batch is decided and some of its transactions were not committed in time."""
    lost = decision.lost
    gone, total = sum(entry.totals.rows for entry in lost), decision.totals.rows
    again = "the query"
    if decision.batch.batch_id == WRITE:
        again = f"the write, with write.id={decision.batch.query_id},"
    tasks = ", ".join(str(entry.partition_id) for entry in lost)
    return TransactionError(
        f"{decision.batch} of sink {settings.sink_id!r} is decided, and {total - gone} of {total} rows are there: "
        f"transactions of tasks did not last until they could be committed ({settings.timeout_name}="
        f"{settings.transaction_timeout_ms}). Start {again} again: then only these tasks write their rows: {tasks}. "
        f"For batches that are whole after one run, {longer(settings)}"
    )


def is_too_large(error: BaseException | None) -> bool:
    """Whether the error says that a topic does not take so large a record."""
    while error is not None:
        if getattr(error, "code", None) in _TOO_LARGE:
            return True
        error = getattr(error, "first", None) or error.__cause__
    return False


def receipt_too_large(settings: SinkSettings, batch: BatchId, partition_id: int) -> UserMistake:
    """A task's receipt is larger than its topic allows: somebody has made the topic so."""
    topic = settings.receipts_topic
    command = alter_command(settings, topic, f"max.message.bytes={_RECEIPT_ROOM}")
    return UserMistake(
        f"the receipt of task {partition_id} of {batch} does not fit into topic {topic!r}; nothing of the batch is "
        f"visible. Raise max.message.bytes of that topic ({command})"
    )


def too_many_tasks(decision: Decision, size: int, size_max: int) -> UserMistake:
    """The record that decides a batch is larger than any topic takes from the sink; nothing is decided."""
    return UserMistake(
        f"{decision.batch} has {decision.tasks} tasks, and its decision ({size} bytes) is larger than {size_max} "
        "bytes; nothing of the batch is visible. Write with fewer tasks (coalesce)"
    )


def decision_too_large(settings: SinkSettings, decision: Decision, size: int) -> UserMistake:
    """The error if the decision, of this many bytes, is larger than its topic allows; nothing is decided."""
    topic = settings.control_topic
    return UserMistake(
        f"{decision.batch} has {decision.tasks} tasks, and its decision ({size} bytes) does not fit into topic "
        f"{topic!r}; nothing of the batch is visible. Raise max.message.bytes of that topic "
        f"({alter_command(settings, topic, f'max.message.bytes={2 * size}')}), or write with fewer tasks (coalesce)"
    )
