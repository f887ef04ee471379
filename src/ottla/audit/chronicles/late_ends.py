"""A late end: in transaction version 1 a request of the transaction before it ended this one, as in Kafka.

Before each transaction had an epoch of its own (KIP-890), a request to end a transaction, or to write its markers, may
come late: after its sender has asked again and been answered. Then it ends the next transaction of the same instance,
in the way that was asked for the earlier one. A late commit shows the records of a transaction that its producer
aborted, or had not ended yet; a late abort hides those of a committed one; and records after it have another marker
than those before it.

The log shows whether that happened: the marker that decides for a record differs from what its producer was told, or
two markers decide for one transaction in one partition. Where a power cut has taken the records and their markers, it
cannot be known any more. Nothing comes late where nothing goes wrong.

Not observable: markers, with foreign brokers. There a late end can be neither shown nor excluded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.audit.chronicles.chronicle import TransactionSeen
from ottla.audit.chronicles.markers import Ending, end_of_transaction

if TYPE_CHECKING:
    from ottla.audit.chronicles.case import Case

LATE_COMMIT = "a late commit of a transaction before it, which transaction version 1 cannot tell apart"
LATE_END = "a late end of a transaction before it, which transaction version 1 cannot tell apart"
UNSEEN = "whether a late end of the transaction before it, in transaction version 1, is the reason"


def may_be_unseen(case: Case) -> bool:
    """Whether late ends may be the reason for something, and the logs that would show it were not seen."""
    return case.chronicle.transaction_version < 2 and case.chronicle.replicas is None


def excuse_late_commit(case: Case, transaction: TransactionSeen) -> str | None:
    """What showed the records of a transaction whose commit had not been asked for; None where nothing did."""
    if not any(each.commit_asked for each in _earlier(case, transaction)):
        return None
    if may_be_unseen(case) or any(each.commits for each in _endings(case, transaction)):
        return LATE_COMMIT
    return LATE_COMMIT if _is_gone(case, transaction) else None


def excuse_late_end(case: Case, transaction: TransactionSeen) -> str | None:
    """What hid records of a transaction, or ended it between two of them; None where nothing did."""
    earlier = _earlier(case, transaction)
    if not earlier:
        return None
    if may_be_unseen(case):
        return LATE_END
    may_abort = any(each.outcome != "committed" for each in earlier)
    if may_abort and any(not ending.commits for ending in _endings(case, transaction)):
        return LATE_END
    return LATE_END if _is_split(case, transaction) or _is_gone(case, transaction) else None


def may_have_ended_late(case: Case, transaction: TransactionSeen) -> bool:
    """Whether that can have happened, for what leaves no trace in the logs that were looked at."""
    return bool(_earlier(case, transaction))


def _earlier(case: Case, transaction: TransactionSeen) -> list[TransactionSeen]:
    """The transactions of the same instance before it whose requests may have come late."""
    chronicle = case.chronicle
    is_undisturbed = not chronicle.redeliveries and not any(each.fired for each in chronicle.faults)
    if chronicle.transaction_version >= 2 or is_undisturbed:
        return []
    of_instance = case.of_instance[transaction.producer, transaction.instance]
    return of_instance[: of_instance.index(transaction)]


def _endings(case: Case, transaction: TransactionSeen) -> Iterator[Ending]:
    """The markers that decide for its records, as far as there are any."""
    return (ending for _, ending in _decided(case, transaction) if ending.offset != sys.maxsize)


def _is_split(case: Case, transaction: TransactionSeen) -> bool:
    """Whether different markers decide for its records in one partition."""
    decided = {(place, ending.offset) for place, ending in _decided(case, transaction)}
    return len(decided) > len({place for place, _ in decided})


def _decided(case: Case, transaction: TransactionSeen) -> Iterator[tuple[tuple[str, int], Ending]]:
    """How each copy of its records ends, by the log that is taken for a partition's (the last leader's)."""
    for record in case.of_transaction.get(transaction.number, ()):
        place = record.topic, record.partition
        for offset in case.standing(place).get(record.number, ()):
            ending = end_of_transaction(case.logs[place][0], offset)
            if ending is not None:
                yield place, ending


def _is_gone(case: Case, transaction: TransactionSeen) -> bool:
    """Whether a partition has lost its records and their markers, so that it cannot be known any more."""
    for record in case.of_transaction.get(transaction.number, ()):
        place = record.topic, record.partition
        is_excused = case.durability.excuse_read(place, -1, transaction.began_us) is not None
        if is_excused and record.number not in case.standing(place):
            return True
    return False
