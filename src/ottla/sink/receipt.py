"""A task's receipt: a record of its transaction in the receipts topic, which shows whether it was committed. Pure.

Its value is for people: the task, its number of rows, and the offsets it wrote. The size is limited: partitions for
which there is no room are only counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.sink.batch import Attempt, BatchId, Entry, Span
from ottla.sink.decision import encode_entry

_OFFSETS_BYTES_MAX = 16 * 1024
# The decision notes these later.
_NOT_YET = ("marker", "landed", "lost")


class Written(NamedTuple):
    """The offsets that a task wrote, and the number of partitions for which its receipt had no room."""

    spans: tuple[Span, ...]
    left_out: int = 0


def encode_receipt(batch: BatchId, attempt: Attempt, entry: Entry, spans: Iterable[Span]) -> bytes:
    """The record's value."""
    offsets: list[list[Any]] = []
    left_out, room = 0, _OFFSETS_BYTES_MAX
    for span in spans:
        room -= len(_json(span))
        if room > 0:
            offsets.append(list(span))
        else:
            left_out += 1
    told = {
        "query": batch.query_id,
        "batch": batch.batch_id,
        "task_attempt_id": attempt.task_attempt_id,
        "attempt_number": attempt.attempt_number,
        **{name: value for name, value in encode_entry(entry).items() if name not in _NOT_YET},
        "offsets": offsets,
        "partitions_left_out": left_out,
    }
    return _json(told)


def decode_receipt(value: bytes) -> Written:
    """The offsets in a record's value."""
    told = json.loads(value)
    return Written(tuple(Span(*span) for span in told["offsets"]), told.get("partitions_left_out", 0))


def _json(told: Any) -> bytes:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
