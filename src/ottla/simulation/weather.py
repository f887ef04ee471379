"""Mishaps: how each kind is drawn, begun and ended in a world.

| kind | details | what happens |
|---|---|---|
| `rule` | a `FaultRule` as a dictionary | single requests are struck (faults/rule.py) |
| `kill`, `pause` | `broker` | that broker dies (and is started again after `lasts_us`), or freezes |
| `power_off` | `broker`, `anywhere` | its power is cut; without `anywhere` only where everything is in sync |
| `cut_power` | | the power of the whole cluster, the controller's excepted |
| `cut_link` | `one`, `other` | two brokers, or a broker and the controller (-2), do not hear each other |
| `stall` | `chance`, `most_us` | some of what goes to brokers is held up, and what is behind it |

`fired` counts what really happened: a broker that was down already cannot be killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.faults.rule import FaultRule
from ottla.simulation.chance import Chance
from ottla.simulation.plan import Mishap, TopicPlan
from ottla.simulation.world import CONTROLLER

if TYPE_CHECKING:
    from ottla.simulation.run import Run

KINDS = ("rule", "kill", "pause", "power_off", "cut_power", "cut_link", "stall")
MILD = ("rule", "kill", "pause", "power_off", "cut_link", "stall")
_APIS = (
    "Produce",
    "Produce",
    "Produce",
    "EndTxn",
    "InitProducerId",
    "AddPartitionsToTxn",
    "FindCoordinator",
    "Metadata",
)
_RULES = ("lose_ack", "lose_ack", "lose_request", "drop_ack", "drop_request", "delay_ack", "delay_request", "redeliver")
_ERRORS = (3, 6, 7, 19, 20, -1)


def draw_mishaps(chance: Chance, count: int, *, brokers: int, topics: list[TopicPlan]) -> list[Mishap]:
    """So many mishaps, of the few kinds that this run has, one after the other."""
    allowed = [kind for kind in MILD if chance.random() < 0.5] or ["rule"]
    at_us, drawn = 0, []
    for _ in range(count):
        at_us += chance.choice((0, 10_000, 200_000, 1_000_000, 3_000_000))
        drawn.append(_draw(chance, chance.choice(allowed), at_us, brokers, topics))
    return drawn


def _draw(chance: Chance, kind: str, at_us: int, brokers: int, topics: list[TopicPlan]) -> Mishap:
    lasts_us = chance.choice((200_000, 2_000_000, 6_000_000))
    if kind == "rule":
        return Mishap(kind, at_us, lasts_us, _rule(chance, topics))
    if kind == "cut_link":
        one = chance.randrange(brokers)
        others = [each for each in (*range(brokers), CONTROLLER) if each != one]
        return Mishap(kind, at_us, lasts_us, {"one": one, "other": chance.choice(others)})
    if kind == "stall":
        details = {"chance": chance.choice((0.02, 0.1)), "most_us": chance.choice((50_000, 2_000_000))}
        return Mishap(kind, at_us, lasts_us, details)
    return Mishap(kind, at_us, lasts_us, {} if kind == "cut_power" else {"broker": chance.randrange(brokers)})


def _rule(chance: Chance, topics: list[TopicPlan]) -> dict[str, Any]:
    kind, api = chance.choice(_RULES), chance.choice(_APIS)
    details: dict[str, Any] = {"every": chance.randint(1, 5), "times": chance.choice((1, 1, 5))}
    if chance.random() < 0.2:
        kind, api = chance.choice(("refuse", "refuse_after_append")), "Produce"
        details["error"] = chance.choice(_ERRORS)
    elif kind in ("delay_ack", "delay_request", "redeliver"):
        details["delay_ms"] = chance.choice((5, 200, 700, 3_000))
    if api == "Produce" and chance.random() < 0.5:
        details["topic"] = chance.choice(topics).name
    return {"kind": kind, "api": api, **details}


class Weather:
    """The mishaps of one run."""

    def __init__(self, run: Run, mishaps: list[Mishap]) -> None:
        self._run = run
        self._world = run.world
        self._mishaps = mishaps
        self._rules: list[tuple[int, int]] = []
        self._in_force: dict[int, Callable[[], None]] = {}
        self.fired = [0] * len(mishaps)
        self._ended: dict[int, None] = {}

    def begin(self) -> None:
        """Put every mishap on the clock."""
        now_us = self._world.scheduler.now_us
        for number, mishap in enumerate(self._mishaps):
            self._world.scheduler.at(now_us + mishap.at_us, lambda n=number: self._strike(n))  # type: ignore[misc]

    def counts(self) -> list[int]:
        """How often each mishap has struck by now."""
        struck = list(self.fired)
        for rule_id, number in self._rules:
            struck[number] = self._world.faults.fired(rule_id)
        return struck

    @property
    def is_over(self) -> bool:
        """Whether every mishap has had its time."""
        return len(self._ended) == len(self._mishaps)

    def heal(self) -> None:
        """End everything that still lasts; all brokers run afterwards."""
        for number in list(self._in_force):
            self._end(number)
        world = self._world
        world.heal_links()
        world.network.stall(0, 0)
        self._start_all()
        for broker_id, machine in enumerate(world.brokers):
            if machine.is_frozen:
                world.resume(broker_id)
        for rule_id, number in self._rules:
            world.faults.heal(rule_id)
            self.fired[number] = world.faults.fired(rule_id)

    def _start_all(self) -> None:
        for broker_id, machine in enumerate(self._world.brokers):
            if machine.is_dead:
                self._world.start(broker_id)

    def _strike(self, number: int) -> None:
        mishap = self._mishaps[number]
        undo = self._begin(number, mishap)
        if undo is not None:
            self._in_force[number] = undo
        self._world.scheduler.after(mishap.lasts_us, lambda: self._end(number))

    def _end(self, number: int) -> None:
        self._ended[number] = None
        undo = self._in_force.pop(number, None)
        if undo is not None:
            undo()

    def _begin(self, number: int, mishap: Mishap) -> Callable[[], None] | None:
        world, details = self._world, mishap.details
        if mishap.kind == "rule":
            rule_id = world.break_on_purpose(FaultRule(**details))
            self._rules.append((rule_id, number))
            return lambda: world.faults.heal(rule_id)
        if mishap.kind == "stall":
            world.network.stall(details["chance"], details["most_us"])
            self.fired[number] += 1
            return lambda: world.network.stall(0, 0)
        if mishap.kind == "cut_link":
            world.cut_link(details["one"], details["other"])
            self.fired[number] += 1
            return world.heal_links
        if mishap.kind == "cut_power":
            self._run.power_off(range(len(world.brokers)))
            self.fired[number] += 1
            return self._start_all
        return self._strike_broker(number, mishap.kind, details["broker"])

    def _strike_broker(self, number: int, kind: str, broker_id: int) -> Callable[[], None] | None:
        world, machine = self._world, self._world.brokers[broker_id]
        if machine.is_dead or self._run.is_power_cut_unnoticed():
            return None
        if kind == "kill":
            self._run.kill(broker_id)
        elif kind == "pause":
            if machine.is_frozen:
                return None
            world.pause(broker_id)
        elif self._run.is_whole():
            self._run.power_off([broker_id])
        else:
            return None
        self.fired[number] += 1

        def mend() -> None:
            found = world.brokers[broker_id]
            if found.is_dead:
                world.start(broker_id)
            elif found.is_frozen:
                world.resume(broker_id)

        return mend
