"""Groups 9 and 10: sequence numbers, fencing, leader epochs, watermarks, truncation, convergence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.audit.scene import Scene, batch, marker, seen

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import Leadership, ProducerPromise, TopicPromise
from ottla.audit.chronicles.convergence import check_convergence
from ottla.audit.chronicles.corruption import check_corruption
from ottla.audit.chronicles.fencing import check_fencing
from ottla.audit.chronicles.leadership import check_leadership
from ottla.audit.chronicles.sequences import check_sequences
from ottla.audit.chronicles.truncation import check_truncation
from ottla.audit.chronicles.watermarks import check_watermarks
from ottla.audit.findings import Finding


@pytest.mark.parametrize(
    "check",
    [
        check_convergence,
        check_corruption,
        check_fencing,
        check_leadership,
        check_sequences,
        check_truncation,
        check_watermarks,
    ],
)
def test_what_brokers_show_to_nobody_is_not_observable(scene: Scene, check: Callable[[Case], Finding]) -> None:
    assert scene.ask(check).passed
    scene.blind()
    finding = scene.ask(check)
    assert not finding.count
    assert finding.unseen


# ---- 9: sequence numbers --------------------------------------------------------------------------------------------


def append(scene: Scene, sequence: int, *, epoch: int = 0, number: int = 50) -> None:
    for broker in range(3):
        scene.batches(broker).append(batch(7, [number], epoch=epoch, sequence=sequence))


def test_a_batch_that_was_passed_over_leaves_a_gap(scene: Scene) -> None:
    append(scene, 4)
    (piece,) = scene.ask(check_sequences).evidence
    assert piece.detail == (
        "producer 1 epoch 0 goes on with a gap at offset 7: sequence 4 where 3 was due "
        "(the batch before it stands at 0, epoch 0)"
    )
    assert (piece.offsets, piece.brokers) == ((0, 7), (0,))


@pytest.mark.parametrize("sequence", [0, 1, 2])
def test_a_sequence_number_that_comes_again_is_found_however_many_batches_later(scene: Scene, sequence: int) -> None:
    append(scene, sequence)
    assert "goes on again or backwards" in scene.ask(check_sequences).evidence[0].detail


def test_sequence_numbers_that_follow_or_begin_anew_with_an_epoch_are_right(scene: Scene) -> None:
    append(scene, 3)
    assert scene.ask(check_sequences).passed
    scene.batches()[-1] = batch(7, [50], epoch=1, sequence=0)
    assert scene.ask(check_sequences).passed


def test_a_first_sequence_number_other_than_0_is_a_gap_unless_the_log_begins_later(scene: Scene) -> None:
    append(scene, 2, epoch=1)
    assert scene.ask(check_sequences).count == 1
    scene.replica().log_start_offset = 1
    assert scene.ask(check_sequences).passed


def test_sequence_numbers_go_round_after_the_largest(scene: Scene) -> None:
    scene.replica().log_start_offset = 1
    scene.replica().batches = [batch(0, [0, 1], sequence=(1 << 31) - 2), batch(2, [2], sequence=0)]
    assert scene.ask(check_sequences).passed


def test_a_gap_where_a_loss_is_excused_is_tallied(scene: Scene) -> None:
    append(scene, 4)
    scene.fall(4_600, 1, "power_off", 6)
    scene.elect(4_700, 1, 1, (1, 2))
    finding = scene.ask(check_sequences)
    assert finding.passed
    assert finding.tallies == (("gaps where a loss is excused", 1),)
    append(scene, 1)
    assert scene.ask(check_sequences).count == 1


def test_producers_without_idempotence_have_no_sequence(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker).append(batch(7, [50], producer_id=-1, epoch=-1, sequence=-1))
    assert scene.ask(check_sequences).passed


def test_a_sequence_number_of_deleted_records_may_come_again(scene: Scene) -> None:
    append(scene, 0)
    for broker in range(3):
        scene.replica(broker).log_start_offset = 7
    assert scene.ask(check_sequences).passed
    scene.replica(0).log_start_offset = 2
    assert scene.ask(check_sequences).count == 1


# ---- 9: fencing -----------------------------------------------------------------------------------------------------


def test_an_older_epoch_behind_a_newer_one_was_fenced(scene: Scene) -> None:
    append(scene, 0, epoch=1)
    for broker in range(3):
        scene.batches(broker).append(batch(8, [51], epoch=0, sequence=3))
    (piece,) = scene.ask(check_fencing).evidence
    assert piece.detail == "a batch of producer 1 epoch 0 stands at offset 8, behind epoch 1 at offset 7"
    for broker in range(3):
        scene.replica(broker).log_start_offset = 8
    assert scene.ask(check_fencing).passed


def test_a_batch_behind_a_marker_of_a_newer_epoch_was_fenced(scene: Scene) -> None:
    scene.batches()[4] = marker(6, commits=False, epoch=1)
    assert scene.ask(check_fencing).passed
    scene.batches().append(batch(7, [50], producer_id=2, epoch=0, sequence=2))
    assert scene.ask(check_fencing).count == 1


def test_epochs_of_different_producers_have_nothing_to_do_with_each_other(scene: Scene) -> None:
    append(scene, 0, epoch=7)
    scene.batches().append(batch(8, [51], producer_id=2, epoch=0, sequence=2))
    assert scene.ask(check_fencing).passed


def test_a_record_of_an_instance_that_had_been_replaced_was_fenced_though_nobody_saw_the_log(scene: Scene) -> None:
    scene.record(10).instance = 2
    scene.blind()
    (piece,) = scene.ask(check_fencing).evidence
    assert piece.detail == (
        "record 12 of x's instance 1 stands at offset 5, behind one of instance 2 at offset 3, which had replaced it"
    )
    scene.chronicle.producers[1] = ProducerPromise("x", -1, True)
    assert not scene.ask(check_fencing).count


def test_the_order_of_instances_in_a_partition_not_read_is_not_observable(scene: Scene) -> None:
    scene.record(10).instance = 2
    scene.final().error = "timed out"
    finding = scene.ask(check_fencing)
    assert not finding.count
    assert finding.unseen == ("t-0 was not read to its end",)


# ---- 10: leader epochs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader", "epoch", "isr", "words"),
    [
        (1, 0, (1, 2), "epoch 0 was broker 0's and is broker 1's now"),
        (0, -1, (0, 1), "epoch -1 follows upon epoch 0"),
        (1, 1, (0, 2), "broker 1 leads epoch 1 and is not in sync"),
    ],
)
def test_an_epoch_grows_with_each_leader_who_is_in_sync(
    scene: Scene, leader: int, epoch: int, isr: tuple[int, ...], words: str
) -> None:
    scene.elect(5_000, leader, epoch, isr)
    (piece,) = scene.ask(check_leadership).evidence
    assert (piece.detail, piece.at_us) == (words, 5_000)


def test_a_new_leader_in_a_new_epoch_and_a_smaller_isr_in_the_same_are_right(scene: Scene) -> None:
    scene.elect(5_000, 0, 0, (0, 2))
    scene.elect(5_100, 2, 1, (2,))
    scene.elect(5_200, -1, 2, (2,))
    assert scene.ask(check_leadership).passed


def test_an_unclean_election_is_right_only_where_the_topic_allows_it(scene: Scene) -> None:
    scene.elect(5_000, 2, 1, (2,), unclean=True)
    assert "elected for epoch 1 though it was not in sync" in scene.ask(check_leadership).evidence[0].detail
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, unclean_leader_election=True)
    assert scene.ask(check_leadership).passed


def test_the_coordinators_own_topics_allow_no_unclean_election(scene: Scene) -> None:
    for at_us, leader, epoch, isr in ((100, 0, 0, (0,)), (5_000, 2, 1, (2,))):
        scene.chronicle.leaderships.append(
            Leadership(at_us, "__transaction_state", 0, leader, epoch, isr, is_unclean=leader == 2)
        )
    (piece,) = scene.ask(check_leadership).evidence
    assert piece.detail == "broker 2 was elected for epoch 1 though it was not in sync"
    assert piece.topic == "__transaction_state"


def test_two_leaders_of_one_epoch_are_one_too_many(scene: Scene) -> None:
    scene.mark(0, 5_000, 2, 7, 7, leader=2, epoch=0)
    assert scene.ask(check_leadership).evidence[0].brokers == (0, 2)


def test_two_leaders_of_two_epochs_at_a_time_are_right(scene: Scene) -> None:
    scene.elect(5_000, 2, 1, (0, 1, 2))
    scene.mark(0, 5_100, 2, 7, 7, leader=2, epoch=1)
    scene.mark(0, 5_200, 0, 7, 7, leader=0, epoch=0)
    assert scene.ask(check_leadership).passed


def test_a_broker_does_not_go_back_to_an_older_epoch(scene: Scene) -> None:
    scene.mark(0, 5_000, 2, 7, 7, leader=1, epoch=1)
    scene.mark(0, 5_100, 2, 7, 7, leader=0, epoch=0)
    assert scene.ask(check_leadership).evidence[0].detail == "broker 2 went back from leader epoch 1 to 0"


def test_epochs_in_a_log_ascend(scene: Scene) -> None:
    scene.batches()[1].leader_epoch = 1
    finding = scene.ask(check_leadership)
    assert finding.evidence[0].detail == (
        "the batch at offset 4 on broker 0 carries leader epoch 0, behind one of epoch 1"
    )


# ---- 10: watermarks -------------------------------------------------------------------------------------------------


def test_a_leaders_high_watermark_that_falls_is_found(scene: Scene) -> None:
    scene.mark(0, 5_000, 0, 6, 7)
    (piece,) = scene.ask(check_watermarks).evidence
    assert piece.detail == "broker 0 let fall its high watermark from 7 to 6 while it led epoch 0"


@pytest.mark.parametrize("how", ["new epoch", "new start", "another broker", "follower"])
def test_who_leads_anew_may_know_less(scene: Scene, how: str) -> None:
    if how == "new epoch":
        scene.mark(0, 5_000, 0, 6, 7, epoch=1)
    elif how == "new start":
        scene.mark(0, 5_000, 0, 6, 7, start=2)
    elif how == "another broker":
        scene.mark(0, 5_000, 1, 6, 7, leader=1, epoch=1)
    else:
        scene.mark(0, 5_000, 1, 0, 7)
    assert scene.ask(check_watermarks).passed


def test_a_leaders_log_start_offset_that_falls_is_found(scene: Scene) -> None:
    scene.mark(0, 6_000, 0, 7, 7, log_start=5)
    assert scene.ask(check_watermarks).passed
    scene.mark(0, 6_100, 1, 7, 7, log_start=4)  # a follower's may: it begins anew where its leader does
    scene.mark(0, 6_200, 0, 7, 7, log_start=4, start=2)  # and so may what another start of the broker knows
    assert scene.ask(check_watermarks).passed
    scene.mark(0, 6_300, 0, 7, 7, log_start=3, start=2)
    (piece,) = scene.ask(check_watermarks).evidence
    assert piece.detail == "broker 0 let fall its log start offset from 4 to 3 while it led epoch 0"


def test_a_log_that_starts_behind_what_is_committed_is_found(scene: Scene) -> None:
    scene.mark(0, 6_000, 0, 7, 9, log_start=8)
    (piece,) = scene.ask(check_watermarks).evidence
    assert piece.detail == "broker 0 starts at 8, behind its high watermark 7"


def test_a_high_watermark_beyond_the_log_is_found(scene: Scene) -> None:
    scene.mark(0, 5_000, 1, 8, 7)
    assert scene.ask(check_watermarks).evidence[0].detail == (
        "broker 1 has last stable offset 8, high watermark 8 and log end offset 7"
    )


# ---- 10: truncation -------------------------------------------------------------------------------------------------


def test_a_follower_that_cuts_off_what_was_committed_is_found(scene: Scene) -> None:
    scene.mark(0, 5_000, 2, 5, 6)
    (piece,) = scene.ask(check_truncation).evidence
    assert piece.detail == "broker 2 cut its log to 6, and offsets up to 7 were committed and held by it"
    assert (piece.brokers, piece.offsets, piece.at_us) == ((2,), (6,), 5_000)


def test_a_follower_that_cuts_off_what_was_not_committed_is_right(scene: Scene) -> None:
    scene.mark(0, 5_000, 2, 7, 9)
    scene.mark(0, 5_100, 2, 7, 7)
    assert scene.ask(check_truncation).passed


def test_a_replica_out_of_sync_may_cut_its_own_branch_off(scene: Scene) -> None:
    scene.chronicle.leaderships.clear()
    scene.elect(100, 0, 0, (0, 1))
    scene.mark(0, 5_000, 2, 3, 4)
    assert scene.ask(check_truncation).passed


def test_a_power_cut_may_take_what_was_committed_and_a_kill_may_not(scene: Scene) -> None:
    scene.fall(4_900, 2, "power_off", 4)
    scene.mark(0, 5_000, 2, 0, 4, start=2)
    assert scene.ask(check_truncation).passed
    scene.mark(0, 5_100, 2, 0, 3, start=2)
    assert scene.ask(check_truncation).count == 1
    scene.chronicle.broker_ends.clear()
    scene.fall(4_900, 2, "kill")
    assert scene.ask(check_truncation).evidence[0].detail.startswith("broker 2 cut its log to 4")


def test_a_leader_elected_without_what_was_committed_is_found(scene: Scene) -> None:
    scene.fall(4_800, 2, "power_off", 4)
    scene.elect(4_900, 0, 1, (0, 1))
    scene.elect(5_000, 2, 2, (2,))
    scene.mark(0, 5_001, 2, 4, 4, start=2, leader=2, epoch=2)
    (piece,) = scene.ask(check_truncation).evidence
    assert piece.detail == "broker 2 leads epoch 2 from 4 on; up to 7 was committed"


def test_a_leader_that_lost_it_by_an_excused_power_cut_takes_all_with_it(scene: Scene) -> None:
    scene.fall(4_800, 2, "power_off", 4)
    scene.elect(5_000, 2, 1, (1, 2))
    scene.mark(0, 5_001, 2, 4, 4, start=2, leader=2, epoch=1)
    scene.mark(0, 5_002, 1, 4, 4, leader=2, epoch=1)
    assert scene.ask(check_truncation).passed


def test_a_replica_whose_records_were_deleted_may_begin_anew_below_them(scene: Scene) -> None:
    scene.mark(0, 4_900, 2, 7, 7, log_start=7)
    scene.mark(0, 5_000, 2, 0, 0, log_start=0)
    assert scene.ask(check_truncation).passed
    scene.mark(0, 4_900, 1, 7, 7, log_start=6)
    scene.mark(0, 5_000, 1, 0, 0, log_start=0)
    (piece,) = scene.ask(check_truncation).evidence
    assert piece.detail == "broker 1 cut its log to 0, and offsets up to 7 were committed and held by it"


def test_a_replica_that_was_moved_away_takes_its_log_with_it(scene: Scene) -> None:
    scene.elect(4_800, 0, 1, (0, 1), replicas=(0, 1))
    scene.elect(4_900, 0, 1, (0, 1), replicas=(0, 1, 2))
    scene.mark(0, 5_000, 2, 0, 0, epoch=1)
    scene.mark(0, 5_000, 1, 0, 0, epoch=1)
    (piece,) = scene.ask(check_truncation).evidence
    assert piece.detail == "broker 1 cut its log to 0, and offsets up to 7 were committed and held by it"


def test_a_leader_that_did_not_know_it_had_been_replaced_commits_nothing_others_must_keep(scene: Scene) -> None:
    scene.elect(4_600, 1, 1, (1,))
    scene.let_pass(0, 4_800, 7, 9)
    scene.mark(0, 5_000, 0, 7, 7, leader=1, epoch=1)
    assert scene.ask(check_truncation).passed


# ---- 10: convergence ------------------------------------------------------------------------------------------------


def test_replicas_in_sync_with_other_bytes_have_diverged(scene: Scene) -> None:
    scene.replica(1).bytes_crc = 41
    (piece,) = scene.ask(check_convergence).evidence
    assert piece.detail == "broker 1 holds other bytes than its leader, broker 0"
    assert piece.brokers == (0, 1)


def test_replicas_in_sync_that_end_elsewhere_have_diverged(scene: Scene) -> None:
    scene.batches(1).pop()
    assert "ends at 6 and not at 7" in scene.ask(check_convergence).evidence[0].detail


def test_a_replica_out_of_sync_need_not_be_the_same(scene: Scene) -> None:
    scene.batches(1).pop()
    scene.elect(5_000, 0, 0, (0, 2))
    assert scene.ask(check_convergence).passed


def test_a_follower_may_know_an_older_high_watermark_but_no_newer_one(scene: Scene) -> None:
    scene.replica(1).high_watermark = 6
    finding = scene.ask(check_convergence)
    assert finding.passed
    assert finding.tallies == (("followers with an older high watermark", 1),)
    scene.replica(1).high_watermark = 8
    assert scene.ask(check_convergence).count == 1


def test_a_leaders_high_watermark_reaches_its_end(scene: Scene) -> None:
    scene.replica(0).high_watermark = 6
    assert "stays at 6, its log ends at 7" in scene.ask(check_convergence).evidence[0].detail


def test_logs_that_begin_elsewhere_are_compared_where_both_are(scene: Scene) -> None:
    scene.replica(1).bytes_crc = 41
    scene.replica(1).log_start_offset = 3
    del scene.batches(1)[0]
    assert scene.ask(check_convergence).passed
    scene.batches(1)[0].records = [seen(99, 3)]
    assert "holds other batches" in scene.ask(check_convergence).evidence[0].detail


def test_a_run_that_did_not_settle_is_not_observable(scene: Scene) -> None:
    scene.replica(1).bytes_crc = 41
    scene.chronicle.ended_us = -1
    finding = scene.ask(check_convergence)
    assert not finding.count
    assert finding.unseen == ("the end: the run did not settle",)


def test_a_partition_without_a_leader_is_not_observable(scene: Scene) -> None:
    scene.chronicle.leaderships.append(Leadership(8_000, "t", 0, -1, 1, (0,), False))
    assert scene.ask(check_convergence).unseen == ("t-0, which had no leader in the end",)


def test_what_each_broker_compacts_by_itself_is_not_compared(scene: Scene) -> None:
    scene.replica(1).bytes_crc = 41
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, cleanup=True)
    assert scene.ask(check_convergence).passed


def test_bytes_that_were_corrupted_on_purpose_excuse_no_difference_in_the_end(scene: Scene) -> None:
    scene.fall(3_000, 1, "corrupt", 4)
    assert scene.ask(check_leadership).passed
    assert scene.ask(check_convergence).passed
    scene.batches()[1].leader_epoch = 1
    scene.replica(1).bytes_crc = 41
    assert scene.ask(check_leadership).count
    assert scene.ask(check_convergence).count


# ---- boundaries -----------------------------------------------------------------------------------------------------


def test_the_producer_id_0_is_one_like_others(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker).extend([batch(7, [50], producer_id=0, epoch=1), batch(8, [51], producer_id=0)])
    assert scene.ask(check_fencing).count == 1


def test_a_late_marker_has_no_record_number(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker).extend([batch(7, [50], producer_id=2, epoch=1), marker(8, commits=False, epoch=0)])
    (piece,) = scene.ask(check_fencing).evidence
    assert piece.detail.startswith("a marker of producer 2 epoch 0 stands at offset 8")
    assert piece.sequence == -1


def test_before_the_first_leader_there_was_none(scene: Scene) -> None:
    scene.chronicle.leaderships.clear()
    scene.elect(100, 1, 0, (0, 2))
    (piece,) = [each for each in scene.ask(check_leadership).evidence if "not in sync" in each.detail]
    assert piece.brokers == (-1, 1)


@pytest.mark.parametrize("missing", ["watermarks", "commits", "broker_ends"])
def test_truncation_needs_all_three_of_marks_commits_and_ends(scene: Scene, missing: str) -> None:
    setattr(scene.chronicle, missing, None)
    assert scene.ask(check_truncation).unseen == ("where the logs ended, and what was committed",)


@pytest.mark.parametrize(("log_start", "diverged"), [(0, 1), (6, 1), (7, 0)])
def test_a_follower_without_batches_ends_where_its_log_starts(scene: Scene, log_start: int, diverged: int) -> None:
    scene.batches(1).clear()
    scene.replica(1).bytes_crc = 0
    scene.replica(1).log_start_offset = log_start
    assert scene.ask(check_convergence).count == diverged


def test_logs_that_begin_at_the_same_later_offset_are_compared_from_there(scene: Scene) -> None:
    scene.replica(1).bytes_crc = 41
    for broker in range(3):
        scene.replica(broker).log_start_offset = 3
    scene.batches(1)[0] = batch(0, [0, 1, 98])  # below that
    assert scene.ask(check_convergence).passed
    scene.batches(1)[1] = batch(3, [99], producer_id=2)
    assert scene.ask(check_convergence).count == 1
