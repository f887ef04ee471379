"""Which offsets of which partitions `ottla read` is to read."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

from ottla.cli.where import Where, check_partitions
from ottla.reader.position import timestamp_ms

_LATEST = -1


class Span(NamedTuple):
    """From `start` on, up to `end`, which is not read any more; None never ends."""

    start: Where
    end: Where | None


def what_to_read(
    topic: str, partitions: list[int] | None, span: Span, bootstrap_servers: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a `Reader`; UserMistake for a partition that the topic does not have.

    Partitions and offsets are asked for only where the reader does not find them by itself.
    """
    start, end = span
    if partitions is None and end in (None, "latest"):
        return {"topic": topic, "start": start, "end": end}
    from ottla.client.offset_lookup import OffsetLookup

    with closing(OffsetLookup(bootstrap_servers, **settings)) as lookup:
        known = lookup.partitions([topic])[topic]
        check_partitions(topic, partitions or (), known)
        places = [(topic, each) for each in dict.fromkeys(partitions or known)]
        if end in (None, "latest"):
            return {"assignments": dict.fromkeys(places, (start, end))}
        # Of an end that lies ahead, what is there now is read.
        now = dict.fromkeys(places, _LATEST)
        if isinstance(end, datetime):
            ends, found = lookup.offsets_of([now, dict.fromkeys(places, timestamp_ms(end))])
        else:
            ends, found = lookup.offsets(now), dict.fromkeys(places, int(end))
    upto: dict[tuple[str, int], Any] = {
        # A time behind the last record gives -1.
        place: ends[place] if at == _LATEST else min(at, ends[place])
        for place, at in found.items()
    }
    left = {place: at for place, at in upto.items() if not (isinstance(start, int) and start >= at)}
    return {"assignments": {place: (start, at) for place, at in left.items()}}
