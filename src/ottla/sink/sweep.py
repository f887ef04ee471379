"""What a plan must do about the transactions it finds, and what became of a decision's entries. Pure.

What is decided is committed, everything else of this sink that is open is aborted, by exact producer id and epoch. What
an error code means may be ambiguous, and a coordinator tells of an id's last transaction only. What a marker in the log
says is not ambiguous, so whoever is in doubt reads the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision
from ottla.sink.identities import is_turn
from ottla.sink.transaction_log import Fate, TransactionLog

STATES = _ONGOING, _EMPTY = "Ongoing", "Empty"
"""Of transactional ids that a plan looks at. Brokers before Kafka 4.1 take no pattern, and would list all there are."""


class Sweep(NamedTuple):
    """What there is to do.

    `commit`: entries that are open. `abort`: transactions of nobody. `doubtful`: entries whose markers must be asked.
    `idle`: identities that have sent nothing.
    """

    commit: tuple[Entry, ...]
    abort: tuple[TransactionIdentity, ...]
    doubtful: tuple[Entry, ...]
    idle: tuple[TransactionIdentity, ...]


def to_describe(listed: Iterable[ListedTransaction], coordinator: str) -> list[str]:
    """The transactional ids whose epoch must be known."""
    ids = [each.transactional_id for each in listed if each.state in STATES]
    return [each for each in ids if each != coordinator and not is_turn(each)]


def sweep(described: Mapping[str, TransactionDescription], decision: Decision | None) -> Sweep:
    """Tell the transactions of a decision from all others; `described` are those that `to_describe` named."""
    entries = () if decision is None else decision.unsettled
    open_now = {_identity(each) for each in described.values() if each.state == _ONGOING}
    decided = {entry.identity for entry in entries}
    others = [each for each in described.values() if _identity(each) not in decided]
    return Sweep(
        tuple(entry for entry in entries if entry.identity in open_now),
        tuple(_identity(each) for each in others if each.state == _ONGOING),
        tuple(entry for entry in entries if entry.identity not in open_now),
        tuple(_identity(each) for each in others if each.state == _EMPTY),
    )


def _identity(described: TransactionDescription) -> TransactionIdentity:
    return TransactionIdentity(described.transactional_id, described.producer_id, described.producer_epoch)


def fates(entries: Iterable[Entry], log: TransactionLog) -> dict[int, Fate | None]:
    """What the markers topic says of entries, by their marker's offset; None where it does not go back so far.

    An entry is left out where the topic does not reach so far yet: a leader that is new may not know.

    The topic is compacted by transactional id. That takes markers away that are aborted, and committed ones of which
    their id has a newer one. No id that an unsettled decision names is committed for anything else. So a marker that is
    gone was aborted.
    """
    stored = {each.record.offset: each for each in (*log.settled, *log.open)}
    found: dict[int, Fate | None] = {}
    for entry in entries:
        marker = stored.get(entry.marker_offset)
        if marker is None:
            if entry.marker_offset < log.next_offset:
                found[entry.marker_offset] = Fate.ABORTED if entry.marker_offset >= log.first_offset else None
        else:
            is_it = (marker.producer_id, marker.producer_epoch) == entry.identity[1:]
            found[entry.marker_offset] = marker.fate if is_it else None
    return found
