"""The faults of a scenario on one cluster: each begins and ends when so many records were handed over."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError
from ottla.patience import comes_within
from ottla.trial.outcome import FaultOutcome
from ottla.trial.scenario import TimedFault

if TYPE_CHECKING:
    from ottla.faults.verbs import FaultInForce
    from ottla.trial.side_cluster import SideCluster

_PATIENCE_S = 30.0
# The faults that delay a request before the append, or have it come again: they do so also after their end.
_LATE = ("delay_request", "redeliver", "slow_disk", "stall")


class FaultSchedule:
    """Puts the faults that are planned into force and heals them."""

    def __init__(self, cluster: SideCluster, planned: Sequence[TimedFault]) -> None:
        self._cluster = cluster
        self._planned = planned
        self._begun: dict[int, FaultInForce] = {}
        self._ended: dict[int, None] = {}

    def pass_record(self, number: int) -> None:
        """So many records were handed over before this moment."""
        self._cluster.check()
        for index, planned in enumerate(self._planned):
            if index not in self._begun and planned.after <= number:
                self._begun[index] = self._cluster.begin(planned)
                if planned.in_sync is not None:
                    self._await_in_sync(planned.in_sync)
            elif index in self._begun and planned.until is not None and planned.until <= number:
                if planned.fault.kind == "hold":
                    self._await_fired(index)
                self._end(index)

    def await_fired(self) -> None:
        """Wait until each fault in force that applies to requests has fired."""
        for index in self._begun:
            self._await_fired(index)

    def _await_fired(self, index: int) -> None:
        fault = self._begun[index]
        if index not in self._ended and fault.what.applies_to_requests:
            # That it never fired is reported with the outcome.
            with suppress(OttlaError):
                fault.await_fired(timeout=_PATIENCE_S)

    def heal(self) -> None:
        """End all that are still in force."""
        for index in self._begun:
            self._end(index)

    @property
    def late_s(self) -> float:
        """How long after its end a fault may still hold a request back: the longest such time."""
        delays = [planned.fault for index, planned in enumerate(self._planned) if index in self._begun]
        return max((_delay_ms(each) for each in delays if each.kind in _LATE), default=0) / 1000

    def outcomes(self) -> tuple[FaultOutcome, ...]:
        """Each as it was put in force, and how often it fired: 0 for one that never began."""
        return tuple(
            FaultOutcome(self._begun[index].what, self._begun[index].fired)
            if index in self._begun
            else FaultOutcome(planned.fault, 0)
            for index, planned in enumerate(self._planned)
        )

    def _await_in_sync(self, count: int) -> None:
        if not comes_within(_PATIENCE_S, lambda: self._cluster.in_sync() == count):
            raise OttlaError(f"{self._cluster.topic}-0 did not have {count} replicas in sync within {_PATIENCE_S:g} s")

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended[index] = None
            self._begun[index].heal()


def _delay_ms(fault: Any) -> int:
    found = fault.delay_max_ms if fault.kind == "stall" else fault.delay_ms
    return int(found or 0)
