"""`lose_request`."""

from __future__ import annotations

from ottla.faults.request_fault import Does, RequestFault


class LoseRequest(RequestFault):
    """The request is thrown away before anything is appended, and its connection is cut."""

    kind = "lose_request"
    does = Does.CUT
