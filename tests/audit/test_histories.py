"""Random histories that nobody drew by hand: sound ones are acquitted, a planted anomaly is convicted by its name.

Each conviction has to name the record and the offsets. `model.py` makes the histories, `planted.py` spoils them;
neither shares code with the judge. Both judges are held to that: the one of whole runs, and the one of ledgers.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.audit.model import Model
from tests.audit.planted import SPOILERS
from tests.audit.planting import Planted, Run, Spoil
from tests.tiers import some_tested

from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import Chronicle
from ottla.audit.chronicles.judgement import judge
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.ledgers.partition import audit_partition
from ottla.audit.ledgers.verdict import judge as judge_ledgers
from ottla.ledger.schema import ACKED, EXACTLY_ONCE, FAILED, UNKNOWN

SOUND = 1_000
# In all 1,000 and a few more: as many of each. A tenth of them in `make test`.
PLANTED = -(-1_000 // len(SPOILERS))
BLOCK = 250


@pytest.mark.parametrize("first", some_tested(range(0, SOUND, BLOCK), 0))
def test_a_sound_history_is_acquitted(first: int) -> None:
    for seed in range(first, first + BLOCK):
        found = [finding for finding in judge(Model(seed).run()) if finding.count]
        assert not found, f"seed {seed}"


@pytest.mark.parametrize("count", some_tested((PLANTED // 10, PLANTED), PLANTED // 10))
@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_a_planted_anomaly_is_convicted_by_its_name(spoil: Spoil, count: int) -> None:
    seed = 0
    for _ in range(count):
        seed, chronicle, planted = _spoilt(spoil, seed)
        finding = next(each for each in judge(chronicle) if each.kind == planted.kind)
        assert finding.count, f"seed {seed}: {planted}"
        if planted.numbers:
            assert {each.sequence for each in finding.evidence} & {*planted.numbers}, f"seed {seed}: {planted}"
        if planted.offsets:
            assert any({*planted.offsets} <= {*each.offsets} for each in finding.evidence), f"seed {seed}: {planted}"


def _spoilt(spoil: Spoil, after: int) -> tuple[int, Chronicle, Planted]:
    """The next seed whose history has what this anomaly needs."""
    for seed in range(after + 1, after + 200):
        chronicle = Model(seed).run()
        planted = spoil(Run(chronicle, Random(seed)))
        if planted is not None:
            return seed, chronicle, planted
    raise AssertionError(f"no history after seed {after} has what {spoil.__name__} needs")


# ---- ledgers --------------------------------------------------------------------------------------------------------


def _ledger(seed: int) -> tuple[Sent, Stored]:
    """What a producer with exactly-once was told of its records, and what is stored of them; nothing is wrong."""
    chance = Random(seed)
    count = chance.randint(3, 60)
    sent = Sent(list(range(count)), [], [10 + n for n in range(count)], [20 + n for n in range(count)], [])
    stored = Stored([], [], [], [], [])
    for number in range(count):
        outcome = chance.choices((ACKED, FAILED, UNKNOWN), (18, 1, 1))[0] if number else ACKED
        sent.outcome.append(outcome)
        sent.offset.append(len(stored.offset) if outcome == ACKED else -1)
        if outcome != FAILED:
            _store(stored, number)
    return sent, stored


def _store(stored: Stored, number: int) -> None:
    stored.offset.append(len(stored.offset))
    stored.sequence.append(number)
    stored.key_crc.append(10 + number)
    stored.value_crc.append(20 + number)
    stored.timestamp.append(1_000 + number)


def _lose(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    number = stored.sequence[at]
    stored.sequence[at] = -1
    return number, (stored.offset[at],) if sent.outcome[number] == ACKED else ()


def _duplicate(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    _store(stored, stored.sequence[at])
    return stored.sequence[at], (stored.offset[at], stored.offset[-1])


def _reorder(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    at = max(at, 1)
    for column in (stored.sequence, stored.key_crc, stored.value_crc, stored.timestamp):
        column[at - 1], column[at] = column[at], column[at - 1]
    return stored.sequence[at], (stored.offset[at] - 1, stored.offset[at])


def _alter(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    (stored.key_crc, stored.value_crc)[at % 2][at] += 1
    return stored.sequence[at], (stored.offset[at],)


def _fail(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    number = stored.sequence[at]
    sent.outcome[number], sent.offset[number] = FAILED, -1
    return number, (stored.offset[at],)


def _tell_another_offset(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    number = stored.sequence[at]
    sent.outcome[number], sent.offset[number] = ACKED, at - 1 if at else 1
    return number, (at, sent.offset[number])


def _read_again(sent: Sent, stored: Stored, at: int) -> tuple[int, tuple[int, ...]]:
    for column in (stored.offset, stored.sequence, stored.key_crc, stored.value_crc, stored.timestamp):
        column.append(column[at])
    return -1, (stored.offset[at],)


# Each plants one anomaly at a stored record, and returns the number and the offsets that have to be named.
LEDGER_SPOILERS = {
    kinds.LOST: _lose,
    kinds.DUPLICATED: _duplicate,
    kinds.REORDERED: _reorder,
    kinds.ALTERED: _alter,
    kinds.FAILED_BUT_STORED: _fail,
    kinds.WRONG_OFFSET: _tell_another_offset,
    kinds.MISREAD: _read_again,
}


def _history(sent: Sent, stored: Stored) -> PartitionHistory:
    return PartitionHistory("t", 0, sent, stored, 0, max(stored.offset) + 1)


def test_a_sound_ledger_is_acquitted() -> None:
    for seed in range(SOUND):
        verdict = judge_ledgers(EXACTLY_ONCE, audit_partition(_history(*_ledger(seed))), shows=())
        assert verdict.passed, f"seed {seed}: {verdict.seen}"


@pytest.mark.parametrize("kind", kinds.LEDGER_KINDS)
def test_an_anomaly_that_is_planted_into_a_ledger_is_convicted_by_its_name(kind: str) -> None:
    convicted = 0
    for seed in range(200):
        sent, stored = _ledger(seed)
        if len(stored.offset) < 2:
            continue
        number, offsets = LEDGER_SPOILERS[kind](sent, stored, Random(seed).randrange(len(stored.offset)))
        audit = audit_partition(_history(sent, stored))
        pieces = audit.finding(kind).evidence
        assert any(each.sequence == number and {*offsets} <= {*each.offsets} for each in pieces), f"seed {seed}"
        assert not judge_ledgers(EXACTLY_ONCE, audit, shows=()).passed
        convicted += 1
    assert convicted >= 150
