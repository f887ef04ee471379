"""Group 12: what a lost marker, or an end that arrived late, may have done to another transaction, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.audit.scene import Scene, batch, marker, seen

from ottla.audit.chronicles.aborted_reads import check_aborted_reads
from ottla.audit.chronicles.chronicle import TransactionSeen
from ottla.audit.chronicles.early_reads import check_early_reads
from ottla.audit.chronicles.torn import check_torn
from ottla.audit.chronicles.zombies import check_zombies


def test_an_aborted_record_whose_marker_a_power_cut_took_may_be_committed_by_the_next(scene: Scene) -> None:
    scene.final(committed=True).records.append(seen(12, 5))
    scene.fall(4_700, 1, "power_off", 6)
    scene.elect(4_800, 1, 1, (1, 2))
    assert scene.ask(check_aborted_reads).passed
    assert scene.ask(check_early_reads).passed


def test_a_power_cut_after_an_aborted_record_was_read_excuses_nothing(scene: Scene) -> None:
    scene.give_aborted()  # until 4600
    scene.fall(4_700, 1, "power_off", 6)
    scene.elect(4_800, 1, 1, (1, 2))
    assert scene.ask(check_aborted_reads).count == 1
    assert scene.ask(check_early_reads).count == 1


def test_a_power_cut_that_cut_nothing_excuses_nothing(scene: Scene) -> None:
    scene.final(committed=True).records.append(seen(12, 5))
    scene.fall(4_700, 1, "power_off", 7)  # all that it had was synced
    scene.elect(4_800, 1, 1, (1, 2))
    assert scene.ask(check_aborted_reads).count == 1
    assert scene.ask(check_early_reads).count == 1


def commit_late(scene: Scene, *, commits: bool = True) -> None:
    """In version 1, a late request to commit transaction 0 commits transaction 1 (`commits`: so says the log)."""
    scene.chronicle.transaction_version = 1
    for broker in range(3):
        scene.batches(broker)[4] = marker(6, commits=commits)
    scene.give_aborted()


def test_a_late_commit_of_the_transaction_before_may_show_an_aborted_one_in_version_1(scene: Scene) -> None:
    commit_late(scene)
    assert scene.ask(check_aborted_reads).passed
    assert scene.ask(check_early_reads).passed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda scene: commit_late(scene, commits=False),
        lambda scene: setattr(scene.chronicle.transactions[0], "commit_asked", False),
        lambda scene: setattr(scene.chronicle.transactions[0], "instance", 0),
        lambda scene: scene.chronicle.faults.clear(),
        lambda scene: setattr(scene.chronicle, "transaction_version", 2),
    ],
    ids=["an abort marker stands", "never asked for", "of another instance", "nothing went wrong", "version 2"],
)
def test_what_no_late_commit_can_have_shown_is_aborted_and_read(scene: Scene, spoil: Callable[[Scene], None]) -> None:
    commit_late(scene)
    spoil(scene)
    assert scene.ask(check_aborted_reads).count == 1


def test_a_late_end_that_nobody_could_see_is_not_acquitted(scene: Scene) -> None:
    commit_late(scene)
    scene.blind()
    for check in (check_aborted_reads, check_early_reads, check_torn, check_zombies):
        finding = scene.ask(check)
        assert not finding.count
        assert finding.unseen


JOINING = pytest.mark.parametrize(
    ("forgotten_us", "marked", "found"),
    [(3_950, False, False), (2_000, False, True), (3_950, True, True)],
    ids=["epoch given out again", "forgotten before", "marker between"],
)


def let_join(scene: Scene, forgotten_us: int, marked: bool, commits: bool) -> None:
    """Record 12 lies behind 10, whose transaction has no marker unless `marked`; the next one decides for both."""
    for broker in range(3):
        between = [marker(4, commits=True)] * marked
        scene.batches(broker)[2:] = [*between, batch(5, [12], producer_id=2), marker(6, commits=commits)]
    scene.forget_transactions(forgotten_us)


@JOINING
def test_an_aborted_record_that_joined_what_its_epoch_had_left_open_is_shown_innocently(
    scene: Scene, forgotten_us: int, marked: bool, found: bool
) -> None:
    let_join(scene, forgotten_us, marked, commits=True)
    scene.final(committed=True).records.append(seen(12, 5))
    assert bool(scene.ask(check_aborted_reads).count) == found
    assert bool(scene.ask(check_early_reads).count) == found


@JOINING
def test_a_record_that_joined_what_compaction_has_taken_since_is_shown_innocently(
    scene: Scene, forgotten_us: int, marked: bool, found: bool
) -> None:
    let_join(scene, forgotten_us, marked, commits=True)
    for broker in range(3):
        scene.batches(broker)[1].records.clear()  # record 10's, which is left empty
    scene.final(committed=True).records.append(seen(12, 5))
    assert bool(scene.ask(check_aborted_reads).count) == found
    assert bool(scene.ask(check_early_reads).count) == found


@JOINING
def test_a_committed_record_that_joined_what_its_epoch_had_left_open_is_hidden_innocently(
    scene: Scene, forgotten_us: int, marked: bool, found: bool
) -> None:
    let_join(scene, forgotten_us, marked, commits=False)
    scene.chronicle.transactions[1].outcome = "committed"
    assert bool(scene.ask(check_torn).count) == found


def test_one_excused_transaction_of_two_that_were_aborted_is_enough(scene: Scene) -> None:
    scene.final(committed=True).records.append(seen(12, 5))
    scene.fall(4_700, 1, "power_off", 6)
    scene.elect(4_800, 1, 1, (1, 2))
    scene.chronicle.sent.append(scene.sent(12, "x", 0, 7, 5_100, 5_200, 2))
    scene.chronicle.transactions.append(TransactionSeen(2, "x", 1, "aborted", 5_000, 5_300))
    assert scene.ask(check_aborted_reads).passed


def test_a_record_without_a_marker_was_not_hidden_by_a_late_abort(scene: Scene) -> None:
    scene.chronicle.transaction_version = 1
    scene.chronicle.transactions.insert(0, TransactionSeen(2, "x", 1, "aborted", 2_000, 2_800))
    for broker in range(3):
        del scene.batches(broker)[2:]
    scene.final(committed=True).records.pop()
    scene.chronicle.reads[1].records.pop()
    assert scene.ask(check_torn).count == 1


def test_a_record_that_stands_outside_of_any_transaction_was_shown_by_no_late_commit(scene: Scene) -> None:
    commit_late(scene)
    assert scene.ask(check_aborted_reads).passed
    for broker in range(3):
        scene.batches(broker)[3] = batch(5, [12], producer_id=1, sequence=3)
    assert scene.ask(check_aborted_reads).count == 1
