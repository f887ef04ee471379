"""A plan carried out by real processes: `ottla.Producer`s and `ottla.Reader`s, sockets, files, an `ottla.Cluster`.

What `simulation.run` is in the simulated world: each producer acts out its plan on a thread, each reader reads on one,
the plan's mishaps become faults and verbs of the cluster, and everything that is seen goes into a chronicle for the
same judges. What only the simulated world shows (who led when, high watermarks) stays None there. The replicas' logs
are read from the brokers' files once the cluster is closed.

`performers` has who acts out the plan of a producer. Brokers that a fault strikes down come back when others lead what
they led; the simulated ones after so long.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla.audit.chronicle import (
    BatchSeen,
    Chronicle,
    FaultSeen,
    ReadSeen,
    ReplicaSeen,
)
from ottla.cluster.data_dir import log_folder
from ottla.errors import UserMistake
from ottla.faults.rule import CRASHES
from ottla.simulation.decoded import DecodedBatches
from ottla.simulation.plan import Mishap, Plan, ReaderPlan
from ottla.simulation.run import Run
from ottla.trial.witness import Clock, read_round, segments

from .performers import Performer

_LEVELS = ("read_uncommitted", "read_committed")
_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.01
_ROUNDS_MAX = 8

Undo = Callable[[], Any]


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
            weather=promised.weather,
            instances=[],
        )
        self.decoded = DecodedBatches()
        self.places = [(topic.name, index) for topic in plan.topics for index in range(topic.partitions)]
        self._folder = folder
        self._clock = Clock()
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
        rules = [mishap for mishap in self.plan.mishaps if mishap.kind == "rule"]
        faults = {id(mishap): self.break_requests(mishap) for mishap in rules}
        menders = [self._thread(self.mend_when_struck, each, faults[id(each)]) for each in rules if _ends_broker(each)]
        by_the_clock = [mishap for mishap in self.plan.mishaps if mishap.kind != "rule"]
        fired: dict[int, int] = {}
        menders.append(self._thread(self.live_through, by_the_clock, fired))
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
        for mishap in self.plan.mishaps:
            struck = faults[id(mishap)].fired if id(mishap) in faults else fired[id(mishap)]
            self.chronicle.faults.append(FaultSeen(mishap.kind, struck, f"{mishap.details} at {mishap.at_us} us"))
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

    # ---- mishaps ------------------------------------------------------------------------------------------------

    def break_requests(self, mishap: Mishap) -> Any:
        """A rule of the plan as a fault of the cluster."""
        details = dict(mishap.details)
        return getattr(self.cluster.faults, details.pop("kind"))(**details)

    def mend_when_struck(self, mishap: Mishap, fault: Any) -> None:
        """Bring brokers back that this fault ends, once others lead what they led."""
        while not fault.fired:
            if self.over.wait(_LOOK_EVERY_S):
                return
        rule = mishap.details
        replicas = {topic.name: topic.replication_factor for topic in self.plan.topics}[rule["topic"]]
        if rule["kind"] != "cut_power" and replicas > 1:
            struck = next(broker for broker, state in self.cluster.brokers().items() if state != "running")
            for topic, partition in self.places:
                if topic == rule["topic"]:
                    self.cluster.await_leader(topic, partition, other_than=struck, timeout=_PATIENCE_S)
        for broker, state in self.cluster.brokers().items():
            if state == "paused":
                self.cluster.resume(broker)
        with suppress(UserMistake):  # all are running
            self.cluster.start()

    def live_through(self, mishaps: list[Mishap], fired: dict[int, int]) -> None:
        """One mishap after the other, at its time."""
        waiting = threading.Event()
        for mishap in mishaps:
            waiting.wait(max(0, mishap.at_us - self.now_us) / 1e6)
            fault, undo = self._impose(mishap)
            waiting.wait(mishap.lasts_us / 1e6)
            undo()
            fired[id(mishap)] = 1 if fault is None else fault.fired

    def _impose(self, mishap: Mishap) -> tuple[Any, Undo]:
        """What a mishap is here: the fault that counts, where it is one, and how it ends."""
        cluster, kind, details = self.cluster, mishap.kind, mishap.details
        broker = details.get("broker", 0) + 1
        verbs: dict[str, tuple[Undo, Undo]] = {
            "kill": (lambda: cluster.kill(broker), lambda: cluster.start(broker)),
            "pause": (lambda: cluster.pause(broker), lambda: cluster.resume(broker)),
            "restart": (lambda: cluster.stop(broker), lambda: cluster.start(broker)),
            "power_off": (lambda: self._cut_power_when_whole(broker), lambda: cluster.start(broker)),
            "move_leader": (lambda: cluster.move_leader(details["topic"], details["partition"]), lambda: None),
        }
        if kind in verbs:
            act, undo = verbs[kind]
            act()
            return None, undo
        faults = cluster.faults
        conditions: dict[str, Callable[[], Any]] = {
            "isolate": lambda: faults.isolate(broker),
            "cut_link": lambda: faults.cut_link(details["one"] + 1, details["other"] + 1),
            "unplug": lambda: faults.unplug(broker),
            "half_open": lambda: faults.half_open(broker),
            "full_disk": lambda: faults.full_disk(broker),
            "slow_disk": lambda: faults.slow_disk(broker, delay_ms=details["delay_us"] // 1000),
            "jump_clock": lambda: faults.jump_clock(broker, jump_ms=details["jump_ms"]),
        }
        fault = conditions[kind]()
        return fault, fault.heal

    def _cut_power_when_whole(self, broker: int) -> None:
        """As in mild weather: nobody counts on what is lost."""
        for topic, partition in self.places:
            self.cluster.await_isr(topic, partition, timeout=_PATIENCE_S)
        self.cluster.power_off(broker, seed=self.plan.seed)

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


def _ends_broker(mishap: Mishap) -> bool:
    return mishap.details["kind"] in CRASHES


def _end(batches: list[BatchSeen]) -> int:
    return batches[-1].last_offset + 1 if batches else 0
