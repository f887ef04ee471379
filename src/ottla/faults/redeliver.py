"""`redeliver`."""

from __future__ import annotations

from ottla.faults.fields import DELAY
from ottla.faults.request_fault import WHICH, Does, RequestFault


class Redeliver(RequestFault):
    """The request is answered, and handled once more `delay_ms` later, as if it came on a connection of its own."""

    kind = "redeliver"
    does = Does.REPEAT
    optional = (*WHICH, DELAY)
