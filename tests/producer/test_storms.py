"""Everything goes wrong at random, by seed; what is claimed of each batch must still be true.

Requests are refused, cut off, answered with an error after the append, or reach the log long after their connection
is gone (stragglers); leaders move. The log is one, as if replication were perfect.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.producer.events import BatchAcked, BatchFailed, BatchUnknown

REFUSALS = [19, 6, 3, 5]
OPEN_ENDS = [7, 20, 56]


class Storm:
    """Drives one world for a number of steps; `sent` are the values by partition, in order."""

    def __init__(self, world, seed: int, *, fatal: bool, steps: int = 150, prefix: str = "") -> None:
        self.world = world
        self.rng = Random(seed)
        self.fatal = fatal
        self.sent: list[list[str]] = [[], [], []]
        self.batches: dict[str, object] = {}
        for step in range(steps):
            for _ in range(self.rng.randrange(3)):
                partition = self.rng.randrange(3)
                value = f"{prefix}{partition}-{step}-{len(self.sent[partition])}"
                self.sent[partition].append(value)
                self.batches[value] = world.send(value, partition=partition)
            self.disturb()
        world.settle()
        while world.stragglers:
            world.store_straggler(self.rng.randrange(100))

    def disturb(self) -> None:
        world, rng = self.world, self.rng
        if world.stragglers and rng.random() < 0.3:
            world.store_straggler(rng.randrange(100))
        if not world.produces:
            if world.core.deadline_us() is not None:
                world.run_to_deadline()
            return
        # A broker takes the requests of a connection in order, but any connection may be next.
        connection_id = rng.choice(list(dict.fromkeys(t.connection_id for t in world.produces)))
        transmit = next(t for t in world.produces if t.connection_id == connection_id)
        chance = rng.random()
        if chance < 0.55:
            world.ack(transmit)
        elif chance < 0.65:
            world.answer(rng.choice(REFUSALS), transmit=transmit)
        elif chance < 0.70:
            world.store(transmit)
            world.answer(rng.choice(OPEN_ENDS), transmit=transmit)
        elif chance < 0.80:
            world.store(transmit)
            world.produces.remove(transmit)
            world.hang_up(connection_id)
        elif chance < 0.88:
            world.hang_up(connection_id)
        elif chance < 0.92 and self.fatal:
            world.answer(rng.choice([10, 87, -1]), transmit=transmit)
        elif chance < 0.96 and self.fatal:
            world.pass_ms(rng.choice([1_000, 31_000]))
        else:
            world.move_leader("flights", rng.randrange(3), rng.randrange(3) + 1)

    def outcomes(self, kind: type) -> list[str]:
        return [value for value, batch in self.batches.items() if isinstance(self.world.outcome(batch), kind)]

    def copies(self) -> Counter[str]:
        return Counter(value for partition in range(3) for value in self.world.stored(partition))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("in_flight", [1, 5])
def test_idempotence_with_patience_stores_everything_once_and_in_order(make_world, seed, in_flight):
    world = make_world(partitions=3, brokers=3, max_in_flight_requests_per_connection=in_flight)
    storm = Storm(world, seed, fatal=False)
    assert len(storm.outcomes(BatchAcked)) == len(storm.batches)
    assert [world.stored(p) for p in range(3)] == storm.sent


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("in_flight", [1, 5])
def test_idempotence_without_patience_never_claims_what_is_not_so(make_world, seed, in_flight):
    world = make_world(
        partitions=3,
        brokers=3,
        max_in_flight_requests_per_connection=in_flight,
        retries=Random(seed).choice([1, 3, 2**31 - 1]),
        delivery_timeout_ms=31_000,
    )
    storm = Storm(world, seed, fatal=True)
    copies = storm.copies()
    assert len(storm.outcomes(BatchAcked)) > len(storm.batches) // 10
    assert all(copies[value] == 1 for value in storm.outcomes(BatchAcked))
    assert all(copies[value] == 0 for value in storm.outcomes(BatchFailed))
    assert all(copies[value] <= 1 for value in storm.outcomes(BatchUnknown))
    for partition in range(3):
        stored = world.stored(partition)
        assert stored == [value for value in storm.sent[partition] if value in stored]


@pytest.mark.parametrize("seed", range(40))
def test_without_idempotence_acked_is_stored_and_failed_is_not(make_world, seed):
    world = make_world(
        partitions=3,
        brokers=3,
        enable_idempotence=False,
        retries=Random(seed).choice([0, 1, 2**31 - 1]),
        delivery_timeout_ms=31_000,
    )
    storm = Storm(world, seed, fatal=True)
    copies = storm.copies()
    assert len(storm.outcomes(BatchAcked)) > len(storm.batches) // 10
    assert all(copies[value] >= 1 for value in storm.outcomes(BatchAcked))
    assert all(copies[value] == 0 for value in storm.outcomes(BatchFailed))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("in_flight", [1, 5])
def test_logs_that_forget_or_lose_between_storms_get_everything_that_follows(make_world, seed, in_flight):
    world = make_world(partitions=3, brokers=3, max_in_flight_requests_per_connection=in_flight)
    rng = Random(f"losses of {seed}")
    unknown = 0
    for number in range(5):
        kept = [world.stored(partition) for partition in range(3)]
        storm = Storm(world, 100 * seed + number, fatal=False, steps=40, prefix=f"{number}:")
        assert storm.outcomes(BatchFailed) == []
        unknown += len(storm.outcomes(BatchUnknown))
        acked = dict.fromkeys(storm.outcomes(BatchAcked))
        assert len(acked) > len(storm.batches) // 2
        for partition in range(3):
            stored = world.stored(partition)
            assert stored[: len(kept[partition])] == kept[partition]
            came = stored[len(kept[partition]) :]
            assert came == [value for value in storm.sent[partition] if value in came]
            assert set(came) >= {value for value in storm.sent[partition] if value in acked}
        for partition in range(3):
            lose(rng, world.log(partition))
        # Brokers forget only those who were idle.
        world.pass_ms(60_001)
        if rng.random() < 0.3:
            world.topic_ids["flights"] = rng.randbytes(16)
            world.logs.clear()
    # What was in doubt when its log lost what came before stays in doubt: at most five batches of each such log.
    assert unknown <= 4 * 3 * 5


def lose(rng: Random, log) -> None:
    """Take from a log what it knows of producers, or its last batches with what it knew of them, or nothing."""
    chance = rng.random()
    if chance < 0.3:
        log.producers.clear()
    elif chance < 0.6 and log.producers:
        ((producer_id, (epoch, batches)),) = log.producers.items()
        kept = rng.randrange(len(batches)) if batches else 0
        if kept:
            log.producers[producer_id] = epoch, batches[:kept]
            first, last, base_offset = batches[kept - 1]
            del log.values[base_offset + last - first + 1 :]


def test_the_storms_do_bring_about_every_outcome(make_world):
    seen = {BatchAcked: 0, BatchFailed: 0, BatchUnknown: 0}
    duplicates = 0
    for seed in range(10):
        storm = Storm(make_world(partitions=3, brokers=3, enable_idempotence=False, retries=2), seed, fatal=True)
        for kind in seen:
            seen[kind] += len(storm.outcomes(kind))
        duplicates += sum(count - 1 for count in storm.copies().values())
    assert min(seen.values()) > 20
    assert duplicates > 20
