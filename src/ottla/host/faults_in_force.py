"""The faults of one cluster, by id: begun, counted, and ended.

Faults that apply to requests are added to the `FaultPlan`, which all broker cores look at. When such a fault is to end
or freeze a broker, the core gives the output `FaultFired`, and it is carried out here. All other faults begin at the
cluster's `HostSite`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.errors import ConfigError
from ottla.faults.broker_fault import BrokerFault
from ottla.faults.effect import Effect
from ottla.faults.fault import Fault
from ottla.faults.plan import FaultPlan
from ottla.faults.request_fault import RequestFault
from ottla.host.host import Host
from ottla.host.site import HostSite


class _RequestEffects:
    """How often a fault of the plan has fired."""

    def __init__(self, plan: FaultPlan, host: Host, fault_id: int) -> None:
        self._plan = plan
        self._host = host
        self._fault_id = fault_id

    @property
    def fired(self) -> int:
        """For how many requests it has fired."""
        return self._plan.fired(self._fault_id)

    def end(self) -> None:
        """End the fault: it does not fire any more, and requests that it held go on."""
        self._plan.heal(self._fault_id)
        self._host.release(self._fault_id)


class FaultsInForce:
    """All faults that have been added; ids count from 1."""

    def __init__(self, host: Host, site: HostSite, plan: FaultPlan) -> None:
        self._host = host
        self._site = site
        self._plan = plan
        self._effects: dict[int, Effect] = {}
        # Called with a fault that has ended or frozen a broker while that handled a request.
        self.on_broker_affected: Callable[[Effect, int], None] | None = None
        host.on_fault_fired = self._fault_fired

    def add(self, fault: Fault, began: Callable[[Effect], None] | None = None) -> Effect:
        """Put a fault in force; `began` is called when it is, or when it has nothing to apply to (`Effect.missed`).

        If it cannot begin (UserMistake, OSError), it is forgotten: nothing of it stays in force.
        """
        effect = Effect(fault, len(self._effects) + 1, began)
        self._effects[effect.fault_id] = effect
        if isinstance(fault, RequestFault) and fault.applies_to_requests:
            self._plan.add(fault, self._host.schedule.now_us, effect.fault_id)
            effect.add(_RequestEffects(self._plan, self._host, effect.fault_id))
        try:
            fault.begin(self._site, effect)
        except Exception:
            effect.heal()
            del self._effects[effect.fault_id]
            raise
        if not effect.is_pending:
            effect.begun()
        return effect

    def heal(self, fault_id: int) -> Effect:
        """End a fault, as far as its effect can be undone."""
        effect = self.effect(fault_id)
        effect.heal()
        return effect

    def effect(self, fault_id: int) -> Effect:
        """The fault with this id, healed or not; ConfigError for an unknown id."""
        found = self._effects.get(fault_id)
        if found is None:
            raise ConfigError(f"there is no fault with id {fault_id}; ids come from add()")
        return found

    @property
    def effects(self) -> Iterable[Effect]:
        """All of them, healed or not, in the order in which they were added."""
        return self._effects.values()

    def counts(self, fault_id: int) -> dict[str, int]:
        """How often a fault has fired, and how many requests it matched; without requests both are the same."""
        effect = self.effect(fault_id)
        is_planned = isinstance(effect.fault, RequestFault) and effect.fault.applies_to_requests
        return {"fired": effect.fired, "matched": self._plan.matched(fault_id) if is_planned else effect.fired}

    def _fault_fired(self, fault_id: int, broker_id: int, kind: str) -> None:
        """End or freeze a broker for a fault; the core's outputs after `FaultFired` are not carried out."""
        effect = self.effect(fault_id)
        assert isinstance(effect.fault, BrokerFault)
        effect.fault.carry_out(self._site, effect, broker_id)
        if effect.is_over:
            # The fault was healed while it waited for an answer to be sent: the broker runs again at once.
            self._host.schedule.after(0, effect.undo)
        if self.on_broker_affected is not None:
            self.on_broker_affected(effect, broker_id)
