"""Worlds to begin with."""

from __future__ import annotations

import pytest

from .world import World


@pytest.fixture
def world() -> World:
    """One broker with an empty topic of one partition."""
    world = World(1)
    assert world.create_topic() == 0
    return world


@pytest.fixture
def replicated() -> World:
    """Three brokers with an empty topic of one partition, held by all of them."""
    world = World(3)
    assert world.create_topic(replicas=3) == 0
    return world
