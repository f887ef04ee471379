"""Processes in a simulated world: ordinary code that blocks, one at a time, killed or held up wherever it waits.

Each process is a thread, and exactly one thread runs at any moment: the one that lets simulated time pass, or one
process until it waits or ends. So a seed gives the same history every time. A process waits at every request and every
answer. There it can be killed (`Killed` comes out of this wait and of every later one, so nothing it does on its way
out is seen by anybody) or held up for as long as may be, while all others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ottla.simulation.world import World

_FOR_EVER_US = 10**12


class Killed(BaseException):
    """The process is dead; only tests may catch it."""


class Process:
    """One process; `error` is what it ended with, `waits` how often it has waited. `dying` are told of its end."""

    def __init__(self, processes: Processes, name: str, work: Callable[[Process], Any]) -> None:
        self.name = name
        self.waits = 0
        self.is_dead = False
        self.is_over = False
        self.result: Any = None
        self.error: Exception | None = None
        self.dying: list[Callable[[], None]] = []
        # What happens to it where: the number of a wait to "kill", or to the microseconds it is held up for.
        self.fates: dict[int, str | int] = {}
        # How long after it began to commit decided transactions it is killed.
        self.dies_in_apply_us: int | None = None
        # For how long it is held up between its look at a transactional id and the request by which it takes that.
        self.hesitates_us: int | None = None
        self._processes = processes
        self._work = work
        self._turn = threading.Lock()
        self._turn.acquire()
        self._reached: Callable[[], bool] | None = None
        self._until_us = 0
        self._held_until_us = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def now_us(self) -> int:
        return self._processes.world.scheduler.now_us

    def wait(self, reached: Callable[[], bool] | None, limit_us: int) -> bool:
        """Within the process: let time pass until `reached()`; False where it was not within `limit_us`."""
        self._meet_fate()
        if reached is None or not reached():
            self._reached, self._until_us = reached, self.now_us + limit_us
            self._hand_over()
        self._meet_fate()
        return reached is not None and reached()

    def _meet_fate(self) -> None:
        if not self.is_dead:
            self.waits += 1
            fate = self.fates.get(self.waits)
            if fate == "kill":
                self._processes.happened.append(f"{self.name} is killed at wait {self.waits}")
                self.kill()
            elif isinstance(fate, int):
                self._hold_up(fate, f"at wait {self.waits}")
        if self.is_dead:
            raise Killed

    def _hold_up(self, hold_us: int, where: str) -> None:
        self._processes.happened.append(f"{self.name} is held up {where} for {hold_us / 1e6:.3f} s")
        self._held_until_us = self.now_us + hold_us
        self._reached, self._until_us = None, self._held_until_us
        self._hand_over()

    def _hand_over(self) -> None:
        self._processes.turn.release()
        self._turn.acquire()

    def can_go_on(self) -> bool:
        """Whether it has what it waits for."""
        if self.is_over:
            return False
        if self.is_dead:
            return True
        now_us = self.now_us
        if now_us < self._held_until_us:
            return False
        return now_us >= self._until_us or (self._reached is not None and self._reached())

    def is_held(self, at_least_us: int) -> bool:
        """Whether it is held up, and will be for so long."""
        return self._held_until_us - self.now_us >= at_least_us

    def due_us(self) -> int:
        return max(self._until_us, self._held_until_us)

    def takes_an_id(self) -> None:
        """It has looked at a transactional id, and is about to take that."""
        if self.hesitates_us is not None:
            hold_us, self.hesitates_us = self.hesitates_us, None
            self._hold_up(hold_us, "before it takes an id")
            if self.is_dead:
                raise Killed

    def begins_to_apply(self) -> None:
        """It asks for the commit of what is decided."""
        if self.dies_in_apply_us is not None:
            delay_us, self.dies_in_apply_us = self.dies_in_apply_us, None
            self._processes.happened.append(f"{self.name} is killed {delay_us} us after it has begun to apply")
            self._processes.world.scheduler.after(delay_us, self.kill)

    def kill(self) -> None:
        """End it: its connections close, and it does nothing any more."""
        if not self.is_dead and not self.is_over:
            self.is_dead = True
            for die in self.dying:
                die()

    def go_on(self) -> None:
        """Let it run until it waits again, or ends."""
        if not self._thread.is_alive() and not self.is_over:
            self._thread.start()
        else:
            self._turn.release()
        self._processes.turn.acquire()

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except Killed:
            pass
        except Exception as error:
            self.error = error
            self._processes.happened.append(f"{self.now_us / 1e6:.3f} s: {self.name}: {type(error).__name__}: {error}")
        finally:
            if not self.is_dead:
                for die in self.dying:
                    die()
            self.is_over = True
            self._processes.turn.release()


class Processes:
    """All processes of a world, in the order of their starts; `happened` says what was done to them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.happened: list[str] = []
        self.turn = threading.Lock()
        self.turn.acquire()
        self._living: list[Process] = []

    def start(self, name: str, work: Callable[[Process], Any]) -> Process:
        """A new process that begins now."""
        process = Process(self, name, work)
        self._living.append(process)
        return process

    def run(self, reached: Callable[[], bool], limit_us: int) -> bool:
        """From outside: let time pass until `reached()`; False where it was not within `limit_us`."""
        scheduler = self.world.scheduler
        end_us = scheduler.now_us + limit_us
        while True:
            self._let_go_on()
            if reached():
                return True
            if scheduler.now_us >= end_us:
                return False
            due_us = min((each.due_us() for each in self._living), default=end_us)
            next_us = scheduler.next_us()
            if next_us is None or next_us > min(due_us, end_us):
                scheduler.now_us = max(scheduler.now_us, min(due_us, end_us))
            else:
                scheduler.run_next()

    def _let_go_on(self) -> None:
        again = True
        while again:
            again = False
            for process in list(self._living):
                if process.can_go_on():
                    process.go_on()
                    again = True
                if process.is_over:
                    self._living.remove(process)

    def are_all_over(self) -> bool:
        """Whether none is left."""
        return not self._living

    def end(self) -> None:
        """Kill all that is left, so that no thread stays behind."""
        for process in self._living:
            process.kill()
        self._let_go_on()
