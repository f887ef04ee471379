"""Routes about faults: what kinds there are, putting one in force, counting and awaiting that it fires, healing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.errors import ConfigError, OttlaError
from ottla.faults.fault import KINDS, fault_class, fault_from
from ottla.faults.fields import Field, whole
from ottla.faults.verbs import FaultInForce
from ottla.remote.route import DEFAULT_WAIT_S, TIMEOUT, Asked, Held, Refusal, Route, described_field

_AWAIT = Field("await", whole(1), "answer when the fault has fired so often; 504 if it has not in time")


def described_fault(fault: FaultInForce) -> dict[str, Any]:
    """A fault as all answers have it; its field `fault` is what was, or can be, posted."""
    return {
        "id": fault.id,
        "fault": fault.what.to_dict(),
        "what": fault.what.tell(),
        "in_force": not fault.is_over,
        **fault.counts(),
    }


def described_kinds(kinds: Sequence[str] = KINDS) -> list[dict[str, Any]]:
    """The kinds of faults, each with what it does and its fields, the required ones first."""
    return [
        {
            "kind": kind,
            "what": fault_class(kind).says(),
            "fields": [
                described_field(field, field in fault_class(kind).wanted)
                for field in fault_class(kind).fields().values()
            ],
        }
        for kind in kinds
    ]


def _list(held: Held, asked: Asked) -> dict[str, Any]:
    return {
        "in_force": [described_fault(fault) for fault in held.faults.in_force()],
        "kinds": described_kinds(held.faults.known_kinds),
    }


def _add(held: Held, asked: Asked) -> dict[str, Any]:
    return described_fault(held.faults.add(fault_from(asked.given)))


def _find(held: Held, asked: Asked) -> FaultInForce:
    try:
        return held.faults.find(asked.number("fault"))
    except ConfigError as error:
        raise Refusal(404, str(error)) from None


def _show(held: Held, asked: Asked) -> dict[str, Any]:
    fault = _find(held, asked)
    count = asked.given.get("await")
    if count is not None:
        try:
            fault.await_fired(count, timeout=asked.given.get("timeout", DEFAULT_WAIT_S))
        except OttlaError as error:
            raise too_late(error, held) from None
    return described_fault(fault)


def too_late(error: OttlaError, held: Held) -> Exception:
    """What to raise for what was waited for in vain; other errors stay what they are."""
    return Refusal(504, str(error)) if type(error) is OttlaError and held.is_running else error


def _heal(held: Held, asked: Asked) -> dict[str, Any]:
    fault = _find(held, asked)
    fault.heal()
    return described_fault(fault)


def _heal_all(held: Held, asked: Asked) -> dict[str, Any]:
    return {"healed": [described_fault(fault) for fault in held.faults.heal()]}


ROUTES = (
    Route("GET", "/v1/faults", _list, "the faults in force, and all kinds with their fields"),
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
        "how often a fault has fired, and how many requests matched it",
        optional=(_AWAIT, TIMEOUT),
    ),
    Route("DELETE", "/v1/faults/{fault}", _heal, "heal a fault: affected brokers run again"),
    Route("DELETE", "/v1/faults", _heal_all, "heal all faults that are in force"),
)
