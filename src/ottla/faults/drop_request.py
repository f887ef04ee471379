"""`drop_request`."""

from __future__ import annotations

from ottla.faults.request_fault import Does, RequestFault


class DropRequest(RequestFault):
    """The request is thrown away, and its connection stays open and silent until the client gives it up."""

    kind = "drop_request"
    does = Does.SILENCE
