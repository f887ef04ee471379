"""Many clients, silent clients, and more clients than there is room for."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.cluster.commands import Commands
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.sockets.event_loop import EventLoop
from ottla.sockets.listener import Listener

_IDLE = 1000
_BYTES_EACH_MAX = 8_000


def _has_news(sock: socket.socket, wait_ms: int) -> bool:
    """Whether there is something to read; `select` itself knows no descriptors above 1023."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(wait_ms))


@contextlib.contextmanager
def _room_for_files(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this process may open no more than {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads the memory of a process from /proc")
def test_a_thousand_idle_connections_are_held_and_cost_little(
    broker: Any, connect: Any, make: Any, processes: Any
) -> None:
    """Each has asked for something once, so each has all it will ever have."""
    host, port = broker.bootstrap_servers.split(":")
    request = make.frame(MetadataRequest(), 12, 7)
    with _room_for_files(2 * _IDLE), contextlib.ExitStack() as open_until_the_end:
        before = processes.resident_bytes(broker.pid)
        idle = [open_until_the_end.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(_IDLE)]
        for one in idle:
            one.sendall(request)
        for one in idle:
            assert int.from_bytes(one.recv(8)[4:]) == 7
        assert processes.resident_bytes(broker.pid) - before < _IDLE * _BYTES_EACH_MAX
        wire = connect(broker)
        for _ in range(20):
            assert wire.call(MetadataRequest(), 12).brokers
        for one in (idle[0], idle[-1]):
            while _has_news(one, 0):
                assert one.recv(1 << 20)
            one.sendall(request)
            assert int.from_bytes(one.recv(8)[4:]) == 7


def test_silent_clients_are_hung_up_on_and_others_are_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wire_to: Callable[[str], Any],
    make: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A busy client stays, and so does one that waits for an answer for longer than clients may be silent.

    The broker's clock goes on when it is told to, so however slow this is, nobody is silent for longer.
    """
    caplog.set_level("INFO")
    loop = EventLoop()
    now_s = time.monotonic()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    commands = Commands(loop, loop.stop)
    told: list[Any] = []
    listeners = {"CLIENT": Listener().to_dict()}
    settings = {"connections_max_idle_ms": 1000}
    folder = {"data_dir": str(tmp_path / "data"), "temporary": True}
    fields = {**folder, "listeners": listeners, "settings": settings, "racks": []}
    commands.handle("start", {"brokers": 1, **fields}, told.append)
    topic = {"name": "slow", "partitions": 1, "replication_factor": 1, "configs": {}}
    commands.handle("create_topic", topic, told.append)

    def turn_until(reached: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + 30
        while not reached():
            assert time.monotonic() < give_up_s
            loop.call_soon(loop.stop)
            loop.run_forever()

    def answer(wire: Any) -> Any:
        turn_until(lambda: _has_news(wire.socket, 0))
        return wire.answer()

    turn_until(lambda: len(told) == 2)
    address = "{}:{}".format(*told[0]["CLIENT"][0])
    silent, owed, busy = (wire_to(address) for _ in range(3))
    owed.ask(make.fetch("slow", max_wait_ms=600_000), 12)
    for wire in (silent, busy):
        wire.ask(MetadataRequest(), 12)
        assert answer(wire).brokers
    for _ in range(2):
        assert not _has_news(silent.socket, 0)
        now_s += 0.6
        busy.ask(MetadataRequest(), 12)
        assert answer(busy).brokers
    turn_until(lambda: _has_news(silent.socket, 0))
    assert silent.is_closed_by_broker()
    busy.ask(make.produce("slow", b"at last"), 9)
    assert answer(busy).responses[0].partition_responses[0].base_offset == 0
    assert answer(owed).responses[0].partitions[0].high_watermark == 1
    commands.stop()
    loop.close()
    assert sum("nothing came or went for 1 s" in line for line in caplog.messages) == 1


def test_who_comes_to_a_full_broker_waits_until_somebody_leaves(
    wire_to: Callable[[str], Any], make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Cluster(brokers=1, settings={"max_connections": 2}) as cluster:
        first, second = (wire_to(cluster.bootstrap_servers) for _ in range(2))
        assert first.call(MetadataRequest(), 12).brokers
        assert second.call(MetadataRequest(), 12).brokers
        third = wire_to(cluster.bootstrap_servers)
        third.ask(MetadataRequest(), 12)
        assert second.call(MetadataRequest(), 12).brokers
        assert not _has_news(third.socket, 300)
        first.close()
        assert third.answer().brokers
        assert second.call(MetadataRequest(), 12).brokers
    assert any("has 2 connections (max.connections)" in line for line in caplog.messages)


def test_connections_leave_descriptors_to_files_and_further_clients_wait(
    wire_to: Callable[[str], Any], make: Any, tmp_path: Path
) -> None:
    limited = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", sys.executable, "-m", "ottla", "serve", "--brokers", "1"]
    options = ["--port", "0", "--data-dir", str(tmp_path / "data"), "--json", "--topic", "many:30"]
    said = tmp_path / "said"
    with contextlib.ExitStack() as open_until_the_end:
        log = open_until_the_end.enter_context(said.open("wb"))
        program = subprocess.Popen(
            [*limited, *options, "--set", "log.flush.interval.messages=1"], stdout=subprocess.PIPE, stderr=log
        )
        open_until_the_end.enter_context(program)
        open_until_the_end.callback(program.terminate)
        assert program.stdout is not None
        address = json.loads(program.stdout.readline())["bootstrap_servers"]
        wire = wire_to(address)
        assert wire.call(MetadataRequest(), 12).brokers
        host, port = address.split(":")
        idle = [open_until_the_end.enter_context(socket.create_connection((host, int(port)), 30)) for _ in range(250)]
        late = wire_to(address)
        late.ask(MetadataRequest(), 12)
        for partition in range(30):
            answer = wire.call(make.produce("many", b"x", partition=partition), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
        assert not _has_news(late.socket, 0)
        for one in idle:
            one.close()
        assert late.answer().brokers
        assert wire.call(make.produce("many", b"x"), 9).responses[0].partition_responses[0].base_offset == 1
    lines = said.read_text().splitlines()
    assert sum("accepts no connection until another one is closed" in line for line in lines) == 1, lines
