"""Worlds to begin with."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

from .world import World

# Only what hangs takes so long: such a test does in seconds what it does.
HANG_S = 900


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


@pytest.fixture
def no_hang(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A test that hangs, be it in compiled code where no exception gets in, ends the run and shows where it was."""
    with capfd.disabled():
        terminal = os.dup(2)
    faulthandler.dump_traceback_later(HANG_S, exit=True, file=terminal)
    yield
    faulthandler.cancel_dump_traceback_later()
    os.close(terminal)
