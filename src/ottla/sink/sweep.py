"""What a plan must do about the transactions it finds, and what became of a decision's entries. Pure.

What is decided is committed, everything else of this sink that is open is aborted, by exact producer id and epoch. What
an error code or a state of the coordinator means may be ambiguous; what a marker in the log says is not, so whoever is
in doubt reads the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision
from ottla.sink.transaction_log import Fate, TransactionLog

_ONGOING, _EMPTY = "Ongoing", "Empty"
# Committed, or certain to be: an id's last commit is that of the last decision that names it, for nothing else is.
_LANDED = ("CompleteCommit", "PrepareCommit")


class Sweep(NamedTuple):
    """What there is to do.

    `commit`: entries that are open. `abort`: transactions of nobody. `doubtful`: entries of which the list does not say
    what became of them. `idle`: identities that have sent nothing.
    """

    commit: tuple[Entry, ...]
    abort: tuple[TransactionIdentity, ...]
    doubtful: tuple[Entry, ...]
    idle: tuple[TransactionIdentity, ...]


def to_describe(listed: Iterable[ListedTransaction], coordinator: str) -> list[str]:
    """The transactional ids whose epoch must be known."""
    wanted = (_ONGOING, _EMPTY)
    return [each.transactional_id for each in listed if each.state in wanted and each.transactional_id != coordinator]


def sweep(
    listed: Iterable[ListedTransaction],
    described: Mapping[str, TransactionDescription],
    decision: Decision | None,
) -> Sweep:
    """Tell the transactions of a decision from all others; `described` are those that `to_describe` named."""
    entries = () if decision is None or decision.atomic else tuple(e for e in decision.entries if not e.landed)
    states = {each.transactional_id: each for each in listed}
    decided = {entry.identity: entry for entry in entries}
    commit, doubtful = [], []
    for entry in entries:
        transactional_id = entry.identity.transactional_id
        now = described.get(transactional_id)
        if now is not None and now.state == _ONGOING and _identity(now) == entry.identity:
            commit.append(entry)
            continue
        seen = states.get(transactional_id)
        if (
            now is not None
            or seen is None
            or seen.state not in _LANDED
            or seen.producer_id != entry.identity.producer_id
        ):
            doubtful.append(entry)
    others = [each for each in described.values() if _identity(each) not in decided]
    return Sweep(
        tuple(commit),
        tuple(_identity(each) for each in others if each.state == _ONGOING),
        tuple(doubtful),
        tuple(_identity(each) for each in others if each.state == _EMPTY),
    )


def _identity(described: TransactionDescription) -> TransactionIdentity:
    return TransactionIdentity(described.transactional_id, described.producer_id, described.producer_epoch)


def fates(entries: Iterable[Entry], log: TransactionLog) -> dict[int, Fate]:
    """What the markers topic says of entries, by their marker's offset; those it does not know are left out."""
    stored = {each.record.offset: each for each in (*log.settled, *log.open)}
    found: dict[int, Fate] = {}
    for entry in entries:
        marker = stored.get(entry.marker_offset)
        _, producer_id, producer_epoch = entry.identity
        if marker is not None and (marker.producer_id, marker.producer_epoch) == (producer_id, producer_epoch):
            found[entry.marker_offset] = marker.fate
    return found


def fate_described(entry: Entry, now: TransactionDescription | None) -> Fate | None:
    """What a coordinator's memory says of an entry whose marker is gone; None where it does not say."""
    if now is None or now.producer_id != entry.identity.producer_id:
        return None
    epoch = entry.identity.producer_epoch
    if now.state == _ONGOING:
        return Fate.OPEN if now.producer_epoch == epoch else None
    # The end of a transaction raises the epoch from transaction version 2 on, and a timeout before that.
    if now.producer_epoch not in (epoch, epoch + 1):
        return None
    if now.state in _LANDED:
        return Fate.COMMITTED
    return Fate.ABORTED if now.state in ("CompleteAbort", "PrepareAbort") else None


def lost_of(decision: Decision, lost: Collection[int]) -> tuple[dict[int, Entry], dict[int, Entry]]:
    """(entries whose rows are lost, the others) of a decision, by partition; `lost` are their markers' offsets."""
    gone = {entry.partition_id: entry for entry in decision.entries if entry.marker_offset in lost}
    return gone, {entry.partition_id: entry for entry in decision.entries if entry.marker_offset not in lost}
