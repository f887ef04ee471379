"""The faults of one cluster, by id: begun, counted, and ended.

Faults that apply to requests are added to the `FaultPlan`, which all broker cores look at. When such a fault is to end
or freeze a broker, the core gives the output `FaultFired`, and it is carried out here. All other faults begin at the
cluster's `HostSite`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.faults.broker_fault import BrokerFault
from ottla.faults.effect import Effect
from ottla.faults.fault import Fault
from ottla.faults.in_force import FaultsById
from ottla.faults.plan import FaultPlan
from ottla.host.host import Host
from ottla.host.site import HostSite


class FaultsInForce(FaultsById):
    """All faults that have been added to a host."""

    def __init__(self, host: Host, site: HostSite, plan: FaultPlan) -> None:
        super().__init__(plan, lambda: host.schedule.now_us, host.release)
        self._host = host
        self._site = site
        # Called with a fault that has ended or frozen a broker while that handled a request.
        self.on_broker_affected: Callable[[Effect, int], None] | None = None
        host.on_fault_fired = self._fault_fired

    def add(self, fault: Fault, began: Callable[[Effect], None] | None = None) -> Effect:
        """Put a fault in force; `began` is called when it is, or when it has nothing to apply to (`Effect.missed`).

        If it cannot begin (UserMistake, OSError), it is forgotten: nothing of it stays in force.
        """
        effect = self._make(fault, began)
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
