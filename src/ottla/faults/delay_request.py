"""`delay_request`."""

from __future__ import annotations

from ottla.faults.fields import DELAY
from ottla.faults.request_fault import Does, RequestFault


class DelayRequest(RequestFault):
    """The request is handled `delay_ms` late, even if the client has given it up and sent it again."""

    kind = "delay_request"
    does = Does.DELAY
    wanted = (DELAY,)

    delay_ms: int
