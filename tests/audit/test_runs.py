"""Groups 13 to 16: claims, liveness and deadlines, faults that fired, control runs, repeatability."""

from __future__ import annotations

import pytest
from tests.audit.scene import Scene

from ottla.audit.chronicles.chronicle import ControlSeen, FaultSeen, ProducerPromise
from ottla.audit.chronicles.claims import check_claims, claim, read_promise
from ottla.audit.chronicles.controls import check_controls
from ottla.audit.chronicles.deadlines import SLACK_US, check_deadlines
from ottla.audit.chronicles.fired_faults import check_fired_faults
from ottla.audit.chronicles.liveness import check_liveness
from ottla.audit.chronicles.repeatability import check_repeatability
from ottla.audit.promises import PROMISES, Promise

# ---- 13: the claim --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acks", "idempotent", "guarantee"),
    [(0, False, "at-most-once"), (1, False, "at-least-once"), (-1, False, "at-least-once"), (-1, True, "exactly-once")],
)
def test_settings_claim_a_guarantee(acks: int, idempotent: bool, guarantee: str) -> None:
    assert claim(ProducerPromise("p", acks, idempotent)).guarantee == guarantee


@pytest.mark.parametrize("promise", PROMISES.values(), ids=list(PROMISES))
def test_the_settings_of_a_guarantee_claim_it(promise: Promise) -> None:
    assert claim(read_promise("p", promise.settings)) is promise


def test_what_is_not_given_is_kafkas_default() -> None:
    assert read_promise("p", {}) == ProducerPromise("p", -1, True)
    assert read_promise("p", {"acks": 1, "transactional_id": "t"}) == ProducerPromise("p", 1, False, "t")
    given = {"delivery_timeout_ms": 9, "max_in_flight_requests_per_connection": 1, "linger_ms": 3}
    assert read_promise("p", given) == ProducerPromise("p", -1, True, None, 9, 1, 3)


@pytest.mark.parametrize(
    ("promise", "seen", "is_broken"),
    [
        (ProducerPromise("p", 0, False), {"lost": 3}, False),
        (ProducerPromise("p", 0, False), {"failed but stored": 1}, True),
        (ProducerPromise("p", 0, False), {"duplicated": 1}, True),
        (ProducerPromise("p", -1, False), {"duplicated": 3, "reordered": 1}, False),
        (ProducerPromise("p", -1, False, max_in_flight=1), {"reordered": 1}, True),
        (ProducerPromise("p", -1, False), {"lost": 1}, True),
        (ProducerPromise("p", -1, True), {"duplicated": 1}, True),
        (ProducerPromise("p", -1, True), {"reordered": 1}, True),
        (ProducerPromise("p", -1, True), {"lost": 0}, False),
    ],
)
def test_each_claim_forbids_its_own_anomalies(promise: ProducerPromise, seen: dict[str, int], is_broken: bool) -> None:
    finding = check_claims([promise], {"p": seen}, ())
    assert finding.count == is_broken
    assert finding.tallies == tuple((f"p: {kind}", count) for kind, count in seen.items() if count)


def test_what_the_network_delivered_twice_is_not_the_doing_of_a_producer_without_acks() -> None:
    promises = [ProducerPromise("p", 0, False), ProducerPromise("q", -1, True)]
    finding = check_claims(promises, {"p": {"duplicated": 1}, "q": {"duplicated": 1}}, (), is_redelivered=True)
    assert [piece.detail for piece in finding.evidence] == ["q claims exactly-once (acks=-1), and shows 1 duplicated"]


def test_a_claim_is_not_upheld_by_what_was_not_read() -> None:
    finding = check_claims([ProducerPromise("p", -1, True)], {}, ("t-0 was not read to its end",))
    assert not finding.passed


# ---- 14: liveness ---------------------------------------------------------------------------------------------------


def test_what_had_not_ended_is_stuck(scene: Scene) -> None:
    scene.chronicle.stuck.append("p waits until 99 us")
    assert scene.ask(check_liveness).evidence[0].detail == "p waits until 99 us"


def test_a_run_that_never_settled_is_stuck_even_where_nobody_knows_on_what(scene: Scene) -> None:
    assert scene.ask(check_liveness).passed
    scene.chronicle.ended_us = -1
    assert scene.ask(check_liveness).evidence[0].detail == "the run healed at 5000 us and never settled"


@pytest.mark.parametrize("outcome", ["acked", "failed", "unknown"])
def test_a_record_of_which_was_told_after_its_delivery_timeout_is_overdue(scene: Scene, outcome: str) -> None:
    record = scene.record(1)
    record.outcome = outcome
    record.told_us = record.sent_us + 5_000_000 + SLACK_US
    assert scene.ask(check_deadlines).passed
    record.told_us += 1
    (piece,) = scene.ask(check_deadlines).evidence
    assert piece.detail == (
        f"record 1 of p was told of ({outcome}) after 6000001 us, and its delivery timeout is 5000000 us"
    )


def test_a_delivery_timeout_nobody_told_is_not_observable(scene: Scene) -> None:
    scene.chronicle.producers[0] = ProducerPromise("p", -1, True)
    scene.record(1).told_us = 900_000_000
    finding = scene.ask(check_deadlines)
    assert not finding.count
    assert finding.unseen == ("the delivery timeout of p",)


# ---- 15: faults and controls ----------------------------------------------------------------------------------------


def test_a_fault_that_had_to_fire_and_did_not_makes_a_run_void(scene: Scene) -> None:
    scene.chronicle.faults.append(FaultSeen("lose_ack", 0, "nth=9 of t", must_fire=True))
    assert scene.ask(check_fired_faults).evidence[0].detail == "lose_ack never fired: nth=9 of t"


def test_a_fault_drawn_by_chance_that_never_fired_is_tallied(scene: Scene) -> None:
    scene.chronicle.faults.append(FaultSeen("kill", 0))
    finding = scene.ask(check_fired_faults)
    assert finding.passed
    assert finding.tallies == (("kill fired", 1), ("kill did not fire", 1))


def test_a_control_run_in_which_nothing_was_found_convicts_the_judge(scene: Scene) -> None:
    assert scene.ask(check_controls).passed
    scene.chronicle.controls = [ControlSeen("idempotence", ("duplicated",), {"duplicated": 0, "lost": 4})]
    (piece,) = scene.ask(check_controls).evidence
    assert piece.detail == "without idempotence, records should be duplicated, and none is"
    assert (piece.topic, piece.partition) == ("", -1)
    both = ControlSeen("idempotence", ("duplicated", "reordered"), {"duplicated": 2})
    scene.chronicle.controls = [both]
    assert scene.ask(check_controls).passed


def test_a_run_without_a_control_says_so(scene: Scene) -> None:
    scene.chronicle.controls = None
    assert scene.ask(check_controls).unseen == ("a control run with the guarantee switched off",)


# ---- 16: repeatability ----------------------------------------------------------------------------------------------


def test_two_runs_of_a_seed_leave_the_same_trace(scene: Scene) -> None:
    assert scene.ask(check_repeatability).passed
    scene.chronicle.trace_hashes = ("a", "a", "b")
    assert scene.ask(check_repeatability).evidence[0].detail == "run 3 left the trace b, and the first one a"


@pytest.mark.parametrize("hashes", [None, (), ("a",)])
def test_fewer_than_two_runs_show_nothing(scene: Scene, hashes: tuple[str, ...] | None) -> None:
    scene.chronicle.trace_hashes = hashes
    finding = scene.ask(check_repeatability)
    assert not finding.count
    assert finding.unseen == ("a second run of the same seed",)
