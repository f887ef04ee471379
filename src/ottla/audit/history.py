"""One partition's ledger rows beside its stored records, in the form every checker reads.

Both sides are columns (plain lists of equal length). The stored side is in offset order with each offset once: what
was read twice is set aside as `reread`, so that a reader's repetition is never taken for a producer's duplicate.
`first_copy` is in offset order too, which makes it the order in which records first became visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NO_SEQUENCE = -1
"""`sequence` of a stored record that carries no number of ours."""


@dataclass(slots=True)
class Sent:
    """Ledger rows: what was sent and what the producer learned. CRCs are -1 for null, offsets -1 for not told."""

    sequence: list[int]
    outcome: list[str]
    key_crc: list[int]
    value_crc: list[int]
    offset: list[int]


@dataclass(slots=True)
class Stored:
    """Stored records as read, in any order. `timestamp`, as the producer set it, in any unit, the same for all."""

    offset: list[int]
    sequence: list[int]
    key_crc: list[int]
    value_crc: list[int]
    timestamp: list[int]


@dataclass(slots=True)
class PartitionHistory:
    """What was sent to one partition and what is in it between `start_offset` and `end_offset` (exclusive).

    Derived on construction: `stored` sorted and without repetitions; `rows_read` as they came; `reread` offsets that
    came more than once; `sent_row` and `first_copy` (sequence -> row in `sent` / in `stored`); `copies` (sequence ->
    all rows in `stored`) for records stored more than once. `is_transactional`: markers of transactions take offsets
    that no reader returns. `is_compacted`: of each key only the last record has to be there.
    `is_answered`: the producer asks what becomes of its records, so that it says itself of which it does not know.

    `is_slice`: these are some of the partition's record numbers (`ledgers.slices`), so that the offsets between may
    belong to others. `later`: offset and number of the earliest first copy in slices of higher numbers; None: no such.
    """

    topic: str
    partition: int
    sent: Sent
    stored: Stored
    start_offset: int
    end_offset: int
    is_transactional: bool = False
    is_compacted: bool = False
    is_answered: bool = False
    is_slice: bool = False
    later: tuple[int, int] | None = None
    rows_read: int = field(init=False)
    reread: list[int] = field(init=False)
    sent_row: dict[int, int] = field(init=False)
    first_copy: dict[int, int] = field(init=False)
    copies: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows_read = len(self.stored.offset)
        self.stored, self.reread = _in_offset_order(self.stored)
        self.sent_row = {sequence: row for row, sequence in enumerate(self.sent.sequence)}
        self.first_copy = {}
        self.copies = {}
        first_copy = self.first_copy
        for row, sequence in enumerate(self.stored.sequence):
            first = first_copy.setdefault(sequence, row)
            if first != row and sequence != NO_SEQUENCE:
                self.copies.setdefault(sequence, [first]).append(row)
        first_copy.pop(NO_SEQUENCE, None)


def _in_offset_order(stored: Stored) -> tuple[Stored, list[int]]:
    offsets = stored.offset
    if all(map(int.__lt__, offsets, offsets[1:])):
        return stored, []
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    kept: list[int] = []
    reread: list[int] = []
    previous: int | None = None
    for row in order:
        if offsets[row] == previous:
            reread.append(offsets[row])
        else:
            kept.append(row)
            previous = offsets[row]
    return (
        Stored(
            offset=[offsets[row] for row in kept],
            sequence=[stored.sequence[row] for row in kept],
            key_crc=[stored.key_crc[row] for row in kept],
            value_crc=[stored.value_crc[row] for row in kept],
            timestamp=[stored.timestamp[row] for row in kept],
        ),
        reread,
    )
