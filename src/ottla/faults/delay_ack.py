"""`delay_ack`."""

from __future__ import annotations

from ottla.faults.fields import DELAY
from ottla.faults.request_fault import RequestFault


class DelayAck(RequestFault):
    """The records are appended, and the answer is sent `delay_ms` late."""

    kind = "delay_ack"
    wanted = (DELAY,)

    delay_ms: int
