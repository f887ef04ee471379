"""How long a client pauses before it tries again."""

from __future__ import annotations

from random import Random


def backoff_us(rng: Random, failures: int, first_ms: int, most_ms: int) -> int:
    """Return the pause after so many failures in a row: it doubles with each, and jitter is 20 % up or down."""
    pause_ms = min(most_ms, first_ms * 2 ** min(failures - 1, 30))
    return int(pause_ms * 1000 * rng.uniform(0.8, 1.2))
