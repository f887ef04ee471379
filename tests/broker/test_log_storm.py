"""A log goes through everything a log goes through, by seed, against a plain list of batches.

Appends, rolls, syncs, kills, power cuts, clean ends, truncations, moves of its beginning. After each step everything
readable, every producer and every index file is compared.
"""

from __future__ import annotations

from random import Random

import pytest

from .log_world import LogWorld


class Storm:
    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.world = LogWorld(
            segment_bytes=rng.choice([1024, 3000, 1 << 20]),
            index_interval_bytes=rng.choice([0, 100, 4096]),
            segment_ms=rng.choice([50, 1 << 40]),
            flush_messages=rng.choice([7, 1 << 40]),
            segment_index_bytes=rng.choice([36, 1 << 20]),
        )
        self.sequences: dict[tuple[int, int], int] = {}
        self.clock_ms = 1000
        self.start = 0

    def step(self) -> None:
        rng, world = self.rng, self.world
        choice = rng.random()
        if choice < 0.70:
            self.append()
        elif choice < 0.74:
            world.log.flush()
        elif choice < 0.80:
            world.checkpoint()
        elif choice < 0.84:
            world.close()
            world.open()
        elif choice < 0.88:
            world.open()
        elif choice < 0.93:
            self.cut_power()
        elif choice < 0.97:
            self.truncate()
        elif world.log.advance_log_start(rng.randint(0, world.log.log_end_offset)):
            self.start = world.log.log_start_offset
            world.checkpoint()
        assert world.log.log_start_offset <= world.log.log_end_offset
        world.check()
        self.look_up()

    def append(self) -> None:
        rng = self.rng
        self.clock_ms += rng.randint(-5, 20)
        count = rng.randint(1, 4)
        producer = (-1, -1, -1)
        if rng.random() < 0.5:
            producer_id, epoch = rng.randrange(3), rng.randrange(2)
            sequence = self.sequences.get((producer_id, epoch), 0)
            self.sequences[producer_id, epoch] = sequence + count
            producer = producer_id, epoch, sequence
        if rng.random() < 0.1:
            self.world.epoch += 1
        self.world.append(count, rng.choice([1, 50, 900]), timestamp_ms=self.clock_ms, producer=producer)

    def cut_power(self) -> None:
        world = self.world
        world.disk.write_back.now_us += self.rng.choice([0, 40_000_000])
        safe = world.log.recovery_point
        world.cut_power(self.rng)
        assert world.log.log_end_offset >= safe

    def truncate(self) -> None:
        world = self.world
        ends = [batch.header.last_offset + 1 for batch in world.model if batch.header.last_offset >= self.start]
        if ends:
            world.log.truncate(self.rng.choice(ends))
            world.forget_from(world.log.log_end_offset)
            world.checkpoint()

    def look_up(self) -> None:
        world, rng = self.world, self.rng
        start, end = world.log.log_start_offset, world.log.log_end_offset
        if start < end:
            offset = rng.randrange(start, end)
            piece = world.log.slice(offset, end, 1, True)
            assert piece is not None
            [batch] = [b for b in world.model if b.header.base_offset <= offset <= b.header.last_offset]
            assert piece.read() == batch.content
        if world.model:
            wanted = rng.choice(world.model).header.max_timestamp
            found = next(world.log.batches_since(wanted), None)
            kept = [b for b in world.model if b.header.last_offset >= start]
            assert found == next((b.content for b in kept if b.header.max_timestamp >= wanted), None)


@pytest.mark.parametrize("seed", range(40))
def test_a_log_stays_what_was_written(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(120):
        storm.step()
