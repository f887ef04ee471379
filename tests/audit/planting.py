"""What plants an anomaly: the run that it spoils, and what it says that it has planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from ottla.audit.chronicles.chronicle import (
    Chronicle,
    ReadSeen,
    RecordSeen,
    ReplicaSeen,
    SentRecord,
    TransactionSeen,
)
from ottla.ledger.schema import ACKED

from .model import Place, seen


class Planted(NamedTuple):
    """What was planted: one of the records has to be named, and all of the offsets; none where it is about none."""

    kind: str
    numbers: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()


class Run:
    """A run, and what a spoiler asks of it."""

    def __init__(self, chronicle: Chronicle, chance: Random) -> None:
        self.c = chronicle
        self.chance = chance
        self.of_instance = {each.producer: each for each in chronicle.producers}

    @property
    def replicas(self) -> list[ReplicaSeen]:
        assert self.c.replicas is not None
        return self.c.replicas

    def sent(self, *producers: str, outcome: str = ACKED, kept: bool = True) -> list[SentRecord]:
        """Their records, those that were deleted left out."""
        starts = {(each.topic, each.partition): each.log_start_offset for each in self.replicas}
        return [
            each
            for each in self.c.sent
            if each.producer in producers
            and each.outcome == outcome
            and not (kept and 0 <= each.offset < starts[each.topic, each.partition])
        ]

    def pick(self, records: list[SentRecord]) -> SentRecord | None:
        return self.chance.choice(records) if records else None

    def reads(self, place: Place, level: str | None = None) -> list[ReadSeen]:
        found = [each for each in self.c.reads if (each.topic, each.partition) == place]
        return [each for each in found if level in (None, each.isolation_level)]

    def logs(self, place: Place) -> list[ReplicaSeen]:
        return [each for each in self.replicas if (each.topic, each.partition) == place]

    def change(self, place: Place, offset: int, new: RecordSeen | None) -> None:
        """What stands at an offset, for all readers and in all logs."""
        holders = [read.records for read in self.reads(place)]
        holders += [batch.records for log in self.logs(place) for batch in log.batches]
        for records in holders:
            for at, record in enumerate(records):
                if record.offset == offset:
                    records[at : at + 1] = [] if new is None else [new]
                    break

    def add(self, place: Place, record: SentRecord) -> int:
        """One more copy of a record, stored behind all others; returns its offset."""
        offset = self.logs(place)[0].high_watermark
        for log in self.logs(place):
            batch = replace(
                log.batches[-1], base_offset=offset, last_offset=offset, producer_id=-1, producer_epoch=-1,
                base_sequence=-1, is_transactional=False, is_control=False, commits=None,
                records=[seen(record.number, offset)],
            )  # fmt: skip
            log.batches.append(batch)
            log.high_watermark = log.last_stable_offset = offset + 1
        for read in self.reads(place):
            if read.is_final:
                read.records.append(seen(record.number, offset))
                read.end = offset + 1
        return offset

    def transaction(self, outcome: str, records: int = 1) -> tuple[TransactionSeen, list[SentRecord]] | None:
        """One with so many records in one partition at least, all kept; with those."""
        found = []
        kept = self.sent("x", "y")
        for each in self.c.transactions:
            own = [record for record in kept if record.transaction == each.number]
            places = [(record.topic, record.partition) for record in own]
            most = max(places, key=places.count, default=None)
            same = [record for record in own if (record.topic, record.partition) == most]
            whole = sum(record.transaction == each.number for record in self.c.sent)
            if each.outcome == outcome and len(same) >= records and len(own) == whole:
                found.append((each, same))
        return self.chance.choice(found) if found else None


Spoil = Callable[[Run], Planted | None]


def place_of(record: SentRecord) -> Place:
    return record.topic, record.partition


def some_batch(run: Run, *, idempotent: bool = False) -> tuple[ReplicaSeen, int] | None:
    found = [
        (log, at)
        for log in run.replicas
        for at, batch in enumerate(log.batches)
        if not (idempotent and (batch.is_control or batch.base_sequence < 1))
    ]
    return run.chance.choice(found) if found else None
