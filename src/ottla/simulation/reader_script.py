"""A reader that carries out its plan: in rounds, it reads a topic from its last positions to the partitions' ends.

Each round is a new client, because a reader core reads a partition once. The chronicle gets each round of each
partition, a failed one with its error. After a failure the next round reads all partitions from their beginnings.

A reader that purges asks after each round without a failure for the deletion of what it has read; it does not ask
again if that fails. The chronicle has what it asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.audit.chronicles.chronicle import ReadSeen, RecordsDeleted
from ottla.errors import OttlaError
from ottla.evidence.decoded import readable
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.reader.events import Assign, Fetched
from ottla.records.batch_header import CorruptBatch
from ottla.simulation.clients import SimulatedReader
from ottla.simulation.plan import ReaderPlan
from ottla.simulation.scripts import Script, Wait

if TYPE_CHECKING:
    from ottla.simulation.run import Run

_EARLIEST, _AS_IT_IS = -2, -1
_ROUND_US_MAX = 20_000_000
_ROUNDS_MAX = 8
_PURGE_MS_MAX = 5_000


class ScriptedReader(SimulatedReader):
    """As its base class, but its methods let no time pass."""

    def begin(self, topic: str, partition: int, start: int) -> None:
        """Read the partition from `start` to its end as it is now."""
        self._fetched[topic, partition] = []
        self._runner.deliver(Assign(topic, partition, start=start, end=_AS_IT_IS))

    def is_done(self, topic: str, partition: int) -> bool:
        """Whether the end was reached, or never will be."""
        return (topic, partition) in self._finished

    def take(self, topic: str, partition: int) -> tuple[list[Fetched], OttlaError | None]:
        """What was fetched, and the error if the end was not reached."""
        fetched = self._fetched.pop((topic, partition))
        if not self.is_done(topic, partition):
            return fetched, OttlaError("it did not come to the end in time")
        return fetched, self._finished.pop((topic, partition))


class ReaderScript(Script):
    """Carries out one `ReaderPlan`, until all producers are done, or for `_ROUNDS_MAX` rounds."""

    def __init__(self, plan: ReaderPlan, partitions: int, run: Run) -> None:
        super().__init__(plan.name, run)
        self.plan = plan
        self._partitions = range(partitions)
        self._positions: dict[int, int] = {}

    def steps(self) -> Iterator[Wait]:
        """One round after the other."""
        for _ in range(_ROUNDS_MAX):
            yield self.until(lambda: self.run.nobody_writes, self.plan.pause_us)
            if self.run.nobody_writes:
                return
            yield from self._round()

    def _round(self) -> Iterator[Wait]:
        topic, began_us = self.plan.topic, self.run.world.scheduler.now_us
        reader = self.run.new_reader(self.plan)
        reader.when_acted(self.wake)
        for index in self._partitions:
            reader.begin(topic, index, self._positions.get(index, _EARLIEST))
        yield self.until(lambda: all(reader.is_done(topic, index) for index in self._partitions), _ROUND_US_MAX)
        noted = [self._note(reader, index, began_us) for index in self._partitions]
        reader.die()
        if not all(noted):
            self._positions.clear()
        elif self.plan.purges:
            yield from self._purge()

    def _purge(self) -> Iterator[Wait]:
        """Ask the leaders to delete the records before this reader's positions."""
        topic, run = self.plan.topic, self.run
        admin = run.world.admin(self.plan.name)
        run.names[admin.client_name] = self.plan.name
        admin.when_acted(self.wake)
        for index, part in enumerate(run.witness.image()[topic]):
            offset = self._positions[index]
            if part.leader < 0 or offset <= 0:
                continue
            asked = DeleteRecordsPartition(partition_index=index, offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=_PURGE_MS_MAX
            )
            run.chronicle.deletions.append(RecordsDeleted(run.world.scheduler.now_us, topic, index, offset))
            admin.ask(request, part.leader, _PURGE_MS_MAX * 1000)
        yield self.until(admin.is_answered, _PURGE_MS_MAX * 1000)
        admin.die()

    def _note(self, reader: ScriptedReader, index: int, began_us: int) -> bool:
        plan, run = self.plan, self.run
        fetched, error = reader.take(plan.topic, index)
        start, end = reader.bounds.get((plan.topic, index), (-1, -1))
        end = -1 if end is None else end
        is_committed = plan.isolation_level == "read_committed"
        told = None if error is None else str(error)
        try:
            records = readable(fetched, run.decoded, committed_only=is_committed)
        except CorruptBatch as wrong:
            records, told = [], str(wrong)
        if end >= 0:
            records = [record for record in records if record.offset < end]
        now_us = run.world.scheduler.now_us
        run.chronicle.reads.append(
            ReadSeen(plan.name, plan.isolation_level, plan.topic, index, began_us, now_us, start, end, records, told)
        )
        if told is None:
            self._positions[index] = end
        return told is None
