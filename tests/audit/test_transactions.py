"""Transactions: all or nothing, to every reader and for the offsets that go with them."""

from __future__ import annotations

import pytest
from tests.audit.scene import Scene, batch, marker, seen

from ottla.audit.chronicles.aborted_reads import check_aborted_reads
from ottla.audit.chronicles.chronicle import BrokerEnd, Leadership, RecordsDeleted, TopicPromise, TransactionSeen
from ottla.audit.chronicles.early_reads import check_early_reads
from ottla.audit.chronicles.group_offsets import check_group_offsets
from ottla.audit.chronicles.markers import aborted_offsets, open_offsets
from ottla.audit.chronicles.torn import check_torn
from ottla.audit.chronicles.zombies import check_zombies

# ---- aborted reads --------------------------------------------------------------------------------------------------


def test_a_record_its_producer_aborted_is_never_given_to_read_committed(scene: Scene) -> None:
    scene.give_aborted()
    (piece,) = scene.ask(check_aborted_reads).evidence
    assert piece.detail == (
        "record 12 of transaction 1 of x, which was aborted (its producer was told so), was given to r at offset 5 "
        "until 4600 us"
    )


def test_what_nobody_was_told_about_is_judged_by_the_marker(scene: Scene) -> None:
    scene.give_aborted()
    scene.chronicle.transactions[1].outcome = "unknown"
    assert "its marker says so" in scene.ask(check_aborted_reads).evidence[0].detail


def test_an_aborted_record_may_be_given_to_read_uncommitted(scene: Scene) -> None:
    assert 12 in [record.number for record in scene.final().records]
    assert scene.ask(check_aborted_reads).passed


def test_a_record_that_was_sent_again_in_another_transaction_is_not_aborted(scene: Scene) -> None:
    scene.give_aborted()
    scene.blind()
    again = scene.sent(12, "x", 0, 5, 4_100, 4_600, 2)
    scene.chronicle.sent.append(again)
    scene.chronicle.transactions.append(TransactionSeen(2, "x", 1, "committed"))
    assert not scene.ask(check_aborted_reads).count


@pytest.mark.parametrize(
    ("forgotten_us", "asked", "ended_us", "found"),
    [
        (3_960, True, 4_200, 0),
        (3_960, True, -1, 0),
        (3_960, True, 3_990, 1),  # over before this transaction began
        (3_960, False, 4_200, 1),
        (2_500, True, 4_200, 1),  # forgotten before the other one had its own
    ],
)
def test_the_commit_of_a_replaced_instance_whose_epoch_was_given_out_again_may_show_an_aborted_record(
    scene: Scene, forgotten_us: int, asked: bool, ended_us: int, found: int
) -> None:
    scene.give_aborted()
    replaced, aborted = scene.chronicle.transactions
    replaced.commit_asked, replaced.ended_us = asked, ended_us
    aborted.instance = 2
    scene.forget_transactions(forgotten_us)
    assert scene.ask(check_aborted_reads).count == found
    assert scene.ask(check_early_reads).count == found


def test_markers_nobody_saw_are_not_observable(scene: Scene) -> None:
    scene.blind()
    assert scene.ask(check_aborted_reads).unseen == ("the markers in the logs",)


# ---- torn -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("forgotten_us", "torn"), [(3_900, 0), (2_000, 1)])
def test_a_record_that_was_taken_for_another_one_is_torn_out_by_who_forgot_its_epoch(
    scene: Scene, forgotten_us: int, torn: int
) -> None:
    scene.lose(12)
    scene.record(12).offset = 3  # where record 10 stands
    scene.chronicle.transactions[1].outcome = "committed"
    scene.forget_transactions(forgotten_us)
    assert scene.ask(check_torn).count == torn


def test_a_committed_transaction_of_which_a_record_is_missing_is_torn(scene: Scene) -> None:
    scene.final(1, committed=True).records = []
    (piece,) = scene.ask(check_torn).evidence
    assert piece.detail == ("transaction 0 of x (committed): record 11 at offset 0 cannot be read, and record 10 can")
    assert (piece.partition, piece.sequence, piece.at_us) == (1, 11, 3_900)


