"""Step 1, on the driver before any task runs: fence older drivers, read R, commit what it names, abort the rest.

The order matters. Once the driver's id has its new identity, no other driver can decide, and a decision that was being
written is complete. So R, read after that, is the last decision until this plan decides. Then every open transaction
that R names is committed, and every other one is aborted, by exact producer id and epoch: if an attempt has taken an id
again meanwhile, its transaction is not touched. A driver aborts nothing if it is no longer the newest one after it has
listed the transactions (`look`).
"""

from __future__ import annotations

import logging

from ottla.errors import OttlaError, TransactionUnfinished
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.applying import Lost, apply, settle
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import BatchId, Last, Plan
from ottla.sink.deciding import is_fenced
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.refusals import behind, check_query, moved, renamed, taken_over
from ottla.sink.session import Session
from ottla.sink.sweep import STATES, Sweep, sweep, to_describe

_log = logging.getLogger("ottla.sink")

_PAUSE_S, _PAUSE_S_MOST = 0.002, 0.02


def plan(session: Session, query_id: str | None = None) -> Plan:
    """Prepare the sink for a batch; call it once for each batch, in the driver.

    If `query_id` is given and the sink belongs to another query, this one is refused before it fences the other.
    Raises UserMistake for what cannot be used, TransactionUnfinished if transactions of the last decision cannot be
    committed yet, KafkaError for what brokers refuse, Unreachable.
    """
    session.ensure_topics()
    if query_id is not None:
        _check_owner(session, query_id)
    while True:
        planned_ms = session.port.now_ms()
        driver_identity, decision = _take_over(session)
        if decision is None or not decision.unsettled:
            break
    reach(Barrier.PLAN_END)
    last = None if decision is None else last_of(decision)
    return Plan(driver_identity, last, planned_ms, session.version)


def _take_over(session: Session) -> tuple[TransactionIdentity, Decision | None]:
    """Fence, complete the last decision, and sweep; returns the identity, and R as it was read.

    If R has no note at a transaction, this writes R again. Then it must be called again, for a new identity.
    Before transaction version 2 the identity stays the same after that write, and brokers would take the next decision
    for a duplicate of it. With a newer identity R must be read again: another driver may have decided meanwhile.
    """
    reach(Barrier.PLAN_FENCE)
    driver_identity = session.fence()
    reach(Barrier.PLAN_READ)
    decision = read_settled(session, driver_identity)
    driver_identity, lost, found = clean(session, driver_identity, decision)
    _free(session, found.idle)
    reach(Barrier.PLAN_LANDED)
    if decision is not None and decision.unsettled:
        settled = decision.settled(lost)
        _note(session, driver_identity, settled)
        tell_lost(settled)
    return driver_identity, decision


def _check_owner(session: Session, query_id: str) -> None:
    if session.owner != query_id:
        decision = session.read_decision()
        if decision is not None:
            check_query(session.settings.sink_id, decision.batch, query_id)
        else:
            check_moved(session, query_id)
        session.owner = query_id


def check_moved(session: Session, query_id: str) -> None:
    """UserMistake if a sink without a decision is named after a checkpoint that was moved."""
    if session.settings.of_checkpoint:
        others = session.others_of(query_id)
        if others:
            raise moved(session.settings.sink_id, query_id, others[0].sink_id)


def check_renamed(session: Session, batch: BatchId) -> None:
    """UserMistake if a streaming query has decided this batch under another sink id; looked for once in a process."""
    if session.settings.of_stream and session.only_sink_of != batch.query_id:
        for other in session.others_of(batch.query_id):
            if other.batch.batch_id >= batch.batch_id:
                raise renamed(session.settings.sink_id, batch, other)
        session.only_sink_of = batch.query_id


def read_settled(session: Session, driver_identity: TransactionIdentity) -> Decision | None:
    """Read R after fencing. No decision is being written then: if one seems open, its control marker is on the way.

    R is read up to the control marker of the fence. An isolated broker may still take itself for the leader, and would
    return an older R. Then a batch that was decided since would be written again.
    """
    deadline = session.port.passed_s() + session.port.patience_s
    pause_s = _PAUSE_S
    while True:
        decision = session.read_decision()
        has_all = session.has_read_fence
        if has_all and not session.is_deciding(driver_identity.producer_id):
            return decision
        if session.port.passed_s() >= deadline:
            if not has_all:
                raise behind(session.settings, session.port.patience_s)
            raise TransactionUnfinished(
                f"the last decision of sink {session.settings.sink_id!r} has neither been committed nor aborted after "
                f"{session.port.patience_s:.0f} s; check that all brokers run, and start again"
            )
        # Brokers write that control marker in a moment.
        session.port.pause(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MOST)


