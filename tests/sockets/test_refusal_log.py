"""A server logs why it closes connections, once a minute for each reason, with the number of lines left out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.sockets.refusal_log import RefusalLog

MINUTE_US = 60_000_000
LOGGER = "ottla.cluster"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, LOGGER)
    return lambda: [each.getMessage() for each in caplog.records if each.name == LOGGER]


@pytest.fixture
def log() -> RefusalLog:
    return RefusalLog(logging.getLogger(LOGGER), "broker 2")


def test_the_first_is_logged_at_once_and_the_others_are_counted(log: RefusalLog, said: Any) -> None:
    for number in range(1000):
        log.refused("OUT", f"10.0.0.1:{5000 + number}", "a frame of -1 bytes", number)
    assert said() == ["broker 2 closes the connection of 10.0.0.1:5000 (listener OUT): a frame of -1 bytes"]
    assert log.deadline_us() == MINUTE_US
    log.tick(MINUTE_US)
    assert said()[1:] == [
        "broker 2 closed 999 more within a minute, the last that of 10.0.0.1:5999 (listener OUT): a frame of -1 bytes"
    ]


def test_a_storm_of_hours_is_a_line_a_minute(log: RefusalLog, said: Any) -> None:
    for now_us in range(0, 60 * MINUTE_US, MINUTE_US // 100):
        log.refused("OUT", "10.0.0.1:5000", "a frame of -1 bytes", now_us)
    assert len(said()) == 60
    assert all("closed 100 more" in line for line in said()[2:])


def test_after_a_quiet_minute_it_is_new_again(log: RefusalLog, said: Any) -> None:
    log.refused("OUT", "10.0.0.1:5000", "a frame of -1 bytes", 0)
    log.tick(MINUTE_US)
    assert log.deadline_us() is None
    log.refused("OUT", "10.0.0.1:5000", "a frame of -1 bytes", MINUTE_US + 1)
    assert said() == ["broker 2 closes the connection of 10.0.0.1:5000 (listener OUT): a frame of -1 bytes"] * 2


def test_other_reasons_hosts_and_listeners_are_told_of_at_once(log: RefusalLog, said: Any) -> None:
    for listener, peer, reason in (("IN", "a:1", "x"), ("OUT", "a:1", "x"), ("IN", "b:1", "x"), ("IN", "a:1", "y")):
        log.refused(listener, peer, reason, 0)
    assert len(said()) == 4


def test_reasons_that_never_repeat_fill_neither_the_log_nor_memory(log: RefusalLog, said: Any) -> None:
    for number in range(10_000):
        log.refused("OUT", "10.0.0.1:5000", f"wrong user name or password for user '{number}'", number)
    assert len(said()) == 100
    assert len(log._told) == 101
    log.tick(MINUTE_US + 10_000)
    assert len(said()) == 101
    assert "closed 9900 more within a minute" in said()[100]
    assert "user '9999'" in said()[100]
