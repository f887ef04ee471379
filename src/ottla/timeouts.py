"""How long somebody wants to wait."""

from __future__ import annotations

from typing import Any

from ottla.shown import shown

# As good as for ever, and still a number that clocks can be set by.
_LONGEST_S = 10**9


def seconds(timeout: Any) -> float | None:
    """How long somebody wants to wait, None for ever; ValueError for what is no time, before anything is done."""
    if timeout is None:
        return None
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0:
        return timeout if timeout < _LONGEST_S else None
    raise ValueError(f"timeout={shown(timeout)} is no time to wait; give seconds from 0 on, or None to wait for ever")
