"""`drop_ack`."""

from __future__ import annotations

from ottla.faults.request_fault import Does, RequestFault


class DropAck(RequestFault):
    """The records are appended, nothing is answered, and the connection stays open and silent."""

    kind = "drop_ack"
    does = Does.SILENCE
