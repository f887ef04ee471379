"""The messages of a run: the same seed must give the same trace, message by message.

What is hashed: when a message crossed, between whom, its kind, its place on the connection and when it arrives, for all
that clients, brokers and the controller say to each other. What they say goes into the run's `fingerprint` by what
came of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ottla.host.crossing import Crossing

_HASHED_AT_ONCE = 1000


class Trace:
    """Hashes what crosses the network as it happens; `lines` keeps it readable where asked to.

    Each of `listeners` is called with every message, before its receiver has it.
    """

    def __init__(self, *, keep_lines: bool = False) -> None:
        self._hash = hashlib.sha256()
        self._unhashed: list[str] = []
        self.messages = 0
        self.lines: list[str] | None = [] if keep_lines else None
        self.listeners: list[Callable[[Crossing], None]] = []

    def add(self, crossing: Crossing) -> None:
        """One message."""
        self.messages += 1
        between = f"{crossing.sender}>{crossing.receiver} {crossing.what}/{crossing.number}"
        line = f"{crossing.at_us} {between} {type(crossing.message).__name__} {crossing.arrives_us}"
        unhashed = self._unhashed
        unhashed.append(line)
        if len(unhashed) > _HASHED_AT_ONCE:
            self._take_in()
        for listener in self.listeners:
            listener(crossing)
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        """The fingerprint so far, in hexadecimal."""
        self._take_in()
        return self._hash.hexdigest()

    def _take_in(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()
