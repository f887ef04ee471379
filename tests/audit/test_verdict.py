from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.audit import findings as kinds
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.ledgers.figures import Figures
from ottla.audit.ledgers.numbers import Numbers
from ottla.audit.ledgers.partition import Audit, add_audits, audit_partition
from ottla.audit.ledgers.torn import check_torn
from ottla.audit.ledgers.verdict import judge

Lay = Callable[..., PartitionHistory]

ALL = list(range(10))
CLEAN: dict[str, object] = {"stored": ALL}
LOSS: dict[str, object] = {"stored": ALL[:-1], "outcomes": {9: "unknown"}}
COPY: dict[str, object] = {"stored": [*ALL, 9]}
SWAP: dict[str, object] = {"stored": [1, 0, *ALL[2:]]}
CHANGE: dict[str, object] = {"stored": ALL, "values": {4: 1}}
UNSENT: dict[str, object] = {"stored": [*ALL, -1]}
LIE: dict[str, object] = {"stored": ALL, "outcomes": {4: "failed"}}
MISTOLD: dict[str, object] = {"stored": ALL, "acked_at": {3: 4}}
UNREAD: dict[str, object] = {"stored": ALL, "bounds": (0, 11)}


@pytest.mark.parametrize(
    ("guarantee", "history", "kept", "passed"),
    [
        ("exactly-once", CLEAN, True, True),
        ("exactly-once", LOSS, False, False),
        ("exactly-once", COPY, False, False),
        ("exactly-once", SWAP, False, False),
        ("exactly-once", CHANGE, False, False),
        ("exactly-once", UNSENT, False, False),
        ("exactly-once", LIE, False, False),
        ("exactly-once", MISTOLD, False, False),
        ("exactly-once", UNREAD, False, False),
        ("at-least-once", COPY, True, True),
        ("at-least-once", CLEAN, True, False),
        ("at-least-once", SWAP, True, False),
        ("at-least-once", LOSS, False, False),
        ("at-least-once", CHANGE, False, False),
        ("at-least-once", UNREAD, False, False),
        ("at-most-once", LOSS, True, True),
        ("at-most-once", CLEAN, True, False),
        ("at-most-once", COPY, False, False),
        ("at-most-once", CHANGE, False, False),
    ],
)
def test_each_guarantee_forbids_its_own_anomalies(
    lay: Lay, guarantee: str, history: dict[str, object], kept: bool, passed: bool
) -> None:
    verdict = judge(guarantee, audit_partition(lay(**history)))
    assert (verdict.kept, verdict.passed) == (kept, passed)


def test_without_faults_nothing_has_to_show(lay: Lay) -> None:
    for guarantee in ("at-most-once", "at-least-once", "exactly-once"):
        assert judge(guarantee, audit_partition(lay(ALL)), shows=()).passed


def test_a_run_that_sent_nothing_proves_nothing(lay: Lay) -> None:
    verdict = judge("exactly-once", audit_partition(lay([], sent=0)))
    assert not verdict.kept
    assert verdict.seen == "nothing was sent"


def test_the_verdict_names_what_it_saw(lay: Lay) -> None:
    verdict = judge("at-least-once", audit_partition(lay([*ALL, 8, 9], values={3: 1}, outcomes={0: "failed"})))
    assert verdict.seen == "2 duplicated, 1 altered, 1 failed but stored, 1 reported failed"
    assert [finding.kind for finding in verdict.breaches] == ["altered", "failed but stored"]
    assert [piece.kind for piece in verdict.evidence] == ["duplicated", "altered", "failed but stored"]
    assert judge("exactly-once", audit_partition(lay(ALL))).seen == "every record once, in order, unaltered"


def test_what_the_faults_failed_to_show_is_named(lay: Lay) -> None:
    assert judge("at-least-once", audit_partition(lay(ALL))).missing == ("duplicated",)
    assert judge("at-most-once", audit_partition(lay(ALL))).missing == ("lost",)


def test_figures_add_up_over_partitions(lay: Lay) -> None:
    parts = [
        audit_partition(lay([*ALL, 9])),
        audit_partition(lay(ALL[:-1], outcomes={9: "unknown", 0: "failed"})),
        audit_partition(lay(SWAP["stored"])),
    ]
    audit = add_audits(parts)
    assert audit.figures.to_dict() == {
        "sent": 30,
        "acked": 28,
        "failed": 1,
        "unknown": 1,
        "stored": 30,
        "lost": 1,
        "duplicated": 1,
        "reordered": 1,
        "altered": 0,
    }
    assert audit.outcomes.unknown_absent == 1
    assert audit.finding(kinds.FAILED_BUT_STORED).count == 1
    assert add_audits([]).figures == Figures()


