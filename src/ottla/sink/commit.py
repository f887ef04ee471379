"""Steps 3 to 5, on the driver after the tasks: decide and apply, or abort.

Both begin with what the tasks' messages say: the plan they belong to, and what each has prepared. `commit` decides
under exactly the identity of that plan, so a driver that was replaced meanwhile is refused by the broker; `abort` first
makes sure that nothing can be decided any more, and then looks whether it was.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.errors import OttlaError
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.applying import apply
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import BatchId, Entry, Plan, Prepared, Skipped
from ottla.sink.deciding import decide
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.planning import abort_strays, check_moved, look
from ottla.sink.refusals import (
    Message,
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
    """Decide the batch of these messages and make it visible; returns when all of it is.

    Raises UserMistake or TransactionError where it is refused, and nothing of it is visible; TransactionError, too,
    where a part of it is visible, and the same tasks have to write the rest; ProducerFenced where another driver has
    taken over; TransactionUnfinished where it is decided (or nobody knows yet) and the next plan goes on with it. The
    same call again does no harm.
    """
    if not messages:
        return
    settings = session.settings
    plan, batch = check_together(settings, messages)
    reach(Barrier.COMMIT_CHECK)
    if plan.last is None:
        # The first batch. Where the checkpoint cannot be looked into, tasks are the first to tell which query it is.
        check_moved(session, batch.query_id)
    prepared = [message for message in messages if isinstance(message, Prepared)]
    if plan.last is not None and not prepared:
        if not is_same_again(settings, plan.last, messages):
            _tell_differing(session, plan, messages)
        return
    decision = _to_decide(session, plan, batch, messages, prepared)
    with DecisionWriter(session, plan.coordinator) as writer:
        decision, coordinator = decide(writer, plan, decision, prepared)
        reach(Barrier.COMMIT_APPLY)
        settled = decision.settled(apply(session, batch, decision.unsettled))
        reach(Barrier.COMMIT_LANDED)
        # None after a lost answer: the coordinator may have another epoch by now, and cannot write with the old one.
        if coordinator is not None and decision.unsettled:
            writer.try_to_write_again(settled)
            coordinator = writer.identity
        reach(Barrier.COMMIT_SWEEP)
        _sweep(session, coordinator, decision, batch)
    reach(Barrier.COMMIT_END)
    if settled.lost:
        raise partly_there(settings, settled)


def _tell_differing(session: Session, plan: Plan, messages: Sequence[Message]) -> None:
    """A batch that is done came again with other rows: none of them is written, and that is told and counted."""
    assert plan.last is not None
    found = sum_of(messages)
    _log.warning(
        "%s of sink %r is stored with the %d rows it had when it was decided. It was run again because the query ended "
        "before it noted that, and had %d rows, not the same ones. None of these is written: the batch is done",
        plan.last.batch,
        session.settings.sink_id,
        plan.last.totals.rows,
        found.rows,
    )
    decision = session.read_decision()
    if decision is not None and decision.batch == plan.last.batch:
        with DecisionWriter(session, plan.coordinator) as writer:
            writer.try_to_write_again(decision._replace(differed=decision.differed + 1))


def _sweep(
    session: Session, coordinator: TransactionIdentity | None, decision: Decision | None, batch: BatchId | None
) -> None:
    """Abort what attempts that do not count have left: the next plan, which would, may be an hour away.

    No task of the next batch can have begun while this coordinator is the newest. Attempts that live on find their
    identity gone, those too that have not sent anything yet; those that have none yet find the coordinator's gone.
    (Before transaction version 2, KIP-890, an end leaves identities as they are, and one of them may begin again.) What
    goes wrong here concerns nobody: the batch is done, or has failed.
    """
    if coordinator is None:
        return
    try:
        seen = look(session, coordinator, decision)
        if seen is not None:
            found = seen[1]
            abort_strays(session, (*found.abort, *found.idle))
    except OttlaError as error:
        _log.warning("attempts of %s that do not count stay open until the next batch: %s", batch or "a write", error)


def _to_decide(
    session: Session, plan: Plan, batch: BatchId, messages: Sequence[Message], prepared: Sequence[Prepared]
) -> Decision:
    settings, last = session.settings, plan.last
    written = [message.entry for message in prepared if message.entry is not None]
    kept: list[Entry] = []
    if last is not None and last.batch == batch and not last.is_void:
        is_same_again(settings, last, messages)
        before = session.read_decision()
        rewritten = {entry.partition_id for entry in written}
        if before is None or before.batch != batch or len(messages) != last.tasks or rewritten != set(last.lost):
            raise other_tasks(settings, last, len(messages))
        kept = [entry for entry in before.entries if entry.partition_id not in rewritten]
    else:
        for message in messages:
            role(settings, last, batch, message.attempt.partition_id)
        if any(isinstance(message, Skipped) for message in messages):
            raise OttlaError(f"some tasks of {batch} were skipped and others not: the batch is given up")
    return Decision(
        settings.sink_id,
        batch,
        sum_of(messages),
        len(messages),
        tuple(sorted([*written, *kept])),
        plan.coordinator,
        session.port.now_ms(),
        messages[0].attempt.run_id,
    )


def abort(session: Session, messages: Sequence[Message | None], plan: Plan | None = None) -> None:
    """Give up a batch, so that readers need not wait for what its tasks sent; what is decided is committed instead.

    `messages` may lack those of tasks that failed (None). Where all do, only `plan` tells what there is to give up.
    Raises what `commit` raises; the next plan does the same.
    """
    known = [message for message in messages if message is not None]
    if known:
        plan = known[0].plan
    if plan is None:
        return
    batch = known[0].batch if known else None
    entries = [message.entry for message in known if isinstance(message, Prepared) and message.entry is not None]
    reach(Barrier.ABORT_FENCE)
    # Unless nobody answers, a decision of this plan is either complete or impossible from here on.
    coordinator, trouble = session.give_up(plan.coordinator)
    decision = session.read_decision()
    if decision is not None and decision.coordinator == plan.coordinator:
        apply(session, decision.batch, decision.unsettled)
        # Attempts that do not count are nobody's now.
        _sweep(session, session.identity_after_decision, decision, batch)
        return
    # What was read may be older than the decision, where the topic's leader is cut off and was replaced.
    if trouble is not None and not session.is_given_up(plan.coordinator):
        _log.warning(
            "whether %s is decided is not known yet; the next start of the query finds out", batch or "a write"
        )
        return
    reach(Barrier.ABORT_END)
    session.end([entry.identity for entry in entries], committed=False)
    _sweep(session, coordinator, decision, batch)
    reach(Barrier.ABORT_RETURN)
