"""The messages of a run: the same seed must give the same trace, message by message.

Hashed are, for all messages of clients, brokers and the controller: when a message was sent and when it arrives, its
sender and receiver, its kind and its number on the connection. The contents are not hashed here: the run's
`fingerprint` hashes their effects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ottla.host.crossing import Crossing

_HASHED_AT_ONCE = 1000


class Trace:
    """Hashes the messages of the network as they are sent; with `keep_lines` it also keeps them as text in `lines`.

    Each of `listeners` is called with every message, before its receiver has it.
    """

    def __init__(self, *, keep_lines: bool = False) -> None:
        self._hash = hashlib.sha256()
        self._unhashed: list[str] = []
        self.messages = 0
        self.lines: list[str] | None = [] if keep_lines else None
        self.listeners: list[Callable[[Crossing], None]] = []

    def add(self, crossing: Crossing) -> None:
        """Add a message."""
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
        """The hash of the messages so far, in hexadecimal."""
        self._take_in()
        return self._hash.hexdigest()

    def _take_in(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()
