"""Waiting for what a cluster or a process does by itself, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_AGAIN_S = 0.02


def comes_within(patience_s: float, reached: Callable[[], bool], *, look_again_s: float = _LOOK_AGAIN_S) -> bool:
    """Call `reached` again and again, at least once; whether it returned True in time."""
    end_s = time.monotonic() + patience_s
    while not reached():
        if time.monotonic() > end_s:
            return False
        time.sleep(look_again_s)
    return True


def stays_within(
    patience_s: float, look: Callable[[], object], quiet_s: float, *, look_again_s: float = _LOOK_AGAIN_S
) -> bool:
    """Call `look` again and again until its result has stayed the same for `quiet_s`; whether it did in time."""
    seen, since_s = look(), time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, since_s
        before, seen = seen, look()
        if seen != before:
            since_s = time.monotonic()
        return time.monotonic() - since_s >= quiet_s

    return comes_within(patience_s, is_quiet, look_again_s=look_again_s)
