"""Describes what a sink has decided and left open, and ends the open transactions of a query that is not started again.

`describe` changes nothing and may be called while the query runs. `recover` is a plan without a batch: it fences the
driver, so a query that is writing a batch fails.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.planning import clean, read_settled, survey
from ottla.sink.receipt import Written
from ottla.sink.session import Session
from ottla.sink.transaction_log import Fate


class SinkState(NamedTuple):
    """One sink as it is now.

    `decisions` are those that the topic still has, in order. `fates` says what became of the last one's entries, by the
    offset of their receipt (None: unknown). `open` are transactions that no decision names. `deciding`: a decision
    is being written. `written` has the offsets in the receipts that are still there, by the receipt's own offset.
    """

    sink_id: str
    decisions: tuple[Decision, ...]
    fates: dict[int, Fate | None]
    open: tuple[TransactionIdentity, ...]
    deciding: bool
    written: dict[int, Written]

    @property
    def is_known(self) -> bool:
        """Whether the cluster has a decision or an open transaction of it."""
        return bool(self.decisions or self.open or self.deciding)


class Recovered(NamedTuple):
    """What was done: entries that were committed, transactions that were aborted.

    `lost` are entries of the last decision whose rows are not there (with `accept_loss` also those of which it is
    unknown).
    """

    decision: Decision | None
    committed: tuple[Entry, ...]
    aborted: tuple[TransactionIdentity, ...]
    lost: tuple[Entry, ...]


def describe(session: Session, history: bool = False) -> SinkState:
    """Read what was decided and what became of it; raises Unreachable, KafkaError.

    `written` has the receipts of the last decision, with `history` those of all decisions that the topic still has.
    """
    if not session.has_decisions():
        return SinkState(session.settings.sink_id, (), {}, (), False, {})
    last = session.read_decision()
    deciding = session.is_deciding(but=last)
    decisions = tuple(session.read_decisions())
    last = decisions[-1] if decisions else None
    found = survey(session, last)
    fates = {} if last is None else _fates(session, last, found.doubtful)
    told = decisions if history else decisions[-1:]
    written = session.written([entry for each in told for entry in each.entries])
    return SinkState(session.settings.sink_id, decisions, fates, found.abort, deciding, written)


def _fates(session: Session, last: Decision, doubtful: tuple[Entry, ...]) -> dict[int, Fate | None]:
    known = session.fates(doubtful)
    told: dict[int, Fate | None] = {entry.receipt_offset: known.get(entry.receipt_offset) for entry in doubtful}
    for entry in last.entries:
        noted = Fate.ABORTED if entry.lost else Fate.COMMITTED if entry.landed else Fate.OPEN
        told.setdefault(entry.receipt_offset, noted)
    return told


def recover(session: Session, accept_loss: bool = False) -> Recovered:
    """Fence a driver that may still run, commit what is decided, abort what is not; raises what `plan` raises.

    With `accept_loss` the last batch counts as done with the rows that are there. Lost rows, and rows of which it is
    unknown whether they were committed, will not be written any more.
    """
    if not session.has_decisions():
        return Recovered(None, (), (), ())
    # No task will run, so the brokers need not allow the tasks' timeout.
    driver_identity = session.fence(has_tasks=False)
    decision = read_settled(session, driver_identity)
    driver_identity, lost, found = clean(session, driver_identity, decision, accept_loss)
    if decision is not None:
        settled = decision.settled(lost)
        settled = settled._replace(loss_accepted=decision.loss_accepted or (accept_loss and bool(settled.lost)))
        if settled != decision:
            with DecisionWriter(session, driver_identity) as writer:
                writer.write_again(settled)
        decision = settled
    gone = {entry.receipt_offset for entry in lost}
    committed = tuple(entry for entry in found.commit if entry.receipt_offset not in gone)
    return Recovered(decision, committed, found.abort, () if decision is None else decision.lost)
