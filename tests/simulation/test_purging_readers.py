"""A reader that has deleted what it has read: nothing else goes, and whoever deletes more is found."""

from __future__ import annotations

from dataclasses import replace

from ottla.audit.findings import LOST
from ottla.simulation.draw import draw
from ottla.simulation.plan import Plan
from ottla.simulation.run import Run, conclude


def purging_plan() -> Plan:
    plan = draw(3, records=60, faults=0)
    plan.readers = plan.readers[:1]
    plan.readers[0].purges = True
    return plan


def test_a_purging_reader_has_deleted_what_it_has_read_and_nothing_else() -> None:
    run = Run(purging_plan())
    run.go()
    assert conclude(run, None).is_clean
    asked: dict[int, int] = {}
    for each in run.chronicle.deletions:
        assert each.topic == "t0"
        asked[each.partition] = max(each.before_offset, asked.get(each.partition, 0))
    assert asked
    assert run.chronicle.replicas
    for replica in run.chronicle.replicas:
        expected = asked.get(replica.partition, 0) if replica.topic == "t0" else 0
        assert replica.log_start_offset == expected, f"{replica.topic}-{replica.partition} of {replica.broker_id}"


def test_who_deletes_more_than_was_asked_for_is_found() -> None:
    run = Run(purging_plan())
    run.go()
    run.chronicle.deletions = [replace(each, before_offset=1) for each in run.chronicle.deletions]
    assert LOST in [finding.kind for finding in conclude(run, None).findings]


def test_some_seeds_have_a_purging_reader() -> None:
    assert any(reader.purges for seed in range(100) for reader in draw(seed).readers)
