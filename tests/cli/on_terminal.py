"""What a program has shown on a terminal."""

from __future__ import annotations

import os


def shown_on(terminal: int) -> bytes:
    """All of it, once the program's own end is closed; the kernel passes it on piece by piece."""
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # how a terminal ends on Linux
            piece = b""
        if not piece:
            os.close(terminal)
            return shown
        shown += piece
