"""A run's fingerprint: the same seed must give the same trace, message by message.

What goes in: when a message crossed, between whom, its kind and its place on the connection. Compressed bytes stay
out: they depend on the version of a codec library.
"""

from __future__ import annotations

import hashlib
from typing import Any


class Trace:
    """Hashes what crosses the network as it happens; `lines` keeps it readable where asked to."""

    def __init__(self, *, keep_lines: bool = False) -> None:
        self._hash = hashlib.sha256()
        self.messages = 0
        self.lines: list[str] | None = [] if keep_lines else None

    def add(self, now_us: int, what: str, output: Any) -> None:
        """One message, as the output of the core that sent it."""
        self.messages += 1
        message = getattr(output, "message", None)
        name = type(message).__name__ if message is not None else getattr(output, "reason", "")
        number = getattr(output, "correlation_id", 0)
        line = f"{now_us} {what} {output.connection_id}/{number} {name}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        """The fingerprint so far, in hexadecimal."""
        return self._hash.hexdigest()
