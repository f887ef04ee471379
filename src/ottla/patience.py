"""Waiting for what a cluster or a process does by itself, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_AGAIN_S = 0.02


def comes_within(patience_s: float, reached: Callable[[], bool], *, look_again_s: float = _LOOK_AGAIN_S) -> bool:
    """Look again and again; whether it was reached in time. It is looked at once, at the least."""
    end_s = time.monotonic() + patience_s
    while not reached():
        if time.monotonic() > end_s:
            return False
        time.sleep(look_again_s)
    return True
