"""Group 12: no transaction stays open, and holds up its readers, once all is settled."""

from __future__ import annotations

from tests.audit.scene import Scene, batch

from ottla.audit.chronicles.hanging import check_hanging
from ottla.audit.chronicles.torn import check_torn


def test_records_without_a_marker_hang(scene: Scene) -> None:
    scene.batches().pop()
    scene.replica().last_stable_offset = 5
    (piece,) = scene.ask(check_hanging).evidence
    assert piece.detail == (
        "1 records of producer 2 from offset 5 on have no marker on broker 0; its last stable offset is 5, its high "
        "watermark 7"
    )


def test_a_last_stable_offset_that_stays_behind_without_a_transaction_hangs(scene: Scene) -> None:
    scene.replica().last_stable_offset = 5
    assert "no transaction is open on broker 0" in scene.ask(check_hanging).evidence[0].detail


def test_an_open_batch_that_cannot_be_read_hangs_too(scene: Scene) -> None:
    scene.batches().pop()
    scene.batches()[-1].crc_is_right = False
    scene.batches()[-1].records.clear()
    assert scene.ask(check_hanging).evidence[0].detail.startswith("1 records of producer 2 from offset 5 on")


def test_a_partition_nobody_wrote_to_has_nothing_to_hang(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker, 1).clear()
    assert not scene.ask(check_hanging).count


def test_records_outside_of_transactions_need_no_marker(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker).append(batch(7, [50], sequence=3))
    assert scene.ask(check_hanging).passed


def test_what_a_foreign_cluster_reports_as_hanging_is_found(scene: Scene) -> None:
    scene.blind()
    assert scene.ask(check_hanging).unseen == ("last stable offsets and markers",)
    scene.chronicle.hanging_transactions.append("producer 2 on t-0 since 4 minutes")
    assert scene.ask(check_hanging).count == 1


def test_a_transaction_that_is_open_when_patience_ends_may_end_yet(scene: Scene) -> None:
    scene.batches().pop()
    scene.chronicle.ended_us = -1
    finding = scene.ask(check_hanging)
    assert not finding.count
    assert finding.unseen == ("the end: the run did not settle",)


def test_a_transaction_behind_a_hanging_one_is_not_observable(scene: Scene) -> None:
    read = scene.final(committed=True)
    read.end = 3
    read.records.pop()
    finding = scene.ask(check_torn)
    assert not finding.count
    assert finding.unseen == ("t-0 was not read to its end as read_committed",)


def test_what_a_lost_marker_left_open_may_hang(scene: Scene) -> None:
    scene.batches().pop()
    scene.replica().last_stable_offset = 5
    scene.fall(5_000, 1, "power_off", 6)
    scene.elect(5_100, 1, 1, (1, 2))
    finding = scene.ask(check_hanging)
    assert finding.passed
    assert ("partitions that may hang, since markers or transactions were lost", 2) not in finding.tallies
    assert finding.tallies[-1][1] == 1


def test_what_is_reported_as_open_is_tallied_where_the_logs_can_be_seen(scene: Scene) -> None:
    assert scene.ask(check_hanging).tallies == ()
    scene.chronicle.hanging_transactions.append("producer 2 on t-0 since 4 minutes")
    finding = scene.ask(check_hanging)
    assert finding.passed
    assert finding.tallies == (("reported as open", 1),)


def test_a_hanging_transaction_is_named_by_its_first_offset(scene: Scene) -> None:
    scene.batches()[3:] = [batch(5, [12, 13], producer_id=2, sequence=1)]
    scene.replica().last_stable_offset = 5
    (piece,) = scene.ask(check_hanging).evidence
    assert piece.offsets == (5, 5, 7)
