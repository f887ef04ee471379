"""A fault in force: how often it has fired, and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.faults.fault import Fault


class Part(Protocol):
    """One thing that a site does to itself for a fault, and counts."""

    @property
    def fired(self) -> int:
        """How often it has really fired."""
        ...

    def end(self) -> None:
        """It does not fire any more. Ending twice is allowed."""
        ...


class Effect:
    """What a fault does from `begin` on; `missed` says why it has nothing to apply to, "" while it may.

    `missed_because` says it more precisely.
    `began` is told once, when that is known: some faults must ask the controller first.
    """

    def __init__(self, fault: Fault, fault_id: int, began: Callable[[Effect], None] | None = None) -> None:
        self.fault = fault
        self.fault_id = fault_id
        self.missed = self.missed_because = ""
        self.is_over = False
        # Whether it is not known yet if there is something that it applies to.
        self.is_pending = False
        self._began = began
        self._fired = 0
        self._parts: list[Part] = []
        self._undos: list[Callable[[], None]] = []

    @property
    def fired(self) -> int:
        """How often it has really fired."""
        return self._fired + sum(part.fired for part in self._parts)

    def fire(self) -> None:
        """Count that it fired once."""
        self._fired += 1

    def add(self, part: Part) -> None:
        """It consists of this; what the part counts is the effect's."""
        self._parts.append(part)

    def when_healed(self, undo: Callable[[], None]) -> None:
        """Do this when the fault ends."""
        self._undos.append(undo)

    def miss(self, why: str, because: str = "") -> None:
        """There is nothing that it applies to."""
        self.missed, self.missed_because = why, because or why

    def begun(self) -> None:
        """It is in force, or has missed."""
        self.is_pending = False
        began, self._began = self._began, None
        if began is not None:
            began(self)

    def heal(self) -> None:
        """End it as far as it has an end; what it counted stays. Healing twice is allowed."""
        if self.is_over:
            return
        self.is_over = True
        for part in self._parts:
            part.end()
        self._fired = self.fired
        self._parts.clear()
        self.undo()

    def undo(self) -> None:
        """Undo what it has done to brokers and has not undone yet."""
        while self._undos:
            self._undos.pop()()


def not_fired_in_time(
    fault: Fault, counts: Mapping[str, int], wanted: int, patience_s: float, more: str = ""
) -> OttlaError:
    """For who has waited for a fault: how often it fired, how many requests it might have fired for, and `more`."""
    fired, matched = counts["fired"], counts["matched"]
    return OttlaError(
        f"fault {fault!r} fired {_times(fired)} in {patience_s:g} s, and not {_times(wanted)}: "
        f"{matched} {'request' if matched == 1 else 'requests'} matched it{more}."
    )


def not_fired_any_more(fault: Fault, fired: int) -> OttlaError:
    """For who waits for a fault that is healed."""
    return OttlaError(f"fault {fault!r} is over: it fired {_times(fired)}, and will not fire any more.")


def _times(count: int) -> str:
    return f"{count} {'time' if count == 1 else 'times'}"
