"""`refuse`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ottla.faults.fields import ERROR
from ottla.faults.request_fault import PRODUCE, WHICH, Does, RequestFault

if TYPE_CHECKING:
    from ottla.faults.site import Drawing

NOT_ENOUGH_REPLICAS = 19
# NOT_LEADER, timeout, NOT_ENOUGH_REPLICAS before and after the append, an unknown topic, an unknown error.
ERRORS_DRAWN = (3, 6, 7, 19, 20, -1)


class Refuse(RequestFault):
    """A Produce request is answered with `error` (NOT_ENOUGH_REPLICAS unless given), and nothing is appended."""

    kind = "refuse"
    does = Does.REFUSE
    optional = (*WHICH, ERROR)
    defaults: ClassVar[dict[str, Any]] = {"api": PRODUCE, "error": NOT_ENOUGH_REPLICAS}

    error: int

    def check(self) -> None:
        """ConfigError where fields do not go together."""
        super().check()
        if self.api != PRODUCE:
            raise self.wrong(f"it is for Produce requests only, not for {self.api}")

    @classmethod
    def draw_fields(cls, drawing: Drawing) -> dict[str, Any]:
        """With one of the errors that brokers give."""
        return super().draw_fields(drawing) | {"api": PRODUCE, "error": drawing.chance.choice(ERRORS_DRAWN)}
