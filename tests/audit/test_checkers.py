"""Each checker catches the fault that was planted for it, names it, and passes the clean history."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from ottla.audit import findings as kinds
from ottla.audit.duplicates import check_duplicates
from ottla.audit.history import PartitionHistory
from ottla.audit.ledgers.alteration import check_alteration
from ottla.audit.ledgers.counts import NOT_READ, check_counts
from ottla.audit.ledgers.figures import tally_outcomes
from ottla.audit.ledgers.lost import check_lost
from ottla.audit.ledgers.partition import audit_partition
from ottla.audit.offsets import check_offsets
from ottla.audit.order import check_order
from ottla.audit.outcomes import check_failed
from ottla.errors import ConfigError
from ottla.ledger.schema import NO_TIMESTAMP

Lay = Callable[..., PartitionHistory]

ALL = list(range(10))
CHECKERS = [
    check_lost,
    check_duplicates,
    check_order,
    check_alteration,
    check_failed,
    check_offsets,
    check_counts,
]


@pytest.mark.parametrize("check", CHECKERS)
def test_a_clean_history_passes(check: Callable[..., kinds.Finding], lay: Lay) -> None:
    assert check(lay(ALL)).count == 0
    assert check(lay([], sent=0)).count == 0


@pytest.mark.parametrize("check", CHECKERS)
def test_the_order_in_which_records_are_read_does_not_matter(check: Callable[..., kinds.Finding], lay: Lay) -> None:
    assert check(lay(ALL[::-1], offsets=ALL[::-1])).count == 0


def test_an_acknowledged_record_that_is_absent_is_lost(lay: Lay) -> None:
    finding = check_lost(lay([0, 1, 2, 3, 5, 6, 7, 8, 9], acked_at={4: 4}))
    assert (finding.kind, finding.count) == ("lost", 1)
    (piece,) = finding.evidence
    assert (piece.topic, piece.partition, piece.sequence, piece.offsets) == ("flights", 2, 4, (4,))
    assert piece.detail == "record 4: acknowledged at offset 4, and it is not in the partition (offsets 0 to 8)"


def test_an_unknown_record_that_is_absent_is_lost_and_says_so(lay: Lay) -> None:
    finding = check_lost(lay(ALL[:-1], outcomes={9: "unknown"}))
    assert finding.count == 1
    assert finding.evidence[0].offsets == ()
    assert "record 9: its outcome is unknown" in finding.evidence[0].detail


def test_a_failed_record_that_is_absent_is_not_lost(lay: Lay) -> None:
    assert check_lost(lay(ALL[:-1], outcomes={9: "failed"})).count == 0


def test_an_acknowledged_loss_is_shown_before_unknown_ones(lay: Lay) -> None:
    finding = check_lost(lay(ALL[5:9], outcomes=dict.fromkeys(range(5), "unknown")), evidence_max=2)
    assert finding.count == 6
    assert [piece.sequence for piece in finding.evidence] == [9, 0]


def test_a_record_stored_three_times_is_two_duplicates(lay: Lay) -> None:
    finding = check_duplicates(lay([0, 1, 2, 1, 2, *range(3, 10), 1]))
    assert finding.count == 3
    assert [piece.offsets for piece in finding.evidence] == [(1, 3, 12), (2, 4)]
    assert finding.evidence[0].detail == (
        "record 1 is stored at offsets 1, 3 and 12 (the same timestamp: the producer sent the batch again)"
    )


def test_a_copy_with_a_new_timestamp_is_the_applications(lay: Lay) -> None:
    finding = check_duplicates(lay([*ALL, 3], timestamps={10: 99_999}))
    assert "the application sent the record again" in finding.evidence[0].detail


def test_where_brokers_set_the_timestamps_nobody_is_said_to_have_made_the_copy(lay: Lay) -> None:
    finding = check_duplicates(lay([*ALL, 3], timestamps=dict.fromkeys(range(11), NO_TIMESTAMP)))
    assert "so who sent it again cannot be seen" in finding.evidence[0].detail


def test_a_record_read_twice_is_misread_and_not_duplicated(lay: Lay) -> None:
    history = lay([*ALL, 9], offsets=[*ALL, 9], bounds=(0, 10))
    assert check_duplicates(history).count == 0
    finding = check_counts(history)
    assert finding.count == 1
    assert finding.evidence[0].offsets == (9,)
    assert audit_partition(history).figures.stored == 11


def test_an_offset_nobody_read_is_misread_unless_it_may_be_a_marker(lay: Lay) -> None:
    holes = {"offsets": [0, 1, 2, 4, 5, 6, 7, 8, 9, 11], "bounds": (0, 13)}
    assert check_counts(lay(ALL, **holes)).count == 3
    assert check_counts(lay(ALL, **holes, is_transactional=True)).count == 0
    twice = lay([*ALL, 9], offsets=[0, 1, 2, 4, 5, 6, 7, 8, 9, 11, 11], bounds=(0, 13), is_transactional=True)
    assert check_counts(twice).count == 1
    assert check_lost(lay(ALL[:-1], offsets=holes["offsets"][:-1], bounds=(0, 13), is_transactional=True)).count == 1


def test_a_record_behind_a_later_one_is_reordered(lay: Lay) -> None:
    finding = check_order(lay([0, 1, 5, 6, 2, 3, 4, 7, 8, 9]))
    assert finding.count == 3
    assert finding.evidence[0].offsets == (3, 4)
    assert finding.evidence[0].detail == (
        "record 2 is stored at offset 4, behind record 6 at offset 3, which was sent after it"
    )


def test_a_batch_stored_again_is_duplicated_and_not_reordered(lay: Lay) -> None:
    history = lay([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert check_order(history).count == 0
    assert check_duplicates(history).count == 5


def test_the_number_of_no_record_does_not_make_the_rest_late(lay: Lay) -> None:
    assert check_order(lay([0, 1, 777, 2, 3, 4, 5, 6, 7, 8, 9])).count == 0
    assert check_order(lay([*ALL[1:], 0, -1, -1])).count == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": {4: 1}}, "its value has CRC 0x00000001, sent was 0x000007d4"),
        ({"keys": {4: -1}}, "its key is null, sent was 0x000003ec"),
        ({"keys": {4: 5}, "values": {4: 6}}, "; its value has CRC"),
    ],
)
def test_a_record_with_other_bytes_is_altered(lay: Lay, change: dict[str, dict[int, int]], words: str) -> None:
    finding = check_alteration(lay(ALL, **change))
    assert finding.count == 1
    assert finding.evidence[0].sequence == 4
    assert words in finding.evidence[0].detail


def test_an_altered_copy_is_found_among_good_ones(lay: Lay) -> None:
    finding = check_alteration(lay([*ALL, 4], values={10: 1}))
    assert finding.count == 1
    assert finding.evidence[0].offsets == (10,)


@pytest.mark.parametrize(
    ("unsent", "words"), [(-1, "has no record number"), (10, "by the ledger nobody sent it to this partition")]
)
def test_a_record_nobody_sent_is_altered_and_neither_duplicated_nor_lost(lay: Lay, unsent: int, words: str) -> None:
    history = lay([*ALL, unsent, unsent])
    assert check_alteration(history).count == 2
    assert words in check_alteration(history).evidence[0].detail
    assert check_duplicates(history).count == 0
    assert check_lost(history).count == 0


def test_a_record_reported_failed_must_not_be_stored(lay: Lay) -> None:
    finding = check_failed(lay(ALL, outcomes={3: "failed", 4: "unknown"}))
    assert finding.count == 1
    assert finding.evidence[0].offsets == (3,)


def test_an_acknowledgement_that_names_another_records_offset_is_wrong(lay: Lay) -> None:
    finding = check_offsets(lay(ALL, acked_at={3: 4}))
    assert finding.count == 1
    assert finding.evidence[0].detail == "record 3 was acknowledged at offset 4 and is stored at offset 3"


def test_an_acknowledgement_may_name_any_copy_or_none(lay: Lay) -> None:
    assert check_offsets(lay([*ALL, 3], acked_at={3: 10})).count == 0
    assert check_offsets(lay(ALL, acked_at={3: -1})).count == 0


def test_offsets_that_were_not_read_are_counted(lay: Lay) -> None:
    finding = check_counts(lay([0, 1, 2, 4, 5, 6, 7, 8], offsets=[0, 1, 2, 4, 5, 6, 7, 8], bounds=(0, 10)))
    assert finding.count == 2
    assert finding.evidence[0].offsets == (3,)
    assert finding.evidence[0].detail == "2 of the 10 offsets from 0 to 9 were not read; the first is 3"
    assert finding.tallies == ((NOT_READ, 2),)


def test_a_tail_that_was_not_read_is_counted(lay: Lay) -> None:
    finding = check_counts(lay(ALL, bounds=(0, 12)))
    assert finding.count == 2
    assert finding.evidence[0].offsets == (10,)


def test_a_partition_nobody_read_is_counted(lay: Lay) -> None:
    finding = check_counts(lay([], sent=0, bounds=(5, 12)))
    assert finding.count == 7
    assert finding.evidence[0].offsets == (5,)


def test_records_beyond_the_bounds_are_counted(lay: Lay) -> None:
    finding = check_counts(lay(ALL, bounds=(1, 9)))
    assert finding.count == 2
    assert finding.evidence[0].offsets == (0,)


def test_every_outcome_is_tallied_apart(lay: Lay) -> None:
    outcomes = {0: "failed", 1: "failed", 2: "unknown", 3: "unknown", 4: "unknown"}
    tally = tally_outcomes(lay([0, 2, 3, 5, 6, 7, 8], outcomes=outcomes))
    assert tally.to_dict() == {
        "acked_stored": 4,
        "acked_absent": 1,
        "failed_stored": 1,
        "failed_absent": 1,
        "unknown_stored": 2,
        "unknown_absent": 1,
    }


def test_evidence_is_bounded_and_the_count_is_not(lay: Lay) -> None:
    finding = check_lost(lay([], sent=1000), evidence_max=2)
    assert finding.count == 1000
    assert len(finding.evidence) == 2


# ---- what retention and compaction take -----------------------------------------------------------------------------


def test_a_record_below_the_start_of_the_log_is_not_lost(lay: Lay) -> None:
    history = lay(range(4, 10), offsets=[4, 5, 6, 7, 8, 9], acked_at={n: n for n in range(4)}, bounds=(4, 10))
    finding = check_lost(history)
    assert (finding.count, finding.tallies) == (0, (("below the start of the log", 4),))
    history = lay(range(4, 10), offsets=[4, 5, 6, 7, 8, 9], acked_at={0: 0, 1: 1, 2: 2, 3: 4}, bounds=(4, 10))
    finding = check_lost(history)
    assert finding.count == 1
    assert finding.evidence[0].sequence == 3


def test_a_record_of_which_nobody_knows_the_offset_may_lie_below_the_start(lay: Lay) -> None:
    history = lay(range(1, 10), offsets=list(range(1, 10)), outcomes={0: "unknown"}, bounds=(1, 10))
    assert check_lost(history).tallies == (("below the start of the log", 1),)
    history = lay(range(1, 10), offsets=list(range(1, 10)), outcomes={0: "unknown"}, bounds=(0, 10))
    assert check_lost(history).count == 1


@pytest.mark.parametrize(
    ("keys", "lost"),
    [({9: 1003}, 0), ({2: 1003}, 1), ({}, 1)],
    ids=["a newer record of its key", "an older one", "no other"],
)
def test_compaction_takes_a_record_when_there_is_a_newer_one_of_its_key(
    lay: Lay, keys: dict[int, int], lost: int
) -> None:
    others = [n for n in range(10) if n != 3]
    history = lay(others, offsets=others, acked_at={3: 3}, keys=keys, bounds=(0, 10), is_compacted=True)
    finding = check_lost(history)
    assert finding.count == lost
    assert finding.tallies == ((("compacted away", 1),) if not lost else ())
    assert check_counts(history).count == 0
    assert check_lost(dataclasses.replace(history, is_compacted=False)).count == 1


def test_compaction_takes_tombstones_in_the_end(lay: Lay) -> None:
    others = [n for n in range(10) if n != 3]
    history = lay(others, offsets=others, acked_at={3: 3}, bounds=(0, 10), is_compacted=True)
    history.sent.value_crc[3] = -1
    assert check_lost(history).tallies == (("compacted away", 1),)
    history.sent.key_crc[3] = -1  # without a key it is no tombstone, and nothing is compacted
    assert check_lost(history).count == 1


def test_an_outcome_that_is_none_is_refused_by_name(lay: Lay) -> None:
    history = lay(range(10), outcomes={4: "ackd"})
    with pytest.raises(ConfigError) as refused:
        audit_partition(history)
    assert str(refused.value) == (
        "the ledger of flights-2 says 'ackd' of record 4: an outcome is one of acked, failed, unknown"
    )


def test_what_a_producer_says_that_nobody_knows_is_not_lost_where_it_asked(lay: Lay) -> None:
    history = lay(ALL[:-2], outcomes={9: "unknown"}, acked_at={8: 8}, bounds=(0, 8))
    assert check_lost(history).count == 2
    finding = check_lost(dataclasses.replace(history, is_answered=True))
    assert (finding.count, finding.tallies) == (1, (("in doubt, and not stored", 1),))
    assert finding.evidence[0].sequence == 8


def test_compaction_takes_no_record_of_whose_key_nothing_was_stored(lay: Lay) -> None:
    others = [n for n in range(10) if n != 3]
    history = lay(others, offsets=others, outcomes={3: "unknown"}, bounds=(0, 10), is_compacted=True)
    assert check_lost(history).count == 1


# ---- order where late requests are not told -------------------------------------------------------------------------


def test_where_only_what_was_told_is_judged_a_late_record_needs_an_ack_with_its_offset(lay: Lay) -> None:
    history = lay([3, 0, 1, 2, *range(4, 10)], outcomes={0: "unknown"}, acked_at={1: -1})
    finding = check_order(history)
    assert (finding.count, finding.tallies) == (3, ())
    finding = check_order(history, only_where_told=True)
    assert (finding.count, finding.tallies) == (1, (("in doubt, and stored late", 2),))
    assert finding.evidence[0].sequence == 2


def test_one_copy_with_a_new_timestamp_among_others_is_the_applications(lay: Lay) -> None:
    finding = check_duplicates(lay([*ALL, 3, 3], timestamps={11: 99_999}))
    assert "the application sent the record again" in finding.evidence[0].detail


def test_a_hole_may_be_a_marker_only_where_somebody_says_that_there_were_transactions(lay: Lay) -> None:
    nothing = lay([], sent=0)
    assert check_counts(PartitionHistory("t", 0, nothing.sent, nothing.stored, 0, 2)).count == 2
