"""The faults of one proxy, by id: begun, counted, and ended.

A proxy sees requests, answers and connections. Faults of anything else (brokers, disks, clocks, logs, leaders) it
cannot carry out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.errors import ConfigError
from ottla.faults.effect import Effect, Part
from ottla.faults.fault import OF_REQUESTS, Fault
from ottla.faults.plan import FaultPlan
from ottla.faults.request_fault import RequestFault
from ottla.nearest import nearest_name
from ottla.protocol.messages import MODULES

OF_CONNECTIONS = ("unplug", "half_open")
KINDS = (*OF_REQUESTS, *OF_CONNECTIONS)


class Connections(Protocol):
    """What faults do to clients' connections, and to requests that they hold up."""

    def unplug(self, broker_id: int, client_id: str | None) -> Part:
        """Let connections old and new fall silent until the end."""
        ...

    def half_open(self, broker_id: int | None, client_id: str | None) -> Part:
        """Let the connections that there are now be silent for good."""
        ...

    def release(self, fault_id: int) -> None:
        """What this fault held back goes on."""
        ...


class _AffectedRequests:
    """What a fault of the plan counts."""

    def __init__(self, plan: FaultPlan, connections: Connections, fault_id: int) -> None:
        self._plan = plan
        self._connections = connections
        self._fault_id = fault_id

    @property
    def fired(self) -> int:
        """How many requests it has fired."""
        return self._plan.fired(self._fault_id)

    def end(self) -> None:
        """It fires no more, and what it held goes on."""
        self._plan.heal(self._fault_id)
        self._connections.release(self._fault_id)


class FaultsInForce:
    """All faults that have been added; ids count from 1."""

    def __init__(self, plan: FaultPlan, connections: Connections, now_us: Callable[[], int]) -> None:
        self._plan = plan
        self._connections = connections
        self._now_us = now_us
        self._effects: dict[int, Effect] = {}

    @property
    def effects(self) -> list[Effect]:
        """All of them, healed or not, in the order in which they were added."""
        return list(self._effects.values())

    def add(self, fault: Fault) -> Effect:
        """Put a fault in force; ConfigError for one that a proxy cannot carry out."""
        check_proxied(fault)
        effect = Effect(fault, len(self._effects) + 1)
        self._effects[effect.fault_id] = effect
        if isinstance(fault, RequestFault):
            self._plan.add(fault, self._now_us(), effect.fault_id)
            effect.add(_AffectedRequests(self._plan, self._connections, effect.fault_id))
        else:
            site: Any = self._connections
            fault.begin(site, effect)
        return effect

    def effect(self, fault_id: int) -> Effect:
        """The fault with this id, healed or not; ConfigError for an unknown id."""
        found = self._effects.get(fault_id)
        if found is None:
            raise ConfigError(f"there is no fault with id {fault_id}; ids come from add()")
        return found

    def counts(self, fault_id: int) -> dict[str, int]:
        """How often it has fired, and how many requests it was about."""
        effect = self.effect(fault_id)
        is_planned = isinstance(effect.fault, RequestFault)
        return {"fired": effect.fired, "matched": self._plan.matched(fault_id) if is_planned else effect.fired}


def check_proxied(fault: Fault) -> None:
    """ConfigError for a fault that a proxy cannot carry out, or that waits for requests which nobody can send."""
    if fault.kind not in KINDS:
        raise fault.wrong(
            f"a proxy sees requests and connections, and cannot do this to a broker; it can do {', '.join(KINDS)}"
        )
    api = getattr(fault, "api", None)
    known = sorted(name for _, name in MODULES.values())
    if api is not None and api not in known:
        near = nearest_name(api, known)
        hint = f" did you mean {near!r}?" if near is not None else ""
        raise fault.wrong(f"api={api!r} is no request that this proxy knows;{hint} it knows {', '.join(known)}")
