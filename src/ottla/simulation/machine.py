"""One core on the simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.simulation.scheduler import Scheduler


class Core(Protocol):
    """The surface all cores share."""

    def receive(self, event: Any, now_us: int) -> None: ...
    def outputs(self) -> list[Any]: ...
    def deadline_us(self) -> int | None: ...
    def tick(self, now_us: int) -> None: ...


class Machine:
    """One core on the simulated clock: events in, outputs carried out, ticks when they are due."""

    def __init__(self, scheduler: Scheduler, core: Core, perform: Callable[[Any], None]) -> None:
        self.core = core
        self._scheduler = scheduler
        self._perform = perform
        self._armed_us: int | None = None

    def deliver(self, event: Any) -> None:
        """An event for the core, now."""
        self.core.receive(event, self._scheduler.now_us)
        self.turn()

    def turn(self) -> None:
        """Carry out what the core wants, then see to its next deadline."""
        while outputs := self.core.outputs():
            for output in outputs:
                self._perform(output)
        due = self.core.deadline_us()
        if due is not None and (self._armed_us is None or due < self._armed_us):
            self._armed_us = due
            self._scheduler.at(due, lambda: self._ring(due))

    def ring(self) -> None:
        """Let the core see what time it is."""
        self.core.tick(self._scheduler.now_us)
        self.turn()

    def _ring(self, due: int) -> None:
        if self._armed_us == due:
            self._armed_us = None
            self.ring()
