"""When each record was sent and told of, from when its batch was: a producer tells of batches, never of records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.evidence.times import BatchTimes, RunClock


class SetClock(RunClock):
    """A clock that shows what it was set to."""

    shown_us = 0

    @property
    def now_us(self) -> int:
        return self.shown_us


def batch(partition: int, records: int) -> Any:
    return SimpleNamespace(partition=partition, record_count=records)


def test_a_record_was_sent_and_told_of_with_its_batch_in_the_order_of_its_partition() -> None:
    clock = SetClock()
    times = BatchTimes(clock)
    for at_us, note, what in (
        (10, times.on_batch, batch(0, 2)),
        (20, times.on_batch, batch(1, 1)),
        (30, times.on_ack, batch(0, 2)),
        (40, times.on_batch, batch(0, 3)),
        (50, times.on_ack, batch(0, 3)),
    ):
        clock.shown_us = at_us
        note(what)
    assert [times.of(0, ordinal) for ordinal in range(5)] == [(10, 30)] * 2 + [(40, 50)] * 3
    assert times.of(1, 0) == (20, -1)


@pytest.mark.parametrize(("partition", "ordinal"), [(0, 2), (1, 0)])
def test_what_no_batch_had_in_it_has_no_time(partition: int, ordinal: int) -> None:
    times = BatchTimes(SetClock())
    times.on_batch(batch(0, 2))
    assert times.of(partition, ordinal) == (-1, -1)


def test_a_run_begins_at_its_clocks_zero() -> None:
    clock = RunClock()
    first_us = clock.now_us
    assert 0 <= first_us <= clock.now_us
