"""Waiting for what a cluster comes to by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_S = 30


def until(reached: Callable[[], bool], otherwise: str) -> None:
    """Ask again and again; AssertionError with `otherwise` where it never comes to that."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline_s, otherwise
