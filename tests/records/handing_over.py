"""Takes batches from an appender in tests, in place of the producer's core."""

from __future__ import annotations

from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch

# For each appender, the batches that it has handed over and that were not returned yet.
_handed_over: dict[int, tuple[Appender, list[SealedBatch]]] = {}


def taken_from(appender: Appender, *, force: bool = False) -> list[SealedBatch]:
    """The batches that can be sent, each partition's in their order; with `force` the open ones are closed, too."""
    waiting = _handed_over.setdefault(id(appender), (appender, []))[1]
    waiting += appender.take_new()
    appender.take_filled()
    # `take_new` compresses some of the full ones each time.
    while force and not all(appender.close(batch) for batch in waiting):
        waiting += appender.take_new()
        appender.take_filled()
    taken: list[SealedBatch] = []
    blocked: set[tuple[str, int]] = set()
    for batch in waiting[:]:
        place = batch.topic, batch.partition
        if not batch.is_finished or place in blocked:
            blocked.add(place)
            continue
        taken.append(batch)
        waiting.remove(batch)
    return taken
