"""Failovers by seed: brokers die, lose power, freeze, lose sight of each other; what was acked stays, once, in order.

Every seed draws its own outages around an idempotent producer with acks=all, three replicas and
min.insync.replicas=2. Power is cut only where every replica is in sync, and of one broker at a time; until the
controller knows of it nothing else happens. That is what Kafka promises to survive without a sync. OTTLA_SOAK=1 runs
20,000 seeds.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.drawn import fixed_seeds, in_parts, told

from ottla.errors import BufferFull, KafkaError
from ottla.host.links import Cut
from ottla.ledger.schema import ACKED, UNKNOWN
from ottla.records.plain import decode_batches
from ottla.simulation.world import CONTROLLER, World

SEEDS_PER_TEST = 10
SEEDS = fixed_seeds(100, soak=20_000)
TOPIC = "flights"
BROKERS = (0, 1, 2)
SETTINGS = {
    "broker_session_timeout_ms": 1500,
    "broker_heartbeat_interval_ms": 300,
    "replica_lag_time_max_ms": 2000,
    "leader_imbalance_check_interval_seconds": 7,
    "log_segment_bytes": 4096,
    "replica_high_watermark_checkpoint_interval_ms": 1000,
}


class Storm:
    """One seed's cluster, producer and outages, and whatever was seen on the way that must not be."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World(seed, **SETTINGS)
        self.partitions = self.rng.randint(1, 2)
        self.world.create_topic(TOPIC, partitions=self.partitions, min_insync_replicas=2)
        self.breaches: list[str] = []
        # What stood below a leader's high watermark, by partition and offset: it must be there in the end.
        self.committed: dict[tuple[int, int], bytes | None] = {}
        self._seen_up_to: dict[int, int] = {}
        self._high_watermarks: dict[tuple[int, int, int, int], int] = {}
        self._epochs: dict[int, int] = {}
        self.sent: list[tuple[bytes, Any]] = []
        self.cuts: list[Cut] = []
        # The start of a broker that lost power.
        self._dark: tuple[int, int] | None = None
        self.producer = self.world.producer(
            enable_idempotence=True,
            acks="all",
            linger_ms=self.rng.choice((0, 5)),
            batch_size=self.rng.choice((200, 2_000)),
            request_timeout_ms=self.rng.choice((500, 3_000)),
            delivery_timeout_ms=self.rng.choice((5_000, 120_000)),
            retry_backoff_ms=self.rng.choice((20, 100)),
        )

    def run(self) -> list[str]:
        """Faults, then none; all breaches in sentences."""
        rng = self.rng
        for number in range(rng.randint(30, 120)):
            try:
                value = b"value %d" % number
                self.sent.append((value, self.producer.send(TOPIC, value, b"%d" % rng.randrange(9))))
            except (KafkaError, BufferFull):
                continue
            if rng.random() < 0.15:
                self.bring_down()
            if rng.random() < 0.3:
                self.wait(rng.choice((300, 5_000, 100_000, 1_000_000, 4_000_000)))
        self.heal()
        self.producer.flush()
        if not self.world.run_until(self.world.is_whole, limit_us=60_000_000):
            self.breaches.append(f"not all replicas are in sync a minute after the last outage: {self.image()}")
        self.wait(5_000_000)
        self.judge()
        return self.breaches

    # Outages.

    def bring_down(self) -> None:
        world, rng = self.world, self.rng
        broker_id = rng.choice(BROKERS)
        if self.is_power_cut_unnoticed():
            return
        runner = world.brokers[broker_id]
        kind = rng.choice(("kill", "kill", "power_off", "pause", "cut", "cut", "start", "start", "resume", "heal"))
        if kind == "kill" and not runner.is_dead:
            world.kill(broker_id)
        elif kind == "power_off" and self.world.is_whole() and not runner.is_dead:
            self._dark = broker_id, runner.core.broker_epoch  # type: ignore[attr-defined]
            world.power_off(broker_id)
        elif kind == "pause" and not runner.is_dead and not runner.is_frozen:
            world.pause(broker_id)
        elif kind == "cut":
            self.cuts.append(world.links.cut(broker_id, rng.choice([*BROKERS, CONTROLLER])))
        elif kind == "start" and runner.is_dead:
            world.start(broker_id)
        elif kind == "resume" and runner.is_frozen and not runner.is_dead:
            world.resume(broker_id)
        elif kind == "heal":
            self.heal_links()
        self.look()

    def heal_links(self) -> None:
        for cut in self.cuts:
            cut.end()

    def heal(self) -> None:
        self.heal_links()
        for broker_id in BROKERS:
            if self.world.brokers[broker_id].is_dead:
                self.world.start(broker_id)
            elif self.world.brokers[broker_id].is_frozen:
                self.world.resume(broker_id)

    def wait(self, duration_us: int) -> None:
        end_us = self.world.scheduler.now_us + duration_us
        scheduler = self.world.scheduler
        while scheduler.now_us < end_us:
            look_us = min(end_us, scheduler.now_us + 250_000)
            scheduler.at(look_us, lambda: None)
            self.world.run_until(lambda at_us=look_us: scheduler.now_us >= at_us)  # type: ignore[misc]
            self.look()

    # Judging.

    def image(self) -> list[Any]:
        return list(self.world.controller.core.image.topics[TOPIC].partitions)  # type: ignore[attr-defined]

    def is_power_cut_unnoticed(self) -> bool:
        """Whether the controller still takes a broker that has lost power for one that has everything."""
        return self._dark is not None and self.world.counts_as_in_sync(*self._dark)

    def look(self) -> None:
        """Note what leaders count as committed, and that epochs and high watermarks only grow."""
        for index, role in enumerate(self.image()):
            if role.leader_epoch < self._epochs.get(index, 0):
                self.breaches.append(f"partition {index} went from leader epoch {self._epochs[index]} to {role}")
            self._epochs[index] = role.leader_epoch
            if role.leader < 0 or self.world.brokers[role.leader].is_dead:
                continue
            core: Any = self.world.brokers[role.leader].core
            partition = core.topics.get(TOPIC, {}).get(index)
            if partition is None or partition.leader_epoch != role.leader_epoch or partition.log is None:
                continue
            place = index, role.leader, role.leader_epoch, core.broker_epoch
            mark = partition.high_watermark
            if mark < self._high_watermarks.get(place, 0):
                self.breaches.append(f"the high watermark of {place} fell to {mark}")
            self._high_watermarks[place] = mark
            seen = self._seen_up_to.get(index, 0)
            if mark > seen:
                for offset, value in records_of(self.world, role.leader, index):
                    if seen <= offset < mark:
                        self.committed[index, offset] = value
                self._seen_up_to[index] = mark

    def judge(self) -> None:
        stored = {index: records_of(self.world, 0, index) for index in range(self.partitions)}
        for index, records in stored.items():
            if [offset for offset, _ in records] != list(range(len(records))):
                self.breaches.append(f"partition {index} has gaps or copies")
            logs = {log_bytes(self.world, broker_id, index) for broker_id in BROKERS}
            if len(logs) != 1:
                self.breaches.append(f"the replicas of partition {index} differ: {sorted(map(len, logs))} bytes")
        for (index, offset), value in self.committed.items():
            if dict(stored[index]).get(offset) != value:
                self.breaches.append(f"{value!r} was committed at {index}/{offset} and is gone")
        self._judge_outcomes(stored)

    def _judge_outcomes(self, stored: dict[int, list[tuple[int, bytes | None]]]) -> None:
        places: dict[bytes | None, list[tuple[int, int]]] = {}
        for index, records in stored.items():
            for offset, value in records:
                places.setdefault(value, []).append((index, offset))
        for value, delivery in self.sent:
            told, found = outcome(delivery), places.get(value, [])
            if len(found) > 1:
                self.breaches.append(f"{value!r} is stored at {found}")
            if told == ACKED and found != [(delivery.partition, delivery.result(0).offset)]:
                self.breaches.append(f"{value!r} was acked at {delivery.result(0).offset} and is at {found}")
            if told not in (ACKED, UNKNOWN) and found:
                self.breaches.append(f"{value!r} failed and is stored")
        for records in stored.values():
            numbers = [int((value or b"").split()[1]) for _, value in records]
            if numbers != sorted(numbers):
                self.breaches.append(f"out of order: {numbers}")


