"""The time that users' threads spend waiting inside the producer's calls, counted for its metrics.

Several threads may wait at once, so each addition is made under a lock. The lock is held for that addition only, and
taken only by calls that had to wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.producer.metrics import ClientMeter


class SpentTime:
    """Adds to one producer's `ClientMeter` from any thread."""

    __slots__ = ("_adding", "meter")

    def __init__(self, meter: ClientMeter) -> None:
        self.meter = meter
        self._adding = threading.Lock()

    @contextmanager
    def on(self, sum_name: str) -> Iterator[None]:
        """Add the time until the block ends, however it ends, to a sum such as "flush_ns"."""
        began_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self.add(sum_name, time.monotonic_ns() - began_ns)

    def add(self, sum_name: str, amount: int = 1) -> None:
        """Add to one of the meter's sums."""
        with self._adding:
            setattr(self.meter, sum_name, getattr(self.meter, sum_name) + amount)
