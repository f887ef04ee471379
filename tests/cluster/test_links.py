"""What carries messages between the cores of one process."""

from __future__ import annotations

from typing import Any

from ottla.broker.events import Halted
from ottla.cluster.event_loop import EventLoop
from ottla.cluster.links import Links


class _AlwaysDue:
    """A core whose deadline has always passed."""

    def __init__(self) -> None:
        self.ticks = 0

    def receive(self, event: Any, now_us: int) -> None: ...

    def outputs(self) -> list[Any]:
        return []

    def deadline_us(self) -> int:
        return 1

    def tick(self, now_us: int) -> None:
        self.ticks += 1


def test_a_frozen_broker_rings_no_bell() -> None:
    """The loop would turn without end, for a broker that is not to be woken."""
    loop = EventLoop()
    links = Links(loop)
    core = _AlwaysDue()
    node = links.join(1, core)
    links.wake(node)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert core.ticks > 1
    links.freeze(node)
    set_up: list[float] = []
    call_at = loop.call_at

    def counted(due_s: float, *rest: Any) -> Any:
        set_up.append(due_s)
        return call_at(due_s, *rest)

    loop.call_at = counted  # type: ignore[method-assign]
    loop.call_later(0.01, loop.stop)
    set_up.clear()
    loop.run_forever()
    assert len(set_up) <= 1, "one timer was under way when the broker was frozen"
    loop.close()


class _Halting(_AlwaysDue):
    """A core whose disk has failed."""

    def outputs(self) -> list[Any]:
        return [Halted("the log of t-0 cannot be synced")] if self.ticks == 1 else []


def test_who_runs_the_machines_is_told_of_a_broker_that_has_ended_by_itself() -> None:
    loop = EventLoop()
    links = Links(loop)
    node = links.join(1, _Halting())
    ended: list[tuple[int, Any]] = []

    def struck(broker_id: int, output: Any) -> None:
        ended.append((broker_id, output))
        links.part(node)

    links.struck = struck
    links.wake(node)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert ended == [(1, Halted("the log of t-0 cannot be synced"))]
    loop.close()
