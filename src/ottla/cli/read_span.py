"""Which offsets of which partitions `ottla read` is to read."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ottla.cli.where import Where, check_partitions
from ottla.reader.position import EARLIEST, LATEST, timestamp_ms

if TYPE_CHECKING:
    from ottla.client.partition_offsets import Place


class Span(NamedTuple):
    """From `start` on, up to `end`, which is not read any more; None never ends."""

    start: Where
    end: Where | None


def what_to_read(
    topic: str, partitions: list[int] | None, span: Span, bootstrap_servers: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a `Reader`; UserMistake for a partition that the topic does not have.

    Partitions and offsets are asked for only where the reader does not find them by itself, or would wait long.
    """
    start, end = span
    if partitions is None and end == "latest" and not isinstance(start, int):
        return {"topic": topic, "start": start, "end": end}
    from ottla.client.offset_lookup import OffsetLookup

    with closing(OffsetLookup(bootstrap_servers, **settings)) as lookup:
        known = lookup.partitions([topic])[topic]
        check_partitions(topic, partitions or (), known)
        places = [(topic, each) for each in dict.fromkeys(partitions or known)]
        starts: dict[Place, Any] = dict.fromkeys(places, start)
        if isinstance(start, int):
            begins, now = lookup.offsets_of([dict.fromkeys(places, EARLIEST), dict.fromkeys(places, LATEST)])
            starts = _from_what_is_there(start, begins, now)
        if end in (None, "latest"):
            return {"assignments": {place: (starts[place], end) for place in places}}
        # Of an end that lies ahead, what is there now is read.
        latest = dict.fromkeys(places, LATEST)
        if isinstance(end, datetime):
            ends, found = lookup.offsets_of([latest, dict.fromkeys(places, timestamp_ms(end))])
        else:
            ends, found = lookup.offsets(latest), dict.fromkeys(places, int(end))
    upto: dict[Place, Any] = {
        # A time behind the last record gives -1.
        place: ends[place] if at == LATEST else min(at, ends[place])
        for place, at in found.items()
    }
    left = {
        place: (starts[place], at)
        for place, at in upto.items()
        if not (isinstance(starts[place], int) and starts[place] >= at)
    }
    return {"assignments": left}


def _from_what_is_there(start: int, begins: dict[Place, int], ends: dict[Place, int]) -> dict[Place, int]:
    """Where each partition can begin from `start` on; what is not there is said."""
    late = {place: begin for place, begin in begins.items() if begin > start}
    if late:
        told = ", ".join(f"{topic}-{partition} at {begin:,}" for (topic, partition), begin in sorted(late.items())[:5])
        more = f" and {len(late) - 5} more" if len(late) > 5 else ""
        typer.echo(f"ottla: offset {start:,} is deleted, so these begin later: {told}{more}", err=True)
    if all(start > end for end in ends.values()):
        typer.echo(
            f"ottla: --start {start} is beyond the end of every partition; a time is given as 2026-11-27T09:00",
            err=True,
        )
    return {place: max(start, begin) for place, begin in begins.items()}