def test_an_audit_survives_json(lay: Lay) -> None:
    audit = audit_partition(lay([*ALL, 3, -1], outcomes={0: "failed", 9: "unknown"}, bounds=(0, 20)))
    assert Audit.from_dict(json.loads(json.dumps(audit.to_dict()))) == audit


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], "the ledger holds no record"),
        ([0, 1, 2, 2], "the ledger holds 1 of its record numbers more than once"),
        ([0, 1, 3], "the ledger lacks 1 of the record numbers from 0 to 3"),
        ([1, 2], "the ledger lacks 1 of the record numbers from 0 to 2"),
        ([0, 1, 2], None),
    ],
)
def test_a_ledger_that_is_not_whole_proves_nothing(numbers: list[int], words: str | None) -> None:
    count = len(numbers)
    sent = Sent(numbers, ["acked"] * count, [1] * count, [2] * count, [-1] * count)
    stored = Stored(list(range(len(set(numbers)))), sorted(set(numbers)), [1] * len(set(numbers)),
                    [2] * len(set(numbers)), [3] * len(set(numbers)))  # fmt: skip
    history = PartitionHistory("t", 0, sent, stored, 0, len(set(numbers)))
    verdict = judge("exactly-once", audit_partition(history), shows=())
    assert verdict.void == words
    assert verdict.passed == (words is None)


def test_numbers_that_two_partitions_share_are_found(lay: Lay) -> None:
    one, other = audit_partition(lay(range(10))), audit_partition(lay(range(10)))
    assert judge("exactly-once", add_audits([one, other])).void == (
        "the ledger holds 10 of its record numbers more than once"
    )
    assert Numbers(3, 3, 2, 2).wrong() == "the ledger holds some record numbers more than once, and lacks as many"


def test_a_run_of_which_every_record_failed_proves_nothing(lay: Lay) -> None:
    verdict = judge("exactly-once", audit_partition(lay([], outcomes=dict.fromkeys(range(10), "failed"))))
    assert verdict.void == "every record failed"
    assert not verdict.passed


def test_what_retention_took_is_told(lay: Lay) -> None:
    history = lay(range(4, 10), offsets=[4, 5, 6, 7, 8, 9], acked_at={n: n for n in range(4)}, bounds=(4, 10))
    verdict = judge("exactly-once", audit_partition(history))
    assert verdict.passed
    assert verdict.seen == "4 below the start of the log"


def test_the_record_numbers_of_no_partition_are_none(lay: Lay) -> None:
    assert add_audits([]).numbers.to_dict() == {"rows": 0, "different": 0, "highest": -1, "total": 0}
    assert judge("exactly-once", add_audits([audit_partition(lay(ALL))]), shows=()).passed


def test_only_what_the_guarantee_forbids_counts_as_found(lay: Lay) -> None:
    verdict = judge("at-least-once", audit_partition(lay([*ALL[:-1], 8])))
    assert verdict.figures.duplicated == 1
    assert {each.kind: each.count for each in verdict.found if each.count} == {"lost": 1, "broken promise": 1}


@pytest.mark.parametrize(
    ("stored", "torn"),
    [
        (ALL, 0),
        ([0, 1, 2, 3, 4], 0),
        ([0, 1, 2, 3, 4, 5], 1),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], 1),
        ([0, 9], 2),
        ([], 0),
    ],
)
def test_a_transaction_is_torn_where_a_part_of_it_is_there(lay: Lay, stored: list[int], torn: int) -> None:
    history = lay(stored, outcomes=dict.fromkeys(ALL, "unknown"), is_transactional=True)
    found = check_torn([range(5), range(5, 10)], [history])
    assert (found.kind, found.count) == (kinds.TORN, torn)
    audit = audit_partition(history)
    audit = replace(audit, findings=(*audit.findings, found))
    for guarantee in ("at-most-once", "at-least-once", "exactly-once"):
        assert (kinds.TORN in [each.kind for each in judge(guarantee, audit).breaches]) == bool(torn)


def test_a_torn_transaction_is_told_with_the_first_record_that_is_missing(lay: Lay) -> None:
    (piece,) = check_torn([range(5)], [lay([0, 1, 3])]).evidence
    assert (piece.sequence, piece.topic) == (2, "flights")
    assert piece.detail == ("of the 5 records of a transaction, 0 to 4, 3 are there; the first that is not is record 2")


def test_the_records_of_a_transaction_may_lie_in_several_partitions(lay: Lay) -> None:
    assert check_torn([range(4)], [lay([0, 2]), lay([1, 3])]).count == 0
    assert check_torn([range(4)], [lay([0, 2]), lay([1])]).count == 1
