"""All checkers together: a clean run passes, a run seen from outside is never acquitted of what was not seen."""

from __future__ import annotations

import json

import pytest
from tests.audit.scene import Scene, batch, seen

from ottla.audit.chronicles.chronicle import Chronicle, InstanceSeen, Leadership, ProducerPromise, TopicPromise
from ottla.audit.chronicles.judgement import judge
from ottla.audit.findings import MISREAD, PROPERTIES, Finding

BROKERS_OWN = (
    "corrupt",
    "broken sequence",
    "refused though stored",
    "written after it was fenced",
    "broken leader epoch",
    "fallen high watermark",
    "truncated though committed",
    "diverged replicas",
    "acknowledged too early",
    "hanging transaction",
    "not repeatable",
    "offset apart from its data",
    "unsettled",
    "failed without a cause",
)


def kinds(chronicle: Chronicle) -> list[str]:
    return [finding.kind for finding in judge(chronicle) if finding.count]


def test_a_clean_run_passes_every_checker(scene: Scene) -> None:
    found = judge(scene.chronicle)
    assert [(each.kind, each.evidence, each.unseen) for each in found if not each.passed] == []
    # What a reader got wrong is counted for ledgers alone.
    known = {kind for each in PROPERTIES for kind in each.kinds} - {MISREAD}
    assert len({each.kind for each in found}) == len(found)
    assert {each.kind for each in found} == known, "a kind without a checker in CHECKERS, or without a property"


def test_what_a_foreign_cluster_does_not_show_is_not_passed(scene: Scene) -> None:
    scene.blind()
    found = {each.kind: each for each in judge(scene.chronicle)}
    assert not any(each.count for each in found.values())
    for kind in BROKERS_OWN:
        assert found[kind].unseen, kind
        assert not found[kind].passed, kind
    for kind in ("lost", "duplicated", "reordered", "torn transaction", "read before its commit"):
        assert found[kind].passed, kind


def test_an_unfinished_drain_says_neither_lost_nor_passed(scene: Scene) -> None:
    scene.final().error = "timed out"
    scene.final().records = []
    found = {each.kind: each for each in judge(scene.chronicle)}
    assert not any(each.count for each in found.values())
    for kind in ("lost", "duplicated", "reordered", "failed but stored", "wrong offset", "broken promise"):
        assert found[kind].unseen == ("t-0 was not read to its end",), kind


def test_an_empty_chronicle_is_judged() -> None:
    assert kinds(Chronicle()) == ["stuck"]
    assert kinds(Chronicle(ended_us=1)) == []


def test_every_finding_survives_json(scene: Scene) -> None:
    scene.lose(1)
    for finding in judge(scene.chronicle):
        assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding


def test_what_an_instance_stores_twice_is_its_duplicate_and_breaks_its_promise(scene: Scene) -> None:
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    for broker in range(3):
        scene.batches(broker).append(batch(7, [1], sequence=3))
        replica = scene.replica(broker)
        replica.high_watermark = replica.last_stable_offset = 8
    assert kinds(scene.chronicle) == ["duplicated", "broken promise"]
    promise = next(each for each in judge(scene.chronicle) if each.kind == "broken promise")
    assert promise.evidence[0].detail == "p claims exactly-once (acks=-1), and shows 1 duplicated"


def test_what_the_application_handed_over_again_is_not_its_producers_duplicate(scene: Scene) -> None:
    again = scene.sent(1, "p", 0, 7, 5_000, 5_100)
    again.instance = 2
    scene.chronicle.sent.append(again)
    scene.chronicle.instances.append(InstanceSeen("p", 2, 4_900))
    scene.blind()
    scene.chronicle.reads = [scene.final(), scene.final(1)]
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    assert kinds(scene.chronicle) == []
    # One more than were handed over is found all the same, and so is what it has done to another record.
    scene.final().records.append(seen(1, 8))
    scene.final().end = 9
    assert kinds(scene.chronicle) == ["duplicated by the application"]
    scene.final().records.append(seen(0, 9))
    scene.final().end = 10
    assert kinds(scene.chronicle) == ["duplicated", "duplicated by the application", "broken promise"]


