"""Faults by id, begun and counted, for whoever carries them out: a host or a proxy.

Faults that apply to requests are rules of a `FaultPlan`; what they held back goes on when they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.errors import ConfigError
from ottla.faults.effect import Effect
from ottla.faults.fault import Fault
from ottla.faults.plan import FaultPlan
from ottla.faults.request_fault import RequestFault


class _Rule:
    """A fault's rule in the plan."""

    def __init__(self, plan: FaultPlan, fault_id: int, release: Callable[[int], None]) -> None:
        self._plan = plan
        self._fault_id = fault_id
        self._release = release

    @property
    def fired(self) -> int:
        """For how many requests it has fired."""
        return self._plan.fired(self._fault_id)

    def end(self) -> None:
        """End the fault: it does not fire any more, and requests that it held go on."""
        self._plan.heal(self._fault_id)
        self._release(self._fault_id)


class FaultsById:
    """All faults that have been added; ids count from 1. `release` is called with one that ends."""

    def __init__(self, plan: FaultPlan, now_us: Callable[[], int], release: Callable[[int], None]) -> None:
        self._plan = plan
        self._now_us = now_us
        self._release = release
        self._effects: dict[int, Effect] = {}

    @property
    def effects(self) -> Iterable[Effect]:
        """All of them, healed or not, in the order in which they were added."""
        return self._effects.values()

    def effect(self, fault_id: int) -> Effect:
        """The fault with this id, healed or not; ConfigError for an unknown id."""
        found = self._effects.get(fault_id)
        if found is None:
            raise ConfigError(f"there is no fault with id {fault_id}; ids come from add()")
        return found

    def counts(self, fault_id: int) -> dict[str, int]:
        """How often a fault has fired, and how many requests it matched; without requests both are the same."""
        effect = self.effect(fault_id)
        matched = self._plan.matched(fault_id) if _is_rule(effect.fault) else effect.fired
        return {"fired": effect.fired, "matched": matched}

    def _make(self, fault: Fault, began: Callable[[Effect], None] | None = None) -> Effect:
        """A fault with its id; its rule is in force, if it applies to requests."""
        effect = Effect(fault, len(self._effects) + 1, began)
        self._effects[effect.fault_id] = effect
        if isinstance(fault, RequestFault) and _is_rule(fault):
            self._plan.add(fault, self._now_us(), effect.fault_id)
            effect.add(_Rule(self._plan, effect.fault_id, self._release))
        return effect


def _is_rule(fault: Fault) -> bool:
    return isinstance(fault, RequestFault) and fault.applies_to_requests
