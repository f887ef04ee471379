"""Mishaps carried out: each begun, counted where it really struck, and ended. `forecast` lists the kinds.

`fired` counts what really happened: a broker that was down already cannot be killed, a cut link counts the messages
that did not pass. Whatever strikes nothing says why in `missed`; without a reason it had to strike.

In mild weather brokers' troubles keep out of the way of a power cut: as long as the controller still believes that a
broker has what it has lost, another's end could make that one lead, and what was acked would be gone, as it would be
with Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.faults.rule import FaultRule
from ottla.host.links import CONTROLLER
from ottla.host.machine import Machine
from ottla.simulation.forecast import is_trouble, stops_controller
from ottla.simulation.plan import SEVERE_WEATHER, Mishap

if TYPE_CHECKING:
    from ottla.simulation.run import Run

Undo = Callable[[], None]
_NEVER_BEGAN = "all healed before its time"
_PUT_OFF = "in mild weather not beside a power cut"
_IS_DOWN = "its broker was down"
_IS_FROZEN = "its broker was frozen"
_IS_STOPPED = "the controller was down"
_NOT_WHOLE = "not all replicas were in sync"
_ALL_SYNCED = "nothing of that log was unsynced"
_NO_OTHER_LEADER = "no other replica could lead"
_NOBODY_CONNECTED = "nobody was connected"
_NOTHING_PASSED = "nothing came its way"
_ALL_WERE_DONE = "all producers were done"


class Weather:
    """The mishaps of one run."""

    def __init__(self, run: Run, mishaps: list[Mishap]) -> None:
        self._run = run
        self._world = run.world
        self._mishaps = mishaps
        self._is_mild = run.plan.weather != SEVERE_WEATHER
        # The ids of rules by their mishaps, the mishaps by them, and those that were not alone in force.
        self._rule_ids: dict[int, int] = {}
        self._rules: dict[int, int] = {}
        self._beside_others: dict[int, None] = {}
        # Those that began when nobody wrote any more.
        self._came_late: dict[int, None] = {}
        self._in_force: dict[int, Undo | None] = {}
        self._ended: dict[int, None] = {}
        # Those in force that strike more than once: how often they have.
        self._counting: dict[int, Callable[[], int]] = {}
        self._kinds: dict[str, Callable[[int, dict[str, Any]], Undo | None]] = {
            "rule": self._break_requests,
            "kill": self._kill,
            "pause": self._pause,
            "restart": self._restart,
            "power_off": self._power_off,
            "cut_power": self._cut_power,
            "corrupt": self._corrupt,
            "cut_link": self._cut_link,
            "isolate": self._isolate,
            "lose": self._lose,
            "unplug": self._unplug,
            "half_open": self._half_open,
            "stall": self._stall,
            "full_disk": self._fill_disk,
            "slow_disk": self._slow_disk,
            "failing_disk": self._fail_disk,
            "drift_clock": self._drift_clock,
            "jump_clock": self._jump_clock,
            "move_leader": self._move_leader,
            "stop_controller": self._stop_controller,
        }
        self.fired = [0] * len(mishaps)
        self.missed = [_NEVER_BEGAN] * len(mishaps)
        self._world.rule_struck = self._rule_struck

    def begin(self) -> None:
        """Put every mishap on the clock."""
        now_us = self._world.scheduler.now_us
        for number, mishap in enumerate(self._mishaps):
            self._world.scheduler.at(now_us + mishap.at_us, self._strike, number)

    def counts(self) -> list[int]:
        """How often each mishap has struck by now."""
        return [fired + self._counting.get(number, _nothing)() for number, fired in enumerate(self.fired)]

    @property
    def is_over(self) -> bool:
        """Whether every mishap has had its time."""
        return len(self._ended) == len(self._mishaps)

    def heal(self) -> None:
        """End everything that still lasts; all brokers and the controller run afterwards."""
        for number in range(len(self._mishaps)):
            self._end(number)
        if self._world.controller.is_dead:
            self._world.start_controller()
        self._mend_all()

    def _strike(self, number: int) -> None:
        if number in self._ended:
            return
        mishap = self._mishaps[number]
        self.missed[number] = ""
        if self._run.nobody_writes:
            self._came_late[number] = None
        if self._is_put_off(mishap):
            self.missed[number] = _PUT_OFF
        else:
            self._in_force[number] = self._kinds[mishap.kind](number, mishap.details)
        self._world.scheduler.after(mishap.lasts_us, self._end, number)

    def _end(self, number: int) -> None:
        if number in self._ended:
            return
        self._ended[number] = None
        undo = self._in_force.pop(number, None)
        if undo is not None:
            undo()
        count = self._counting.pop(number, None)
        if count is not None:
            self.fired[number] += count()
            if not self.fired[number]:
                self.missed[number] = self._why_nothing_was_struck(number)

    def _why_nothing_was_struck(self, number: int) -> str:
        """Of what waits for something to strike; "" where that came, and was not struck."""
        rule_id = self._rule_ids.get(number)
        if rule_id is None:
            if number in self._came_late:
                return _ALL_WERE_DONE
            return _NOBODY_CONNECTED if self._mishaps[number].kind == "half_open" else _NOTHING_PASSED
        rule, matched = self._world.faults.rule(rule_id), self._world.faults.matched(rule_id)
        if matched < (rule.nth or rule.every or 1):
            if number in self._came_late:
                return _ALL_WERE_DONE
            return "too few of its requests came" if matched else "none of its requests came"
        if rule.probability is not None:
            return "chance spared its requests"
        if not rule.is_before_append:
            return "none of its requests came to an answer"
        return "another rule was in force" if number in self._beside_others else ""

    def _is_put_off(self, mishap: Mishap) -> bool:
        """Whether it must not happen now, as the promise of mild weather would not hold."""
        if not self._is_mild or not is_trouble(mishap):
            return False
        if self._run.is_power_cut_unnoticed():
            return True
        return mishap.kind == "power_off" and any(
            is_trouble(self._mishaps[number]) for number, undo in self._in_force.items() if undo is not None
        )

    def _mend(self, broker_id: int) -> None:
        machine = self._world.brokers[broker_id]
        if machine.is_dead:
            self._world.start(broker_id)
        elif machine.is_frozen:
            self._world.resume(broker_id)

    def _mend_all(self) -> None:
        for broker_id in range(len(self._world.brokers)):
            self._mend(broker_id)

    # ---- requests -----------------------------------------------------------------------------------------------

    def _break_requests(self, number: int, details: dict[str, Any]) -> Undo:
        rule_id = self._world.break_on_purpose(FaultRule(**details))
        self._rules[rule_id], self._rule_ids[number] = number, rule_id
        others = [each for each in self._in_force if each in self._rule_ids]
        if others:
            self._beside_others |= dict.fromkeys([*others, number])
        self._counting[number] = lambda: self._world.faults.fired(rule_id)
        return lambda: self._world.faults.heal(rule_id)

    def _rule_struck(self, rule_id: int, broker_id: int, kind: str) -> None:
        number = self._rules[rule_id]
        if kind == "pause":
            self._world.pause(broker_id)
        elif kind == "kill":
            self._run.kill(broker_id)
        else:
            self._run.power_off([broker_id] if kind == "power_off" else range(len(self._world.brokers)))
        lasts_us = self._mishaps[number].lasts_us
        mend = self._mend_all if kind == "cut_power" else partial(self._mend, broker_id)
        self._world.scheduler.after(lasts_us, mend)

    # ---- brokers ------------------------------------------------------------------------------------------------

    def _kill(self, number: int, details: dict[str, Any]) -> Undo | None:
        return self._take_down(number, details["broker"], self._run.kill)

    def _pause(self, number: int, details: dict[str, Any]) -> Undo | None:
        if self._world.brokers[details["broker"]].is_frozen:
            return self._miss(number, _IS_FROZEN)
        return self._take_down(number, details["broker"], self._world.pause)

    def _restart(self, number: int, details: dict[str, Any]) -> Undo | None:
        broker_id = details["broker"]
        if self._world.brokers[broker_id].is_frozen:
            return self._miss(number, _IS_FROZEN)
        machine = self._world.brokers[broker_id]
        mend = self._take_down(number, broker_id, self._world.shut_down)

        def undo() -> None:
            if self._world.brokers[broker_id] is machine and not machine.is_dead:
                # The controller has not let it go: whoever waits for that loses patience in the end.
                self._run.kill(broker_id)
            if mend is not None:
                mend()

        return undo

    def _power_off(self, number: int, details: dict[str, Any]) -> Undo | None:
        if not details["anywhere"] and not self._world.is_whole():
            return self._miss(number, _NOT_WHOLE)
        return self._take_down(number, details["broker"], lambda broker_id: self._run.power_off([broker_id]))

    def _cut_power(self, number: int, details: dict[str, Any]) -> Undo:
        machines: list[Machine] = list(self._world.brokers.values())
        if details.get("controller"):
            machines.append(self._world.controller)
            if not self._world.controller.is_dead:
                self._world.kill_controller()
        self._run.power_off(range(len(self._world.brokers)))
        self.fired[number] += all(machine.is_dead for machine in machines)

        def undo() -> None:
            self._mend_controller()
            self._mend_all()

        return undo

    def _corrupt(self, number: int, details: dict[str, Any]) -> Undo | None:
        broker_id = details["broker"]
        if self._world.brokers[broker_id].is_dead:
            return self._miss(number, _IS_DOWN)
        if not self._run.corrupt(**details):
            return self._miss(number, _ALL_SYNCED)
        self.fired[number] += self._world.brokers[broker_id].is_dead
        return lambda: self._mend(broker_id)

    def _take_down(self, number: int, broker_id: int, act: Callable[[int], None]) -> Undo | None:
        machine = self._world.brokers[broker_id]
        if machine.is_dead:
            return self._miss(number, _IS_DOWN)
        act(broker_id)
        # Who is shut down in order takes its time.
        self.fired[number] += machine.is_dead or machine.is_frozen or act == self._world.shut_down
        return lambda: self._mend(broker_id)

    def _miss(self, number: int, why: str) -> Undo | None:
        """Note why there was nothing to strike, and so nothing to undo."""
        self.missed[number] = why
        return None

    def _stop_controller(self, number: int, details: dict[str, Any]) -> Undo | None:
        if self._world.controller.is_dead:
            return self._miss(number, _IS_STOPPED)
        self._world.kill_controller()
        self.fired[number] += self._world.controller.is_dead
        return self._mend_controller

    def _mend_controller(self) -> None:
        """Start it, unless something else keeps it down."""
        lasting = [self._mishaps[number] for number, undo in self._in_force.items() if undo is not None]
        if self._world.controller.is_dead and not any(map(stops_controller, lasting)):
            self._world.start_controller()

    def _move_leader(self, number: int, details: dict[str, Any]) -> None:
        if self._world.move_leader(details["topic"], details["partition"]):
            self.fired[number] += 1
        else:
            self._miss(number, _IS_STOPPED if self._world.controller.is_dead else _NO_OTHER_LEADER)

    # ---- networks -----------------------------------------------------------------------------------------------

    def _cut_link(self, number: int, details: dict[str, Any]) -> Undo:
        links = self._world.links
        cut = links.cut(details["one"], details["other"], silently=details["silently"])
        self._counting[number] = lambda: cut.fired
        return lambda: links.mend(cut)

    def _isolate(self, number: int, details: dict[str, Any]) -> Undo:
        links, broker_id = self._world.links, details["broker"]
        others = [each for each in (*range(len(self._world.brokers)), CONTROLLER) if each != broker_id]
        cuts = [links.cut(broker_id, other, silently=details["silently"]) for other in others]
        self._counting[number] = lambda: sum(cut.fired for cut in cuts)

        def undo() -> None:
            for cut in cuts:
                links.mend(cut)

        return undo

    def _lose(self, number: int, details: dict[str, Any]) -> Undo:
        links, before = self._world.links, self._world.links.lost
        links.lose(details["chance"])
        self._counting[number] = lambda: links.lost - before
        return lambda: links.lose(0)

    def _unplug(self, number: int, details: dict[str, Any]) -> Undo:
        network = self._world.network
        silence = network.unplug(self._world.port_of(details["broker"]), details["client"])
        self._counting[number] = lambda: silence.fired
        return lambda: network.plug_in(silence)

    def _half_open(self, number: int, details: dict[str, Any]) -> Undo:
        network, broker_id = self._world.network, details["broker"]
        port = None if broker_id is None else self._world.port_of(broker_id)
        silence = network.half_open(port, details["client"])
        self._counting[number] = lambda: silence.fired
        return lambda: network.forget(silence)

    def _stall(self, number: int, details: dict[str, Any]) -> Undo:
        network, before = self._world.network, self._world.network.stalled
        network.stall(details["chance"], details["most_us"])
        self._counting[number] = lambda: network.stalled - before
        return lambda: network.stall(0, 0)

    # ---- disks and clocks ---------------------------------------------------------------------------------------

    def _fill_disk(self, number: int, details: dict[str, Any]) -> Undo:
        disk = self._world.disks[details["broker"]]
        before = disk.refused
        disk.is_full = True
        self._counting[number] = lambda: disk.refused - before

        def undo() -> None:
            disk.is_full = False

        return undo

    def _slow_disk(self, number: int, details: dict[str, Any]) -> Undo:
        host = self._world.host
        slow = host.slow_down(details["broker"], details["delay_us"])
        self._counting[number] = lambda: slow.fired
        return lambda: host.speed_up(slow)

    def _fail_disk(self, number: int, details: dict[str, Any]) -> Undo | None:
        broker_id, operation = details["broker"], details["operation"]
        if self._world.brokers[broker_id].is_dead:
            return self._miss(number, _IS_DOWN)
        disk = self._world.disks[broker_id]
        before = disk.failed
        disk.fail(operation, details["every"], evicts=details["evicts"])
        self._counting[number] = lambda: disk.failed - before

        def undo() -> None:
            disk.work(operation)
            # It ends where it cannot sync.
            self._mend(broker_id)

        return undo

    def _drift_clock(self, number: int, details: dict[str, Any]) -> Undo:
        world = self._world
        drift = (
            partial(world.drift_client_clock, details["client"])
            if "client" in details
            else partial(world.drift_clock, details["broker"])
        )
        drift(details["ppm"])
        self.fired[number] += 1
        return lambda: drift(0)

    def _jump_clock(self, number: int, details: dict[str, Any]) -> Undo:
        self._world.jump_clock(details["broker"], details["jump_ms"] * 1000)
        self.fired[number] += 1
        return lambda: self._world.jump_clock(details["broker"], -details["jump_ms"] * 1000)


def _nothing() -> int:
    return 0
