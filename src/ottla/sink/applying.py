"""Step 4: commit every transaction that a decision names, and find out what became of each.

If EndTxn succeeds, the transaction is committed. An error is ambiguous: the transaction may have been committed by
another driver, or have timed out, and its transactional id may have been used again since. The receipt is not
ambiguous: it is a record of the transaction in the receipts topic, and the log says whether it was committed.

With KIP-939 (two-phase commit) prepared transactions do not time out. Then no row is lost, and `Lost` is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import OttlaError, TransactionUnfinished
from ottla.sink.barriers import Barrier, steps
from ottla.sink.batch import WRITE, BatchId, Entry
from ottla.sink.commands import recover_command
from ottla.sink.session import Session
from ottla.sink.transaction_log import Fate

Lost = tuple[Entry, ...]


def apply(session: Session, batch: BatchId, entries: Sequence[Entry], accept_loss: bool = False) -> Lost:
    """Commit these, and return those that are lost, as `settle` does; TransactionUnfinished if it takes too long."""
    doubtful: list[Entry] = []
    last_error: OttlaError | None = None
    for step in steps(entries, Barrier.COMMIT_BETWEEN):
        told = session.end([entry.identity for entry in step], committed=True)
        for entry in step:
            error = told[entry.identity]
            if error is not None:
                doubtful.append(entry)
                last_error = error
    return settle(session, batch, doubtful, last_error, accept_loss)


def settle(
    session: Session,
    batch: BatchId,
    entries: Sequence[Entry],
    last_error: OttlaError | None = None,
    accept_loss: bool = False,
) -> Lost:
    """Find out what became of these, and commit what is still open.

    `last_error` is the last error of EndTxn, for the error message. Raises OttlaError if the receipt of one is gone, so
    that its state is unknown; with `accept_loss` it counts as lost. A receipt beyond the end of its topic is waited
    for: a new leader may not have it yet.
    """
    lost: list[Entry] = []
    left = list(entries)
    deadline = session.port.passed_s() + session.port.patience_s
    while left:
        known = session.fates(left)
        for entry in left:
            fate = known.get(entry.receipt_offset, Fate.OPEN)
            if fate is None and not accept_loss:
                raise _unknown(session, batch, entry, "somebody has deleted its receipt from topic {topic}.", "Look")
            if fate in (None, Fate.ABORTED):
                lost.append(entry)
        left = [entry for entry in left if known.get(entry.receipt_offset, Fate.OPEN) is Fate.OPEN]
        if not left:
            break
        if session.port.passed_s() >= deadline:
            missing = [entry for entry in left if entry.receipt_offset not in known]
            if missing and not accept_loss:
                raise _unknown(
                    session,
                    batch,
                    missing[0],
                    "topic {topic} ends before its receipt. First check that all brokers run and reach each other, and "
                    "start again.",
                    "Only if somebody has deleted that topic, look",
                )
            if len(missing) == len(left):
                return (*lost, *missing)
            again = "run the write" if batch.batch_id == WRITE else "start the query"
            raise TransactionUnfinished(
                f"{batch} of sink {session.settings.sink_id!r} is decided, and {len(left)} of its transactions are not "
                f"committed yet: {last_error or 'no coordinator has returned an error'}. To commit them, {again} "
                f"again, or run: {recover_command(session.settings)}"
            )
        told = session.end([entry.identity for entry in left], committed=True)
        last_error = next((error for error in told.values() if error is not None), last_error)
        # Without an error EndTxn has committed it. Of the others, the receipt will say what became of them.
        left = [entry for entry in left if told[entry.identity] is not None]
        if left:
            session.port.pause()
    return tuple(lost)


def _unknown(session: Session, batch: BatchId, entry: Entry, why: str, look: str) -> OttlaError:
    sink_id, topic = session.settings.sink_id, repr(session.settings.receipts_topic)
    return OttlaError(
        f"it is not known whether task {entry.partition_id} of {batch} of sink {sink_id!r} was committed: "
        f"{why.format(topic=topic)} {look} for its {entry.totals.rows} rows (and those of other such tasks) with a "
        f"read_committed reader. Then let the batch count as done with what is there: "
        f"{recover_command(session.settings, '--accept-loss')}"
    )
