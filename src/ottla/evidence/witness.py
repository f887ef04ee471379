"""Looks at one topic of a real cluster, during a run and at its end, and writes what it sees into a chronicle.

What `simulation.witness` is in the simulated world. Reads go over sockets; replicas are asked for their marks at chosen
moments (`Cluster.replicas`), and in the end their logs are read from the brokers' files.

The work is bounded, whatever was sent: of each partition the records of the first `RECORDS_MAX` offsets or so are read,
decoded and judged one by one, of the rest the headers and CRCs of all batches. The part ends between two batches, and
behind every copy of the records in it (`_end_of_part`).

Not seen here: what happens between two looks. So only the simulation judges which replicas held a record at the moment
of its acknowledgement.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.audit import findings as kinds
from ottla.audit.chronicles.case import COMMITTED, UNCOMMITTED
from ottla.audit.chronicles.chronicle import (
    BatchSeen,
    Chronicle,
    Committed,
    FaultSeen,
    InstanceSeen,
    Leadership,
    ProducerPromise,
    ReplicaSeen,
    TopicPromise,
    Watermark,
)
from ottla.cluster.data_dir import log_folder
from ottla.evidence.decoded import DecodedBatches, head_seen
from ottla.evidence.logs import segments
from ottla.evidence.reads import Place, read_round
from ottla.evidence.times import RunClock
from ottla.patience import comes_within
from ottla.records.batch_header import BatchHeader, CorruptBatch, iterate_headers

if TYPE_CHECKING:
    from ottla.client.reader import End
    from ottla.cluster.cluster import Cluster

RECORDS_MAX = 4_000
"""Of each partition, give or take a batch."""
NOT_SEEN = {
    kinds.UNDER_REPLICATED: "which replicas had a record, and had synced it, when it was acknowledged (only the "
    "simulation sees that: ottla simulate)",
    kinds.KEPT_WAITING: "how long brokers took for each request (only the simulation sees that: ottla simulate)",
    kinds.UNREPEATABLE: "a real cluster does not repeat a run by a seed (the simulation does: ottla simulate)",
}
"""Kinds of anomaly of which no look at a real cluster shows anything, and why."""
_LEVELS = (UNCOMMITTED, COMMITTED)
_PATIENCE_S = 30.0


class TopicWitness:
    """Of one topic; what was sent to it is for the caller to write into `chronicle`."""

    def __init__(self, cluster: Cluster, promise: TopicPromise, producer: ProducerPromise, clock: RunClock) -> None:
        self._begin(promise, producer, clock)
        self._cluster = cluster
        self._read_from = cluster.bootstrap_servers
        self._reader_settings: Mapping[str, Any] = {}

    def _begin(self, promise: TopicPromise, producer: ProducerPromise, clock: RunClock) -> None:
        self.clock = clock
        self.promise = promise
        self.chronicle = Chronicle(
            topics=[promise],
            producers=[producer],
            instances=[InstanceSeen(producer.producer, 0, clock.now_us)],
            watermarks=[],
            leaderships=[],
            commits=[],
            # A caller that stops brokers has to note it here.
            broker_ends=[],
            controls=[],
        )
        # Where the part that is judged record by record ends, and the highest number in it; `choose_part` says so.
        self.part: dict[Place, int] = {}
        self.top: dict[Place, int] = {}
        self._decoded = DecodedBatches()
        self._stand: list[dict[str, Any]] = []

    @property
    def places(self) -> list[Place]:
        """The topic's partitions."""
        return [(self.promise.topic, index) for index in range(self.promise.partitions)]

    def look(self) -> None:
        """Note which brokers lead, how far each replica has come, and what has been committed since the last look."""
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
            shown = self._shown(level)
            for place, end in self.part.items():
                spans[place] = 0, min(end, shown.get(place, end))
            self.chronicle.reads += read_round(
                self._read_from,
                f"{reader} {level}",
                level,
                spans,
                self._decoded,
                self.clock,
                is_final,
                settings=self._reader_settings,
            )

    def _shown(self, level: str) -> dict[Place, int]:
        """How far readers of this level may come by now, of the partitions of which that is known."""
        mark = "last_stable_offset" if level == COMMITTED else "high_watermark"
        leaders = {place: self._leader_of(place) for place in self.places}
        return {place: leader[mark] for place, leader in leaders.items() if leader is not None}

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

    def note_faults(self, fired: Mapping[str, int]) -> None:
        """Write down how often each kind of fault fired; each has to, or the run proves nothing about it."""
        of = self.chronicle.producers[0].producer
        self.chronicle.faults += [
            FaultSeen(kind, times, f"its producer was {of}", must_fire=True) for kind, times in fired.items()
        ]
        self.chronicle.redeliveries += fired.get("redeliver", 0)

    # ---- what a look shows --------------------------------------------------------------------------------------

    def _note_role(self, now_us: int, index: int, part: dict[str, Any], known: dict[str, Any] | None) -> None:
        role = part["leader"], part["leader_epoch"], tuple(part["isr"])
        if known is not None and role == (known["leader"], known["leader_epoch"], tuple(known["isr"])):
            return
        assert self.chronicle.leaderships is not None
        # Looks do not show which replicas were in sync right before an election, nor whether it was unclean.
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
            # What is cut short is no batch: the log then ends before its broker's end offset, and the judge finds that.
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
        """The offset at which the part of a partition ends (about `RECORDS_MAX` records, copies included), and the
        highest record number in the part."""
        leader = self._leader_of(place)
        if leader is None:
            return 0, -1
        return self._end_within(segments(self._log_of(leader, place)), leader["high_watermark"])

    def _end_within(self, pieces: Iterable[Any], high_watermark: int) -> tuple[int, int]:
        """The same, of a log that comes in pieces of whole batches."""
        end, top, count = 0, -1, 0
        for segment in pieces:
            for header in iterate_headers(segment):
                if header.last_offset >= high_watermark:
                    return end, top
                batch = self._batch(segment, header, header.last_offset + 1)
                numbers = [record.number for record in batch.records]
                # Copies of records of the part belong to it, too, up to as many records again: the work is bounded.
                is_copy = min(numbers, default=top + 1) <= top and count < 2 * RECORDS_MAX
                if count >= RECORDS_MAX and not is_copy:
                    return end, top
                end, top, count = header.last_offset + 1, max(top, *numbers, -1), count + len(numbers)
        return end, top


def looked_at(witnesses: Sequence[TopicWitness]) -> str:
    """In words, how much was looked at one by one."""
    reads = [read for witness in witnesses for read in witness.chronicle.reads if read.is_final]
    records = sum(len(read.records) for read in reads if read.isolation_level == UNCOMMITTED)
    logs = [replica for witness in witnesses for replica in witness.chronicle.replicas or ()]
    batches = sum(len(replica.batches) for replica in logs)
    looks = sum(len(witness.chronicle.watermarks or ()) for witness in witnesses)
    told = [f"{records:,} record{'s' * (records != 1)} one by one"]
    if logs:
        told.append(f"{batches:,} batches in the {len(logs)} logs of all replicas")
    if looks:
        told.append(f"{looks:,} states of replicas")
    return ", ".join(told)


def _leaders(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The replicas that lead in the partition's present epoch: one, or none."""
    if part is None:
        return []
    return [each for each in part["replicas"] if each["is_leader"] and each["leader_epoch"] == part["leader_epoch"]]
