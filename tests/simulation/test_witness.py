"""What the witness takes down while a run goes: also what changes alone, and what happens in one moment."""

from __future__ import annotations

from itertools import pairwise

from ottla.faults.fault import make_fault
from ottla.simulation.draw import draw
from ottla.simulation.plan import PAUSE, SEND, SEVERE, Act, Plan, ProducerPlan, TimedFault, TopicPlan
from ottla.simulation.run import Run


def test_a_log_start_offset_that_moves_alone_is_taken_down() -> None:
    plan = next(plan for plan in map(draw, range(100)) if any("retention_ms" in each.settings for each in plan.topics))
    alone = []
    marks = Run(plan).go().watermarks or []
    of_each = {(mark.broker_id, mark.broker_start, mark.topic, mark.partition): None for mark in marks}
    for key in of_each:
        own = [mark for mark in marks if (mark.broker_id, mark.broker_start, mark.topic, mark.partition) == key]
        alone += [
            after.log_start_offset
            for before, after in pairwise(own)
            if after.log_start_offset > before.log_start_offset
            and (after.high_watermark, after.log_end_offset) == (before.high_watermark, before.log_end_offset)
        ]
    assert alone


def test_what_a_leader_commits_as_it_opens_its_log_is_taken_down() -> None:
    """A power cut takes the records of the only replica; its disk works again as the next ones come."""
    in_one_moment = 0
    for seed in range(12):
        chronicle = Run(reopened(seed)).go()
        marks, commits = chronicle.watermarks or [], chronicle.commits or []
        first = next(mark for mark in marks if mark.leader_epoch == marks[-1].leader_epoch)
        in_one_moment += first.log_end_offset == 2
        last = [record.offset for record in chronicle.sent[-2:] if record.outcome == "acked"]
        assert len(last) == 2
        for offset in last:
            assert any(
                each.leader_epoch == first.leader_epoch and each.first_offset <= offset < each.end_offset
                for each in commits
            )
    assert in_one_moment


def reopened(seed: int) -> Plan:
    """Five records, a power cut, and a disk that fails until two more have been sent."""
    early, late = ([Act(SEND, n, "t0", 0, value_bytes=10) for n in numbers] for numbers in (range(5), (5, 6)))
    settings = {"linger_ms": 0, "request_timeout_ms": 500}
    disk = make_fault("failing_disk", broker_id=0, operation="write")
    power = make_fault("power_off", broker_id=0, moment="now")
    return Plan(
        seed=seed,
        brokers=1,
        through_bytes=False,
        settings={},
        topics=[TopicPlan("t0", 1, 1)],
        producers=[ProducerPlan("p0", settings, [*early, Act(PAUSE, pause_us=2_000_000), *late])],
        readers=[],
        faults=[TimedFault(disk, 400_000, 1_500_000), TimedFault(power, 500_000, 200_000)],
        severity=SEVERE,
    )
