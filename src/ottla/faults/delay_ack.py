"""`delay_ack`."""

from __future__ import annotations

from ottla.faults.fields import DELAY
from ottla.faults.request_fault import Does, RequestFault


class DelayAck(RequestFault):
    """The records are appended, and the answer is sent `delay_ms` late."""

    kind = "delay_ack"
    does = Does.DELAY
    wanted = (DELAY,)

    delay_ms: int