def test_a_committed_transaction_that_cannot_be_read_at_all_is_missing(scene: Scene) -> None:
    scene.final(1, committed=True).records = []
    scene.final(0, committed=True).records.pop()
    assert scene.ask(check_torn).count == 2


def test_a_transaction_nobody_knows_about_is_all_or_nothing(scene: Scene) -> None:
    scene.chronicle.transactions[0].outcome = "unknown"
    assert scene.ask(check_torn).passed
    scene.final(1, committed=True).records = []
    assert scene.ask(check_torn).count == 1
    scene.final(0, committed=True).records.pop()
    assert scene.ask(check_torn).passed


def test_a_transaction_is_not_committed_with_a_record_that_failed(scene: Scene) -> None:
    record = scene.record(11)
    record.outcome, record.offset, record.error = "failed", -1, "too large"
    scene.final(1, committed=True).records = []
    assert "record 11 at offset -1 is failed: too large" in scene.ask(check_torn).evidence[0].detail


def test_a_record_that_a_power_cut_took_does_not_tear_a_transaction(scene: Scene) -> None:
    scene.final(committed=True).records.pop()
    scene.fall(5_000, 1, "power_off", 3)
    scene.elect(5_100, 1, 1, (1, 2))
    finding = scene.ask(check_torn)
    assert finding.passed
    assert ("excused: power off of broker 1 at 5000 us", 1) in finding.tallies


@pytest.mark.parametrize("has_heard", [False, True])
def test_a_record_that_a_replaced_leader_committed_in_vain_does_not_tear_a_transaction(
    scene: Scene, has_heard: bool
) -> None:
    """The election was unclean and came before the transaction; the old leader may not have heard of it yet."""
    scene.final(committed=True).records.pop()
    scene.elect(2_000, 0, 0, (0,))
    scene.elect(2_100, 2, 1, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 1, unclean_leader_election=True)
    if has_heard:
        scene.mark(0, 2_200, 0, 3, 3, leader=2, epoch=1)
        scene.chronicle.commits = [each for each in scene.chronicle.commits if each.at_us < 2_000]
        scene.let_pass(0, 3_500, 3, 5, leader=2, epoch=1)
    finding = scene.ask(check_torn)
    assert finding.count == has_heard
    why = "excused: unclean election of broker 2 at 2100 us, which broker 0 had not heard of"
    assert ((why, 1) in finding.tallies) != has_heard


def test_a_coordinator_that_lost_its_log_excuses_its_transactions(scene: Scene) -> None:
    scene.final(1, committed=True).records = []
    for role in (Leadership(100, "__transaction_state", 3, 1, 0, (1,), False),):
        scene.chronicle.leaderships.append(role)
    scene.fall(3_950, 1, "power_off")
    assert scene.ask(check_torn).count == 1
    scene.chronicle.broker_ends[0].cut["__transaction_state", 3] = 0
    assert scene.ask(check_torn).passed


def test_a_round_that_ends_inside_a_committed_transaction_is_torn(scene: Scene) -> None:
    scene.chronicle.sent.append(scene.sent(13, "x", 0, 5, 3_000, 3_600, 0))
    scene.chronicle.sent.remove(scene.record(12))
    scene.final(committed=True).records.append(seen(13, 5))
    (piece,) = scene.ask(check_torn).evidence
    assert piece.detail == "r read to 5 until 4000 us, and transaction 0 of x reaches from 3 to 5"
    scene.chronicle.reads[1].end = 3
    scene.chronicle.reads[1].records.pop()
    assert scene.ask(check_torn).passed


def test_a_late_end_of_the_transaction_before_may_tear_one_of_version_1(scene: Scene) -> None:
    scene.chronicle.sent.append(scene.sent(13, "x", 0, 5, 3_000, 3_600, 0))
    scene.chronicle.sent.remove(scene.record(12))
    scene.final(committed=True).records.append(seen(13, 5))
    scene.chronicle.transactions.insert(0, TransactionSeen(2, "x", 1, "committed", 2_000, 2_800))
    assert scene.ask(check_torn).count == 1
    for broker in range(3):
        scene.batches(broker)[3] = batch(5, [13], producer_id=2, sequence=1)  # behind the marker at 4
    assert scene.ask(check_torn).count == 1
    scene.chronicle.transaction_version = 1
    assert scene.ask(check_torn).passed
    for broker in range(3):
        scene.batches(broker)[2] = marker(4, commits=False)  # which nobody had asked for before
        scene.batches(broker)[4] = marker(6, commits=False)
    scene.lose(10)
    scene.chronicle.transactions.pop(0)
    assert scene.ask(check_torn).count >= 1


