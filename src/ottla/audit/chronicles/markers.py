"""What a log itself says of the transactions in it: which of its records are aborted, and which are open.

By the rule of the format (KIP-98): a transactional record belongs to the next control batch of its producer id.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ottla.audit.chronicles.chronicle import BatchSeen, ReplicaSeen


@dataclass(slots=True, frozen=True)
class Ending:
    """The marker that decides for a record: its offset, behind all others while there is none, and how it ends."""

    offset: int
    commits: bool


def end_of_transaction(log: ReplicaSeen, offset: int) -> Ending | None:
    """How the transaction that has data at `offset` ends in this log; None where no transaction has data there."""
    producer_id: int | None = None
    for batch in log.batches:
        if producer_id is None:
            if batch.base_offset <= offset <= batch.last_offset:
                if batch.is_control or not batch.is_transactional:
                    return None
                producer_id = batch.producer_id
        elif batch.is_control and batch.producer_id == producer_id:
            return Ending(batch.base_offset, bool(batch.commits))
    return None if producer_id is None else Ending(sys.maxsize, False)


def open_before(log: ReplicaSeen, offset: int) -> list[BatchSeen]:
    """The batches up to the one that holds `offset` for which the same marker decides, that one included."""
    open_: dict[int, list[BatchSeen]] = {}
    for batch in log.batches:
        if batch.is_control:
            open_.pop(batch.producer_id, None)
        elif batch.is_transactional:
            found = open_.setdefault(batch.producer_id, [])
            found.append(batch)
            if batch.base_offset <= offset <= batch.last_offset:
                return found
    return []


def aborted_offsets(log: ReplicaSeen) -> dict[int, None]:
    """The offsets of data that an abort marker follows."""
    return _walk(log)[0]


def open_offsets(log: ReplicaSeen) -> dict[int, list[int]]:
    """Producer id -> the offsets of its data that no marker follows."""
    return _walk(log)[1]


def _walk(log: ReplicaSeen) -> tuple[dict[int, None], dict[int, list[int]]]:
    aborted: dict[int, None] = {}
    open_: dict[int, list[int]] = {}
    for batch in log.batches:
        if batch.is_control:
            offsets = open_.pop(batch.producer_id, ())
            if batch.commits is False:
                aborted.update(dict.fromkeys(offsets))
        elif batch.is_transactional:
            open_.setdefault(batch.producer_id, []).extend(range(batch.base_offset, batch.last_offset + 1))
    return aborted, open_
