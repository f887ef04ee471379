"""`lose_ack`."""

from __future__ import annotations

from ottla.faults.request_fault import Does, RequestFault


class LoseAck(RequestFault):
    """The records are appended, and the connection is cut instead of an answer."""

    kind = "lose_ack"
    does = Does.CUT
