"""Groups 1, 2, 3 and 11: outcomes, losses and what excuses them, copies."""

from __future__ import annotations

import pytest
from tests.audit.scene import Scene, seen

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import Committed, Leadership, ProducerPromise, TopicPromise
from ottla.audit.chronicles.losses import check_losses
from ottla.audit.chronicles.repetitions import check_again, check_repetitions
from ottla.audit.chronicles.settlement import check_settlement
from ottla.audit.chronicles.under_replication import check_under_replication

# ---- 1: every record ends -------------------------------------------------------------------------------------------


def untold(scene: Scene) -> None:
    record = scene.record(1)
    record.outcome, record.offset, record.told_us = "unknown", -1, -1


def test_a_record_of_which_a_living_producer_told_nothing_is_unsettled(scene: Scene) -> None:
    untold(scene)
    (piece,) = scene.ask(check_settlement).evidence
    assert piece.detail == "record 1: sent at 1000 us, and p never told what became of it"


def test_a_producer_that_was_killed_owes_nothing(scene: Scene) -> None:
    untold(scene)
    scene.chronicle.instances[0].died_us = 1_500
    assert scene.ask(check_settlement).passed


def test_whether_a_silent_producer_lives_may_not_be_observable(scene: Scene) -> None:
    untold(scene)
    scene.chronicle.instances = None
    finding = scene.ask(check_settlement)
    assert not finding.count
    assert finding.unseen


def test_acks_0_is_never_acknowledged(scene: Scene) -> None:
    scene.chronicle.producers[0] = ProducerPromise("p", 0, False)
    assert scene.ask(check_settlement).count == 3


def test_an_outcome_is_one_of_three_and_only_the_acknowledged_has_an_offset(scene: Scene) -> None:
    scene.record(0).outcome = "lost"
    scene.record(1).outcome = "failed"
    scene.record(2).told_us = 999
    details = [piece.detail for piece in scene.ask(check_settlement).evidence]
    assert details == [
        "record 0: its outcome is 'lost', which is none",
        "record 1: it is failed, and yet an offset was told: 1",
        "record 2: it was told of at 999 us, before it was sent at 1000 us",
    ]


# ---- 2: lost --------------------------------------------------------------------------------------------------------


def test_an_acknowledged_record_that_is_nowhere_is_lost(scene: Scene) -> None:
    scene.lose(1)
    finding = scene.ask(check_losses)
    assert finding.count == 1
    piece = finding.evidence[0]
    assert (piece.topic, piece.partition, piece.sequence, piece.offsets, piece.brokers) == ("t", 0, 1, (1,), (0, 1, 2))
    assert "acknowledged at offset 1 at 2000 us (brokers 0, 1, 2 held that offset at 1500 us)" in piece.detail


@pytest.mark.parametrize("outcome", ["unknown", "failed"])
def test_an_absent_record_that_was_not_acknowledged_is_tallied_and_not_lost(scene: Scene, outcome: str) -> None:
    scene.lose(1)
    scene.record(1).outcome, scene.record(1).offset = outcome, -1
    finding = scene.ask(check_losses)
    assert finding.passed
    assert finding.tallies == ((f"{outcome}, absent", 1),)


def test_a_loss_in_a_partition_that_was_not_read_to_its_end_is_not_observable(scene: Scene) -> None:
    scene.lose(1)
    scene.final().end = -1
    finding = scene.ask(check_losses)
    assert not finding.count
    assert finding.unseen == ("t-0 was not read to its end",)


def test_a_topic_that_cleans_up_loses_nothing_anybody_could_see(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, cleanup=True)
    assert not scene.ask(check_losses).count


def test_on_a_foreign_cluster_a_loss_is_found_and_its_excuse_is_not_observable(scene: Scene) -> None:
    scene.lose(1)
    scene.blind()
    finding = scene.ask(check_losses)
    assert finding.count == 1
    assert finding.unseen == ("whether a power cut or an unclean election excuses what is lost",)


# ---- 11: durability ------------------------------------------------------------------------------------------------


def excuses(scene: Scene) -> list[str]:
    finding = scene.ask(check_losses)
    assert not finding.count
    return [name for name, _ in finding.tallies if "excused" in name]


