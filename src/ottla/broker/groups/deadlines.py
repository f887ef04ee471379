"""Which of many deadlines comes first, where most are moved to later again and again.

Each name has one valid entry in a heap, whose time is not later than the deadline. Moving a deadline to later changes
nothing there: only when an entry has come to the top is it compared with the deadline, and moved. So a heartbeat costs
nearly the same in a group of any size.

Invariant: each name with a deadline has one entry that counts, and its time is not behind the deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace


class Deadlines:
    """Deadlines by name; `deadline_of(name)` is when it is due as of now, None where it never is."""

    def __init__(self, deadline_of: Callable[[str], int | None]) -> None:
        self._deadline_of = deadline_of
        self._heap: list[tuple[int, str]] = []
        # The time of the entry that counts.
        self._entered: dict[str, int] = {}

    def note(self, name: str, due_us: int) -> None:
        """This name has a deadline from now on, or another one."""
        entered_us = self._entered.get(name)
        if entered_us is None or due_us < entered_us:
            self._entered[name] = due_us
            heappush(self._heap, (due_us, name))

    def first_us(self) -> int | None:
        """When the first of them is due; None where none is."""
        heap, entered = self._heap, self._entered
        while heap:
            entry_us, name = heap[0]
            if entered.get(name) != entry_us:
                heappop(heap)
                continue
            due_us = self._deadline_of(name)
            if due_us == entry_us:
                return due_us
            if due_us is None:
                heappop(heap)
                del entered[name]
            else:
                entered[name] = due_us
                heapreplace(heap, (due_us, name))
        return None

    def take_due(self, now_us: int) -> list[str]:
        """The names that are due, the earliest first; they are not noted any more."""
        taken = []
        due_us = self.first_us()
        while due_us is not None and due_us <= now_us:
            _, name = heappop(self._heap)
            del self._entered[name]
            taken.append(name)
            due_us = self.first_us()
        return taken
