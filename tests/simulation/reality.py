"""A plan carried out by real processes: `ottla.Producer`s and `ottla.Reader`s, sockets, files, an `ottla.Cluster`.

What `simulation.run` is in the simulated world: each producer acts out its plan on a thread, each reader reads on one,
the plan's faults affect the cluster, and everything that is seen goes into a chronicle for the
same judges. What only the simulated world shows (who led when, high watermarks) stays None there. The replicas' logs
are read from the brokers' files once the cluster is closed.

`performers` has who acts out the plan of a producer. Brokers that a fault ends come back when others lead what
they led; the simulated ones after so long.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla.audit.chronicles.chronicle import BatchSeen, Chronicle, FaultSeen, ReadSeen, ReplicaSeen
from ottla.cluster.data_dir import log_folder
from ottla.evidence.decoded import DecodedBatches
from ottla.evidence.logs import segments
from ottla.evidence.reads import read_round
from ottla.evidence.times import RunClock
from ottla.faults.broker_fault import BrokerFault
from ottla.faults.fault import Fault
from ottla.simulation.plan import Plan, ReaderPlan, TimedFault
from ottla.simulation.run import Run

from .performers import Performer

_LEVELS = ("read_uncommitted", "read_committed")
_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.01
_ROUNDS_MAX = 8


def carry_out(plan: Plan, folder: Path) -> Chronicle:
    """What a plan comes to in reality; logs lie in `folder`, which must be empty."""
    with ottla.Cluster(brokers=plan.brokers, data_dir=folder, settings=plan.settings) as cluster:
        stage = Stage(plan, cluster, folder)
        stage.play()
    stage.look_into_logs()
    return stage.chronicle


class Stage:
    """One cluster, and those who use it; times are microseconds from its beginning."""

    def __init__(self, plan: Plan, cluster: ottla.Cluster, folder: Path) -> None:
        self.plan = plan
        self.cluster = cluster
        self.over = threading.Event()
        # What is promised is the same as in the simulated world.
        promised = Run(plan).chronicle
        self.chronicle = Chronicle(
            topics=promised.topics,
            producers=promised.producers,
            transaction_version=promised.transaction_version,
            severity=promised.severity,
            instances=[],
        )
        self.decoded = DecodedBatches()
        self.places = [(topic.name, index) for topic in plan.topics for index in range(topic.partitions)]
        self._folder = folder
        self._clock = RunClock()
        self._errors: list[BaseException] = []

    @property
    def now_us(self) -> int:
        """Since it began."""
        return self._clock.now_us

    def play(self) -> None:
        """All of the plan, and a look at what came of it."""
        for topic in self.plan.topics:
            configs = {key.replace("_", "."): str(value) for key, value in topic.settings.items()}
            self.cluster.create_topic(topic.name, topic.partitions, topic.replication_factor, configs)
        at_requests = [each.fault for each in self.plan.faults if each.fault.applies_to_requests]
        faults = {id(fault): self.cluster.faults.add(_numbered(fault)) for fault in at_requests}
        ending = [each for each in at_requests if isinstance(each, BrokerFault)]
        menders = [self._thread(self.mend_when_fired, each, faults[id(each)]) for each in ending]
        by_the_clock = [each for each in self.plan.faults if not each.fault.applies_to_requests]
        menders.append(self._thread(self.live_through, by_the_clock, faults))
        performers = [Performer(producer, self) for producer in self.plan.producers]
        writers = [self._thread(performer.perform) for performer in performers]
        readers = [self._thread(self.read_along, reader) for reader in self.plan.readers]
        for thread in writers:
            thread.join()
        self.over.set()
        for thread in (*menders, *readers):
            thread.join()
        for fault in faults.values():
            fault.heal()
        self.chronicle.healed_us = self.now_us
        for performer in performers:
            performer.leave()
        if self._errors:
            raise self._errors[0]
        self._settle()
        self._take_stock()
        for each in self.plan.faults:
            fired = faults[id(each.fault)].fired
            self.chronicle.faults.append(FaultSeen(each.kind, fired, f"{each.fault} at {each.at_us} us"))
        self.chronicle.ended_us = self.now_us

    def _thread(self, act: Callable[..., None], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                act(*arguments)
            except BaseException as error:
                self._errors.append(error)
                self.over.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    # ---- faults -------------------------------------------------------------------------------------------------

    def mend_when_fired(self, fault: BrokerFault, real: Any) -> None:
        """Bring brokers back that this fault ends, once others lead what they led."""
        while not real.fired:
            if self.over.wait(_LOOK_EVERY_S):
                return
        replicas = {topic.name: topic.replication_factor for topic in self.plan.topics}[fault.topic or ""]
        if fault.kind != "cut_power" and replicas > 1:
            affected = next(broker for broker, state in self.cluster.brokers().items() if state != "running")
            for topic, partition in self.places:
                if topic == fault.topic:
                    self.cluster.await_leader(topic, partition, other_than=affected, timeout=_PATIENCE_S)
        real.heal()

    def live_through(self, planned: list[TimedFault], faults: dict[int, Any]) -> None:
        """One fault after the other, at its time."""
        waiting = threading.Event()
        for each in planned:
            waiting.wait(max(0, each.at_us - self.now_us) / 1e6)
            if each.kind == "power_off":
                # As in a mild plan: nobody counts on what is lost.
                for topic, partition in self.places:
                    self.cluster.await_isr(topic, partition, timeout=_PATIENCE_S)
            faults[id(each.fault)] = self.cluster.faults.add(_numbered(each.fault))
            waiting.wait(each.lasts_us / 1e6)
            faults[id(each.fault)].heal()

    # ---- reading ------------------------------------------------------------------------------------------------

    def read_along(self, plan: ReaderPlan) -> None:
        """Round after round, until nobody writes any more."""
        places = [place for place in self.places if place[0] == plan.topic]
        positions: dict[tuple[str, int], int] = {}
        for _ in range(_ROUNDS_MAX):
            if self.over.wait(plan.pause_us / 1e6):
                return
            for place in places:
                read = self.read(plan.name, plan.isolation_level, place, positions.get(place, 0))
                if read.error is None:
                    positions[place] = read.end
                else:
                    positions.clear()
                self.chronicle.reads.append(read)

    def read(self, name: str, level: str, place: tuple[str, int], start: int, *, is_final: bool = False) -> ReadSeen:
        """A partition from `start` to its end as it is now."""
        servers, span = self.cluster.bootstrap_servers, {place: (start, "latest")}
        return read_round(servers, name, level, span, self.decoded, self._clock, is_final)[0]

    # ---- the end ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Until all replicas are in sync, all that is written is committed and no transaction is open."""
        for topic, partition in self.places:
            self.cluster.await_isr(topic, partition, timeout=_PATIENCE_S)
        give_up_s = time.monotonic() + _PATIENCE_S
        while not all(self._is_calm(place) for place in self.places):
            if time.monotonic() > give_up_s:
                self.chronicle.stuck.append("what was written is not committed, or a transaction stays open")
                return

    def _is_calm(self, place: tuple[str, int]) -> bool:
        leader = self.cluster.leader(*place)
        ends = [self.read("settling", level, place, 0).end for level in _LEVELS]
        return ends[0] == ends[1] == _end(self._batches_of(leader, place)[1])

    def _take_stock(self) -> None:
        for level in _LEVELS:
            for place in self.places:
                self.chronicle.reads.append(self.read(f"final {level}", level, place, 0, is_final=True))
        groups = dict.fromkeys(seen.offsets[:3] for seen in self.chronicle.transactions if seen.offsets)
        stand = self.chronicle.group_offsets = {}
        for group_id, topic, partition in groups:
            offset = self._committed(group_id, topic, partition)
            if offset >= 0:
                stand[group_id, topic, partition] = offset

    def _committed(self, group_id: str, topic: str, partition: int) -> int:
        """Where a group stands, asked by a client of others."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": group_id, "log_level": 0})
        try:
            return consumer.committed([TopicPartition(topic, partition)], timeout=_PATIENCE_S)[0].offset
        finally:
            consumer.close()

    def look_into_logs(self) -> None:
        """What lies in the files of every replica."""
        replicas = self.chronicle.replicas = []
        for place in self.places:
            for broker in range(1, self.plan.brokers + 1):
                content, batches = self._batches_of(broker, place)
                if content is not None:
                    end = _end(batches)
                    replicas.append(ReplicaSeen(broker, *place, 0, end, end, zlib.crc32(content), batches))

    def _batches_of(self, broker: int, place: tuple[str, int]) -> tuple[bytes | None, list[BatchSeen]]:
        folder = Path(log_folder(str(self._folder), broker, *place))
        if not folder.is_dir():
            return None, []
        content = b"".join(segments(folder))
        return content, self.decoded.seen_in(content)


def _numbered(fault: Fault) -> Fault:
    """The same fault where brokers count from 1 in place of 0."""
    ids = {name: getattr(fault, name, None) for name in ("broker_id", "other_id")}
    return fault.but(**{name: number + 1 for name, number in ids.items() if number is not None})


def _end(batches: list[BatchSeen]) -> int:
    return batches[-1].last_offset + 1 if batches else 0