def test_a_record_that_was_refused_the_second_time_may_be_stored_from_the_first(scene: Scene) -> None:
    again = scene.sent(1, "p", 0, -1, 5_000, 5_100)
    again.instance, again.outcome, again.error = 2, "failed", "it was never sent"
    scene.chronicle.sent.append(again)
    scene.chronicle.instances.append(InstanceSeen("p", 2, 4_900))
    assert kinds(scene.chronicle) == []


@pytest.mark.parametrize(("in_flight", "found"), [(1, ["reordered", "broken promise"]), (5, [])])
def test_order_is_promised_without_idempotence_only_for_one_request_in_flight(
    scene: Scene, in_flight: int, found: list[str]
) -> None:
    scene.blind()
    scene.chronicle.producers[0] = ProducerPromise("p", -1, False, None, 5_000, in_flight)
    scene.chronicle.reads = [scene.final(), scene.final(1)]
    scene.final().records[:2] = [seen(1, 0), seen(0, 1)]
    scene.record(0).offset, scene.record(1).offset = 1, 0
    assert kinds(scene.chronicle) == found


@pytest.mark.parametrize("outcome", ["unknown", "acked"])
def test_without_idempotence_a_request_that_was_given_up_may_come_late(scene: Scene, outcome: str) -> None:
    scene.blind()
    scene.chronicle.producers[0] = ProducerPromise("p", -1, False, None, 5_000, 1)
    scene.final().records[:2] = [seen(1, 0), seen(0, 1)]
    scene.record(1).offset = 0
    scene.record(0).outcome, scene.record(0).offset = outcome, 1 if outcome == "acked" else -1
    scene.chronicle.reads = [scene.final(), scene.final(1)]
    assert ("reordered" in kinds(scene.chronicle)) == (outcome == "acked")
    scene.chronicle.producers[0] = ProducerPromise("p", -1, True, None, 5_000)
    assert "reordered" in kinds(scene.chronicle)


@pytest.mark.parametrize(
    ("forgets", "sequence", "in_flight", "found"),
    [(True, 2, 2, False), (True, 2, 1, True), (True, 0, 2, True), (False, 2, 2, True)],
)
def test_a_partition_that_forgot_a_producer_may_take_its_second_request_first(
    scene: Scene, forgets: bool, sequence: int, in_flight: int, found: bool
) -> None:
    """The first one was refused for lack of replicas; it is stored under a new epoch, behind the second one."""
    scene.chronicle.producers[0] = ProducerPromise("p", -1, True, None, 5_000, in_flight)
    scene.chronicle.reads = [scene.final(), scene.final(1)]
    scene.final().records[:3] = [seen(2, 0), seen(0, 1), seen(1, 2)]
    for number, offset in ((2, 0), (0, 1), (1, 2)):
        scene.record(number).offset = offset
    for replica in scene.chronicle.replicas:
        if replica.partition == 0:
            replica.batches[:1] = [batch(0, [2], sequence=sequence), batch(1, [0, 1], epoch=1)]
    if forgets:
        scene.fall(50, 1, "power_off", 0)
        scene.chronicle.leaderships.insert(0, Leadership(40, "t", 0, 0, 0, (1,), False))
        scene.elect(60, 1, 1, (1,))
        scene.chronicle.leaderships.sort(key=lambda each: each.at_us)
    assert ("reordered" in kinds(scene.chronicle)) == found


@pytest.mark.parametrize("outcome", ["unknown", "acked"])
def test_a_request_of_a_transaction_that_coordinators_have_forgotten_may_come_late(scene: Scene, outcome: str) -> None:
    stored = scene.final().records
    stored[3:] = [seen(12, 3), seen(10, 5)]
    scene.chronicle.reads = [scene.final(), scene.final(1)]
    scene.record(12).offset = 3
    scene.record(10).outcome, scene.record(10).offset = outcome, 5 if outcome == "acked" else -1
    assert "reordered" in kinds(scene.chronicle)
    scene.forget_transactions(3_800)
    assert ("reordered" in kinds(scene.chronicle)) == (outcome == "acked")


def test_at_least_once_may_duplicate_and_it_is_tallied(scene: Scene) -> None:
    scene.blind()
    scene.chronicle.producers[0] = ProducerPromise("p", -1, False)
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    assert kinds(scene.chronicle) == []
    duplicated = next(each for each in judge(scene.chronicle) if each.kind == "duplicated")
    assert duplicated.tallies == (("not promised by p", 1),)


