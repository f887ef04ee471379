"""When something was seen: microseconds since a run began, and when a producer's batches were sent and settled."""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.interceptors import BatchSeen as BatchTold


class RunClock:
    """Microseconds since a run began."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def now_us(self) -> int:
        """The time now."""
        return int((time.monotonic() - self._began_s) * 1e6)


class BatchTimes:
    """A producer's interceptor: when the batches of each partition were sent, and when they were settled.

    With one request in flight both happen in the order of the partition's records.
    """

    def __init__(self, clock: RunClock) -> None:
        self._clock = clock
        # partition -> ([records so far], [when]), with one entry in each list per batch
        self._sent: dict[int, tuple[list[int], list[int]]] = {}
        self._told: dict[int, tuple[list[int], list[int]]] = {}

    def on_batch(self, batch: BatchTold) -> None:
        """A batch is sent."""
        self._note(self._sent, batch)

    def on_ack(self, batch: BatchTold) -> None:
        """A batch has its outcome."""
        self._note(self._told, batch)

    def of(self, partition: int, ordinal: int) -> tuple[int, int]:
        """When the partition's n-th record (from 0) was sent and settled; -1 where it was not."""
        found = []
        for noted in (self._sent, self._told):
            counts, times = noted.get(partition, ([], []))
            at = bisect_right(counts, ordinal)
            found.append(times[at] if at < len(times) else -1)
        return found[0], found[1]

    def _note(self, noted: dict[int, tuple[list[int], list[int]]], batch: BatchTold) -> None:
        counts, times = noted.setdefault(batch.partition, ([], []))
        counts.append(batch.record_count + (counts[-1] if counts else 0))
        times.append(self._clock.now_us)
