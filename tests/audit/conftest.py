"""Histories to judge: a clean one, and the ways to break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.audit.scene import Scene

from ottla.audit.history import PartitionHistory, Sent, Stored

Lay = Callable[..., PartitionHistory]


def lay_out(
    stored: Iterable[int],
    *,
    sent: int = 10,
    outcomes: dict[int, str] | None = None,
    acked_at: dict[int, int] | None = None,
    values: dict[int, int] | None = None,
    keys: dict[int, int] | None = None,
    timestamps: dict[int, int] | None = None,
    offsets: list[int] | None = None,
    bounds: tuple[int, int] | None = None,
    is_transactional: bool = False,
    is_compacted: bool = False,
) -> PartitionHistory:
    """Records 0..sent-1 were sent; `stored` names the record at each offset (-1: one that carries no number).

    Unless `acked_at` says otherwise, a record is acknowledged at its first copy. `values`, `keys` and `timestamps`
    replace those of the stored record at an offset.
    """
    sequences = list(stored)
    places = offsets if offsets is not None else list(range(len(sequences)))
    first: dict[int, int] = {}
    for offset, sequence in zip(places, sequences, strict=True):
        first.setdefault(sequence, offset)
    told = first | (acked_at or {})
    words = [(outcomes or {}).get(sequence, "acked") for sequence in range(sent)]
    return PartitionHistory(
        topic="flights",
        partition=2,
        sent=Sent(
            sequence=list(range(sent)),
            outcome=words,
            key_crc=[1000 + sequence for sequence in range(sent)],
            value_crc=[2000 + sequence for sequence in range(sent)],
            offset=[told.get(sequence, -1) if words[sequence] == "acked" else -1 for sequence in range(sent)],
        ),
        stored=Stored(
            offset=places,
            sequence=sequences,
            key_crc=[(keys or {}).get(o, 1000 + s) for o, s in zip(places, sequences, strict=True)],
            value_crc=[(values or {}).get(o, 2000 + s) for o, s in zip(places, sequences, strict=True)],
            timestamp=[(timestamps or {}).get(o, 7_000 + s) for o, s in zip(places, sequences, strict=True)],
        ),
        start_offset=bounds[0] if bounds else 0,
        end_offset=bounds[1] if bounds else len(sequences),
        is_transactional=is_transactional,
        is_compacted=is_compacted,
    )


@pytest.fixture
def lay() -> Lay:
    return lay_out


@pytest.fixture
def scene() -> Scene:
    return Scene()