def test_a_kill_excuses_nothing(scene: Scene) -> None:
    scene.lose(1)
    scene.fall(5_000, 0, "kill")
    scene.elect(5_100, 1, 1, (1, 2))
    assert scene.ask(check_losses).count == 1


def test_a_power_cut_of_a_leader_that_leaves_the_replicas_in_sync_excuses_nothing(scene: Scene) -> None:
    scene.lose(1)
    scene.fall(5_000, 0, "power_off", 0)
    scene.elect(5_100, 1, 1, (1, 2))
    scene.elect(6_000, 0, 2, (0, 1, 2))
    assert scene.ask(check_losses).count == 1


def test_a_power_cut_nobody_noticed_before_that_broker_led_excuses_what_it_took(scene: Scene) -> None:
    scene.lose(1)
    scene.fall(5_000, 1, "power_off", 1)
    scene.elect(5_100, 1, 1, (1, 2))
    assert excuses(scene) == ["lost and excused: power off of broker 1 at 5000 us"]


@pytest.mark.parametrize("seen_again", [False, True])
def test_who_joins_the_replicas_in_sync_as_it_was_before_its_power_was_cut_takes_its_losses_along(
    scene: Scene, seen_again: bool
) -> None:
    scene.lose(1)
    scene.elect(4_900, 0, 1, (0, 2))
    scene.fall(5_000, 1, "power_off", 1)
    if seen_again:
        scene.mark(0, 5_050, 1, 1, 1, start=2, epoch=1)
    scene.elect(5_100, 0, 1, (0, 1, 2))
    scene.elect(5_200, 1, 2, (1, 2))
    assert scene.ask(check_losses).count == seen_again


def test_a_power_cut_excuses_nothing_that_was_synced(scene: Scene) -> None:
    scene.lose(1)
    scene.fall(5_000, 1, "power_off", 2)
    scene.elect(5_100, 1, 1, (1, 2))
    assert scene.ask(check_losses).count == 1


def test_a_power_cut_before_the_record_was_committed_excuses_nothing(scene: Scene) -> None:
    scene.lose(1)
    scene.fall(900, 1, "power_off", 0)
    scene.elect(950, 1, 1, (1, 2))
    assert scene.ask(check_losses).count == 1


def test_the_last_replica_in_sync_takes_its_records_with_its_power(scene: Scene) -> None:
    scene.lose(1)
    scene.elect(4_900, 0, 1, (0,))
    scene.fall(5_000, 0, "power_off", 0)
    assert excuses(scene) == ["lost and excused: power off of broker 0 at 5000 us, the last replica in sync"]


def test_an_unclean_election_excuses_a_loss_where_the_topic_allows_it(scene: Scene) -> None:
    scene.lose(1)
    scene.elect(5_000, 2, 1, (2,), unclean=True)
    scene.chronicle.watermarks = []
    assert scene.ask(check_losses).count == 1
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert excuses(scene) == ["lost and excused: unclean election of broker 2 at 5000 us"]


