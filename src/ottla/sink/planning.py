"""Step 1, on the driver before any task runs: fence older drivers, read R, finish what it decided, sweep the rest.

The order matters. Once the coordinator's new identity is there, nobody else can decide, and what somebody was deciding
is complete: R, read after that, is what holds until this plan decides. Then everything open that R names is committed
and everything open that it does not name is aborted, by exact producer id and epoch: an id that was taken again
meanwhile is not hit. Nothing is aborted by whoever is not the newest driver after having looked (`look`).
"""

from __future__ import annotations

import logging

from ottla.errors import OttlaError, TransactionUnfinished
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.applying import Lost, apply, settle
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import Last, Plan
from ottla.sink.deciding import is_fenced
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.refusals import behind, check_query, moved, taken_over
from ottla.sink.session import Session
from ottla.sink.sweep import STATES, Sweep, sweep, to_describe

_log = logging.getLogger("ottla.sink")

# A task that meets an idle id which the plan does not name takes another turn.
_IDLE_MOST = 100
_PAUSE_S, _PAUSE_S_MOST = 0.002, 0.02


def plan(session: Session, query_id: str | None = None) -> Plan:
    """Make way for a batch; call it once for each, in the driver.

    Where it is known that the batch will be one of `query_id`, a sink that belongs to another query is refused before
    that one is fenced.
    Raises UserMistake for what cannot be used, TransactionUnfinished where the last decision cannot be carried out yet,
    KafkaError for what brokers refuse, Unreachable.
    """
    session.ensure_topics()
    if query_id is not None:
        _check_owner(session, query_id)
    while True:
        planned_ms = session.port.now_ms()
        coordinator, decision, idle = _become_coordinator(session)
        if decision is None or not decision.unsettled:
            break
    reach(Barrier.PLAN_END)
    last = None if decision is None else last_of(decision)
    return Plan(coordinator, last, idle, planned_ms)


def _become_coordinator(
    session: Session,
) -> tuple[TransactionIdentity, Decision | None, tuple[TransactionIdentity, ...]]:
    """Fence, finish the last decision, and sweep: the identity, R as it was read, and who has sent nothing.

    Where R had no note of what became of it, it has now, and all is to be done again: before transaction version 2 the
    identity would stay as it is, and brokers would take the next decision for that note, sent again. Nor may the plan
    go on with what it knows under a newer identity, for another driver may have decided meanwhile.
    """
    reach(Barrier.PLAN_FENCE)
    coordinator = session.fence()
    reach(Barrier.PLAN_READ)
    decision = read_settled(session, coordinator)
    coordinator, lost, found = clean(session, coordinator, decision)
    reach(Barrier.PLAN_LANDED)
    if decision is not None and decision.unsettled:
        settled = decision.settled(lost)
        _note(session, coordinator, settled)
        tell_lost(settled)
    return coordinator, decision, found.idle


def _check_owner(session: Session, query_id: str) -> None:
    if session.owner != query_id:
        decision = session.read_decision()
        if decision is not None:
            check_query(session.settings.sink_id, decision.batch, query_id)
        else:
            check_moved(session, query_id)
        session.owner = query_id


def check_moved(session: Session, query_id: str) -> None:
    """UserMistake where a sink that has decided nothing is named after a checkpoint that was elsewhere before."""
    if session.settings.of_checkpoint:
        was = session.sink_of(query_id)
        if was is not None:
            raise moved(session.settings.sink_id, query_id, was)


