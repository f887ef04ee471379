"""What the witness takes down while a run goes: also what changes alone."""

from __future__ import annotations

from itertools import pairwise

from ottla.simulation.draw import draw
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
