"""The faults of a scenario on one cluster: each begins and ends when so many records were handed over."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError, OttlaError
from ottla.patience import comes_within
from ottla.trial.outcome import FaultOutcome
from ottla.trial.scenario import COORDINATOR, ROLES, TOPIC, TRANSACTIONAL_ID, TimedFault

if TYPE_CHECKING:
    from ottla.faults import fault as kinds
    from ottla.faults.verbs import Fault

_PATIENCE_S = 30.0


class FaultSchedule:
    """Puts the faults that are planned into force and heals them."""

    def __init__(self, cluster: Cluster, planned: Sequence[TimedFault]) -> None:
        self._cluster = cluster
        self._planned = planned
        self._begun: dict[int, Fault] = {}
        self._ended: dict[int, None] = {}

    def pass_record(self, number: int) -> None:
        """So many records were handed over before this moment."""
        for index, planned in enumerate(self._planned):
            if index not in self._begun and planned.after <= number:
                self._begun[index] = self._begin(planned)
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
            # That it never did is told with the outcome.
            with suppress(OttlaError):
                fault.await_fired(timeout=_PATIENCE_S)

    def heal(self) -> None:
        """End all that are still in force."""
        for index in self._begun:
            self._end(index)

    def outcomes(self) -> tuple[FaultOutcome, ...]:
        """Each as it was put in force, and how often it was there: 0 for one that never began."""
        return tuple(
            FaultOutcome(self._begun[index].what, self._begun[index].fired)
            if index in self._begun
            else FaultOutcome(planned.fault, 0)
            for index, planned in enumerate(self._planned)
        )

    def _await_in_sync(self, count: int) -> None:
        if not comes_within(_PATIENCE_S, lambda: len(self._cluster.isr(TOPIC, 0)) == count):
            raise OttlaError(f"{TOPIC}-0 did not have {count} replicas in sync within {_PATIENCE_S:g} s")

    def _begin(self, planned: TimedFault) -> Fault:
        if planned.role == COORDINATOR and planned.fault.kind == "move_leader":
            return self._cluster.faults.move_coordinator(transactional_id=TRANSACTIONAL_ID)
        return self._cluster.faults.add(self._placed(planned))

    def _placed(self, planned: TimedFault) -> kinds.Fault:
        """The fault, about the trial's topic where it names none, and about the broker that has its role now."""
        fault = planned.fault
        if planned.role == COORDINATOR:
            fault = fault.but(broker_id=self._cluster.coordinator(transactional_id=TRANSACTIONAL_ID))
        elif planned.role:
            part = self._cluster.partition(TOPIC, 0)
            followers = [broker for broker in part["replicas"] if broker != part["leader"]]
            brokers = dict(zip(ROLES, (part["leader"], *followers), strict=False))
            if planned.role not in brokers:
                raise ConfigError(
                    f"fault {fault.kind}: the trial's partition has no {planned.role}: it has {len(followers) + 1} "
                    "replicas"
                )
            fault = fault.but(broker_id=brokers[planned.role])
        names_topic = "topic" in fault.fields() and getattr(fault, "topic", None) is not None
        is_about_produce = fault.applies_to_requests and getattr(fault, "api", None) in (None, "Produce")
        return fault.but(topic=TOPIC) if is_about_produce and not names_topic else fault

    def _end(self, index: int) -> None:
        if index not in self._ended:
            self._ended[index] = None
            self._begun[index].heal()
