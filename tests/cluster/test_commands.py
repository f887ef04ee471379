"""The brokers of one cluster in one event loop, without the process around them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.commands import Commands
from ottla.sockets.event_loop import EventLoop
from ottla.sockets.listener import Listener


@pytest.mark.parametrize("temporary", [True, False])
def test_no_broker_touches_the_folder_after_the_cluster_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, temporary: bool
) -> None:
    """The turn in which it stops is not over: what was due in it, heartbeats and elections, finds closed logs."""
    folder = tmp_path / "data"
    loop = EventLoop()
    commands = Commands(loop, loop.stop)
    answers: list[Any] = []
    listeners = {"CLIENT": Listener().to_dict()}
    fields = {"data_dir": str(folder), "temporary": temporary, "listeners": listeners, "settings": {}, "racks": []}
    commands.handle("start", {"brokers": 3, **fields}, answers.append)

    def told(answer: Any) -> None:
        answers.append(answer)
        loop.stop()

    topic = {"name": "flights", "partitions": 3, "replication_factor": 3, "configs": {}}
    commands.handle("create_topic", topic, told)
    loop.run_forever()
    commands.stop()
    left = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    an_hour_later_ns = time.monotonic_ns() + 3_600_000_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: an_hour_later_ns)
    monkeypatch.setattr(loop, "time", lambda: an_hour_later_ns / 1e9)
    for _ in range(20):
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    # Other tests' clusters may log in other threads.
    assert [each.getMessage() for each in caplog.records if each.thread == threading.get_ident()] == []
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == left
