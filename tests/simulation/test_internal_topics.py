"""The coordinators' own topics are judged as those of the plan are: their replicas, their leaders, their marks."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.audit.findings import DIVERGED
from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.host.crossing import Crossing
from ottla.records.plain import decode_batches, encode_batch
from ottla.simulation.draw import draw
from ottla.simulation.plan import OFFSETS, Act
from ottla.simulation.run import Run, conclude

BOTH = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)


def quiet_run() -> Run:
    """Transactions with offsets in them, and nothing goes wrong."""
    plan = draw(7, records=40, faults=0)
    acts = plan.producers[1].acts
    acts.insert(1, Act(OFFSETS, 1, "t0", 0))
    return Run(plan)


def with_another_value(batches: Any) -> bytes:
    """The same but for the last byte of each record's value; the CRC fits."""
    return b"".join(
        encode_batch(
            [record._replace(value=record.value and record.value[:-1] + b"?") for record in records],
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        for header, records in decode_batches(batches)
    )


@pytest.mark.parametrize("topic", BOTH)
def test_followers_that_hold_something_else_are_found(topic: str) -> None:
    run = quiet_run()

    def spoil(crossing: Crossing) -> None:
        if crossing.receiver.startswith("broker") and type(crossing.message).__name__ == "FetchResponse":
            for each in crossing.message.responses:
                for part in each.partitions if each.topic == topic else ():
                    part.records = with_another_value(part.records) if part.records else part.records

    run.world.trace.listeners.append(spoil)
    run.go()
    outcome = conclude(run, None)
    assert outcome.crashed is None
    assert [(finding.kind, finding.count) for finding in outcome.findings] == [(DIVERGED, 2)]
    assert {each.topic for each in outcome.findings[0].evidence} == {topic}


def test_all_replicas_are_looked_at_and_nothing_is_found_where_nothing_is_wrong() -> None:
    run = quiet_run()
    chronicle = run.go()
    assert conclude(run, None).is_clean
    for topic in BOTH:
        written = {each.broker_id for each in chronicle.replicas or () if each.topic == topic and each.batches}
        assert written == {0, 1, 2}
        assert {each.broker_id for each in chronicle.watermarks or () if each.topic == topic} == {0, 1, 2}
        assert any(each.topic == topic for each in chronicle.commits or ())
