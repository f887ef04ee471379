"""What a plan must do about the transactions it finds, and what became of a decision's entries. Pure.

Open transactions that are decided are committed, and all others of this sink are aborted, by exact producer id and
epoch. An error code may be ambiguous, and a coordinator knows only the last transaction of an id. The receipts in the
log are not ambiguous, so they decide where it is unclear what became of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.transaction_admin import ListedTransaction, TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Entry
from ottla.sink.decision import Decision
from ottla.sink.identities import is_ticket_id
from ottla.sink.transaction_log import Fate, TransactionLog

STATES = _ONGOING, _EMPTY = "Ongoing", "Empty"
"""The states that a plan asks for. Brokers before Kafka 4.1 take no pattern, and would list every transactional id."""


class Sweep(NamedTuple):
    """What to do about the transactions.

    `commit`: entries that are open. `abort`: open transactions that no decision names. `doubtful`: entries whose
    receipts must be read. `idle`: identities without a transaction.
    """

    commit: tuple[Entry, ...]
    abort: tuple[TransactionIdentity, ...]
    doubtful: tuple[Entry, ...]
    idle: tuple[TransactionIdentity, ...]


def to_describe(listed: Iterable[ListedTransaction], driver_id: str) -> list[str]:
    """The transactional ids whose epoch a plan needs to know."""
    ids = [each.transactional_id for each in listed if each.state in STATES]
    return [each for each in ids if each != driver_id and not is_ticket_id(each)]


def sweep(described: Mapping[str, TransactionDescription], decision: Decision | None) -> Sweep:
    """Divide the transactions into those of the decision and all others; `described` are those of `to_describe`."""
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
    """What became of entries, by the offset of their receipt; None if the topic no longer goes back so far.

    An entry is left out if its receipt's offset is beyond the end of the log: a new leader may not have it yet.

    The topic is compacted by transactional id. Compaction removes aborted receipts, and a committed receipt whose id
    has a newer committed one. While a decision names an id without a note, that id is committed for nothing else. So a
    receipt that is gone was aborted. Where another record is at its offset, somebody has deleted the topic, and it was
    made again: then it is unknown.
    """
    stored = {each.record.offset: each for each in (*log.settled, *log.open)}
    found: dict[int, Fate | None] = {}
    for entry in entries:
        receipt = stored.get(entry.receipt_offset)
        if entry.receipt_offset in log.ends:
            found[entry.receipt_offset] = None
        elif receipt is None:
            if entry.receipt_offset < log.next_offset:
                found[entry.receipt_offset] = Fate.ABORTED if entry.receipt_offset >= log.first_offset else None
        else:
            is_it = (receipt.producer_id, receipt.producer_epoch) == entry.identity[1:]
            found[entry.receipt_offset] = receipt.fate if is_it else None
    return found
