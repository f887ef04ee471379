"""What a sink has done and what it has left, told; and what a driver that never came back has left, brought to an end.

`describe` changes nothing and may be called while the query runs. `recover` is a plan without a batch: it fences the
driver, so a query that runs is ended by it.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter
from ottla.sink.landing import is_to_be_marked, try_to_mark
from ottla.sink.planning import clean, read_settled, survey
from ottla.sink.session import Session
from ottla.sink.transaction_log import Fate


class SinkState(NamedTuple):
    """One sink as it is now.

    `decisions` are those still there, the last one behind; `fates` of the last one's entries by their marker's offset
    (None: nobody can tell). `open` are transactions that no decision names. `deciding`: a decision is being written.
    """

    sink_id: str
    decisions: tuple[Decision, ...]
    fates: dict[int, Fate | None]
    open: tuple[TransactionIdentity, ...]
    deciding: bool

    @property
    def is_known(self) -> bool:
        """Whether there is any trace of it."""
        return bool(self.decisions or self.open or self.deciding)


class Recovered(NamedTuple):
    """What was done: entries that were committed, transactions that were aborted, entries whose rows a timeout took."""

    decision: Decision | None
    committed: tuple[Entry, ...]
    aborted: tuple[TransactionIdentity, ...]
    lost: tuple[Entry, ...]


def describe(session: Session) -> SinkState:
    """Tell what was decided and what became of it; raises Unreachable, KafkaError."""
    if not session.port.has_topics():
        return SinkState(session.settings.sink_id, (), {}, (), False)
    last = session.read_decision()
    deciding = session.is_deciding(but=last)
    decisions = tuple(session.read_decisions())
    last = decisions[-1] if decisions else None
    found = survey(session, last)
    fates = {} if last is None else _fates(session, last, found.commit, found.doubtful)
    return SinkState(session.settings.sink_id, decisions, fates, found.abort, deciding)


def _fates(
    session: Session, last: Decision, still_open: tuple[Entry, ...], doubtful: tuple[Entry, ...]
) -> dict[int, Fate | None]:
    fates: dict[int, Fate | None] = {entry.marker_offset: Fate.COMMITTED for entry in last.entries}
    fates.update((entry.marker_offset, Fate.OPEN) for entry in still_open)
    fates.update(session.fates(doubtful))
    return fates


def recover(session: Session) -> Recovered:
    """Commit what is decided, abort what is not, and fence whoever may still be at it; raises what `plan` raises."""
    if not session.port.has_topics():
        return Recovered(None, (), (), ())
    coordinator = session.fence()
    decision = read_settled(session, coordinator)
    lost, found = clean(session, coordinator, decision)
    if decision is not None and is_to_be_marked(decision, lost):
        with DecisionWriter(session, coordinator) as writer:
            try_to_mark(writer, decision)
    gone = {entry.marker_offset for entry in lost}
    committed = tuple(entry for entry in (*found.commit, *found.doubtful) if entry.marker_offset not in gone)
    return Recovered(decision, committed, found.abort, lost)
