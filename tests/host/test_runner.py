"""One core on a schedule: what it is told, when it looks at the time, and what a frozen or dead one does."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.host.runner import Runner
from ottla.host.schedule import Schedule


class Core:
    """Says what it heard, and wants to look at the time every ten microseconds."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.ticks: list[int] = []
        self._outputs: list[Any] = []

    def receive(self, event: Any, now_us: int) -> None:
        if event == "bug":
            raise ValueError(event)
        self.heard.append(event)
        self._outputs += [f"{event} 1", f"{event} 2"]

    def outputs(self) -> list[Any]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def deadline_us(self) -> int:
        return self.ticks[-1] + 10 if self.ticks else 10

    def tick(self, now_us: int) -> None:
        self.ticks.append(now_us)


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


def let_pass(schedule: Schedule, until_us: int) -> None:
    while (next_us := schedule.next_us()) is not None and next_us <= until_us:
        schedule.run_next()


def test_a_core_looks_at_the_time_when_it_wants_to(schedule: Schedule) -> None:
    core = Core()
    Runner(schedule, core, lambda output: None).carry_out()
    let_pass(schedule, 35)
    assert core.ticks == [10, 20, 30]


def test_a_frozen_runner_does_nothing_and_finds_everything_when_it_goes_on(schedule: Schedule) -> None:
    core, done = Core(), list[Any]()
    runner = Runner(schedule, core, done.append)
    runner.ring()
    runner.freeze()
    runner.deliver("first")
    runner.deliver("second")
    let_pass(schedule, 100)
    assert (core.heard, done, len(core.ticks), schedule.next_us()) == ([], [], 1, None)
    runner.thaw()
    assert core.heard == ["first", "second"]
    assert done == ["first 1", "first 2", "second 1", "second 2"]
    assert len(core.ticks) == 2


def test_what_was_decided_before_a_runner_froze_is_done_when_it_goes_on(schedule: Schedule) -> None:
    core, done = Core(), list[Any]()

    def perform(output: Any) -> None:
        done.append(output)
        if output == "first 1":
            runner.freeze()

    runner = Runner(schedule, core, perform)
    runner.deliver("first")
    assert done == ["first 1"]
    runner.thaw()
    assert done == ["first 1", "first 2"]


def test_a_dead_runner_does_nothing_of_what_it_had_decided(schedule: Schedule) -> None:
    core, done = Core(), list[Any]()

    def perform(output: Any) -> None:
        done.append(output)
        runner.die()

    runner = Runner(schedule, core, perform)
    runner.deliver("first")
    runner.deliver("second")
    let_pass(schedule, 100)
    assert (core.heard, done, core.ticks) == (["first"], ["first 1"], [])


def test_an_exception_goes_on_unless_somebody_is_told_of_it(schedule: Schedule) -> None:
    core, told = Core(), list[Any]()
    runner = Runner(schedule, core, lambda output: None)
    with pytest.raises(ValueError, match="bug"):
        runner.deliver("bug")
    runner.failed = lambda failed, event: told.append((failed, event))
    runner.deliver("bug")
    runner.deliver("more")
    assert told == [(runner, "bug")]
    assert core.heard == ["more"]
