"""An application that reads records as a member of a group, and sends each of them on: consume, transform, produce.

    input topic -> member of the group -> producer -> the trial's topic; what was processed is committed as offsets

Each record has its number in a header, so the trial's topic shows which were processed, and how often. A worker is one
member with one producer. At `restart_at` its process ends, or is paused (`zombie`): it sends no heartbeat any more, the
coordinator gives its partition to another worker, which goes on from the last offset that was committed. A paused
worker wakes when the other one has processed everything, and goes on with what it has read until it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from ottla.client.producer import Producer
from ottla.client.reader import Reader
from ottla.errors import KafkaError, OttlaError
from ottla.ledger.schema import SEQUENCE_HEADER, unpack_sequence
from ottla.records.plain import decode_batches
from ottla.trial.fault_schedule import FaultSchedule
from ottla.trial.group_member import GroupMember
from ottla.trial.instance import Ended, Instance
from ottla.trial.ledger import SideLedger
from ottla.trial.scenario import OFFSETS_APART, OFFSETS_WITH_METADATA, Scenario, Side
from ottla.trial.side_cluster import EmbeddedSide, SideCluster
from ottla.trial.workload import Workload, WorkRecord

INPUT, GROUP = "trial-input", "trial"
_PATIENCE_S = 30.0
# How often an application that had to end is started again.
_STARTS_MAX = 4


class GroupApplication:
    """The application of one side, on one cluster. `ledger`: what its producers were told."""

    def __init__(
        self, cluster: EmbeddedSide, scenario: Scenario, side: Side, faults: FaultSchedule, advance: Callable[[], None]
    ) -> None:
        self.ledger = SideLedger()
        self._cluster = cluster
        self._scenario = scenario
        self._side = side
        self._faults = faults
        self._advance = advance
        self._workers: list[_Worker] = []
        self._processed = 0

    def run(self) -> None:
        """Process all records of the input, and learn what becomes of them."""
        self._fill_input()
        zombie: _Worker | None = None
        try:
            worker = self._started()
            while worker.position < self._scenario.records:
                if worker.position == self._scenario.restart_at and len(self._workers) == 1:
                    self._faults.await_fired()
                    if self._scenario.zombie:
                        zombie = worker
                    else:
                        worker.die()
                    worker = self._started()
                self._faults.pass_record(worker.position)
                worker.process()
                if worker.position > self._processed:
                    self._processed = worker.position
                    self._advance()
                if worker.is_over and len(self._workers) < _STARTS_MAX:
                    worker.die()
                    worker = self._started()
            self._faults.pass_record(self._scenario.records)
            if zombie is not None:
                zombie.go_on()
        except BaseException:
            for each in self._workers:
                each.die()
            raise
        for each in self._workers:
            each.close()

    def _fill_input(self) -> None:
        self._cluster.create_topic(INPUT)
        workload = Workload(self._scenario)
        with Producer(self._cluster.bootstrap_servers) as producer:
            for number in range(self._scenario.records):
                record = workload.record(number)
                producer.send(INPUT, record.value, record.key, headers=record.headers, partition=0)

    def _started(self) -> _Worker:
        worker = _Worker(self._cluster, self._scenario, self._side, len(self._workers) + 1, self.ledger)
        self._workers.append(worker)
        worker.start()
        return worker


class _Worker:
    """One member with one producer. `position`: the next offset it processes. `is_over`: it cannot go on."""

    def __init__(self, cluster: SideCluster, scenario: Scenario, side: Side, start: int, ledger: SideLedger) -> None:
        self.position = 0
        self._is_refused = self._is_dead = False
        servers = cluster.bootstrap_servers
        self._servers, self._records, self._partitions = servers, scenario.records, scenario.partitions
        self._side, self._ledger = side, ledger
        self._every = side.transaction_records or side.notes_every
        self._flush_every = scenario.flush_every
        self._member = GroupMember(servers, GROUP, INPUT, side.group)
        self._instance = Instance(cluster, side, start, ledger)

    @property
    def is_over(self) -> bool:
        return self._is_refused or self._instance.is_over

    def start(self) -> None:
        """Join the group, and begin where it has committed."""
        self._member.join()
        self.position = self._member.committed()
        self._source = self._read()

    def process(self) -> None:
        """Send the next record on, and commit where it is time to."""
        self._member.stay()
        self._process_next()

    def go_on(self) -> None:
        """Process what is left, without knowing that time has passed, until it is refused."""
        while self.position < self._records and not self.is_over:
            self._process_next()

    def _process_next(self) -> None:
        self._instance.hand_over(next(self._source))
        self.position += 1
        if self._flush_every and self.position % self._flush_every == 0:
            self._instance.settle()
        if self.position % self._every == 0 or self.position == self._records:
            self._commit()

    def _commit(self) -> None:
        if not self._side.transaction_records:
            self._instance.settle()
            self._commit_offsets()
            return
        apart = self._side.offsets == OFFSETS_APART
        ended = self._instance.commit(None if apart else self._send_offsets)
        if ended is not Ended.COMMITTED:
            self._is_refused = True
        elif apart:
            self._commit_offsets()

    def _send_offsets(self, producer: Producer) -> None:
        offsets, member = {(INPUT, 0): self.position}, self._member
        if self._side.offsets == OFFSETS_WITH_METADATA:
            producer.send_offsets_to_transaction(
                offsets, GROUP, generation=member.generation, member_id=member.member_id
            )
        else:
            producer.send_offsets_to_transaction(offsets, GROUP)

    def _commit_offsets(self) -> None:
        try:
            self._member.commit(self.position)
        except KafkaError as error:
            self._ledger.count_error(error)
            self._is_refused = True
        except OttlaError as error:
            # Without an answer it goes on: the next commit says more.
            self._ledger.count_error(error)

    def _read(self) -> Iterator[WorkRecord]:
        """The records of the input from here on, as they are stored."""
        spans = {(INPUT, 0): (self.position, self._records)}
        with Reader(self._servers, assignments=spans) as reader:
            for fetched in reader.iter_raw(patience_s=_PATIENCE_S):
                for _, records in decode_batches(fetched.records):
                    for record in records:
                        if fetched.fetch_offset <= record.offset < self._records:
                            number = unpack_sequence(dict(record.headers)[SEQUENCE_HEADER])
                            assert number is not None
                            yield WorkRecord(number, number % self._partitions, record.key, record.value or b"")

    def die(self) -> None:
        """End as a process does that is killed: the group is not told."""
        if not self._is_dead:
            self._is_dead = True
            self._instance.die()
            self._end()

    def close(self) -> None:
        """End in order."""
        if not self._is_dead:
            self._instance.close()
            self._end()

    def _end(self) -> None:
        with suppress(OttlaError):
            self._member.close()
        source = getattr(self, "_source", None)
        if source is not None:
            source.close()
