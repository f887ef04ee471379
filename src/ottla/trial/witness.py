"""Looks at one topic of a real cluster, during a run and at its end, and writes what it sees into a chronicle.

What `simulation.witness` is in the simulated world. Reads go over sockets; replicas are asked for their marks at chosen
moments (`Cluster.replicas`), and in the end their logs are read from the brokers' files.

The work is bounded, whatever was sent: of each partition the records of the first `RECORDS_MAX` offsets or so are read,
decoded and judged one by one, of the rest the headers and CRCs of all batches. The part ends between two batches, and
behind every copy of the records in it (`_end_of_part`).

Not seen here: what happens between two looks. Who held a record at the moment of its acknowledgement is therefore left
to the simulation.
"""

from __future__ import annotations

import mmap
import time
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.audit.case import COMMITTED, UNCOMMITTED
from ottla.audit.chronicle import (
    BatchSeen,
    Chronicle,
    Committed,
    InstanceSeen,
    Leadership,
    ProducerPromise,
    ReadSeen,
    ReplicaSeen,
    TopicPromise,
    Watermark,
)
from ottla.cluster.data_dir import log_folder
from ottla.errors import OttlaError
from ottla.reader.events import Fetched
from ottla.records.batch_header import BatchHeader, CorruptBatch, iterate_headers
from ottla.simulation.decoded import DecodedBatches, head_seen, readable
from ottla.trial.patience import comes_within

if TYPE_CHECKING:
    from ottla.client.interceptors import BatchSeen as BatchTold
    from ottla.client.reader import End
    from ottla.cluster.cluster import Cluster

Place = tuple[str, int]

RECORDS_MAX = 4_000
"""Of each partition, give or take a batch."""
_LEVELS = (UNCOMMITTED, COMMITTED)
_PATIENCE_S = 30.0


class Clock:
    """Microseconds since a run began."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def now_us(self) -> int:
        """Since it began."""
        return int((time.monotonic() - self._began_s) * 1e6)


class Telling:
    """A producer's interceptor: when the batches of each partition began their way, and when they were told of.

    With one request in flight a partition's batches do both in the order of its records.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # partition -> ([records so far], [when]), a step a batch
        self._sent: dict[int, tuple[list[int], list[int]]] = {}
        self._told: dict[int, tuple[list[int], list[int]]] = {}

    def on_batch(self, batch: BatchTold) -> None:
        """A batch begins its way."""
        self._note(self._sent, batch)

    def on_ack(self, batch: BatchTold) -> None:
        """A batch has its outcome."""
        self._note(self._told, batch)

    def times(self, partition: int, ordinal: int) -> tuple[int, int]:
        """When the partition's n-th record (from 0) was sent and told of; -1 where it was not."""
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


