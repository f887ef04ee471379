"""The faults of one proxy, by id: begun, counted, and ended.

A proxy sees requests, answers and connections. Faults of anything else (brokers, disks, clocks, logs, leaders) it
cannot carry out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.faults.effect import Effect, Part
from ottla.faults.fault import OF_REQUESTS, Fault
from ottla.faults.in_force import FaultsById
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


class FaultsInForce(FaultsById):
    """All faults that have been added to a proxy."""

    def __init__(self, plan: FaultPlan, connections: Connections, now_us: Callable[[], int]) -> None:
        super().__init__(plan, now_us, connections.release)
        self._connections = connections

    def add(self, fault: Fault) -> Effect:
        """Put a fault in force; ConfigError for one that a proxy cannot carry out."""
        check_proxied(fault)
        effect = self._make(fault)
        if not isinstance(fault, RequestFault):
            site: Any = self._connections
            fault.begin(site, effect)
        return effect


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
