"""Step 3: write R in the driver's own transaction. When that transaction is committed, the batch is decided.

The order of the steps protects against a delayed driver. R is appended first. Then every task's transaction is checked:
it must be open, with more time left than the margin. R's own transaction has less time than that from the append to the
commit (`SinkSettings.decision_timeout_ms`). So if the driver is delayed for long between check and commit, R's
transaction times out. A decision whose transactions have timed out is not committed.

If there is no answer to the commit, it is asked for again. In the end R is read: only R says whether it was committed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.client.transaction_admin import TransactionDescription
from ottla.errors import (
    KafkaError,
    OttlaError,
    ProducerFenced,
    TransactionError,
    TransactionUnfinished,
    Unreachable,
    UserMistake,
)
from ottla.producer.transaction_states import TransactionIdentity
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.sink.barriers import Barrier, reach
from ottla.sink.batch import BatchId, Entry, Plan, Prepared
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.refusals import ONGOING, forgotten, is_open, longer, taken_over, too_late, took_too_long
from ottla.sink.session import Session
from ottla.sink.settings import SinkSettings
from ottla.sink.transaction_log import Fate

_log = logging.getLogger("ottla.sink")

_ASKED_TIMES = 3
# A leader that answers sends something within this time, because the log is read from the first of these receipts on.
_RECEIPTS_WITHIN_S = 2.0


class _Refused(Exception):
    """R was not committed because a check failed; `error` is the error for the user."""

    def __init__(self, error: OttlaError) -> None:
        super().__init__(error)
        self.error = error


def decide(
    writer: DecisionWriter, plan: Plan, decision: Decision, prepared: Sequence[Prepared]
) -> tuple[Decision, TransactionIdentity | None]:
    """Check what these tasks prepared, write R and commit it; when this returns, the batch is decided.

    Returns R as it was committed: with `same_rows`, entries whose transactions have too little time left are noted in
    it as lost. Also returns the driver's identity after that, None if it is not known. Raises UserMistake,
    TransactionError or ProducerFenced if the batch is not decided, TransactionUnfinished if that is not known.
    """
    session = writer.session
    began_s = session.port.passed_s()

    def look() -> Decision:
        try:
            seen = _look(session, plan, decision, prepared, began_s)
        except OttlaError as error:
            raise _Refused(error) from error
        reach(Barrier.COMMIT_ASKED)
        return seen

    reach(Barrier.COMMIT_DECISION)
    try:
        return writer.write(decision, look, _ASKED_TIMES), writer.identity
    except (_Refused, OttlaError) as error:
        # Closing aborts the transaction if its commit was not asked for; then R can be read.
        writer.close()
        # If `commit` is called again after it succeeded, the check finds the tasks' transactions committed already.
        decided = decided_by(session, decision.driver_identity, decision.batch)
        if decided is not None:
            return decided, None
        raise (error.error if isinstance(error, _Refused) else _undecided(session, decision, error)) from error


def decided_by(session: Session, driver_identity: TransactionIdentity, batch: BatchId) -> Decision | None:
    """R, if it decides this batch under this identity of the driver."""
    found = session.read_decision()
    return found if found is not None and (found.driver_identity, found.batch) == (driver_identity, batch) else None


def _look(session: Session, plan: Plan, decision: Decision, prepared: Sequence[Prepared], began_s: float) -> Decision:
    """Check a last time what the tasks have prepared, and return R with the transactions that can be committed in time.

    `began_s`: a time before R's own transaction began, by the clock that never jumps.
    With `same_rows`, R marks the others as lost, and they are not committed, also if they are still open. So each run
    of a batch that takes longer than its transactions may last adds rows to it.
    """
    settings, batch = session.settings, decision.batch
    entries = [message.entry for message in prepared if message.entry is not None]
    described = _describe(session, batch, decision.driver_identity, entries)
    earliest_ms, now_ms = _times(session, plan, described, began_s)
    late = too_late(settings, entries, described, earliest_ms, now_ms)
    if not late:
        _warn_of_length(settings, decision, described.values(), earliest_ms, now_ms)
        return decision
    # Another driver that takes over ends these transactions. Then they did not time out.
    if not session.is_newest_driver(decision.driver_identity, session.port.describe_transactions([session.driver_id])):
        raise taken_over(settings.sink_id)
    # If `commit` is called again, some of them are committed already.
    is_decided = decided_by(session, decision.driver_identity, batch) is not None
    if is_decided or not settings.same_rows or len(late) == len(entries):
        raise took_too_long(settings, batch, late)
    gone = {each.entry for each in late}
    return decision._replace(
        entries=tuple(entry._replace(lost=True) if entry in gone else entry for entry in decision.entries)
    )


def _describe(
    session: Session, batch: BatchId, own: TransactionIdentity, entries: Sequence[Entry]
) -> Mapping[str, TransactionDescription]:
    """What the coordinators know of these transactions and of R's own (`own`).

    A coordinator may say that a transaction is not open, and the log of receipts that it is. Or it does not know R's
    own transaction, to which R has just been written. Then that broker may be cut off from the others, and another one
    is the coordinator by now. So the coordinator is looked for again, for half of the time that R's own transaction
    may last. Raises TransactionError if R's own is not found open by then. If the driver's id has a newer identity, R
    cannot be committed any more, and nothing else needs to be known.
    """
    port, settings = session.port, session.settings
    deadline = port.passed_s() + settings.decision_timeout_ms / 2000
    ids = [*(entry.identity.transactional_id for entry in entries), session.driver_id]
    while True:
        described = port.describe_transactions(ids)
        now = described.get(session.driver_id)
        if now is not None and now.producer_id == own.producer_id and now.producer_epoch > own.producer_epoch:
            return described
        is_own_open = now is not None and now.state == ONGOING and session.is_newest_driver(own, described)
        ended = [entry for entry in entries if not is_open(entry, described)]
        if is_own_open and not _may_be_open(session, ended):
            return described
        if port.passed_s() >= deadline:
            if is_own_open:
                return described
            raise TransactionError(
                f"{batch} of sink {settings.sink_id!r} is not decided, and nothing of it is visible: the broker that "
                "answers as the coordinator of the driver's transactional id does not know the decision's transaction. "
                "Check whether a broker is cut off from the others, and start again"
            )
        asked_again = [entry.identity.transactional_id for entry in ended]
        port.forget_coordinators(asked_again if is_own_open else [*asked_again, session.driver_id])
        port.pause()


def _may_be_open(session: Session, entries: Sequence[Entry]) -> bool:
    """Whether one of these transactions is open by the log of receipts; also True if its leader may be cut off, too."""
    if not entries:
        return False
    try:
        known = session.fates(entries, _RECEIPTS_WITHIN_S)
    except Unreachable:
        return True
    return any(known.get(entry.receipt_offset, Fate.OPEN) is Fate.OPEN for entry in entries)


def _times(
    session: Session, plan: Plan, described: Mapping[str, TransactionDescription], began_s: float
) -> tuple[int, int]:
    """(a time before which no transaction began, the time now), both by brokers' clocks.

    R's own transaction has just begun, and its coordinator says when. So the driver's clock may be wrong by any amount.
    If it is not open any more, both are by the driver's clock: R cannot be committed then.
    """
    own = described.get(session.driver_id)
    if own is None or own.started_ms is None or own.state != ONGOING:
        return plan.planned_ms, session.port.now_ms()
    return 0, own.started_ms + int((session.port.passed_s() - began_s) * 1000)


def _warn_of_length(
    settings: SinkSettings,
    decision: Decision,
    described: Iterable[TransactionDescription],
    earliest_ms: int,
    now_ms: int,
) -> None:
    """Warn before batches take too long for their transactions."""
    begun_ms = [max(earliest_ms, each.started_ms) for each in described if each.started_ms is not None]
    took_ms = now_ms - min(begun_ms, default=now_ms)
    allowed_ms = settings.transaction_timeout_ms - settings.margin
    if took_ms > allowed_ms // 2:
        _log.warning(
            "%s of sink %r took %d ms from its first transaction to its decision, more than half of the %d ms that it "
            "may take (%s=%d less %s=%d): %s",
            decision.batch,
            settings.sink_id,
            took_ms,
            allowed_ms,
            settings.timeout_name,
            settings.transaction_timeout_ms,
            settings.margin_name,
            settings.margin,
            longer(settings),
        )


def _undecided(session: Session, decision: Decision, error: OttlaError) -> OttlaError:
    """The error to raise in place of this one: it says whether the batch is decided."""
    what = f"{decision.batch} of sink {session.settings.sink_id!r}"
    if isinstance(error, UserMistake):
        return error
    if isinstance(error, TransactionUnfinished) or session.is_deciding(decision.driver_identity.producer_id):
        return TransactionUnfinished(
            f"it is not known yet whether {what} is decided: {error}. Start the query, or the write, again: it finds "
            "out, and goes on from there"
        )
    was_unknown = any(code == ErrorCode.INVALID_PRODUCER_ID_MAPPING for code in _codes(error))
    if was_unknown and session.driver_id not in session.port.describe_transactions([session.driver_id]):
        return forgotten(what)
    # A driver that planned since has another producer id if the epochs of the one before were used up.
    if was_unknown or is_fenced(error):
        said = (
            f"{what} is not decided: another query or write has begun a batch of this sink, or ottla sink recover has "
            "stopped this one, or this batch was aborted. If this query was started twice, stop one of them; if "
            "two queries or writes have this sink.id, give each its own"
        )
        return kafka_error(ErrorCode.PRODUCER_FENCED, said)
    if any(code == ErrorCode.INVALID_TXN_STATE for code in _codes(error)):
        settings = session.settings
        return TransactionError(
            f"{what} is not decided, and nothing of it is visible: the driver was delayed while it decided, for longer "
            f"than the decision's own transaction may last ({settings.decision_timeout_ms} ms). Start the query again; "
            f"if this happens often, raise {settings.margin_name} ({settings.margin})"
        )
    return TransactionError(f"{what} is not decided, and nothing of it is visible: {error}")


def is_fenced(error: BaseException | None) -> bool:
    """Whether the error says that another driver has taken over."""
    return any(code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED) for code in _codes(error))


def _codes(error: BaseException | None) -> Iterator[int]:
    """The error codes of this error and of its causes."""
    while error is not None:
        if isinstance(error, ProducerFenced):
            yield ErrorCode.PRODUCER_FENCED
        elif isinstance(error, KafkaError):
            yield error.code
        error = getattr(error, "first", None) or error.__cause__
