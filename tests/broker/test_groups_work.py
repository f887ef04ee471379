"""What heartbeats and the ends of transactions cost a group coordinator: nothing that grows with who is beside them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ottla.broker.groups.deadlines import Deadlines

from .group_world import GROUP, Client, commit, find_coordinator, offsets_partition, stable_pair
from .transaction_world import Producer
from .world import World


class Counted(dict[str, Any]):
    """A dictionary that counts how many of its entries are gone through."""

    looks = 0

    def _count(self, entries: Iterable[Any]) -> Iterator[Any]:
        for entry in entries:
            self.looks += 1
            yield entry

    def __iter__(self) -> Iterator[str]:
        return self._count(super().__iter__())

    def values(self) -> Any:
        return self._count(super().values())

    def items(self) -> Any:
        return self._count(super().items())


@pytest.fixture
def world() -> World:
    world = World(1)
    world.create_topic()
    find_coordinator(world)
    return world


def test_a_heartbeat_looks_at_its_own_member(world: World) -> None:
    members = [Client(world, session_timeout_ms=10_000) for _ in range(30)]
    for _ in range(2):
        for member in members:
            member.join()
    leader = next(each for each in members if each.joined.leader == each.member_id)
    for each in [member for member in members if member is not leader]:
        each.sync()
    leader.sync(dict.fromkeys(members, b"x"))
    group = world.brokers[1].groups.find(GROUP, world.now_us)
    assert group is not None
    counted = group.classic.members = Counted(group.classic.members)
    for _ in range(5):
        for member in members:
            assert member.heartbeat() == 0
        world.pass_time(3000)
    assert counted.looks == 0
    # The sessions still end: of all but one that goes on.
    for _ in range(4):
        world.pass_time(3000)
        members[0].heartbeat()
    assert len(group.classic.members) == 1


@pytest.mark.parametrize("seed", range(10))
def test_the_first_deadline_is_the_first_whatever_was_put_off(seed: int) -> None:
    rng = random.Random(seed)
    due: dict[str, int] = {}
    deadlines = Deadlines(due.get)
    now_us = 0
    for _ in range(600):
        now_us += rng.randint(0, 3)
        name = rng.choice("abcdefgh")
        if rng.random() < 0.7:
            due[name] = now_us + rng.randint(1, 60)
            deadlines.note(name, due[name])
        else:
            due.pop(name, None)
        assert deadlines.first_us() == min(due.values(), default=None)
        if rng.random() < 0.3:
            late = sorted((at, each) for each, at in due.items() if at <= now_us)
            assert deadlines.take_due(now_us) == [each for _, each in late]
            for _, each in late:
                del due[each]


def test_the_end_of_a_transaction_looks_at_the_groups_it_commits_offsets_of(world: World) -> None:
    stable_pair(world)
    for number in range(40):
        assert commit(world, 1, group_id=f"{GROUP}-{number}") == 0
    producer = Producer(world, version=2)
    producer.init()
    assert producer.commit_offset(GROUP, 7) == 0
    loaded = world.brokers[1].groups._loaded
    index = offsets_partition(world)
    counted = Counted(loaded[index][1])
    loaded[index] = (loaded[index][0], counted)
    assert producer.commit() == 0
    assert counted.looks == 0
    assert world.brokers[1].groups.find(GROUP, world.now_us).offsets  # type: ignore[union-attr]
