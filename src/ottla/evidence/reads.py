"""What readers are given: one round over partitions of any cluster, as the chronicle has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicles.case import COMMITTED
from ottla.audit.chronicles.chronicle import ReadSeen
from ottla.errors import OttlaError
from ottla.evidence.decoded import DecodedBatches, readable
from ottla.evidence.times import RunClock
from ottla.reader.events import Fetched
from ottla.records.batch_header import CorruptBatch

if TYPE_CHECKING:
    from ottla.client.reader import End

Place = tuple[str, int]
_PATIENCE_S = 30.0


def read_round(
    bootstrap_servers: str,
    reader: str,
    level: str,
    spans: Mapping[Place, tuple[int, End]],
    decoded: DecodedBatches,
    clock: RunClock,
    is_final: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> list[ReadSeen]:
    """One round of a reader over these partitions, {partition: (start, end)}, as the chronicle has it.

    `settings`: of the reader, as keywords, such as its user and its security protocol.
    """
    from ottla.client.reader import Reader

    reads = {place: ReadSeen(reader, level, *place, clock.now_us, -1, -1, -1, [], is_final=is_final) for place in spans}
    fetched: dict[Place, list[Fetched]] = {place: [] for place in spans}
    error = None
    with Reader(bootstrap_servers, assignments=dict(spans), isolation_level=level, **(settings or {})) as source:
        try:
            for buffer in source.iter_raw(patience_s=_PATIENCE_S):
                fetched[buffer.topic, buffer.partition].append(buffer)
        except OttlaError as raised:
            error = str(raised)
        positions = source.positions()
    for place, read in reads.items():
        read.error = error
        read.ended_us = clock.now_us
        if place in positions:
            read.start, end = positions[place]
            read.end = -1 if end is None else end
        try:
            records = readable(fetched[place], decoded, committed_only=level == COMMITTED)
        except CorruptBatch as raised:
            read.error, records = str(raised), []
        read.records = [record for record in records if record.offset < read.end]
    return list(reads.values())
