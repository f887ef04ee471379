"""What a log itself says of the transactions in it: which of its records are aborted, and which are open.

By the rule of the format (KIP-98): a transactional record belongs to the next control batch of its producer id.
"""

from __future__ import annotations

from ottla.audit.chronicle import ReplicaSeen


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
