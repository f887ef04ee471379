"""What a program has shown on a terminal."""

from __future__ import annotations

import os


def shown_on(terminal: int) -> bytes:
    """All output, up to the moment when the program closes its side; the kernel returns it in pieces."""
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the end of a terminal on Linux
            piece = b""
        if not piece:
            os.close(terminal)
            return shown
        shown += piece
