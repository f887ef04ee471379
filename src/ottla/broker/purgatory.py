"""What waits for something or for its deadline: acks=all, long polls, delayed answers (Kafka's purgatory).

Deadlines are rounded up to `GRANULARITY_US` and kept in buckets, so that an operation is taken out again without a
search: most are answered long before their deadline and must not be held in memory until then.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

GRANULARITY_US = 5_000


class DelayedOperation(Protocol):
    """Something that waits; `bucket` belongs to the purgatory."""

    bucket: int

    def expire(self, now_us: int) -> None:
        """The deadline has come: give the best answer there is."""
        ...


class Purgatory:
    """The waiting operations of one broker, by deadline; those due together expire in the order they came."""

    __slots__ = ("_buckets", "_heap")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[DelayedOperation, None]] = {}
        self._heap: list[int] = []

    def add(self, operation: DelayedOperation, deadline_us: int) -> None:
        """Let the operation wait until `deadline_us` at the longest."""
        bucket = -(-deadline_us // GRANULARITY_US)
        operation.bucket = bucket
        waiting = self._buckets.get(bucket)
        if waiting is None:
            self._buckets[bucket] = {operation: None}
            heappush(self._heap, bucket)
        else:
            waiting[operation] = None

    def remove(self, operation: DelayedOperation) -> None:
        """The operation waits no more; nothing happens where it did not."""
        waiting = self._buckets.get(operation.bucket)
        if waiting is not None:
            waiting.pop(operation, None)

    def sizes(self) -> dict[str, int]:
        """How many operations of each class wait, by the name of the class."""
        counts: dict[str, int] = {}
        for waiting in self._buckets.values():
            for operation in waiting:
                name = type(operation).__name__
                counts[name] = counts.get(name, 0) + 1
        return counts

    def deadline_us(self) -> int | None:
        """When the next operation expires."""
        heap, buckets = self._heap, self._buckets
        while heap:
            if buckets[heap[0]]:
                return heap[0] * GRANULARITY_US
            del buckets[heappop(heap)]
        return None

    def expire(self, now_us: int) -> None:
        """Expire what is due."""
        heap, buckets = self._heap, self._buckets
        while heap and heap[0] * GRANULARITY_US <= now_us:
            waiting = buckets.pop(heappop(heap))
            while waiting:
                operation = next(iter(waiting))
                del waiting[operation]
                operation.expire(now_us)