def clean(
    session: Session, driver_identity: TransactionIdentity, decision: Decision | None, accept_loss: bool = False
) -> tuple[TransactionIdentity, Lost, Sweep]:
    """Commit what is decided, abort what is not; returns the driver's identity then, lost entries, and what was found.

    An entry is lost if its transaction timed out; with `accept_loss` also if its receipt is gone. Raises ProducerFenced
    if `driver_identity` is no longer the newest: R may be a newer one by now, and open transactions may be another
    driver's.
    """
    reach(Barrier.PLAN_LOOK)
    seen = look(session, driver_identity, decision)
    if seen is None:
        raise taken_over(session.settings.sink_id)
    driver_identity, found = seen
    reach(Barrier.PLAN_ROLL)
    lost: Lost = ()
    if decision is not None:
        lost = (
            *apply(session, decision.batch, found.commit, accept_loss),
            *settle(session, decision.batch, found.doubtful, accept_loss=accept_loss),
        )
    reach(Barrier.PLAN_SWEEP)
    abort_strays(session, (*found.abort, *found.idle))
    return driver_identity, lost, found


def _free(session: Session, idle: tuple[TransactionIdentity, ...]) -> None:
    """Let attempts take the ids of these identities, which have no transaction: they take only what has ended one.

    Before transaction version 2 brokers end no transaction that has not begun, so it is begun first. An id that has
    another identity by now is left alone: an attempt of another plan has it.
    """
    if session.version < 2:
        begun = [each for each in idle if session.port.begin(each, session.settings.receipts_topic)]
        abort_strays(session, tuple(begun))


def _note(session: Session, driver_identity: TransactionIdentity, decision: Decision) -> None:
    """Write R again with its notes, because the driver that decided died before it did so."""
    with DecisionWriter(session, driver_identity) as writer:
        try:
            writer.write_again(decision)
        except OttlaError as error:
            if is_fenced(error):
                raise taken_over(session.settings.sink_id) from error
            raise


def look(
    session: Session, driver_identity: TransactionIdentity, decision: Decision | None
) -> tuple[TransactionIdentity, Sweep] | None:
    """The driver's identity from now on, and what to do about this sink's transactions; None if it was fenced.

    A driver that was delayed may list transactions of a newer driver, which its R does not name. So the identity is
    confirmed after the list was read: then no other driver has planned, and every listed transaction is older.
    """
    found = survey(session, decision)
    confirmed = session.confirm(driver_identity)
    return None if confirmed is None else (confirmed, found)


def survey(session: Session, decision: Decision | None) -> Sweep:
    """What to do about this sink's transactions, for a caller that changes nothing: the identity is not confirmed."""
    listed = session.port.list_transactions(session.prefix, STATES)
    return sweep(session.port.describe_transactions(to_describe(listed, session.driver_id)), decision)


def abort_strays(session: Session, identities: tuple[TransactionIdentity, ...]) -> None:
    """Abort transactions that R does not name; those with an error have ended otherwise, or never began.

    From transaction version 2 on (KIP-890), this also gives a new epoch to an identity without a transaction.
    """
    told = session.end(identities, committed=False)
    for error in told.values():
        if isinstance(error, TransactionUnfinished):
            raise OttlaError(
                f"open transactions of sink {session.settings.sink_id!r} that do not count cannot be aborted: {error}. "
                "Check that all brokers run, and start again"
            ) from error


def tell_lost(decision: Decision) -> None:
    """Log which rows of a decided batch are lost, and which are there."""
    lost = decision.lost
    if not lost:
        return
    gone = sum(entry.totals.rows for entry in lost)
    _log.warning(
        "%d of %d rows of %s of sink %r are lost, though it is decided: the transactions of tasks %s timed out. %s",
        gone,
        decision.totals.rows,
        decision.batch,
        decision.sink_id,
        ", ".join(str(entry.partition_id) for entry in lost),
        "Nothing of it is there, so it is written anew"
        if len(lost) == len(decision.entries)
        else "The others are there; the same tasks must write the same rows again",
    )


def last_of(decision: Decision) -> Last:
    """What tasks need to know of the last decision, whose entries all have a note."""
    lost = () if decision.loss_accepted else decision.lost
    kept = [entry for entry in decision.entries if not entry.lost] if lost else []
    return Last(
        decision.batch,
        decision.totals,
        decision.tasks,
        {entry.partition_id: entry.totals for entry in lost},
        {entry.partition_id: entry.totals for entry in kept},
        decision.run_id,
    )