@pytest.mark.parametrize(("before", "torn"), [("aborted", 0), ("unknown", 0), ("committed", 1)])
def test_a_late_abort_of_the_transaction_before_may_hide_a_committed_one_of_version_1(
    scene: Scene, before: str, torn: int
) -> None:
    scene.chronicle.transaction_version = 1
    scene.chronicle.transactions.insert(0, TransactionSeen(2, "x", 1, before, 2_000, 2_800))
    for broker in range(3):
        scene.batches(broker)[2] = marker(4, commits=False)
    scene.final(committed=True).records.pop()
    scene.chronicle.reads[1].records.pop()
    assert scene.ask(check_torn).count == torn


def test_a_round_that_another_open_transaction_held_up_may_end_inside_a_committed_one(scene: Scene) -> None:
    scene.chronicle.sent += [
        scene.sent(13, "x", 0, 6, 3_000, 3_600, 0),
        scene.sent(20, "y", 0, 5, 3_050, 3_600, 2),
    ]
    scene.chronicle.sent.remove(scene.record(12))
    scene.chronicle.transactions.append(TransactionSeen(2, "y", 1, "aborted", 3_020, 4_700))
    scene.final().records[4:] = [seen(20, 5), seen(13, 6)]
    scene.final().end = 9
    scene.final(committed=True).records.append(seen(13, 6))
    scene.final(committed=True).end = 9
    assert scene.ask(check_torn).passed  # record 20, of y, stands where the round ended
    scene.chronicle.reads[1].end = 6
    (piece,) = scene.ask(check_torn).evidence
    assert piece.detail == "r read to 6 until 4000 us, and transaction 0 of x reaches from 3 to 6"


def test_a_partition_not_read_as_committed_is_not_observable(scene: Scene) -> None:
    scene.final(1, committed=True).records = []
    scene.final(1, committed=True).error = "timed out"
    finding = scene.ask(check_torn)
    assert not finding.count
    assert finding.unseen == ("t-1 was not read to its end as read_committed",)


# ---- reads before the commit ----------------------------------------------------------------------------------------


def test_a_record_that_was_given_before_its_commit_was_asked_for_is_found(scene: Scene) -> None:
    scene.chronicle.transactions[0].commit_asked_us = 4_001
    (piece,) = scene.ask(check_early_reads).evidence
    assert piece.detail == (
        "record 10 at offset 3 was given to r until 4000 us, and the commit of transaction 0 of x was asked for at "
        "4001 us"
    )
    scene.chronicle.transactions[0].commit_asked_us = 4_000
    assert scene.ask(check_early_reads).passed


def test_a_record_whose_commit_was_never_asked_for_is_never_given(scene: Scene) -> None:
    scene.final(committed=True).records.append(seen(12, 5))
    assert "was never asked for" in scene.ask(check_early_reads).evidence[0].detail


def test_when_a_commit_was_asked_for_may_not_be_observable(scene: Scene) -> None:
    scene.chronicle.transactions[0].commit_asked_us = -1
    finding = scene.ask(check_early_reads)
    assert not finding.count
    assert finding.unseen == ("when commits were asked for",)


# ---- zombies --------------------------------------------------------------------------------------------------------


def replace_instance(scene: Scene, began_us: int) -> None:
    scene.chronicle.transactions[1].instance = 2
    scene.chronicle.transactions[1].began_us = began_us


def test_a_commit_asked_for_after_the_next_instance_had_begun_is_a_zombies(scene: Scene) -> None:
    replace_instance(scene, 3_699)
    (piece,) = scene.ask(check_zombies).evidence
    assert piece.detail == (
        "transaction 0 of x's instance 1: the commit was asked for at 3700 us, a newer instance had begun by 3699 us, "
        "and record 10 can be read"
    )


def test_a_commit_asked_for_before_may_have_won(scene: Scene) -> None:
    replace_instance(scene, 3_700)
    assert scene.ask(check_zombies).passed


