"""Many transactional producers, zombies, brokers that cannot be reached, restarts: judged by what readers see.

Each producer writes one record into each of several partitions in a transaction and then commits or aborts; whoever is
refused for good begins anew under the same transactional id, and goes on being a zombie now and then. What it was told
is written down and compared at the end with what a reader of committed records gets.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.log.producer_state import ProducerStates
from ottla.broker.transactions.markers import MarkerWriter
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

from .transaction_world import RETRIABLE, Producer, committed_values, listed
from .world import TOPIC, World

PARTITIONS = 3
TIMEOUT_MS = 20_000
# Appended perhaps; the same sequence numbers again are stored once.
SENT_AGAIN = (*RETRIABLE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class PatientWorld(World):
    """A world whose clients wait for their answers; what cannot be reached comes back meanwhile."""

    def leader(self, topic: str = TOPIC, partition: int = 0) -> int:
        """The partition's leader, once one is elected that is alive."""
        for _ in range(200):
            found = super().leader(topic, partition)
            if found in self.brokers:
                return found
            self.pass_time(200)
        raise AssertionError(f"{topic}-{partition} has no leader")

    def ask(self, broker_id: int, message: Any, *, version: int | None = None) -> Any:
        connection = self.send(broker_id, message, version=version)
        for waited in range(400):
            if connection in self.answers:
                return self.answers[connection][0]
            if waited == 20:
                self.unreachable = set()
            self.pass_time(200)
        raise AssertionError(f"{type(message).__name__} is not answered")


class PatientProducer(Producer):
    """A producer that looks for its coordinator until it finds one that is alive."""

    @property
    def node(self) -> int:
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        for _ in range(200):
            found = self.world.ask(next(iter(self.world.brokers)), asked, version=6).coordinators[0]
            if found.error_code == 0 and found.node_id in self.world.brokers:
                return int(found.node_id)
            self.world.pass_time(200)
        raise AssertionError(f"nobody coordinates {self.transactional_id}")


class Writer:
    """Drives one transactional id; `ends` says of each transaction whether it was committed (None: not told)."""

    def __init__(self, world: World, name: str, version: int) -> None:
        self.world, self.name, self.version = world, name, version
        self.ends: dict[bytes, bool | None] = {}
        self.old: list[tuple[Producer, bytes]] = []
        self.number = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        self.producer = PatientProducer(self.world, self.name, version=self.version, timeout_ms=TIMEOUT_MS)
        self.ready = False
        self.open: bytes | None = None
        self.sent = 0

    def step(self, rng: random.Random) -> None:
        """One request, as a client with a bit of patience would send it."""
        if not self.ready:
            self.ready = self.producer.init() == 0
            return
        if self.open is None:
            self.number += 1
            self.open = b"%s-%d" % (self.name.encode(), self.number)
            self.sent = 0
        if self.sent < PARTITIONS:
            code = self.producer.send(self.open, partition=self.sent)
            if code == 0:
                self.sent += 1
            elif code not in SENT_AGAIN:
                self.give_up()
            return
        committed = rng.random() < 0.7
        # Asked for as long as it takes: it may have been heard the first time.
        self.ends[self.open] = None
        code = self.producer.end(committed)
        for _ in range(20):
            if code not in RETRIABLE:
                break
            self.world.pass_time(200)
            code = self.producer.end(committed)
        if code == 0:
            self.ends[self.open] = committed
            self.open = None
        else:
            self.give_up()

    def give_up(self) -> None:
        assert self.open is not None
        self.ends.setdefault(self.open, False)
        self.old.append((self.producer, self.open + b"-zombie"))
        self.begin_anew()

    def act_as_zombie(self, rng: random.Random) -> None:
        """A producer that was replaced, or will be, does something."""
        if not self.old:
            return
        zombie, value = rng.choice(self.old)
        self.ends.setdefault(value, False)
        zombie.send(value, partition=rng.randrange(PARTITIONS))
        if rng.random() < 0.3:
            zombie.end(True)


def disturb(rng: random.Random, world: World) -> None:
    kind = rng.randrange(12)
    if kind == 0:
        world.unreachable = {rng.choice(list(world.brokers))}
    elif kind <= 2:
        world.unreachable = set()
    elif kind <= 5:
        world.pass_time(rng.choice([10, 150, 2_000]))
    elif kind == 6 and rng.random() < 0.2:
        world.unreachable = set()
        world.pass_time(TIMEOUT_MS + 1000)


