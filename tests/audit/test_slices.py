"""What the slices of a partition add up to is what the whole partition comes to, anomalies across slices included."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.drawn import fixed_seeds

from ottla.audit.findings import LEDGER_KINDS
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.ledgers.local import audit_tables
from ottla.audit.ledgers.partition import Audit, add_audits, audit_partition
from ottla.audit.ledgers.slices import SliceAudit, audit_slice, look_again
from ottla.audit.ledgers.tables import SENT_COLUMNS, STORED_COLUMNS, TopicTraits
from ottla.ledger.schema import OUTCOMES

Row = dict[str, Any]


def sent_row(sequence: int, *, partition: int = 0, outcome: str = "acked", offset: int = -1) -> Row:
    crcs = {"key_crc": sequence % 7, "value_crc": sequence}
    return {"sequence": sequence, "partition": partition, "outcome": outcome, "offset": offset, **crcs}


def stored_row(sequence: int, offset: int, *, partition: int = 0, **changes: int) -> Row:
    row = {"sequence": sequence, "partition": partition, "offset": offset, "timestamp": 5}
    return {**row, "key_crc": sequence % 7, "value_crc": sequence, **changes}


def table(rows: list[Row], columns: tuple[str, ...]) -> pa.Table:
    kinds = {name: pa.string() if name == "outcome" else pa.int64() for name in (*columns, "partition")}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def in_slices(
    sent: list[Row], stored: list[Row], bounds: dict[int, tuple[int, int]], size: int, traits: TopicTraits
) -> Audit:
    tables = table(sent, SENT_COLUMNS), table(stored, STORED_COLUMNS)
    return audit_tables("t", *tables, bounds, traits, slice_numbers=size)


def as_a_whole(sent: list[Row], stored: list[Row], bounds: dict[int, tuple[int, int]], traits: TopicTraits) -> Audit:
    """By the checkers alone, a partition at a time."""
    audits = []
    for partition, within in bounds.items():
        mine = [[row for row in rows if row["partition"] == partition] for rows in (sent, stored)]
        sides = [
            [[row[name] for row in rows] for name in names]
            for rows, names in zip(
                mine,
                (
                    ("sequence", "outcome", "key_crc", "value_crc", "offset"),
                    ("offset", "sequence", "key_crc", "value_crc", "timestamp"),
                ),
                strict=True,
            )
        ]
        is_kind = {"is_transactional": traits.is_transactional, "is_compacted": traits.is_compacted}
        history = PartitionHistory(
            "t", partition, Sent(*sides[0]), Stored(*sides[1]), *within, **is_kind, is_answered=traits.is_answered
        )
        audits.append(audit_partition(history))
    return add_audits(audits)


def drawn_case(chance: Random) -> tuple[list[Row], list[Row], dict[int, tuple[int, int]]]:
    """Records of two partitions of which some are lost, copied, late, altered, foreign, skipped or read again."""
    sent: list[Row] = []
    stored: list[Row] = []
    ends = [chance.choice((0, 3)) for _ in range(2)]
    starts = list(ends)
    queue: list[tuple[int, int]] = []
    for sequence in range(chance.randrange(1, 60)):
        partition = chance.randrange(2)
        sent.append(sent_row(sequence, partition=partition, outcome=chance.choices(OUTCOMES, (8, 1, 1))[0]))
        for _ in range(chance.choices((0, 1, 2), (1, 12, 1))[0]):
            queue.append((partition, sequence))
    for place in range(len(queue) - 1):
        if chance.random() < 0.1:
            other = chance.randrange(len(queue))
            queue[place], queue[other] = queue[other], queue[place]
    for partition, sequence in queue:
        for number in [sequence] + [chance.choice((-1, 5, 900))] * (chance.random() < 0.05):
            offset = ends[partition]
            ends[partition] += 1 + (chance.random() < 0.03)
            stored.append(stored_row(number, offset, partition=partition))
            if chance.random() < 0.03:
                stored[-1]["value_crc"] += 1
            if chance.random() < 0.03:
                stored.append(dict(stored[-1]))
            if sent[sequence]["outcome"] == "acked" and chance.random() < 0.9:
                sent[sequence]["offset"] = offset
    bounds = {n: (starts[n], ends[n] - (chance.random() < 0.1 and ends[n] > starts[n])) for n in range(2)}
    return sent, stored, bounds


@pytest.mark.parametrize("seed", fixed_seeds(200))
def test_slices_add_up_to_the_whole(seed: int) -> None:
    chance = Random(seed)
    sent, stored, bounds = drawn_case(chance)
    traits = TopicTraits(chance.random() < 0.2, chance.random() < 0.2, chance.random() < 0.5)
    whole = as_a_whole(sent, stored, bounds, traits)
    for size in (1, 3, 10, 1000):
        sliced = in_slices(sent, stored, bounds, size, traits)
        assert [finding.count for finding in sliced.findings] == [finding.count for finding in whole.findings]
        assert [dict(finding.tallies) for finding in sliced.findings] == [dict(each.tallies) for each in whole.findings]
        assert (sliced.figures, sliced.outcomes, sliced.numbers) == (whole.figures, whole.outcomes, whole.numbers)


@pytest.mark.parametrize("seed", fixed_seeds(20))
def test_a_drawn_case_has_anomalies(seed: int) -> None:
    """Without them, equal counts would say nothing."""
    chance = Random(seed)
    counts = dict.fromkeys(LEDGER_KINDS, 0)
    for _ in range(40):
        for finding in as_a_whole(*drawn_case(chance), TopicTraits()).findings:
            counts[finding.kind] += finding.count
    assert all(counts.values()), counts


def test_a_record_behind_one_of_another_slice_names_both() -> None:
    sent = [sent_row(n) for n in range(4)]
    stored = [stored_row(sequence, offset) for offset, sequence in enumerate((0, 2, 1, 3))]
    audit = in_slices(sent, stored, {0: (0, 4)}, 2, TopicTraits())
    (late,) = audit.finding("reordered").evidence
    assert late.offsets == (1, 2)
    assert late.detail == "record 1 is stored at offset 2, behind record 2 at offset 1, which was sent after it"


def test_the_order_of_a_ledgers_rows_changes_no_evidence() -> None:
    sent = [sent_row(n, outcome="failed" if n % 2 else "acked", offset=n - 1) for n in range(40)]
    stored = [stored_row(n, n) for n in range(40) if n % 8]
    bounds = {0: (0, 40)}
    in_order = in_slices(sent, stored, bounds, 30, TopicTraits())
    Random(7).shuffle(sent)
    assert in_slices(sent, stored, bounds, 30, TopicTraits()) == in_order
    assert [each.sequence for each in in_order.finding("lost").evidence] == [0, 8, 16]


def test_the_number_of_no_record_in_a_later_slice_makes_nobody_late() -> None:
    stored = [stored_row(100, 0), stored_row(0, 1)]
    assert in_slices([sent_row(0)], stored, {0: (0, 2)}, 10, TopicTraits()).figures.reordered == 0


def test_the_first_offset_that_was_not_read_is_found_among_slices() -> None:
    stored = [stored_row(n, n) for n in (0, 1, 2, 4, 5)]
    audit = in_slices([sent_row(n) for n in (0, 1, 2, 4, 5)], stored, {0: (0, 6)}, 2, TopicTraits())
    (skipped,) = audit.finding("misread").evidence
    assert (audit.finding("misread").count, skipped.offsets) == (1, (3,))


def test_a_partition_nobody_read_anything_of_is_judged() -> None:
    audit = in_slices([], [], {0: (3, 5), 1: (7, 7)}, 2, TopicTraits())
    assert audit.finding("misread").count == 2


def test_only_slices_out_of_order_are_looked_at_again() -> None:
    def slice_at(*copies: tuple[int, int]) -> SliceAudit:
        rows = [stored_row(number, offset) for offset, number in copies]
        stored = Stored(*([row[name] for row in rows] for name in STORED_COLUMNS))
        sent = Sent(*([sent_row(number)[name] for _, number in copies] for name in SENT_COLUMNS))
        return audit_slice(PartitionHistory("t", 0, sent, stored, 0, 100, is_slice=True))

    tidy = {0: slice_at((0, 0), (1, 1)), 1: slice_at((2, 2), (3, 3)), 3: slice_at((4, 6))}
    assert look_again(tidy) == {}
    assert look_again({**tidy, 0: slice_at((0, 0), (5, 1))}) == {0: (2, 2)}
    assert look_again({**tidy, 2: slice_at()}) == {}
    assert SliceAudit.from_dict(tidy[0].to_dict()) == tidy[0]
