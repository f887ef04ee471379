"""Begins and heals the faults of a run at their times, and counts how often each fired.

`fired` counts what really happened: a broker that is down already cannot be killed, and a cut link counts the messages
that did not pass. For a fault that never fired `missed` has the reason; if there is no reason, it should have fired.

In a mild plan a fault that may end a broker does not happen during a power cut, and neither does a move of replicas.
Until the controller notices that a broker has lost records, that broker could become the leader when another one ends.
Then acknowledged records would be lost, as with Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.faults.broker_fault import BrokerFault
from ottla.faults.effect import Effect
from ottla.faults.request_fault import RequestFault
from ottla.simulation.plan import SEVERE, TimedFault

if TYPE_CHECKING:
    from ottla.simulation.run import Run

_NEVER_BEGAN = "all faults were healed before it began"
_PUT_OFF = "in a mild plan not beside a power cut"
_NOBODY_CONNECTED = "nobody was connected"
_NOTHING_PASSED = "nothing passed that it applies to"
_ALL_WERE_DONE = "all producers were done"


class TimedFaults:
    """The faults of one run, by their numbers in its plan."""

    def __init__(self, run: Run, faults: list[TimedFault]) -> None:
        self._run = run
        self._world = run.world
        self._faults = faults
        self._is_mild = run.plan.severity != SEVERE
        self._effects: dict[int, Effect] = {}
        self._ended: dict[int, None] = {}
        # Request faults that were in force together with others; and faults that began when all producers were done.
        self._beside_others: dict[int, None] = {}
        self._came_late: dict[int, None] = {}
        # Faults that were in force while replicas were moved.
        self._met_moves: dict[int, None] = {}
        self.missed = [_NEVER_BEGAN] * len(faults)
        self._world.faults.on_broker_affected = self._broker_affected

    def begin(self) -> None:
        """Schedule every fault."""
        now_us = self._world.scheduler.now_us
        for number, timed in enumerate(self._faults):
            self._world.scheduler.at(now_us + timed.at_us, self._begin, number)

    @property
    def fired(self) -> list[int]:
        """How often each fault has fired by now."""
        effects = self._effects
        return [effects[number].fired if number in effects else 0 for number in range(len(self._faults))]

    @property
    def is_over(self) -> bool:
        """Whether the time of every fault is over."""
        return len(self._ended) == len(self._faults)

    def note_moves(self) -> None:
        """Note that replicas are being moved now."""
        self._met_moves |= dict.fromkeys(self._in_force())

    @property
    def met_moves(self) -> list[str]:
        """The kinds of faults that have fired and were in force while replicas were moved."""
        met = [self._faults[number].kind for number in self._met_moves if self._effects[number].fired]
        return list(dict.fromkeys(met))

    def heal(self) -> None:
        """Heal all faults; all brokers and the controller run afterwards."""
        for number in range(len(self._faults)):
            self._end(number)
        self._world.site.mend_all()
        self._world.site.mend_controller()

    def _begin(self, number: int) -> None:
        if number in self._ended:
            return
        timed = self._faults[number]
        if self._run.nobody_writes:
            self._came_late[number] = None
        if self._is_put_off(timed):
            self.missed[number] = _PUT_OFF
        else:
            self.missed[number] = ""
            self._note_company(number, timed)
            effect = self._world.faults.add(timed.fault)
            self._effects[number] = effect
            self.missed[number] = effect.missed
            self._run.witness.moves.note_what_they_meet()
        self._world.scheduler.after(timed.lasts_us, self._end, number)

    def _note_company(self, number: int, timed: TimedFault) -> None:
        if timed.fault.applies_to_requests:
            others = [each for each in self._in_force() if self._faults[each].fault.applies_to_requests]
            if others:
                self._beside_others |= dict.fromkeys([*others, number])

    def _in_force(self) -> list[int]:
        return [number for number, effect in self._effects.items() if not effect.is_over and not effect.missed]

    def _end(self, number: int) -> None:
        if number in self._ended:
            return
        self._ended[number] = None
        effect = self._effects.get(number)
        if effect is None:
            return
        fault = self._faults[number].fault
        if isinstance(fault, BrokerFault) and fault.applies_to_requests and effect.fired:
            # The affected broker stays down for `lasts_us` from when the fault fired (`_broker_affected`).
            self._world.plan.heal(effect.fault_id)
        else:
            effect.heal()
        if fault.waits and not effect.missed and not effect.fired:
            self.missed[number] = self._why_it_never_fired(number, effect)
        else:
            self.missed[number] = effect.missed

    def _broker_affected(self, effect: Effect, broker_id: int) -> None:
        number = next(number for number, each in self._effects.items() if each is effect)
        self._world.scheduler.after(self._faults[number].lasts_us, effect.heal)

    def _why_it_never_fired(self, number: int, effect: Effect) -> str:
        """Why a fault that waits for something never fired; "" if what it waits for came all the same."""
        fault = effect.fault
        if not isinstance(fault, RequestFault) or not fault.applies_to_requests:
            if number in self._came_late:
                return _ALL_WERE_DONE
            return _NOBODY_CONNECTED if fault.kind == "half_open" else _NOTHING_PASSED
        matched = self._world.faults.counts(effect.fault_id)["matched"]
        if matched < (fault.nth or fault.every or 1):
            if number in self._came_late:
                return _ALL_WERE_DONE
            return "too few matching requests came" if matched else "no matching request came"
        if fault.probability is not None:
            return "by chance it fired for none of its requests"
        if not fault.is_before_append:
            return "no matching request got an answer"
        return "another fault was in force" if number in self._beside_others else ""

    def _is_put_off(self, timed: TimedFault) -> bool:
        """Whether the fault must not happen now, because the promise of a mild plan would not hold."""
        if not self._is_mild or not timed.fault.may_cost_a_broker:
            return False
        if self._run.is_power_cut_unnoticed():
            return True
        return timed.kind == "power_off" and (
            bool(self._run.witness.moves.moving)
            or any(self._faults[number].fault.may_cost_a_broker for number in self._in_force())
        )
