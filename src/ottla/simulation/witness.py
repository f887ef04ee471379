"""Looks on while a run goes, and at what is left of it in the end; writes what it sees into the chronicle.

During the run it looks at a broker's replicas whenever that broker's core has done something, and at the controller's
image whenever that changes. In the end it reads every partition in both isolation levels, takes down every replica's
log and what the coordinators hold.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicle import BatchSeen, Committed, Downfall, Leadership, ReadSeen, ReplicaSeen, Watermark
from ottla.broker.groups.members import GroupRefusal
from ottla.errors import OttlaError
from ottla.records.batch_header import HEADER_BYTES, BatchHeader, CorruptBatch, check_crc, read_header
from ottla.records.plain import decode_batches
from ottla.simulation.scripts import seen

if TYPE_CHECKING:
    from ottla.simulation.run import Run

_LEVELS = ("read_uncommitted", "read_committed")
# Where coordinators keep what they know: of these it is noted who led, and what a power cut took.
_COORDINATORS_OWN = ("__transaction_state", "__consumer_offsets")


class Witness:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._world = run.world
        chronicle = run.chronicle
        chronicle.replicas = []
        chronicle.watermarks = []
        chronicle.leaderships = []
        chronicle.commits = []
        chronicle.downfalls = []
        chronicle.instances = []
        self._marks: dict[tuple[int, str, int], tuple[int, ...]] = {}
        self._roles: dict[tuple[str, int], tuple[Any, ...]] = {}
        # (topic, partition) -> leader epoch -> up to where its leader has been seen to commit
        self._committed_up_to: dict[tuple[str, int], dict[int, int]] = {}
        # Starts of brokers that ended with their power: what their cores still say of their logs is not true.
        self._dark: dict[tuple[int, int], None] = {}
        self._names = [topic.name for topic in run.plan.topics]
        run.world.watch(self._broker_acted, self._controller_acted, self._broker_fell)

    def image(self, also: tuple[str, ...] = ()) -> dict[str, list[Any]]:
        """Who leads and who is in sync, as the controller has it; of the plan's topics and those named `also`."""
        image: Any = self._world.controller.core.image  # type: ignore[attr-defined]
        return {name: list(image.topics[name].partitions) for name in (*self._names, *also) if name in image.topics}

    # ---- during the run -----------------------------------------------------------------------------------------

    def _broker_acted(self, broker_id: int) -> None:
        core: Any = self._world.brokers[broker_id].core
        for name in self._names:
            for index, partition in core.topics.get(name, {}).items():
                log = partition.log
                if log is None:
                    continue
                marks = (
                    core.broker_epoch,
                    partition.leader_epoch,
                    partition.is_leader,
                    partition.high_watermark,
                    log.log_end_offset,
                )
                place = broker_id, name, index
                before = self._marks.get(place)
                if marks == before:
                    continue
                self._marks[place] = marks
                self._note_marks(broker_id, name, index, partition, core)

    def _note_marks(self, broker_id: int, name: str, index: int, partition: Any, core: Any) -> None:
        chronicle, now_us = self._run.chronicle, self._world.scheduler.now_us
        assert chronicle.watermarks is not None
        chronicle.watermarks.append(
            Watermark(
                now_us,
                broker_id,
                core.broker_epoch,
                name,
                index,
                partition.leader_epoch,
                partition.is_leader,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log.log_end_offset,
            )
        )
        if partition.is_leader:
            self._note_commit(broker_id, name, index, partition)

    def _note_commit(self, broker_id: int, name: str, index: int, partition: Any) -> None:
        # A leader that has been replaced and does not know it yet still commits what the replicas in sync have taken.
        known = self._committed_up_to.setdefault((name, index), {})
        epoch, end = partition.leader_epoch, partition.high_watermark
        first = known.get(epoch)
        if first is None:
            # A leader that has less than was committed has lost it, and may commit something else in its place.
            first = min(max(known.values(), default=0), partition.log.log_end_offset)
        known[epoch] = max(first, end)
        if end <= first:
            return
        held, synced = [], []
        for each, machine in enumerate(self._world.brokers):
            core: Any = machine.core
            replica = core.topics.get(name, {}).get(index)
            log = replica.log if replica is not None and (each, core.broker_epoch) not in self._dark else None
            if log is not None and log.log_end_offset >= end:
                held.append(each)
                if not self._world.disks[each].has_unsynced(f"{name}-{index}", ".log"):
                    synced.append(each)
        commits = self._run.chronicle.commits
        assert commits is not None
        commits.append(
            Committed(
                self._world.scheduler.now_us,
                name,
                index,
                broker_id,
                epoch,
                first,
                end,
                tuple(held),
                tuple(synced),
            )
        )

    def _broker_fell(self, broker_id: int, kind: str) -> None:
        downfalls = self._run.chronicle.downfalls
        assert downfalls is not None
        core: Any = self._world.brokers[broker_id].core
        cut: dict[tuple[str, int], int] = {}
        if kind != "kill":
            self._dark[broker_id, core.broker_epoch] = None
            for name in (*self._names, *_COORDINATORS_OWN):
                for index in core.topics.get(name, {}):
                    cut[name, index] = self._end_on_disk(broker_id, f"{name}-{index}")
        downfalls.append(Downfall(self._world.scheduler.now_us, broker_id, kind, cut))

    def _end_on_disk(self, broker_id: int, folder: str) -> int:
        """Where a log would end if it were opened now: behind the last batch that is whole."""
        end = 0
        for header in headers_in(self._world.disks[broker_id].log_content(folder)):
            if end and header.base_offset != end:
                break  # what lies in front of it is gone
            end = header.last_offset + 1
        return end

    def _controller_acted(self) -> None:
        leaderships = self._run.chronicle.leaderships
        assert leaderships is not None
        for name, partitions in self.image(_COORDINATORS_OWN).items():
            for index, part in enumerate(partitions):
                role = part.leader, part.leader_epoch, part.isr
                before = self._roles.get((name, index))
                if role == before:
                    continue
                self._roles[name, index] = role
                is_unclean = before is not None and part.leader >= 0 and part.leader not in before[2]
                now_us = self._world.scheduler.now_us
                leaderships.append(Leadership(now_us, name, index, *role, is_unclean))

    # ---- in the end ---------------------------------------------------------------------------------------------

    def take_stock(self) -> None:
        """Read everything, and look into every log."""
        for level in _LEVELS:
            reader = self._world.reader(isolation_level=level)
            for topic in self._run.plan.topics:
                for index in range(topic.partitions):
                    self._read(reader, level, topic.name, index)
        for broker_id in range(len(self._world.brokers)):
            for topic in self._run.plan.topics:
                for index in range(topic.partitions):
                    self._look_into(broker_id, topic.name, index)
        self._look_at_groups()

    def _read(self, reader: Any, level: str, topic: str, index: int) -> None:
        began_us = self._world.scheduler.now_us
        records, error = [], None
        try:
            records = [seen(record) for record in reader.read(topic, index)]
        except OttlaError as raised:
            error = str(raised)
        start, end = reader.bounds.get((topic, index), (-1, -1))
        ended_us = self._world.scheduler.now_us
        self._run.chronicle.reads.append(
            ReadSeen(
                f"final {level}",
                level,
                topic,
                index,
                began_us,
                ended_us,
                start,
                -1 if end is None else end,
                records,
                error,
                is_final=True,
            )
        )

    def _look_into(self, broker_id: int, topic: str, index: int) -> None:
        disk, folder = self._world.disks[broker_id], f"{topic}-{index}"
        core: Any = self._world.brokers[broker_id].core
        partition = core.topics.get(topic, {}).get(index)
        content = disk.log_content(folder)
        replicas = self._run.chronicle.replicas
        assert replicas is not None
        replicas.append(
            ReplicaSeen(
                broker_id,
                topic,
                index,
                partition.log.log_start_offset if partition is not None and partition.log is not None else 0,
                partition.high_watermark if partition is not None else 0,
                partition.last_stable_offset if partition is not None else 0,
                zlib.crc32(content),
                batches_in(content),
            )
        )

    def _look_at_groups(self) -> None:
        stand = self._run.chronicle.group_offsets = {}
        groups = dict.fromkeys(seen.offsets[0] for seen in self._run.chronicle.transactions if seen.offsets)
        for group_id in groups:
            for machine in self._world.brokers:
                core: Any = machine.core
                try:
                    group = core.groups.find(group_id, self._world.scheduler.now_us)
                except GroupRefusal:
                    continue  # coordinated elsewhere
                if group is not None:
                    for (topic, partition), committed in group.offsets.items():
                        stand[group_id, topic, partition] = committed.offset


def headers_in(content: bytes) -> Iterator[BatchHeader]:
    """The headers of the batches that are there as a whole."""
    position = 0
    while position + HEADER_BYTES <= len(content):
        try:
            header = read_header(content, position)
        except CorruptBatch:
            return
        position += header.size_bytes
        if position > len(content):
            return
        yield header


def batches_in(content: bytes) -> list[BatchSeen]:
    """The batches of a log, decoded by the plain codec; what cannot be is left out, with a wrong CRC noted."""
    found: list[BatchSeen] = []
    for header in headers_in(content):
        piece = content[header.position : header.position + header.size_bytes]
        try:
            check_crc(piece, read_header(piece, 0))
            crc_is_right = True
        except CorruptBatch:
            crc_is_right = False
        plain = [each for _, decoded in decode_batches(piece) for each in decoded] if crc_is_right else []
        keys, records = [each.key or b"" for each in plain], [seen(each) for each in plain]
        commits = None
        if header.is_control:
            # The key of a control record: a version, then 0 for abort or 1 for commit, two bytes each.
            records, commits = [], crc_is_right and keys[0][2:4] == b"\0\1"
        found.append(
            BatchSeen(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional,
                header.is_control,
                commits,
                crc_is_right,
                records,
            )
        )
    return found