def test_an_unclean_election_excuses_nothing_its_leader_knew_to_be_committed(scene: Scene) -> None:
    scene.lose(1)
    scene.elect(5_000, 2, 1, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert scene.chronicle.watermarks[-2].broker_id == 2
    assert scene.ask(check_losses).count == 1


@pytest.mark.parametrize(("cut_us", "excused"), [(4_900, True), (900, False)])
def test_a_power_cut_takes_what_the_elected_broker_knew_before_its_election(
    scene: Scene, cut_us: int, excused: bool
) -> None:
    scene.lose(1)
    scene.elect(800, 0, 0, (0, 1))
    scene.fall(cut_us, 2, "power_off", 0)
    scene.elect(5_000, 2, 1, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert (scene.ask(check_losses).count == 0) == excused


@pytest.mark.parametrize("followed", [True, False])
def test_who_did_not_follow_one_unclean_leader_knows_nothing_of_what_that_one_committed(
    scene: Scene, followed: bool
) -> None:
    scene.lose(1)
    scene.elect(800, 0, 0, (0, 1))
    scene.fall(4_410, 1, "power_off", 0)
    scene.elect(4_420, 1, 1, (1,), unclean=True)
    scene.record(1).sent_us, scene.record(1).told_us = 4_430, 4_440
    if followed:
        scene.elect(4_460, 1, 1, (1, 2))
    scene.elect(5_000, 2, 2, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert (scene.ask(check_losses).count == 1) == followed


@pytest.mark.parametrize("followed", [True, False])
def test_who_has_not_followed_since_a_power_cut_knows_nothing_of_what_was_committed_later(
    scene: Scene, followed: bool
) -> None:
    scene.lose(1)
    scene.elect(800, 0, 0, (0,))
    scene.fall(4_410, 0, "power_off", 0)
    scene.elect(4_420, 0, 1, (0,))
    scene.record(1).sent_us, scene.record(1).told_us = 4_430, 4_440
    if followed:
        scene.elect(4_460, 0, 1, (0, 2))
    scene.elect(5_000, 2, 2, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert (scene.ask(check_losses).count == 1) == followed


@pytest.mark.parametrize("followed", [True, False])
def test_who_is_in_sync_with_a_leader_after_its_power_cut_has_followed_since(scene: Scene, followed: bool) -> None:
    scene.lose(1)
    scene.elect(800, 0, 0, (0, 1))
    scene.fall(4_410, 0, "power_off", 0)
    scene.elect(4_420, 0, 1, (0, 2) if followed else (0, 1))
    scene.record(1).sent_us, scene.record(1).told_us = 4_430, 4_440
    scene.elect(5_000, 2, 2, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert (scene.ask(check_losses).count == 1) == followed


@pytest.mark.parametrize("is_unclean", [True, False])
def test_a_leader_that_has_not_heard_of_an_unclean_election_commits_in_vain(scene: Scene, is_unclean: bool) -> None:
    scene.lose(1)
    scene.elect(1_200, 0, 0, (0,))
    scene.elect(1_300, 2, 1, (2,), unclean=is_unclean)
    scene.mark(0, 1_250, 2, 0, 0)
    # Somebody else's record has that offset in the new leader's log, and was committed before.
    scene.chronicle.commits.insert(0, Committed(1_450, "t", 0, 2, 1, 0, 3, (2,), ()))
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 1, unclean_leader_election=True)
    if not is_unclean:
        assert scene.ask(check_losses).count == 1
        return
    assert excuses(scene) == [
        "lost and excused: unclean election of broker 2 at 1300 us, which broker 0 had not heard of"
    ]


@pytest.mark.parametrize("held_end", [2, 1])
def test_a_leader_that_was_frozen_commits_in_vain_what_a_power_cut_took_from_the_next_leader(
    scene: Scene, held_end: int
) -> None:
    scene.lose(1)
    scene.chronicle.watermarks = []
    scene.elect(1_200, 0, 0, (0, 2))
    scene.mark(0, 1_220, 2, 0, held_end)
    scene.fall(1_240, 2, "power_off", 0)
    scene.elect(1_300, 2, 1, (2,))
    scene.chronicle.commits = [Committed(1_450, "t", 0, 0, 0, 0, 3, (0,), ())]
    if held_end == 1:
        assert scene.ask(check_losses).count == 1
        return
    assert excuses(scene) == ["lost and excused: power off of broker 2 at 1240 us, which broker 0 had not heard of"]


def test_acks_1_does_not_outlive_its_leader(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    assert scene.ask(check_losses).count == 1
    scene.elect(5_100, 1, 1, (1, 2))
    assert scene.ask(check_losses).count == 1  # who leads now has it
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id != 1]
    scene.mark(0, 1_400, 1, 0, 1)
    assert excuses(scene) == ["lost and excused: broker 1 led without it, and acks=1 does not wait for followers"]


def test_a_leader_before_the_ack_is_no_reason_for_a_loss_with_acks_1(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.chronicle.leaderships.insert(0, Leadership(50, "t", 0, 2, -1, (0, 1, 2), False))
    assert scene.ask(check_losses).count == 1


def test_a_leader_that_was_replaced_and_did_not_know_acknowledged_in_vain(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id == 0]
    scene.mark(0, 900, 1, 0, 1)
    scene.elect(950, 1, 1, (1, 2))  # before the record was sent
    assert len(excuses(scene)) == 1


def test_how_many_held_and_had_synced_each_record_is_tallied(scene: Scene) -> None:
    finding = scene.ask(check_under_replication)
    assert finding.passed
    assert finding.tallies == (("held by 3", 6), ("synced by 1", 6))


def test_an_answer_before_the_high_watermark_passed_is_too_early(scene: Scene) -> None:
    scene.record(1).told_us = 1_499
    (piece,) = scene.ask(check_under_replication).evidence
    assert piece.detail == (
        "record 1 at offset 1 was acknowledged at 1499 us before the high watermark passed it: it did at 1500 us"
    )
    scene.record(1).told_us = 1_500
    assert scene.ask(check_under_replication).passed


def test_an_answer_for_what_was_never_committed_is_too_early(scene: Scene) -> None:
    del scene.chronicle.commits[0]
    assert scene.ask(check_under_replication).count == 3


def held_by(scene: Scene, *brokers: int) -> None:
    scene.chronicle.commits[0] = Committed(1_500, "t", 0, 0, 0, 0, 3, brokers, ())


def test_a_replica_in_sync_that_did_not_hold_it_makes_it_too_early(scene: Scene) -> None:
    held_by(scene, 0, 1)
    finding = scene.ask(check_under_replication)
    assert finding.count == 3
    assert "broker 2, which was in sync, did not hold it" in finding.evidence[0].detail


def test_who_was_in_sync_is_said_by_the_epoch_in_which_it_was_committed(scene: Scene) -> None:
    held_by(scene, 0, 1)
    scene.elect(1_300, 0, 0, (0, 1))
    scene.elect(1_400, 2, 1, (2,), unclean=True)
    assert scene.ask(check_under_replication).passed


def test_a_replica_that_lost_it_meanwhile_had_held_it(scene: Scene) -> None:
    held_by(scene, 0, 1)
    scene.fall(1_400, 2, "power_off", 0)
    assert scene.ask(check_under_replication).passed


def test_a_replica_that_was_moved_away_meanwhile_had_held_it(scene: Scene) -> None:
    # The leader of epoch 0 has not heard of it yet.
    held_by(scene, 0, 1)
    scene.elect(1_200, 0, 0, (0, 1, 2), replicas=(0, 1, 2))
    scene.elect(1_450, 1, 1, (1,), replicas=(1,))
    assert scene.ask(check_under_replication).passed
    # That one held nothing.
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id != 2]
    assert "broker 2, which was in sync, did not hold it" in scene.ask(check_under_replication).evidence[0].detail


def test_where_replicas_became_fewer_fewer_are_enough(scene: Scene) -> None:
    held_by(scene, 0)
    scene.elect(1_200, 0, 0, (0,), replicas=(0, 1))
    assert "only 1 replicas held it, and min.insync.replicas is 2" in (
        scene.ask(check_under_replication).evidence[0].detail
    )
    scene.elect(1_300, 0, 0, (0,), replicas=(0,))
    assert scene.ask(check_under_replication).passed
    # It has not heard that there are to be more again.
    scene.elect(1_400, 0, 0, (0,), replicas=(0, 1, 2))
    assert scene.ask(check_under_replication).passed


def test_who_held_another_record_that_was_committed_at_its_offset_before_is_nothing_to_it(scene: Scene) -> None:
    # It waited while another one was committed there, which went with those who fell.
    scene.chronicle.commits[:0] = [Committed(1_200, "t", 0, 0, 0, 0, 3, (0, 1), ())]
    assert scene.ask(check_under_replication).passed
    scene.chronicle.commits[1] = Committed(1_500, "t", 0, 0, 0, 0, 3, (0, 2), ())
    finding = scene.ask(check_under_replication)
    assert finding.count == 3
    assert "broker 1, which was in sync, did not hold it" in finding.evidence[0].detail


def test_fewer_replicas_than_min_insync_are_too_few(scene: Scene) -> None:
    held_by(scene, 0)
    scene.chronicle.leaderships[0:1] = []
    scene.elect(100, 0, 0, (0,))
    finding = scene.ask(check_under_replication)
    assert finding.count == 3
    assert "only 1 replicas held it, and min.insync.replicas is 2" in finding.evidence[0].detail


def test_acks_1_waits_for_nobody(scene: Scene) -> None:
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.record(1).told_us = 1_100
    assert scene.ask(check_under_replication).passed


def test_high_watermarks_nobody_saw_are_not_observable(scene: Scene) -> None:
    scene.blind()
    finding = scene.ask(check_under_replication)
    assert not finding.count
    assert finding.unseen


def reuse_epoch(scene: Scene, forgotten_us: int) -> None:
    """Record 12 is told the offset at which 10 stands, and was not appended; and coordinators forgot something."""
    scene.lose(12)
    scene.record(12).offset = 3
    scene.forget_transactions(forgotten_us)


def test_who_was_taken_for_a_record_of_an_epoch_given_out_again_was_lost_by_that_power_cut(scene: Scene) -> None:
    reuse_epoch(scene, 4_000)
    assert scene.ask(check_losses).tallies == (
        (
            "lost and excused: taken for record 10, whose epoch was given out again after power off of broker 1 at "
            "4000 us, the last replica in sync",
            1,
        ),
    )
    assert scene.ask(check_under_replication).passed
    scene.record(10).outcome, scene.record(10).offset = "unknown", -1
    assert scene.ask(check_losses).passed  # who reads that offset finds record 10 all the same


@pytest.mark.parametrize("forgotten_us", [2_000, 4_700])
def test_what_coordinators_forgot_at_another_time_excuses_nobody(scene: Scene, forgotten_us: int) -> None:
    reuse_epoch(scene, forgotten_us)
    assert scene.ask(check_losses).count == 1
    assert scene.ask(check_under_replication).count == 1


@pytest.mark.parametrize(("began_us", "lost"), [(2_900, 0), (3_100, 1)])
def test_a_transaction_goes_on_with_an_epoch_that_its_coordinator_has_forgotten(
    scene: Scene, began_us: int, lost: int
) -> None:
    # Record 10 was sent later than that.
    reuse_epoch(scene, 2_950)
    scene.chronicle.transactions[0].began_us = began_us
    assert scene.ask(check_losses).count == lost
    assert scene.ask(check_under_replication).count == lost


@pytest.mark.parametrize(("newer_instance", "forgotten_us", "lost"), [(2, 4_000, 0), (1, 4_000, 1), (2, 2_000, 1)])
def test_who_was_to_be_replaced_may_be_taken_for_the_newer_instance_that_was_given_its_epoch(
    scene: Scene, newer_instance: int, forgotten_us: int, lost: int
) -> None:
    scene.lose(10)
    scene.record(10).offset, scene.record(10).told_us = 5, 4_700
    scene.record(12).instance = newer_instance
    scene.forget_transactions(forgotten_us)
    assert scene.ask(check_losses).count == lost


def test_nobody_is_taken_for_a_record_of_another_producer_or_of_the_same_transaction(scene: Scene) -> None:
    reuse_epoch(scene, 4_000)
    scene.record(10).transaction = 1
    assert scene.ask(check_losses).count == 1
    scene.record(12).offset = 2
    assert scene.ask(check_losses).count == 1
    assert scene.ask(check_under_replication).count == 1


# ---- 3: whose copy it is --------------------------------------------------------------------------------------------


def send_again(scene: Scene) -> None:
    again = scene.sent(1, "p", 0, 7, 5_000, 5_100)
    again.instance = 2
    scene.chronicle.sent.append(again)


def test_what_the_application_sent_twice_is_tallied_and_not_found(scene: Scene) -> None:
    send_again(scene)
    scene.final().records.append(seen(1, 7, timestamp_ms=9_999))
    scene.final().end = 8
    finding = scene.ask(check_repetitions)
    assert finding.passed
    assert finding.tallies == (("copies the application made", 1),)


def test_more_copies_than_were_sent_are_found(scene: Scene) -> None:
    send_again(scene)
    scene.final().records += [seen(1, 7), seen(1, 8)]
    (piece,) = scene.ask(check_repetitions).evidence
    assert piece.detail == "record 1 was handed over 2 times and is stored 3 times, at last at t-0 offset 8"


def test_more_copies_are_promised_by_nobody_without_idempotence(scene: Scene) -> None:
    send_again(scene)
    scene.chronicle.producers[0] = ProducerPromise("p", -1, False)
    scene.final().records += [seen(1, 7), seen(1, 8)]
    finding = scene.ask(check_repetitions)
    assert (finding.count, finding.tallies) == (0, (("copies the application made", 1),))


def test_copies_in_a_partition_that_was_not_read_are_not_observable(scene: Scene) -> None:
    send_again(scene)
    scene.final(1).error = "timed out"
    assert scene.ask(check_repetitions).unseen == ("t-1 was not read to its end",)


# ---- boundaries -----------------------------------------------------------------------------------------------------


def test_what_was_still_to_be_told_in_a_run_cut_short_is_not_observable(scene: Scene) -> None:
    untold(scene)
    scene.chronicle.is_cut_short = True
    finding = scene.ask(check_settlement)
    assert not finding.count
    assert finding.unseen == ("what was still to be told when the run was cut short",)


def test_offset_0_is_an_offset(scene: Scene) -> None:
    scene.lose(0)
    assert scene.ask(check_losses).evidence[0].offsets == (0,)


@pytest.mark.parametrize(("number", "excused"), [(1, True), (0, False)])
def test_what_an_unclean_leader_did_not_know_to_be_committed_is_not_known_for_what_it_kept(
    scene: Scene, number: int, excused: bool
) -> None:
    scene.lose(number)
    scene.elect(800, 0, 0, (0, 1))
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id != 2]
    scene.mark(0, 4_850, 2, 1, 3)
    scene.fall(4_900, 2, "power_off", 2)
    scene.elect(5_000, 2, 1, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert (scene.ask(check_losses).count == 0) == excused


def test_what_a_leader_kept_of_a_log_that_ended_before_a_record_is_not_that_record(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id != 1]
    scene.mark(0, 1_400, 1, 0, 1)
    scene.fall(5_000, 1, "power_off", 3)
    scene.elect(5_100, 1, 1, (1, 2))
    assert excuses(scene) == ["lost and excused: broker 1 led without it, and acks=1 does not wait for followers"]


def test_where_nobody_saw_who_led_an_acks_1_record_every_later_leader_may_lack_it(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.chronicle.watermarks = []
    scene.chronicle.leaderships = [Leadership(5_100, "t", 0, 1, 0, (1, 2), False)]
    assert len(excuses(scene)) == 1


@pytest.mark.parametrize(
    ("at_us", "kind", "found"),
    [
        (999, "power_off", 3),
        (1_000, "power_off", 0),
        (1_500, "power_off", 0),
        (1_501, "power_off", 3),
        (1_400, "kill", 3),
    ],
)
def test_only_a_power_cut_between_sending_and_commit_took_what_a_replica_held(
    scene: Scene, at_us: int, kind: str, found: int
) -> None:
    held_by(scene, 0, 1)
    scene.fall(at_us, 2, kind, 0)
    assert scene.ask(check_under_replication).count == found


def test_who_was_taken_for_a_record_that_is_gone_as_well_is_excused_all_the_same(scene: Scene) -> None:
    reuse_epoch(scene, 4_000)
    scene.lose(10)
    assert [piece.sequence for piece in scene.ask(check_losses).evidence] == [10]


def test_one_of_two_sendings_that_was_acknowledged_where_another_record_stands_is_wrong(scene: Scene) -> None:
    send_again(scene)
    scene.chronicle.sent[-1].offset = 3
    failed, misplaced = check_again(Case(scene.chronicle))
    assert failed.passed
    (piece,) = misplaced.evidence
    assert piece.detail == "record 1 was acknowledged at offset 3, where record 10 stands"


def test_who_knew_less_than_an_unclean_leader_before_it_keeps_what_it_knew_itself(scene: Scene) -> None:
    scene.lose(1)
    scene.elect(800, 0, 0, (0, 1))
    scene.chronicle.watermarks = [each for each in scene.chronicle.watermarks if each.broker_id != 2]
    scene.mark(0, 4_405, 2, 1, 3)
    scene.elect(4_420, 1, 1, (1,), unclean=True)
    scene.elect(5_000, 2, 2, (2,), unclean=True)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, unclean_leader_election=True)
    assert excuses(scene) == ["lost and excused: unclean election of broker 2 at 5000 us"]


def test_a_power_cut_takes_an_acks_1_record_from_who_leads_next(scene: Scene) -> None:
    scene.lose(1)
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False)
    scene.fall(5_000, 1, "power_off", 1)
    scene.elect(5_100, 1, 1, (1, 2))
    assert excuses(scene) == ["lost and excused: broker 1 led without it, and acks=1 does not wait for followers"]
