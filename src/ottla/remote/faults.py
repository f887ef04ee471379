"""Routes about faults: what kinds there are, putting one in force, counting and awaiting its strikes, healing it."""

from __future__ import annotations

from typing import Any

from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError, OttlaError
from ottla.faults.fault import KINDS, fault_class, fault_from
from ottla.faults.fields import Field, whole
from ottla.faults.verbs import Fault
from ottla.remote.route import DEFAULT_WAIT_S, TIMEOUT, Asked, Refusal, Route, described_field

_AWAIT = Field("await", whole(1), "answer when the fault has struck so often; 504 where it has not in time")


def described_fault(fault: Fault) -> dict[str, Any]:
    """A fault as it is answered everywhere; `fault` in it is what was, or can be, posted."""
    return {
        "id": fault.id,
        "fault": fault.what.to_dict(),
        "what": fault.what.tell(),
        "in_force": not fault.is_over,
        **fault.counts(),
    }


def described_kinds() -> list[dict[str, Any]]:
    """Every kind of fault with what it does and the fields it takes, those first that it wants."""
    return [
        {
            "kind": kind,
            "what": fault_class(kind).says(),
            "fields": [
                described_field(field, field in fault_class(kind).wanted)
                for field in fault_class(kind).fields().values()
            ],
        }
        for kind in KINDS
    ]


def _list(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {
        "in_force": [described_fault(fault) for fault in cluster.faults.in_force()],
        "kinds": described_kinds(),
    }


def _add(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return described_fault(cluster.faults.add(fault_from(asked.given)))


def _find(cluster: Cluster, asked: Asked) -> Fault:
    try:
        return cluster.faults.find(asked.number("fault"))
    except ConfigError as error:
        raise Refusal(404, str(error)) from None


def _show(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    fault = _find(cluster, asked)
    count = asked.given.get("await")
    if count is not None:
        try:
            fault.await_fired(count, timeout=asked.given.get("timeout", DEFAULT_WAIT_S))
        except OttlaError as error:
            raise too_late(error, cluster) from None
    return described_fault(fault)


def too_late(error: OttlaError, cluster: Cluster) -> Exception:
    """What to raise for what was waited for in vain; other errors stay what they are."""
    return Refusal(504, str(error)) if type(error) is OttlaError and cluster.is_running else error


def _heal(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    fault = _find(cluster, asked)
    fault.heal()
    return described_fault(fault)


def _heal_all(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {"healed": [described_fault(fault) for fault in cluster.faults.heal()]}


ROUTES = (
    Route("GET", "/v1/faults", _list, "the faults in force, and all kinds there are with their fields"),
    Route(
        "POST",
        "/v1/faults",
        _add,
        "put a fault in force: its kind, and the fields of that kind",
        takes_anything=True,
        status=201,
    ),
    Route(
        "GET",
        "/v1/faults/{fault}",
        _show,
        "how often a fault has struck, and how many requests it was about",
        optional=(_AWAIT, TIMEOUT),
    ),
    Route("DELETE", "/v1/faults/{fault}", _heal, "heal a fault: brokers that it has struck run again"),
    Route("DELETE", "/v1/faults", _heal_all, "heal all faults that are in force"),
)