def break_brokers(rng: random.Random, world: World) -> None:
    """One broker at a time dies, at times with what it had not synced; another one leads and coordinates."""
    dead = [broker_id for broker_id in (1, 2, 3) if broker_id not in world.brokers]
    if dead and rng.random() < 0.3:
        world.start(dead[0])
        world.pass_time(rng.choice([0, 500, 5_000]))
    elif not dead and not world.unreachable and rng.random() < 0.15:
        # Who is not in sync everywhere could not lead in another one's place.
        world.pass_time(2_000)
        victim = rng.choice([1, 2, 3])
        (world.kill if rng.random() < 0.5 else world.power_off)(victim)


def storm(seed: int, version: int, steps: int = 60, *, deaths: bool = False) -> tuple[World, list[Writer]]:
    rng = random.Random(seed)
    world = PatientWorld(3, **({} if deaths else {"broker_session_timeout_ms": 600_000}))
    world.create_topic(partitions=PARTITIONS, replicas=3)
    writers = [Writer(world, f"w{number}", version) for number in range(3)]
    for _ in range(steps):
        writer = rng.choice(writers)
        if rng.random() < 0.15 and writer.ready:
            # Another instance takes over, whatever the first one was at.
            if writer.open is not None:
                writer.give_up()
            else:
                writer.begin_anew()
        writer.step(rng)
        if rng.random() < 0.2:
            writer.act_as_zombie(rng)
        if deaths:
            break_brokers(rng, world)
        else:
            disturb(rng, world)
    world.unreachable = set()
    for broker_id in [broker_id for broker_id in (1, 2, 3) if broker_id not in world.brokers]:
        world.start(broker_id)
    world.pass_time(2 * TIMEOUT_MS)
    return world, writers


def judge(world: World, writers: list[Writer]) -> str | None:
    """What is wrong with what readers see; None for nothing."""
    seen = [committed_values(world, partition=partition) for partition in range(PARTITIONS)]
    for writer in writers:
        for value, committed in writer.ends.items():
            counts = [values.count(value) for values in seen]
            if committed and counts != [1] * PARTITIONS:
                return f"{value!r} is committed and there {counts} times"
            if committed is False and any(counts):
                return f"{value!r} was not committed and is there {counts} times"
            if counts not in ([0] * PARTITIONS, [1] * PARTITIONS):
                return f"{value!r} is there in part: {counts}"
    for partition in range(PARTITIONS):
        answer = world.fetch(0, partition=partition, isolation_level=1)
        if answer.last_stable_offset != answer.high_watermark:
            return f"partition {partition} is stable up to {answer.last_stable_offset} of {answer.high_watermark} only"
    unended = {
        name: state for name, state in listed(world).items() if state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    }
    return f"{unended} did not end" if unended else None


@pytest.mark.parametrize("deaths", [False, True], ids=["silence", "deaths"])
@pytest.mark.parametrize("version", [1, 2])
def test_readers_see_committed_transactions_whole_and_nothing_else(version: int, deaths: bool) -> None:
    told = []
    for seed in range(25):
        world, writers = storm(seed, version, deaths=deaths)
        assert judge(world, writers) is None, f"seed {seed}"
        told += [end for writer in writers for end in writer.ends.values()]
    assert min(told.count(True), told.count(False)) > 50


def caught(seeds: int = 10) -> bool:
    return any(judge(*storm(seed, 2)) is not None for seed in range(seeds))


def test_the_judge_notices_markers_that_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkerWriter, "write", lambda *_: None)
    assert caught(1)


def test_the_judge_notices_zombies_that_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.broker.apis import produce
    from ottla.broker.log import producer_state

    class Credulous(ProducerStates):
        def check(self, header: Any) -> Any:
            return producer_state.NEW_BATCH

    monkeypatch.setattr("ottla.broker.log.log.ProducerStates", Credulous)
    monkeypatch.setattr(produce, "_check_transaction", lambda *_: None)
    monkeypatch.setattr(
        "ottla.broker.transactions.verification.Verification.verify_produce",
        lambda verification, request, append, now: append({}, now),
    )
    assert caught()


def test_a_topic_of_one_replica_is_enough_for_a_storm_of_one_broker() -> None:
    world = PatientWorld(1)
    world.create_topic(partitions=PARTITIONS)
    rng = random.Random(5)
    writers = [Writer(world, "only", 2)]
    for _ in range(40):
        writers[0].step(rng)
    world.pass_time(2 * TIMEOUT_MS)
    assert judge(world, writers) is None
    assert world.end_offset(TOPIC).offset > 0
