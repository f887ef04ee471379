"""A host's schedule, driven by the cluster's event loop and its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.host.schedule import NONE, Schedule
from ottla.sockets.event_loop import EventLoop, Timer

_ACTIONS_PER_TURN = 256  # then the sockets get their turn


class LoopSchedule(Schedule):
    """Actions run as soon as they are due, one after the other; code outside of an action calls `post`."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__(loop.now_us())
        self._loop = loop
        self._running = False
        self._goes_on = False
        self._timer: Timer | None = None
        self._timer_us = 0

    def post(self, action: Callable[..., object], argument: Any = NONE) -> None:
        """Run the action now, or if an action is running, after it: a core is never called within another one."""
        self.at(0, action, argument)
        if not self._running:
            self._run()

    def _run(self) -> None:
        now_us = self._loop.now_us
        self._running = True
        try:
            for _ in range(_ACTIONS_PER_TURN):
                self.now_us = now_us()
                due_us = self.next_us()
                if due_us is None or due_us > self.now_us:
                    break
                self.run_next()
        finally:
            self._running = False
            self._arm()

    def _arm(self) -> None:
        """Set one timer for all actions, at the time of the first; one that is too early stays (that is cheaper)."""
        due_us = self.next_us()
        if due_us is None:
            return
        if due_us <= self.now_us:
            if not self._goes_on:
                self._goes_on = True
                self._loop.call_soon(self._go_on)
            return
        if self._timer is not None:
            if self._timer_us <= due_us:
                return
            self._timer.cancel()
        self._timer_us = due_us
        self._timer = self._loop.call_at(due_us / 1_000_000, self._ring)

    def _go_on(self) -> None:
        self._goes_on = False
        self._run()

    def _ring(self) -> None:
        self._timer = None
        self._run()