class Witness:
    """Of one topic; what was sent to it is for the caller to write into `chronicle`."""

    def __init__(self, cluster: Cluster, promise: TopicPromise, producer: ProducerPromise, clock: Clock) -> None:
        self.clock = clock
        self.promise = promise
        self.chronicle = Chronicle(
            topics=[promise],
            producers=[producer],
            instances=[InstanceSeen(producer.producer, 0, clock.now_us)],
            watermarks=[],
            leaderships=[],
            commits=[],
            # Whoever breaks brokers here has to say so.
            downfalls=[],
            controls=[],
        )
        # Where the part that is judged record by record ends, and the highest number in it; `choose_part` says so.
        self.part: dict[Place, int] = {}
        self.top: dict[Place, int] = {}
        self._cluster = cluster
        self._decoded = DecodedBatches()
        self._stand: list[dict[str, Any]] = []

    @property
    def places(self) -> list[Place]:
        """The topic's partitions."""
        return [(self.promise.topic, index) for index in range(self.promise.partitions)]

    def look(self) -> None:
        """Note who leads, how far each replica has come, and what has been committed since the last look."""
        stand = self._cluster.replicas(self.promise.topic)
        now_us, before, self._stand = self.clock.now_us, self._stand, stand
        for index, part in enumerate(stand):
            known = before[index] if before else None
            self._note_role(now_us, index, part, known)
            for mark in part["replicas"]:
                if known is None or mark not in known["replicas"]:
                    self._note_mark(now_us, index, mark)
            self._note_commit(now_us, index, part, known)

    def settle(self) -> None:
        """Wait until every replica has all there is, all of it committed and no transaction open; else it is stuck."""
        restless: list[Place] = []

        def is_calm() -> bool:
            self.look()
            restless[:] = [place for place in self.places if not self._is_calm(place)]
            return not restless

        if not comes_within(_PATIENCE_S, is_calm):
            topic, index = restless[0]
            self.chronicle.stuck.append(
                f"{topic}-{index} has replicas that lack something, or something that is not committed, or an open "
                f"transaction, {_PATIENCE_S:.0f} s after the last record"
            )

    def choose_part(self) -> None:
        """Choose the part of each partition that is judged record by record, of what is committed by now."""
        self.look()
        for place in self.places:
            self.part[place], self.top[place] = self._end_of_part(place)

    def read_part(self, reader: str, levels: tuple[str, ...] = _LEVELS, *, is_final: bool = False) -> None:
        """One round over the part, as far as readers of each level may come by now."""
        self.look()
        for level in levels:
            spans: dict[Place, tuple[int, End]] = {}
            for place, end in self.part.items():
                marks = self._leader_of(place)
                shown = "last_stable_offset" if level == COMMITTED else "high_watermark"
                spans[place] = 0, end if marks is None else min(end, marks[shown])
            self.chronicle.reads += read_round(
                self._cluster.bootstrap_servers, f"{reader} {level}", level, spans, self._decoded, self.clock, is_final
            )

    def take_stock(self) -> None:
        """Wait until nothing moves any more, read the part once more, and look into every replica's log."""
        self.chronicle.healed_us = self.clock.now_us
        self.settle()
        self.read_part("final", is_final=True)
        self.chronicle.replicas = [
            replica
            for place in self.places
            for mark in self._stand[place[1]]["replicas"]
            if (replica := self._look_into(place, mark)) is not None
        ]
        self.chronicle.ended_us = self.clock.now_us

    # ---- what a look shows --------------------------------------------------------------------------------------

    def _note_role(self, now_us: int, index: int, part: dict[str, Any], known: dict[str, Any] | None) -> None:
        role = part["leader"], part["leader_epoch"], tuple(part["isr"])
        if known is not None and role == (known["leader"], known["leader_epoch"], tuple(known["isr"])):
            return
        assert self.chronicle.leaderships is not None
        # Who was in sync right before an election is not known from looks: whether it was unclean neither.
        self.chronicle.leaderships.append(Leadership(now_us, self.promise.topic, index, *role, is_unclean=False))

    def _note_mark(self, now_us: int, index: int, mark: dict[str, Any]) -> None:
        assert self.chronicle.watermarks is not None
        self.chronicle.watermarks.append(
            Watermark(
                now_us,
                mark["broker"],
                mark["broker_epoch"],
                self.promise.topic,
                index,
                mark["leader_epoch"],
                mark["is_leader"],
                mark["high_watermark"],
                mark["last_stable_offset"],
                mark["log_end_offset"],
                mark["log_start_offset"],
            )
        )

    def _note_commit(self, now_us: int, index: int, part: dict[str, Any], known: dict[str, Any] | None) -> None:
        before = _leaders(known)
        for leader in _leaders(part):
            first = before[0]["high_watermark"] if before else 0
            end = leader["high_watermark"]
            if end <= first:
                continue
            held = tuple(each["broker"] for each in part["replicas"] if each["log_end_offset"] >= end)
            assert self.chronicle.commits is not None
            self.chronicle.commits.append(
                Committed(
                    now_us, self.promise.topic, index, leader["broker"], leader["leader_epoch"], first, end, held, ()
                )
            )

    def _leader_of(self, place: Place) -> dict[str, Any] | None:
        return next(iter(_leaders(self._stand[place[1]])), None)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _is_calm(self, place: Place) -> bool:
        part = self._stand[place[1]]
        leader = self._leader_of(place)
        if leader is None or len(part["isr"]) < self.promise.replication_factor:
            return False
        ends = {each["log_end_offset"] for each in part["replicas"]}
        return ends == {leader["high_watermark"]} == {leader["last_stable_offset"]}

    def _log_of(self, mark: dict[str, Any], place: Place) -> Path:
        return Path(log_folder(self._cluster.data_dir, mark["broker"], *place))

    def _look_into(self, place: Place, mark: dict[str, Any]) -> ReplicaSeen | None:
        folder = self._log_of(mark, place)
        if not folder.is_dir():
            return None
        crc, batches = 0, []
        for segment in segments(folder):
            crc = zlib.crc32(segment, crc)
            # What is cut short is no batch: the log then ends in front of its broker's end offset, which convicts it.
            with suppress(CorruptBatch):
                for header in iterate_headers(segment):
                    batches.append(self._batch(segment, header, self.part.get(place, 0)))
        return ReplicaSeen(
            mark["broker"],
            *place,
            mark["log_start_offset"],
            mark["high_watermark"],
            mark["last_stable_offset"],
            crc,
            batches,
        )

    def _batch(self, segment: memoryview[int], header: BatchHeader, end: int) -> BatchSeen:
        """A batch of a log: with its records in the part, by its header behind it."""
        if header.base_offset < end or header.is_control:
            return self._decoded.seen_in(segment[header.position : header.position + header.size_bytes])[0]
        return head_seen(segment, header)

    def _end_of_part(self, place: Place) -> tuple[int, int]:
        """Behind about `RECORDS_MAX` records of a partition, copies included, and the highest number among them."""
        end, top, count = 0, -1, 0
        leader = self._leader_of(place)
        if leader is None:
            return end, top
        for segment in segments(self._log_of(leader, place)):
            for header in iterate_headers(segment):
                if header.last_offset >= leader["high_watermark"]:
                    return end, top
                batch = self._batch(segment, header, header.last_offset + 1)
                numbers = [record.number for record in batch.records]
                # A copy of what is in the part already belongs to it; more than as many again is no mere copy.
                is_copy = min(numbers, default=top + 1) <= top and count < 2 * RECORDS_MAX
                if count >= RECORDS_MAX and not is_copy:
                    return end, top
                end, top, count = header.last_offset + 1, max(top, *numbers, -1), count + len(numbers)
        return end, top


def read_round(
    bootstrap_servers: str,
    reader: str,
    level: str,
    spans: Mapping[Place, tuple[int, End]],
    decoded: DecodedBatches,
    clock: Clock,
    is_final: bool = False,
) -> list[ReadSeen]:
    """One round of a reader over these partitions, {partition: (start, end)}, as the chronicle takes it down."""
    from ottla.client.reader import Reader

    reads = {place: ReadSeen(reader, level, *place, clock.now_us, -1, -1, -1, [], is_final=is_final) for place in spans}
    fetched: dict[Place, list[Fetched]] = {place: [] for place in spans}
    error = None
    with Reader(bootstrap_servers, assignments=dict(spans), isolation_level=level) as source:
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


def segments(folder: Path) -> Iterator[memoryview[int]]:
    """The segments of a log, one after the other, none of them copied; each is let go with its last user."""
    for path in sorted(folder.glob("*.log")):
        with path.open("rb") as file:
            if path.stat().st_size:
                yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _leaders(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The replicas that lead in the partition's present epoch: one, or none."""
    if part is None:
        return []
    return [each for each in part["replicas"] if each["is_leader"] and each["leader_epoch"] == part["leader_epoch"]]
