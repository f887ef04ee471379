"""Steps 3 to 5, on the driver after the tasks: decide and apply, or abort.

Both start from the tasks' messages, which have the plan they belong to and what each task has prepared. `commit`
decides with exactly the identity of that plan, so brokers refuse a driver that was fenced meanwhile. `abort` first
makes sure that this plan can no longer decide anything, and then reads whether it has decided.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.applying import apply
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import WRITE, BatchId, Entry, Plan, Prepared, Skipped
from ottla.sink.deciding import decide, decided_by
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.planning import abort_strays, check_moved, check_renamed, last_of, look
from ottla.sink.refusals import (
    AGAIN,
    Message,
    behind_plan,
    check_together,
    is_same_again,
    other_tasks,
    partly_there,
    role,
    sum_of,
)
from ottla.sink.session import Session

_log = logging.getLogger("ottla.sink")


def commit(session: Session, messages: Sequence[Message]) -> None:
    """Decide the batch of these messages and commit its transactions; returns when all are committed.

    Raises UserMistake or TransactionError if the batch is refused and nothing that these tasks wrote is visible;
    TransactionError also if a part of it is visible and the same tasks must write the rest; ProducerFenced if another
    driver has taken over; TransactionUnfinished if the batch is decided, or may be, and the next plan completes it. The
    call may be repeated.
    """
    if not messages:
        return
    settings = session.settings
    plan, batch = check_together(settings, messages)
    session.version = plan.version
    reach(Barrier.COMMIT_CHECK)
    if plan.last is None:
        # The first batch. If the driver cannot read the checkpoint, it learns the query from the tasks' messages.
        check_moved(session, batch.query_id)
    check_renamed(session, batch)
    prepared = [message for message in messages if isinstance(message, Prepared)]
    if plan.last is not None and not prepared:
        _recognise(session, plan, messages, is_same_again(settings, plan.last, messages))
        return
    decision = _to_decide(session, plan, batch, messages, prepared)
    with DecisionWriter(session, plan.driver_identity) as writer:
        decision, driver_identity = decide(writer, plan, decision, prepared)
        reach(Barrier.COMMIT_APPLY)
        settled = decision.settled(apply(session, batch, decision.unsettled))
        reach(Barrier.COMMIT_LANDED)
        # None after a lost answer: the driver's id may have another epoch by now, and the old one is refused.
        if driver_identity is not None and decision.unsettled:
            writer.try_to_write_again(settled)
            driver_identity = writer.identity
        reach(Barrier.COMMIT_SWEEP)
        _sweep(session, driver_identity, decision, batch)
    reach(Barrier.COMMIT_END)
    if settled.lost:
        raise partly_there(settings, settled)


def _recognise(session: Session, plan: Plan, messages: Sequence[Message], is_same: bool) -> None:
    """A batch that is done came again; nothing is written. Note in R which run it was, and count other rows.

    If the same run comes with other rows for this batch, they are of another write with this sink.id, and refused.
    """
    decision = _decision_of_plan(session, plan)
    if not is_same:
        _tell_differing(session, plan, messages, decision)
    if decision is not None:
        noted = decision._replace(run_id=messages[0].attempt.run_id, differed=decision.differed + (not is_same))
        if noted != decision:
            with DecisionWriter(session, plan.driver_identity) as writer:
                writer.try_to_write_again(noted)


def _tell_differing(session: Session, plan: Plan, messages: Sequence[Message], decision: Decision | None) -> None:
    """Log that a batch that is done came again with other rows, which are not written."""
    assert plan.last is not None
    found = sum_of(messages)
    is_lossy = decision is not None and decision.loss_accepted
    why = (
        "It was run again"
        if plan.last.batch.batch_id == WRITE
        else "The query ended before its checkpoint had this batch as done, so Spark ran it again"
    )
    _log.warning(
        "%s of sink %r counts as done, and keeps the %d rows it was decided with%s. %s, with %d rows that are not all "
        "the same, or go to another topic. This run wrote nothing. (If two writes of one micro-batch have "
        "this sink.id, the rows of the second are lost: give each its own)",
        plan.last.batch,
        session.settings.sink_id,
        plan.last.totals.rows,
        ", without those that --accept-loss has given up" if is_lossy else "",
        why,
        found.rows,
    )


def _decision_of_plan(session: Session, plan: Plan) -> Decision | None:
    """R as the plan has read it, None if another one is read.

    An isolated broker that is no longer the leader returns an older one. That says of rows that they are lost, though
    they have been written again since, or does not say yet what became of a transaction.
    """
    found = session.read_decision()
    return None if found is None or found.unsettled or last_of(found) != plan.last else found


def _sweep(
    session: Session, driver_identity: TransactionIdentity | None, decision: Decision | None, batch: BatchId | None
) -> None:
    """Abort the transactions of attempts that no decision names. The next plan would do it, but may be an hour away.

    While this driver is the newest, no task of the next batch can have begun. Attempts that are still alive find that
    their identity has ended, also if they have sent nothing yet. Attempts without an identity find that the plan's
    identity is no longer the newest. (Before transaction version 2, KIP-890, the end of a transaction changes no
    identity, and both may begin a transaction.) An error here is only logged: the batch is done, or has failed.
    """
    if driver_identity is None:
        return
    try:
        seen = look(session, driver_identity, decision)
        if seen is not None:
            found = seen[1]
            abort_strays(session, (*found.abort, *found.idle))
    except OttlaError as error:
        _log.warning(
            "transactions of attempts at %s that do not count stay open until the next batch or start; until then "
            "readers with read_committed wait: %s",
            batch or "a write",
            error,
        )


def _to_decide(
    session: Session, plan: Plan, batch: BatchId, messages: Sequence[Message], prepared: Sequence[Prepared]
) -> Decision:
    settings, last = session.settings, plan.last
    written = [message.entry for message in prepared if message.entry is not None]
    kept: list[Entry] = []
    if last is not None and last.batch == batch and not last.is_all_lost:
        is_same_again(settings, last, messages)
        rewritten = {entry.partition_id for entry in written}
        if len(messages) != last.tasks or rewritten != set(last.lost):
            raise other_tasks(settings, last, len(messages))
        # If `commit` is called again, this plan may have decided the batch already.
        before = decided_by(session, plan.driver_identity, batch) or _decision_of_plan(session, plan)
        if before is None:
            raise behind_plan(settings, batch)
        kept = [entry for entry in before.entries if entry.partition_id not in rewritten]
    else:
        for message in messages:
            role(settings, last, batch, message.attempt.partition_id)
        if any(isinstance(message, Skipped) for message in messages):
            raise OttlaError(f"some tasks of {batch} were skipped and others not: nothing of it is visible. {AGAIN}")
    return Decision(
        settings.sink_id,
        batch,
        sum_of(messages),
        len(messages),
        tuple(sorted([*written, *kept])),
        plan.driver_identity,
        session.port.now_ms(),
        messages[0].attempt.run_id,
    )


def abort(session: Session, messages: Sequence[Message | None], plan: Plan | None = None) -> None:
    """Abort the transactions of a batch, so that readers need not wait for them; if it is decided, commit them instead.

    The message of a task that failed is None. If all are None, `plan` says which batch to abort.
    Raises what `commit` raises; the next plan does the same work.
    """
    known = [message for message in messages if message is not None]
    if known:
        plan = known[0].plan
    if plan is None:
        return
    batch = known[0].batch if known else None
    entries = [message.entry for message in known if isinstance(message, Prepared) and message.entry is not None]
    session.version = plan.version
    reach(Barrier.ABORT_FENCE)
    # If a coordinator answers, this plan's decision is either committed or impossible from here on.
    driver_identity, error = session.give_up(plan.driver_identity)
    decision = session.read_decision()
    if decision is not None and decision.driver_identity == plan.driver_identity:
        apply(session, decision.batch, decision.unsettled)
        # Only attempts that the decision does not name are left.
        _sweep(session, session.identity_after_decision, decision, batch)
        return
    # What was read may be older than the decision, if it came from an isolated broker that is no longer the leader.
    if error is not None and not session.is_given_up(plan.driver_identity):
        _log.warning("it is not known yet whether %s is decided; the next start finds out", batch or "a write")
        return
    reach(Barrier.ABORT_END)
    session.end([entry.identity for entry in entries], committed=False)
    _sweep(session, driver_identity, decision, batch)
    reach(Barrier.ABORT_RETURN)
