"""`hold`."""

from __future__ import annotations

from typing import Any, ClassVar

from ottla.faults.fields import ACK, REQUEST, Field, one_of
from ottla.faults.request_fault import PRODUCE, WHICH, Does, RequestFault

_MOMENT = Field(
    "moment",
    one_of((REQUEST, ACK)),
    "what is held: the request (nothing is stored yet), or the ack (the answer); request unless given",
)


class Hold(RequestFault):
    """A request, or its answer, waits until the fault is healed: a barrier for tests."""

    kind = "hold"
    does = Does.HOLD
    optional = (*WHICH, _MOMENT)
    defaults: ClassVar[dict[str, Any]] = {"api": PRODUCE, "moment": REQUEST}

    moment: str
