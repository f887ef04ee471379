"""Members that do anything at any time: every request is answered, and a group comes to rest."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.groups.members import GroupState

from .group_world import GROUP, Client
from .world import World

MEMBERS = 4


def act(rng: random.Random, world: World, client: Client) -> None:
    """Something that a client may do, sensible or not."""
    kind = rng.randrange(8)
    if kind == 0:
        client.member_id = ""
    if kind <= 2:
        client.join(version=rng.choice([3, 5, 9]))
    elif kind <= 4:
        client.sync({client: b"mine"} if rng.random() < 0.5 else None)
    elif kind == 5:
        client.heartbeat()
    elif kind == 6:
        client.commit(rng.randrange(100))
    elif client.member_id and rng.random() < 0.4:
        client.leave()
    if rng.random() < 0.3:
        world.pass_time(rng.choice([10, 1_000, 7_000]))


@pytest.mark.parametrize("delay_ms", [0, 500])
def test_every_request_is_answered_and_the_group_comes_to_rest(delay_ms: int) -> None:
    seen: dict[Any, None] = {}
    for seed in range(150):
        rng = random.Random(seed)
        world = World(1, group_initial_rebalance_delay_ms=delay_ms)
        world.create_topic()
        timeouts = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 8_000}
        clients = [Client(world, instance_id=f"static-{n}" if n % 2 else None, **timeouts) for n in range(MEMBERS)]
        for _ in range(80):
            act(rng, world, rng.choice(clients))
            group = world.brokers[1].groups.find(GROUP, world.now_us)
            if group is not None:
                seen[group.classic.state] = None
                assert group.classic.leader_id is None or group.classic.leader_id in group.classic.members
        world.pass_time(60_000)
        group = world.brokers[1].groups.find(GROUP, world.now_us)
        assert group is None or group.classic.state is GroupState.EMPTY
        assert world.brokers[1].purgatory.deadline_us() is None
        asked = world.last_connection
        assert [number for number in range(1, asked + 1) if len(world.answers.get(number, [])) != 1] == []
    assert [state for state in GroupState if state not in seen] == [GroupState.DEAD]
