"""Runs the judge in this process, over Arrow tables: slice by slice, so that only the tables grow with the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.audit.findings import EVIDENCE_MAX
from ottla.audit.ledgers.partition import Audit, add_audits
from ottla.audit.ledgers.slices import SLICE_NUMBERS, SliceAudit, add_slices, audit_slice, look_again
from ottla.audit.ledgers.tables import SENT_COLUMNS, STORED_COLUMNS, TopicTraits, history_of, nothing_of
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa

_Key = tuple[int, int]


def audit_tables(
    topic: str,
    sent: pa.Table,
    stored: pa.Table,
    bounds: Mapping[int, tuple[int, int]],
    traits: TopicTraits,
    *,
    advance: Callable[[int], None] = lambda _: None,
    slice_numbers: int = SLICE_NUMBERS,
    evidence_max: int = EVIDENCE_MAX,
) -> Audit:
    """Judge one topic: `sent` and `stored` have the columns of `tables`, and `partition`.

    `bounds` holds the offsets of every partition, the end exclusive. `advance` is called with the number of rows of
    either side that were judged. Raises ConfigError for an outcome that is none.
    """
    sides = _Side(sent, SENT_COLUMNS, slice_numbers, traits), _Side(stored, STORED_COLUMNS, slice_numbers, traits)

    def judged(key: _Key, later: tuple[int, int] | None = None) -> SliceAudit:
        within = bounds.get(key[0], (0, 0))
        history = history_of((topic, key[0]), sides[0].slice(key), sides[1].slice(key), within, traits, later)
        return audit_slice(history, evidence_max)

    found: dict[int, dict[int, SliceAudit]] = {partition: {} for partition in bounds}
    for key in sorted(dict.fromkeys((*sides[0].places, *sides[1].places))):
        found.setdefault(key[0], {})[key[1]] = judged(key)
        advance(sum(side.rows_of(key) for side in sides))
    for partition, slices in found.items():
        for number, later in look_again(slices).items():
            slices[number] = judged((partition, number), later)
    parts = []
    for partition in sorted(found):
        within = bounds.get(partition, (0, 0))
        nothing = nothing_of((topic, partition), within, traits)
        first_gap = partial(_first_gap, stored, partition, within)
        parts.append(add_slices(nothing, found[partition], first_gap, evidence_max))
    return add_audits(parts, evidence_max)


class _Side:
    """One table, divided into slices; `places`: (partition, slice) -> which stretch of `order` its rows are."""

    def __init__(self, table: pa.Table, columns: tuple[str, ...], slice_numbers: int, traits: TopicTraits) -> None:
        import numpy as np

        self._table = table.select(list(columns)).combine_chunks()
        partition = table.column(schema.PARTITION).to_numpy()
        number = _slice_numbers(table, slice_numbers, traits)
        # Stable: within a slice the rows stay in their order.
        self._order = np.lexsort((number, partition))
        partition, number = partition[self._order], number[self._order]
        is_first = np.ones(len(partition), bool)
        is_first[1:] = (partition[1:] != partition[:-1]) | (number[1:] != number[:-1])
        begins = np.flatnonzero(is_first).tolist()
        ends = [*begins[1:], len(partition)]
        self.places: dict[_Key, tuple[int, int]] = {
            (int(partition[begin]), int(number[begin])): (begin, end)
            for begin, end in zip(begins, ends if begins else [], strict=True)
        }

    def slice(self, key: _Key) -> pa.Table | None:
        """Its rows, or None where it has none."""
        place = self.places.get(key)
        return None if place is None else self._table.take(self._order[place[0] : place[1]])

    def rows_of(self, key: _Key) -> int:
        begin, end = self.places.get(key, (0, 0))
        return end - begin


def _slice_numbers(table: pa.Table, slice_numbers: int, traits: TopicTraits) -> Any:
    import numpy as np

    sequence = table.column(schema.SEQUENCE).to_numpy()
    if traits.is_compacted:
        return np.zeros(len(sequence), np.int64)
    offset = table.column(schema.OFFSET).to_numpy()
    return np.where(sequence >= 0, sequence // slice_numbers, -1 - offset // slice_numbers)


def _first_gap(stored: pa.Table, partition: int, within: tuple[int, int]) -> int:
    import numpy as np

    offsets = stored.column(schema.OFFSET).to_numpy()[stored.column(schema.PARTITION).to_numpy() == partition]
    offsets = np.unique(offsets[(offsets >= within[0]) & (offsets < within[1])])
    is_in_place = offsets == within[0] + np.arange(len(offsets))
    return within[0] + (len(offsets) if is_in_place.all() else int(is_in_place.argmin()))
