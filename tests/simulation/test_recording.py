"""A recorded run is the run it would have been, and its capture says what its clients saw."""

from __future__ import annotations

from ottla.faults.fault import make_fault
from ottla.simulation.draw import draw
from ottla.simulation.plan import SEND, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.recording import record
from ottla.simulation.run import Run, conclude
from ottla.tap.exchange import Entry, Exchange, Outcome, from_plain, to_plain


def recorded(plan: Plan) -> tuple[Run, list[Entry]]:
    run = Run(plan)
    tap = record(run)
    run.go()
    tap.close()
    return run, tap.entries


def test_recording_changes_nothing_in_the_run() -> None:
    plan = draw(4711, records=40, faults=4)
    plain = Run(plan)
    plain.go()
    run, entries = recorded(plan)
    assert conclude(run, None).trace_hash == conclude(plain, None).trace_hash
    assert len(entries) > 40


def test_a_lost_acknowledgement_is_an_unanswered_request_and_its_retry() -> None:
    settings = {"acks": "all", "enable_idempotence": False, "linger_ms": 0}
    acts = [Act(SEND, number, "t", 0, None, 20) for number in range(3)]
    fault = TimedFault(make_fault("lose_ack", nth=1), 0, 10_000_000)
    plan = Plan(1, 3, False, {}, [TopicPlan("t")], [ProducerPlan("p", settings, acts)], [], [fault])
    _, entries = recorded(plan)
    produced = [each for each in entries if isinstance(each, Exchange) and each.api == "Produce"]
    lost, again = produced[0], produced[1]
    assert lost.outcome is Outcome.UNANSWERED
    assert lost.end_us is not None
    assert lost.request_us is not None
    assert lost.end_us > lost.request_us
    assert again.outcome is Outcome.ANSWERED
    assert again.partitions[0].batches[0].sha256 == lost.partitions[0].batches[0].sha256
    assert again.partitions[0].offset == 3
    assert [from_plain(to_plain(each)) for each in entries] == entries
