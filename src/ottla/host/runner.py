"""One core on a host's schedule: it gets events and ticks, and its outputs are carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.host.machine_clock import OwnClock
from ottla.host.ports import Core
from ottla.host.schedule import Schedule


class Runner:
    """A core, its clock, and what carries out its outputs (`perform`).

    A dead runner never does anything again. A frozen one keeps events, and handles them when it goes on. A `clock` may
    be used by the next runner of the same machine.
    """

    def __init__(
        self,
        schedule: Schedule,
        core: Core,
        perform: Callable[[Any], None] | None = None,
        clock: OwnClock | None = None,
    ) -> None:
        self.core = core
        self.clock = clock if clock is not None else OwnClock()
        self.schedule = schedule
        self._perform = perform
        self._armed_us: int | None = None
        self._frozen: list[Any] | None = None
        self._held: list[Any] = []
        self.is_dead = False
        # Called whenever the core has handled an event or a tick.
        self.acted: Callable[[], None] | None = None
        # Called with an exception's runner and event (None for a tick); without it the exception is raised.
        self.failed: Callable[[Any, Any], None] | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether the runner is frozen."""
        return self._frozen is not None

    @property
    def now_us(self) -> int:
        """The time of its clock."""
        return self.clock.own_us(self.schedule.now_us)

    def die(self) -> None:
        """End this runner for good."""
        self.is_dead = True

    def freeze(self) -> None:
        """Keep events and outputs until `thaw`."""
        self._frozen = []

    def thaw(self) -> None:
        """Carry out the outputs and handle the events that were kept."""
        events, self._frozen = self._frozen or [], None
        held, self._held = self._held, []
        self._carry_out(held)
        for event in events:
            self.deliver(event)
        self.look_again()

    def look_again(self) -> None:
        """Tick now, and compute the next deadline anew: the clock was changed."""
        self._armed_us = None
        self.ring()

    def deliver(self, event: Any) -> None:
        """Give the core an event now."""
        if self.is_dead:
            return
        if self._frozen is not None:
            self._frozen.append(event)
            return
        try:
            self.core.receive(event, self.clock.own_us(self.schedule.now_us))
        except Exception:
            if self.failed is None:
                raise
            self.failed(self, event)
        self.carry_out()

    def ring(self) -> None:
        """Give the core a tick."""
        if self.is_dead or self._frozen is not None:
            return
        try:
            self.core.tick(self.clock.own_us(self.schedule.now_us))
        except Exception:
            if self.failed is None:
                raise
            self.failed(self, None)
        self.carry_out()

    def carry_out(self) -> None:
        """Carry out the core's outputs, then schedule a tick at its next deadline."""
        core = self.core
        if self.acted is not None and not self.is_dead:
            # Before outputs are carried out: one of them may end this runner.
            self.acted()
        while outputs := core.outputs():
            self._carry_out(outputs)
        if self.is_dead or self._frozen is not None:
            return
        due = core.deadline_us()
        if due is not None and (self._armed_us is None or due < self._armed_us):
            self._armed_us = due
            self.schedule.at(self.clock.world_us(due), self._ring, due)

    def perform(self, output: Any) -> None:
        """Carry out one output of the core."""
        assert self._perform is not None
        self._perform(output)

    def _carry_out(self, outputs: list[Any]) -> None:
        for number, output in enumerate(outputs):
            if self.is_dead:
                return
            if self._frozen is not None:
                self._held += outputs[number:]
                return
            self.perform(output)

    def _ring(self, due: int) -> None:
        if self._armed_us == due:
            self._armed_us = None
            self.ring()