def test_a_zombie_that_was_refused_is_tallied(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions[0].outcome = "aborted"
    scene.lose(10)
    scene.lose(11)
    finding = scene.ask(check_zombies)
    assert finding.passed
    assert finding.tallies == (("commits asked for by zombies", 1),)


@pytest.mark.parametrize(
    ("topic", "cut_us", "outcome", "excused"),
    [
        ("t", 5_000, "aborted", True),
        ("t", 5_000, "committed", False),
        ("t", 2_000, "aborted", False),
        ("__transaction_state", 3_800, "committed", True),
        ("__transaction_state", 5_000, "committed", False),
        ("__consumer_offsets", 5_000, "aborted", False),
    ],
)
def test_a_power_cut_that_took_the_abort_marker_or_what_coordinators_knew_excuses_a_zombie(
    scene: Scene, topic: str, cut_us: int, outcome: str, excused: bool
) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions[0].outcome = outcome
    for index in (0, 1):
        scene.chronicle.leaderships.append(Leadership(1_900, topic, index, 0, 1, (0,), False))
    scene.chronicle.broker_ends.append(BrokerEnd(cut_us, 0, "power_off", {(topic, 0): 4, (topic, 1): 1}))
    finding = scene.ask(check_zombies)
    assert (finding.count == 0) == excused
    assert ("commits asked for by zombies", 1) in finding.tallies


def test_an_abort_marker_lost_in_one_partition_excuses_nothing_shown_in_another(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions[0].outcome = "aborted"
    scene.chronicle.leaderships.append(Leadership(1_900, "t", 0, 0, 1, (0,), False))
    scene.fall(5_000, 0, "power_off", 4)
    assert scene.ask(check_zombies).count == 1


@pytest.mark.parametrize(("version", "outcome", "found"), [(1, "aborted", 0), (1, "committed", 1), (2, "aborted", 1)])
def test_a_late_marker_of_the_transaction_before_may_show_a_zombies_records_in_version_1(
    scene: Scene, version: int, outcome: str, found: int
) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions.insert(0, TransactionSeen(2, "x", 1, "committed", 2_000, 2_500, commit_asked=True))
    scene.chronicle.transactions[1].outcome = outcome
    scene.chronicle.transaction_version = version
    assert scene.ask(check_zombies).count == found


def test_a_zombie_that_commits_nothing_asks_nobody(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions[0].offsets = None
    scene.chronicle.sent = [each for each in scene.chronicle.sent if each.transaction != 0]
    assert scene.ask(check_zombies).passed


def test_when_a_zombie_asked_may_not_be_observable(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.chronicle.transactions[0].commit_asked_us = -1
    finding = scene.ask(check_zombies)
    assert not finding.count
    assert finding.unseen == ("when commits were asked for",)


# ---- offsets of groups ----------------------------------------------------------------------------------------------


def later(scene: Scene, outcome: str, *, shown: bool, taken: bool = True) -> None:
    """Transaction 1, with record 12, takes the group to 8."""
    transaction = scene.chronicle.transactions[1]
    transaction.outcome, transaction.offsets, transaction.offsets_taken = outcome, ("g", "t", 0, 8), taken
    if shown:
        scene.final(committed=True).records.append(seen(12, 5))


@pytest.mark.parametrize(
    ("outcome", "shown", "taken", "stands", "is_right"),
    [
        ("committed", True, True, 8, True),
        ("committed", True, True, 7, False),
        ("committed", True, False, 7, True),
        ("committed", True, False, 8, True),
        ("aborted", False, True, 7, True),
        ("aborted", False, True, 8, False),
        ("unknown", True, True, 8, True),
        ("unknown", True, True, 7, False),
        ("unknown", False, True, 7, True),
        ("unknown", False, True, 8, False),
        ("aborted", False, True, -1, False),
        ("aborted", False, True, 99, False),
    ],
)
def test_a_group_stands_where_the_visible_transactions_put_it(
    scene: Scene, outcome: str, shown: bool, taken: bool, stands: int, is_right: bool
) -> None:
    later(scene, outcome, shown=shown, taken=taken)
    scene.chronicle.group_offsets = {} if stands < 0 else {("g", "t", 0): stands}
    assert scene.ask(check_group_offsets).count == (not is_right)


def test_where_an_unknown_transaction_without_records_put_a_group_is_not_known(scene: Scene) -> None:
    later(scene, "unknown", shown=False)
    scene.chronicle.sent.remove(scene.record(12))
    for stands in (7, 8):
        scene.chronicle.group_offsets = {("g", "t", 0): stands}
        assert scene.ask(check_group_offsets).passed


def test_the_evidence_names_whose_offset_it_is(scene: Scene) -> None:
    later(scene, "aborted", shown=False)
    scene.chronicle.group_offsets = {("g", "t", 0): 8}
    (piece,) = scene.ask(check_group_offsets).evidence
    assert piece.detail == (
        "group g stands at offset 8 of t-0, which transaction 1 put it to (aborted); by its transactions it should "
        "stand at 7"
    )
    assert (piece.topic, piece.partition) == ("t", 0)


def test_a_coordinator_of_groups_that_lost_its_log_excuses_them(scene: Scene) -> None:
    scene.chronicle.group_offsets = {}
    scene.chronicle.leaderships.append(Leadership(100, "__consumer_offsets", 1, 2, 0, (2,), False))
    scene.fall(6_000, 2, "power_off")
    assert scene.ask(check_group_offsets).count == 1
    scene.chronicle.broker_ends[0].cut["__consumer_offsets", 1] = 0
    assert scene.ask(check_group_offsets).passed


def test_offsets_nobody_asked_for_are_not_observable(scene: Scene) -> None:
    scene.blind()
    finding = scene.ask(check_group_offsets)
    assert not finding.count
    assert finding.unseen == ("what the groups have committed",)


# ---- boundaries -----------------------------------------------------------------------------------------------------


def test_a_marker_that_says_nothing_aborts_nothing(scene: Scene) -> None:
    assert list(aborted_offsets(scene.replica())) == [5]
    scene.batches()[4].commits = None
    assert not aborted_offsets(scene.replica())
    assert not open_offsets(scene.replica())


@pytest.mark.parametrize("stands", [7, 8])
@pytest.mark.parametrize("why", ["held up", "not read", "shown in part"])
def test_where_a_transaction_nobody_can_look_up_put_a_group_is_not_known(scene: Scene, stands: int, why: str) -> None:
    later(scene, "unknown", shown=False)
    scene.chronicle.group_offsets = {("g", "t", 0): stands}
    if why == "held up":
        scene.final(committed=True).end = 5
    elif why == "not read":
        scene.final(committed=True).error = "timed out"
    else:
        scene.chronicle.sent.append(scene.sent(13, "x", 1, 0, 4_100, 4_600, 1))
        scene.final(1, committed=True).records.append(seen(13, 1))
        scene.final(1, committed=True).end = 3
    assert scene.ask(check_group_offsets).passed


def test_a_zombie_that_shows_no_record_has_no_partition(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.lose(10)
    scene.lose(11)
    (piece,) = scene.ask(check_zombies).evidence
    assert (piece.topic, piece.partition, piece.sequence) == ("", -1, -1)


@pytest.mark.parametrize("deleted", [5, 6])
def test_what_stands_where_a_round_ended_is_known_unless_it_was_deleted(scene: Scene, deleted: int) -> None:
    scene.chronicle.sent.append(scene.sent(13, "x", 0, 5, 3_000, 3_600, 0))
    scene.lose(12)
    scene.chronicle.sent.remove(scene.record(12))
    for broker in range(3):
        scene.batches(broker)[3] = batch(5, [13], producer_id=2, sequence=1)
    scene.chronicle.deletions.append(RecordsDeleted(7_000, "t", 0, deleted))
    finding = scene.ask(check_torn)
    is_found = any(piece.detail.startswith("r read to 5") for piece in finding.evidence)
    assert is_found == (deleted == 5)
    assert ("what stands at offset 5 of t-0, where r ended" in finding.unseen) == (deleted == 6)


def test_a_zombie_that_shows_records_in_two_topics_is_named_by_the_first(scene: Scene) -> None:
    replace_instance(scene, 3_000)
    scene.record(11).topic = "u"
    for read in scene.chronicle.reads:
        read.topic = "u" if read.partition else "t"
    (piece,) = scene.ask(check_zombies).evidence
    assert (piece.topic, piece.partition, piece.sequence) == ("t", 0, 10)
