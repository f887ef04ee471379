"""Watches a run and writes what it sees into the chronicle.

During the run it looks at a broker's replicas whenever that broker's core has handled something, and at every image
that the controller publishes. In the end it reads every partition in both isolation levels, and notes every replica's
log and the coordinators' committed offsets. Internal topics are watched like those of the plan, but are not read.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from ottla.audit.chronicles.chronicle import (
    BatchSeen,
    BrokerEnd,
    Committed,
    Leadership,
    ReadSeen,
    ReplicaSeen,
    Watermark,
)
from ottla.broker.events import ClusterImage, PartitionImage
from ottla.broker.log.segment import offset_of
from ottla.broker.topic_names import INTERNAL_TOPICS
from ottla.broker.write_back import WriteBack
from ottla.errors import OttlaError
from ottla.evidence.decoded import heads_in, readable
from ottla.host.disk_faults import whole_headers
from ottla.records.batch_header import CorruptBatch, check_crc
from ottla.simulation.clients import SimulatedReader
from ottla.simulation.moves_seen import MovesSeen, has_arrived

if TYPE_CHECKING:
    from ottla.simulation.run import Run

_LEVELS = ("read_uncommitted", "read_committed")


class _Watched:
    """A replica, and what was noted of it last."""

    __slots__ = (
        "high_watermark",
        "index",
        "leader",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "name",
        "partition",
    )

    def __init__(self, name: str, index: int, partition: Any) -> None:
        self.name = name
        self.index = index
        self.partition = partition
        self.leader = self.leader_epoch = self.high_watermark = self.log_end_offset = -1
        self.log_start_offset = -1


class Witness:
    """The witness of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._world = run.world
        chronicle = run.chronicle
        chronicle.replicas = []
        chronicle.watermarks = []
        chronicle.leaderships = []
        chronicle.commits = []
        chronicle.broker_ends = []
        chronicle.instances = []
        # By broker: the image that it has, and its replicas with what was noted of them last.
        self._images: list[Any] = [None] * len(run.world.brokers)
        self._watched: list[list[_Watched]] = [[] for _ in run.world.brokers]
        self._roles: dict[tuple[str, int], PartitionImage] = {}
        self.moves = MovesSeen(run)
        # (topic, partition) -> leader epoch -> the highest high watermark of its leader
        self._committed_up_to: dict[tuple[str, int], dict[int, int]] = {}
        # (broker, broker epoch) of starts that ended by a power cut: what these cores have of their logs is not true.
        self._dark: dict[tuple[int, int], None] = {}
        self._names = [*(topic.name for topic in run.plan.topics), *INTERNAL_TOPICS]
        self._compacted = [
            *(topic.name for topic in run.plan.topics if topic.is_compacted),
            *INTERNAL_TOPICS,
        ]
        # A log's bytes -> its batches; most replicas have the same bytes.
        self._batches: dict[bytes, list[BatchSeen]] = {}
        run.world.watch(self._broker_acted, self._image_published, self._broker_fell)

    def image(self) -> dict[str, list[Any]]:
        """The controller's image of the topics: leaders, in-sync replicas and so on."""
        return self._partitions(self._world.controller.core.image)  # type: ignore[attr-defined]

    def _partitions(self, image: ClusterImage) -> dict[str, list[Any]]:
        return {name: list(image.topics[name].partitions) for name in self._names if name in image.topics}

    # ---- during the run -----------------------------------------------------------------------------------------

    def _broker_acted(self, broker_id: int) -> None:
        core: Any = self._world.brokers[broker_id].core
        if core.image is not self._images[broker_id]:
            # At every start, and whenever its replicas change, a broker gets a new image.
            self._images[broker_id] = core.image
            known = {seen.partition: seen for seen in self._watched[broker_id]}
            self._watched[broker_id] = [
                known.get(partition) or _Watched(name, index, partition)
                for name in self._names
                for index, partition in core.topics.get(name, {}).items()
            ]
        for seen in self._watched[broker_id]:
            partition = seen.partition
            log = partition.log
            # The last stable offset is noted with these. It changes only if one of them does, so it is not compared:
            # to compute it each time would take a tenth of a run.
            if log is not None and (
                log.log_end_offset != seen.log_end_offset
                or partition.high_watermark != seen.high_watermark
                or partition.leader_epoch != seen.leader_epoch
                or partition.leader != seen.leader
                or log.log_start_offset != seen.log_start_offset
            ):
                seen.log_end_offset = log.log_end_offset
                seen.high_watermark = partition.high_watermark
                seen.leader_epoch = partition.leader_epoch
                seen.leader = partition.leader
                seen.log_start_offset = log.log_start_offset
                self._note_marks(broker_id, seen.name, seen.index, partition, core)

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
                partition.log.log_start_offset,
            )
        )
        if partition.is_leader:
            self._note_commit(broker_id, name, index, partition)

    def _note_commit(self, broker_id: int, name: str, index: int, partition: Any) -> None:
        # A leader that was replaced, and does not know it yet, still commits what its replicas in sync have.
        known = self._committed_up_to.setdefault((name, index), {})
        epoch, end = partition.leader_epoch, partition.high_watermark
        first = known.get(epoch)
        if first is None:
            # A leader that has fewer records than were committed has lost some. Other records are committed in their
            # place, by it or by a later leader. So compare with the high watermark of the leader before this one.
            before = max((each for each in known if each < epoch), default=None)
            # The start of its epoch, not its log's end: it may have opened its log only with its first append.
            first = 0 if before is None else min(known[before], partition.epoch_start_offset)
        known[epoch] = max(first, end)
        if end <= first:
            return
        held, synced = [], []
        for each, runner in self._world.brokers.items():
            core: Any = runner.core
            replica = core.topics.get(name, {}).get(index)
            log = replica.log if replica is not None and (each, core.broker_epoch) not in self._dark else None
            # A broker that was just started, or whose power is cut, has what is on its disk.
            held_end = log.log_end_offset if log is not None else self._end_on_disk(each, name, index)
            if held_end >= end:
                held.append(each)
                if log is not None and _is_synced(self._world.disks[each].write_back, log):
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
        broker_ends = self._run.chronicle.broker_ends
        assert broker_ends is not None
        core: Any = self._world.brokers[broker_id].core
        cut: dict[tuple[str, int], int] = {}
        if kind != "kill":
            self._dark[broker_id, core.broker_epoch] = None
            # Also of logs that it had not opened yet, because it was just started.
            for name, partitions in self.image().items():
                for index, part in enumerate(partitions):
                    if broker_id in part.replicas:
                        cut[name, index] = self._end_on_disk(broker_id, name, index)
        broker_ends.append(BrokerEnd(self._world.scheduler.now_us, broker_id, kind, cut))
        self.moves.note_end(kind)

    def _end_on_disk(self, broker_id: int, name: str, index: int) -> int:
        """The offset at which a log would end if it were opened now: after its last valid batch."""
        disk, folder = self._world.disks[broker_id], f"{name}-{index}"
        # The first segment's base offset: if that segment is empty, later ones do not count.
        end = min((base for base in map(offset_of, disk.files(folder)) if base is not None), default=0)
        may_lack_offsets = name in self._compacted
        # Segment by segment: zeros at a segment's beginning may look like the end of a torn batch of the one before.
        for content in disk.log_segments(folder):
            left = len(content)
            for header in whole_headers(content):
                if header.base_offset != end and not (may_lack_offsets and header.base_offset > end):
                    break  # there is a gap before it
                try:
                    check_crc(content, header)
                except CorruptBatch:
                    break
                end = header.last_offset + 1
                left -= header.size_bytes
            if left:
                break  # a broker removes the segments after one that it cuts
        return end

    def _image_published(self, image: ClusterImage) -> None:
        """Note new leaders and in-sync replicas; a broker may still act on an older image."""
        leaderships = self._run.chronicle.leaderships
        assert leaderships is not None
        for name, partitions in self._partitions(image).items():
            for index, part in enumerate(partitions):
                before = self._roles.get((name, index))
                if part == before:
                    continue
                self._roles[name, index] = part
                now_us = self._world.scheduler.now_us
                # When a move is completed, its last replicas have only just got in sync.
                in_sync = None if before is None or has_arrived(before, part) else before.isr
                is_unclean = in_sync is not None and part.leader >= 0 and part.leader not in in_sync
                if in_sync is not None and part.leader < 0 and part.isr and part.isr[0] not in in_sync:
                    # Only a leader is in sync alone: this one was elected, and ended, between two images.
                    fallen = part.isr[0], part.leader_epoch - 1, part.isr
                    leaderships.append(Leadership(now_us, name, index, *fallen, True, part.replicas))
                role = part.leader, part.leader_epoch, part.isr
                leaderships.append(Leadership(now_us, name, index, *role, is_unclean, part.replicas))
                self.moves.note(name, index, before, part)
        self.moves.note_what_they_meet()

    # ---- in the end ---------------------------------------------------------------------------------------------

    def take_stock(self) -> None:
        """Read every partition, and note every log."""
        for level in _LEVELS:
            reader = self._world.reader(SimulatedReader, f"final {level}", isolation_level=level)
            for topic in self._run.plan.topics:
                for index in range(topic.partitions):
                    self._read(reader, level, topic.name, index)
        for name, partitions in self.image().items():
            for index, part in enumerate(partitions):
                for broker_id in part.replicas:
                    self._look_into(broker_id, name, index)
        self._look_at_groups()
        self._look_at_transactions()

    def cut_short(self) -> None:
        """Note that an exception ended the run: logs and committed offsets are not looked at."""
        chronicle = self._run.chronicle
        chronicle.is_cut_short = True
        chronicle.replicas = chronicle.group_offsets = None

    def _read(self, reader: Any, level: str, topic: str, index: int) -> None:
        began_us = self._world.scheduler.now_us
        records, error = [], None
        try:
            fetched = reader.fetch(topic, index)
            records = readable(fetched, self._run.decoded, committed_only=level == "read_committed")
        except (OttlaError, CorruptBatch) as raised:
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
                self._batches_in(content, topic),
            )
        )

    def _batches_in(self, content: bytes, topic: str) -> list[BatchSeen]:
        found = self._batches.get(content)
        if found is None:
            whole = content[: sum(header.size_bytes for header in whole_headers(content))]
            found = heads_in(whole) if topic in INTERNAL_TOPICS else self._run.decoded.seen_in(whole)
            self._batches[content] = found
        return found

    def is_calm(self) -> bool:
        """Whether every replica has all of its leader's log, all is committed, and no transaction is open."""
        for name, partitions in self.image().items():
            for index, part in enumerate(partitions):
                ends: dict[tuple[int, int, int], None] = {}
                for broker_id in part.replicas:
                    core: Any = self._world.brokers[broker_id].core
                    replica = core.topics.get(name, {}).get(index)
                    if replica is None or replica.log is None:
                        return False
                    stable = replica.last_stable_offset if replica.is_leader else replica.high_watermark
                    ends[replica.log.log_end_offset, replica.high_watermark, stable] = None
                if len(ends) != 1 or any(len(dict.fromkeys(end)) != 1 for end in ends):
                    return False
        return True

    def _look_at_transactions(self) -> None:
        for name, partitions in self.image().items():
            for index, part in enumerate(partitions):
                core: Any = self._world.brokers[part.leader].core if part.leader >= 0 else None
                leader = core.topics.get(name, {}).get(index) if core is not None else None
                if leader is not None and leader.last_stable_offset < leader.high_watermark:
                    told = f"{name}-{index} has a transaction open from offset {leader.last_stable_offset} on"
                    self._run.chronicle.hanging_transactions.append(told)

    def _look_at_groups(self) -> None:
        stand = self._run.chronicle.group_offsets = {}
        groups = dict.fromkeys(seen.offsets[0] for seen in self._run.chronicle.transactions if seen.offsets)
        for group_id in groups:
            for (topic, partition), offset in self._world.group_offsets(group_id).items():
                stand[group_id, topic, partition] = offset


def _is_synced(write_back: WriteBack, log: Any) -> bool:
    """Whether all of a log would be there after a power cut now."""
    return all(write_back.synced_bytes(each.path, each.size) >= each.size for each in log.segments)