def breaches(seed: int) -> list[str]:
    """Of one seed."""
    return Storm(seed).run()


def outcome(delivery: Any) -> str:
    from .test_storms import outcome as of_storms

    return of_storms(delivery)[0]


def log_bytes(world: World, broker_id: int, index: int) -> bytes:
    disk, folder = world.disks[broker_id], f"{TOPIC}-{index}"
    names = [name for name in disk.files(folder) if name.endswith(".log")]
    return b"".join(disk.read_file(f"{folder}/{name}") or b"" for name in names)


def records_of(world: World, broker_id: int, index: int) -> list[tuple[int, bytes | None]]:
    batches = decode_batches(log_bytes(world, broker_id, index))
    return [(record.offset, record.value) for _, records in batches for record in records]


@pytest.mark.parametrize("seeds", in_parts(SEEDS, SEEDS_PER_TEST), ids=told)
def test_whatever_happens_to_brokers_what_was_acked_stays(seeds: list[int]) -> None:
    storms = {seed: Storm(seed) for seed in seeds}
    breached = {seed: found for seed, storm in storms.items() if (found := storm.run())}
    assert not breached
    # Where nobody is told anything, nobody is told a thing that is not so. A storm alone may be that bad.
    outcomes = Counter(outcome(delivery) for storm in storms.values() for _, delivery in storm.sent)
    assert len(seeds) < SEEDS_PER_TEST or outcomes[ACKED] > outcomes.total() // 4, outcomes
