"""A log whose broker dies between any two changes of its files: nothing that was there before is lost or changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.drawn import fixed_seeds

from .deadly_disk import DeadlyDisk, Death
from .log_world import LogWorld
from .test_log_storm import Storm


class DeadlyStorm(Storm):
    """A storm in which the broker dies in the midst of what it does, and its power may be cut then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.disk = DeadlyDisk()
        self.world = LogWorld(self.disk, **dict(self.world.configs))
        self.deaths = self.begun_anew = 0

    def die(self) -> None:
        """Do something; the broker dies before it is done, or just afterwards."""
        rng, world = self.rng, self.world
        safe = world.log.recovery_point
        cuts_to = None
        does: Callable[[], object] = rng.choice([self.append, world.log.flush, world.checkpoint, world.close])
        ends = [batch.header.last_offset + 1 for batch in world.model if batch.header.last_offset >= self.start]
        if ends and rng.random() < 0.3:
            cuts_to = rng.choice(ends)
            does = partial(world.log.truncate, cuts_to)
        self.disk.dies_in = rng.randrange(12)
        try:
            does()
        except Death:
            self.deaths += 1
        self.disk.dies_in = None
        has_power = rng.random() < 0.5
        if not has_power:
            world.disk.power_off(rng)
        self.open(tries=rng.choice((0, 0, 1, 3)))
        self.compare(safe, cuts_to, has_power=has_power)

    def begin_anew(self) -> None:
        """Follow a leader that has nothing of this log any more; the broker dies before that is done, or afterwards."""
        rng, world = self.rng, self.world
        end = world.log.log_end_offset
        begin = rng.choice((end + rng.randint(1, 50), rng.randint(0, end)))
        self.disk.dies_in = rng.randrange(12)
        try:
            world.log.start_anew(begin)
        except Death:
            self.deaths += 1
        self.disk.dies_in = None
        if rng.random() < 0.5:
            world.disk.power_off(rng)
        self.open(tries=rng.choice((0, 0, 1, 3)))
        old, found = [batch.content for batch in world.model], [batch.content for batch in world.batches()]
        self.start = world.log.log_start_offset
        if found:
            kept = [batch.content for batch in world.model if batch.header.last_offset >= self.start]
            assert kept[: len(found)] == found
            world.model = [batch for batch in world.model if batch.header.last_offset < world.log.log_end_offset]
        else:
            assert world.log.log_end_offset in (begin, self.start)
            world.model = []
            self.begun_anew += 1
        assert len(world.model) <= len(old)

    def open(self, tries: int) -> None:
        """Open the log; so many times the broker dies while it does."""
        for _ in range(tries):
            self.disk.dies_in = self.rng.randrange(8)
            try:
                self.world.open()
            except Death:
                self.deaths += 1
        self.disk.dies_in = None
        self.world.open()

    def compare(self, safe: int, cuts_to: int | None, *, has_power: bool) -> None:
        """What is in the log is what was in it, as far as it must be there; the model is that from now on."""
        world = self.world
        self.start = world.log.log_start_offset
        deleted = [batch for batch in world.model if batch.header.last_offset < self.start]
        old, found = world.model[len(deleted) :], world.batches()
        common = min(len(old), len(found))
        assert [batch.content for batch in found[:common]] == [batch.content for batch in old[:common]]
        # What was being appended may be there, or not.
        assert len(found) <= len(old) + 1
        least = world.model[-1].header.last_offset + 1 if has_power and world.model else safe
        assert world.log.log_end_offset >= (least if cuts_to is None else min(least, cuts_to))
        world.model = deleted + found
        world.check()


SEEDS = fixed_seeds(30, soak=3000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_whose_broker_dies_at_any_change_keeps_what_it_had(seed: int) -> None:
    storm = DeadlyStorm(seed)
    for _ in range(100):
        if storm.rng.random() < 0.3:
            storm.die()
        else:
            storm.step()
    assert storm.deaths


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_begins_anew_is_the_old_one_or_the_new_one(seed: int) -> None:
    storm = DeadlyStorm(seed)
    for _ in range(20):
        for _ in range(storm.rng.randint(1, 12)):
            storm.append()
        storm.begin_anew()
        assert storm.world.log.log_start_offset <= storm.world.log.log_end_offset
    assert storm.deaths
    assert storm.begun_anew
