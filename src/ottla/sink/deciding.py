"""Step 3: R is written in the coordinator's own transaction, and with the commit of that the batch is decided.

The order of things leaves no room for a driver that is held up. R is appended first; then every task's transaction is
looked at: it must be open, with more time left than the margin. From the append to the commit R's own transaction has
less time than that (`SinkSettings.decision_timeout_ms`). So a driver that is stopped for long between look and commit
finds its decision taken back by the coordinator, rather than one committed that cannot be carried out.

Whoever gets no answer asks for the commit again, and in the end reads R: only that tells.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import KafkaError, OttlaError, ProducerFenced, TransactionError, TransactionUnfinished, UserMistake
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import BatchId, Plan, Prepared
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.refusals import longer, taken_over, too_late, took_too_long
from ottla.sink.session import Session
from ottla.sink.settings import SinkSettings

_log = logging.getLogger("ottla.sink")

_ASKED_TIMES = 3


class _Refused(Exception):
    """R was not committed for a reason of ours: `error` says it as it is to be told."""

    def __init__(self, error: OttlaError) -> None:
        super().__init__(error)
        self.error = error


def decide(
    writer: DecisionWriter, plan: Plan, decision: Decision, prepared: Sequence[Prepared]
) -> tuple[Decision, TransactionIdentity | None]:
    """Write R and commit it, if all that these tasks prepared is as it should be; when this returns, it is decided.

    Returns R as it is decided: where rows repeat, entries whose transactions have too little time left are noted in it
    as lost. And the coordinator's identity after that, None where nobody has told. Raises TransactionError or
    ProducerFenced where it is not decided, TransactionUnfinished where that is not known.
    """
    session = writer.session

    def look() -> Decision:
        try:
            seen = _look(session, plan, decision, prepared)
        except OttlaError as error:
            raise _Refused(error) from error
        reach(Barrier.COMMIT_ASKED)
        return seen

    reach(Barrier.COMMIT_DECISION)
    try:
        return writer.write(decision, look, _ASKED_TIMES), writer.identity
    except (_Refused, OttlaError) as error:
        # Closing aborts the transaction if no commit was asked for; then R can be read.
        writer.close()
        # A commit that is asked for again finds its tasks' transactions ended, as they should be.
        decided = decided_by(session, decision.coordinator, decision.batch)
        if decided is not None:
            return decided, None
        raise (error.error if isinstance(error, _Refused) else _undecided(session, decision, error)) from error


def decided_by(session: Session, coordinator: TransactionIdentity, batch: BatchId) -> Decision | None:
    """R, where it holds this batch, decided by this coordinator."""
    found = session.read_decision()
    return found if found is not None and (found.coordinator, found.batch) == (coordinator, batch) else None


def _look(session: Session, plan: Plan, decision: Decision, prepared: Sequence[Prepared]) -> Decision:
    """The last look at what the tasks have prepared: R as it can be carried out.

    Where rows repeat, it is decided without the transactions that cannot be committed in time any more: each run of a
    batch that is longer than its transactions adds something to it. Nobody commits those, whether they are open or not.
    """
    settings, batch = session.settings, decision.batch
    entries = [message.entry for message in prepared if message.entry is not None]
    described = session.port.describe_transactions(entry.identity.transactional_id for entry in entries)
    late = too_late(settings, entries, described, plan.planned_ms, session.port.now_ms())
    if not late:
        _warn_of_length(settings, decision, described.values(), plan.planned_ms)
        return decision
    # Whoever takes the sink over ends what its tasks have prepared; no timeout is to blame then.
    if not session.is_coordinator(decision.coordinator, session.port.describe_transactions([session.coordinator_id])):
        raise taken_over(settings.sink_id)
    # A commit that is asked for again finds some of them committed.
    is_decided = decided_by(session, decision.coordinator, batch) is not None
    if is_decided or not settings.same_rows or len(late) == len(entries):
        raise took_too_long(settings, batch, late)
    gone = {each.entry for each in late}
    return decision._replace(
        entries=tuple(entry._replace(lost=True) if entry in gone else entry for entry in decision.entries)
    )


def _warn_of_length(
    settings: SinkSettings, decision: Decision, described: Iterable[TransactionDescription], planned_ms: int
) -> None:
    """Say it before batches are too long for their transactions."""
    begun_ms = [max(planned_ms, each.started_ms) for each in described if each.started_ms is not None]
    took_ms = decision.decided_ms - min(begun_ms, default=decision.decided_ms)
    if took_ms > settings.transaction_timeout_ms // 2:
        _log.warning(
            "%s of sink %r took %d ms from its first transaction to its decision, more than half of %s (%d). A batch "
            "that takes longer than that cannot be decided: %s",
            decision.batch,
            settings.sink_id,
            took_ms,
            settings.timeout_name,
            settings.transaction_timeout_ms,
            longer(settings),
        )


def _undecided(session: Session, decision: Decision, error: OttlaError) -> OttlaError:
    """The error as one that says what is decided and what is not."""
    what = f"{decision.batch} of sink {session.settings.sink_id!r}"
    if isinstance(error, UserMistake):
        return error
    if isinstance(error, TransactionUnfinished) or session.is_deciding(decision.coordinator.producer_id):
        return TransactionUnfinished(
            f"whether {what} is decided is not known yet: {error}; the next start of the query finds out, and goes on "
            "accordingly"
        )
    if is_fenced(error):
        said = (
            f"{what} is not decided: another driver has taken the sink over, or ottla sink recover has, or this batch "
            "was aborted; end this one"
        )
        return kafka_error(ErrorCode.PRODUCER_FENCED, said)
    return TransactionError(f"{what} is not decided, and nothing of it is visible: {error}")


def is_fenced(error: BaseException | None) -> bool:
    """Whether the error says that another coordinator has taken over."""
    while error is not None:
        fenced = isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_PRODUCER_EPOCH
        if fenced or isinstance(error, ProducerFenced):
            return True
        error = getattr(error, "first", None) or error.__cause__
    return False