def test_without_acks_a_copy_is_a_breach_unless_the_network_delivered_a_request_twice(scene: Scene) -> None:
    scene.blind()
    scene.chronicle.producers[0] = ProducerPromise("p", 0, False)
    for record in scene.chronicle.sent:
        record.outcome, record.offset = "unknown", -1
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    assert kinds(scene.chronicle) == ["duplicated", "broken promise"]
    scene.chronicle.redeliveries = 1
    assert kinds(scene.chronicle) == []


def test_a_failed_record_that_is_stored_breaks_every_promise(scene: Scene) -> None:
    scene.record(2).outcome, scene.record(2).offset = "failed", -1
    scene.chronicle.first_fault_us = 0
    assert kinds(scene.chronicle) == ["failed but stored", "broken promise"]


def test_an_offset_that_was_told_wrong_is_found(scene: Scene) -> None:
    scene.record(2).offset = 1
    assert kinds(scene.chronicle) == ["wrong offset", "broken promise"]


def earlier_copy_is_left(scene: Scene) -> None:
    """Record 2 was stored twice, acknowledged at 9, and only the copy at 2 is there; acks=1 waits for no follower."""
    scene.chronicle.producers[0] = ProducerPromise("p", 1, False, None, 5_000)
    scene.record(2).offset = 9


def test_a_copy_lost_with_its_leader_leaves_the_earlier_one_without_acks_of_all(scene: Scene) -> None:
    earlier_copy_is_left(scene)
    scene.elect(5_100, 1, 1, (1, 2))
    assert "wrong offset" not in kinds(scene.chronicle)


def test_an_offset_where_the_record_never_stood_is_wrong_while_one_leader_leads(scene: Scene) -> None:
    earlier_copy_is_left(scene)
    assert "wrong offset" in kinds(scene.chronicle)


def later_copy_is_left(scene: Scene, *, idempotent: bool, cleanup: bool) -> None:
    """Record 2 was acknowledged at 2, where nothing stands any more, and a copy of it stands at 7."""
    scene.chronicle.producers[0] = ProducerPromise("p", -1, idempotent, None, 5_000, 1)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, cleanup=cleanup)
    scene.final().records.pop(2)
    scene.final().records.append(seen(2, 7))
    scene.final().end = 8


def test_a_copy_that_was_cleaned_away_leaves_a_later_one(scene: Scene) -> None:
    later_copy_is_left(scene, idempotent=False, cleanup=True)
    assert not {"wrong offset", "reordered"} & {*kinds(scene.chronicle)}


@pytest.mark.parametrize(("idempotent", "cleanup", "found"), [(False, True, 0), (True, True, 1), (False, False, 1)])
def test_the_second_copy_of_a_record_whose_first_one_was_cleaned_away_is_not_out_of_order(
    scene: Scene, idempotent: bool, cleanup: bool, found: int
) -> None:
    """Record 1 was stored at 1 and, after a lost acknowledgement, at 7, of which the producer was told."""
    scene.chronicle.producers[0] = ProducerPromise("p", -1, idempotent, None, 5_000, 1)
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, cleanup=cleanup)
    scene.record(1).offset = 7
    scene.final().records[1:2] = []
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    reordered = next(each for each in judge(scene.chronicle) if each.kind == "reordered")
    assert reordered.count == found
    if not found:
        assert reordered.tallies == (("late, and an earlier copy may have been cleaned up", 1),)


@pytest.mark.parametrize(("idempotent", "cleanup"), [(True, True), (False, False)])
def test_an_offset_is_wrong_where_no_copy_was_made_or_none_is_cleaned_away(
    scene: Scene, idempotent: bool, cleanup: bool
) -> None:
    later_copy_is_left(scene, idempotent=idempotent, cleanup=cleanup)
    assert "wrong offset" in kinds(scene.chronicle)


def test_an_offset_at_which_another_record_stands_is_wrong_also_where_copies_are_cleaned_away(scene: Scene) -> None:
    later_copy_is_left(scene, idempotent=False, cleanup=True)
    scene.record(2).offset = 1
    assert "wrong offset" in kinds(scene.chronicle)
