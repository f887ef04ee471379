"""Nothing stuck, late or failed without cause: records that wait longer than linger.ms and brokers explain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.audit.scene import Scene

from ottla.audit.chronicles.chronicle import Chronicle, ProduceSeen
from ottla.audit.chronicles.waiting import RECOVERY_US, check_waiting
from ottla.audit.findings import Finding

# A broker that takes 20 ms for a request, and 1,000 records a second for it, 50 of which fill a batch.
TAKES_US = 20_000
EVERY_US = 1_000
RECORDS = 2_000
BEGAN_US = 1_000_000


def paced(scene: Scene, per_request: int) -> Chronicle:
    """Producer `p` sends at a rate, and each of its requests holds so many records; none leaves before it is full."""
    c = scene.chronicle
    c.producers[0] = replace(c.producers[0], linger_ms=5, batch_records=50, max_in_flight=5)
    c.sent, c.produced, c.first_fault_us = [], [], -1
    free_us = 0
    for first in range(0, RECORDS, per_request):
        numbers = range(first, min(RECORDS, first + per_request))
        left_us = BEGAN_US + numbers[-1] * EVERY_US
        free_us = max(free_us, left_us + 200) + TAKES_US
        c.produced.append(ProduceSeen("p", 0, left_us, left_us + 200, free_us))
        c.sent += [scene.sent(n, "p", 0, n, BEGAN_US + n * EVERY_US, free_us + 200) for n in numbers]
    return c


def found(scene: Scene) -> Finding:
    return scene.ask(check_waiting)


def test_batches_that_fill_while_the_broker_is_busy_keep_nobody_waiting(scene: Scene) -> None:
    paced(scene, 20)
    assert found(scene).passed


def test_batches_that_are_closed_by_the_clock_fall_behind_a_busy_broker(scene: Scene) -> None:
    c = paced(scene, 5)
    assert max(record.told_us - record.sent_us for record in c.sent) > 5_000_000
    finding = found(scene)
    assert finding.count > RECORDS * 0.9
    assert finding.evidence[0].detail == (
        "record 60 of p was told of (acked) 204400 us after it could be sent; 195961 us were enough, as its broker "
        "took no more than 20000 us for a request"
    )


def test_who_sends_more_than_full_batches_carry_waits_for_the_broker_alone(scene: Scene) -> None:
    c = paced(scene, 5)
    c.producers[0] = replace(c.producers[0], batch_records=5)
    assert found(scene).passed


def test_a_failed_record_that_came_late_is_found_too(scene: Scene) -> None:
    c = paced(scene, 20)
    late = c.sent[1_500]
    late.outcome, late.offset, late.told_us = "failed", -1, late.sent_us + 5_000_000
    (piece,) = found(scene).evidence
    assert piece.sequence == 1_500
    assert "(failed) 5000000 us" in piece.detail


def test_after_an_idle_stretch_nothing_is_left_to_wait_for(scene: Scene) -> None:
    c = paced(scene, 20)
    idle_us = 3_600_000_000
    for each in c.sent[1_000:]:
        each.sent_us, each.told_us = each.sent_us + idle_us, each.told_us + idle_us
    for request in c.produced[50:]:
        request.sent_us, request.came_us = request.sent_us + idle_us, request.came_us + idle_us
        request.answered_us += idle_us
    assert found(scene).passed
    c.sent[1_000].told_us += 1_000_000
    assert [piece.sequence for piece in found(scene).evidence] == [1_000]


@pytest.mark.parametrize("cause", ["a fault", "no answer", "a refusal", "a leader"])
def test_faults_excuse_waiting_for_some_time_only(scene: Scene, cause: str) -> None:
    c = paced(scene, 20)
    at_us = BEGAN_US + 1_000_000
    if cause == "a fault":
        c.first_fault_us = c.healed_us = at_us
    elif cause == "a leader":
        scene.elect(at_us, 0, 1, (0, 1))
    else:
        lost = ProduceSeen("p", 0, at_us, at_us, -1 if cause == "no answer" else at_us, cause == "a refusal")
        c.produced.append(lost)
        c.produced.sort(key=lambda each: each.sent_us)
    late = c.sent[1_200]
    late.told_us += 1_000_000
    assert found(scene).passed
    for each in c.sent[1_100:]:
        each.sent_us, each.told_us = each.sent_us + RECOVERY_US, each.told_us + RECOVERY_US
    for request in c.produced[55 + (len(c.produced) > RECORDS // 20) :]:
        request.sent_us, request.came_us = request.sent_us + RECOVERY_US, request.came_us + RECOVERY_US
        request.answered_us += RECOVERY_US
    assert [piece.sequence for piece in found(scene).evidence] == [1_200]


def test_acks_0_and_transactions_are_not_judged(scene: Scene) -> None:
    c = paced(scene, 5)
    promise = c.producers[0]
    for other in (replace(promise, acks=0), replace(promise, transactional_id="tx"), replace(promise, linger_ms=-1)):
        c.producers[0] = other
        assert found(scene).passed


def test_requests_that_nobody_saw_are_not_observable(scene: Scene) -> None:
    paced(scene, 5).produced = None
    assert found(scene).unseen == ("how long brokers took for each request",)


def test_who_was_elected_when_the_first_record_was_sent_leads_from_then_on(scene: Scene) -> None:
    c = paced(scene, 5)
    c.leaderships[0] = replace(c.leaderships[0], at_us=BEGAN_US)
    assert found(scene).count
