"""A batch that a broker has, and calls out of order."""

from __future__ import annotations

from tests.audit.scene import Scene

from ottla.audit.chronicles.refusals import check_refusals

REFUSAL = "Whether the record for t-0 is stored is not known: OUT_OF_ORDER_SEQUENCE_NUMBER: records are missing"


def refuse(scene: Scene, number: int, error: str = REFUSAL) -> None:
    record = scene.record(number)
    record.outcome, record.offset, record.error = "unknown", -1, error


def test_a_stored_record_that_its_only_leader_calls_out_of_order_is_found(scene: Scene) -> None:
    refuse(scene, 1)
    (piece,) = scene.ask(check_refusals).evidence
    assert piece.detail == (
        "record 1 of p was called out of order by the only leader there had been, which has it at offset 1"
    )


def test_what_follows_one_that_was_given_up_may_be_out_of_order(scene: Scene) -> None:
    refuse(scene, 0, "Whether the record for t-0 is stored is not known: REQUEST_TIMED_OUT: too late")
    refuse(scene, 1)
    assert scene.ask(check_refusals).passed


def test_a_record_that_is_not_stored_may_be_refused(scene: Scene) -> None:
    refuse(scene, 2)
    scene.lose(2)
    assert scene.ask(check_refusals).passed


def test_one_that_was_refused_for_another_s_sake_is_no_evidence(scene: Scene) -> None:
    refuse(scene, 10, REFUSAL.replace("known: ", "known: the transaction cannot be committed: "))
    assert scene.ask(check_refusals).passed


def test_a_restarted_leader_may_have_forgotten_all_but_the_last_batch(scene: Scene) -> None:
    scene.mark(0, 1_200, 0, 0, 0, start=2)
    refuse(scene, 1)
    finding = scene.ask(check_refusals)
    assert finding.passed
    assert finding.tallies == (("refused after a restart or another leader", 1),)


def test_who_led_a_foreign_cluster_is_not_observable(scene: Scene) -> None:
    refuse(scene, 1)
    scene.blind()
    assert scene.ask(check_refusals).unseen == ("which broker had led a partition from its beginning",)


def test_a_restart_after_the_refusal_explains_nothing(scene: Scene) -> None:
    refuse(scene, 1)
    scene.mark(0, 2_001, 0, 3, 3, start=2)
    assert scene.ask(check_refusals).count == 1
    scene.mark(0, 2_000, 0, 3, 3, start=2)
    assert scene.ask(check_refusals).passed