def read_settled(session: Session, coordinator: TransactionIdentity) -> Decision | None:
    """R after fencing: no decision is under way, so one that seems to be is only not replicated yet.

    It is read as far as the fence itself has left its control marker. A broker that is cut off from the others leads
    the topic for all it knows, and would give an older R: what was decided since would be written again.
    """
    deadline = session.port.passed_s() + session.port.patience_s
    pause_s = _PAUSE_S
    while True:
        decision = session.read_decision()
        has_all = session.has_read_fence
        if has_all and not session.is_deciding(coordinator.producer_id):
            return decision
        if session.port.passed_s() >= deadline:
            if not has_all:
                raise behind(session.settings, session.port.patience_s)
            raise TransactionUnfinished(
                f"the last decision of sink {session.settings.sink_id!r} has neither been committed nor aborted after "
                f"{session.port.patience_s:.0f} s; check that all brokers run, and start again"
            )
        # Brokers write that marker in a moment.
        session.port.pause(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MOST)


def clean(
    session: Session, coordinator: TransactionIdentity, decision: Decision | None, accept_loss: bool = False
) -> tuple[TransactionIdentity, Lost, Sweep]:
    """Commit what is decided, abort what is not; the coordinator's identity then, lost entries, what was found.

    Those are lost that a timeout has taken back, with `accept_loss` also those of which nobody can tell. Raises
    ProducerFenced where `coordinator` is not the newest any more: R may be a newer one by now, and what is open another
    driver's.
    """
    reach(Barrier.PLAN_LOOK)
    seen = look(session, coordinator, decision)
    if seen is None:
        raise taken_over(session.settings.sink_id)
    coordinator, found = seen
    reach(Barrier.PLAN_ROLL)
    lost: Lost = ()
    if decision is not None:
        lost = (
            *apply(session, decision.batch, found.commit),
            *settle(session, decision.batch, found.doubtful, accept_loss=accept_loss),
        )
    reach(Barrier.PLAN_SWEEP)
    left = abort_strays(session, (*found.abort, *found.idle))
    return coordinator, lost, found._replace(idle=tuple(each for each in found.idle if each in left)[:_IDLE_MOST])


def _note(session: Session, coordinator: TransactionIdentity, decision: Decision) -> None:
    """Note in R what became of the last decision, since a driver that died did not."""
    with DecisionWriter(session, coordinator) as writer:
        try:
            writer.write_again(decision)
        except OttlaError as error:
            if is_fenced(error):
                raise taken_over(session.settings.sink_id) from error
            raise


def look(
    session: Session, coordinator: TransactionIdentity, decision: Decision | None
) -> tuple[TransactionIdentity, Sweep] | None:
    """The coordinator's identity from now on, and what should become of this sink's transactions.

    None for who is not the coordinator any more. Whoever was held up before this may see a newer driver's transactions,
    which R does not name as far as he knows it. Nobody has planned since if the coordinator is confirmed after looking,
    so all that was seen is older than that.
    """
    found = survey(session, decision)
    confirmed = session.confirm(coordinator)
    return None if confirmed is None else (confirmed, found)


def survey(session: Session, decision: Decision | None) -> Sweep:
    """The same for who will change nothing."""
    listed = session.port.list_transactions(session.prefix, STATES)
    return sweep(session.port.describe_transactions(to_describe(listed, session.coordinator_id)), decision)


def abort_strays(session: Session, identities: tuple[TransactionIdentity, ...]) -> set[TransactionIdentity]:
    """Abort transactions of nobody, and return those that could not be: what ends by itself meanwhile is as good.

    An identity that has sent nothing gets another epoch by that from transaction version 2 on (KIP-890).
    """
    told = session.end(identities, committed=False)
    for error in told.values():
        if isinstance(error, TransactionUnfinished):
            raise OttlaError(
                f"what an earlier run of sink {session.settings.sink_id!r} left open cannot be aborted: {error}"
            ) from error
    return {identity for identity, error in told.items() if error is not None}


def tell_lost(decision: Decision) -> None:
    """Log which rows of a decided batch a timeout has taken back, and which are there."""
    lost = decision.lost
    if not lost:
        return
    gone = sum(entry.totals.rows for entry in lost)
    _log.warning(
        "%d of %d rows of %s of sink %r, which is decided, were taken back by a timeout: those of tasks %s. %s",
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
    """What tasks need to know of the last decision, of which all is settled."""
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
