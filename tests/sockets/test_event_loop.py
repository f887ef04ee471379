"""The event loop of servers, over real sockets: what is called, in which order, and what is not called any more."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.clock import MACHINE, Clock
from ottla.sockets.event_loop import EventLoop


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def test_what_was_put_off_is_called_in_order_and_what_that_puts_off_in_a_later_turn(loop: EventLoop) -> None:
    called: list[str] = []

    def first() -> None:
        called.append("first")
        loop.call_soon(called.append, "put off by the first")
        loop.call_soon(loop.stop)

    loop.call_soon(first)
    loop.call_soon(called.append, "second")
    loop.run_forever()
    assert called == ["first", "second", "put off by the first"]


def test_timers_ring_by_their_time_and_never_before(loop: EventLoop) -> None:
    rang: list[tuple[str, float]] = []
    now_s = loop.time()
    loop.call_at(now_s + 0.03, lambda: (rang.append(("late", loop.time())), loop.stop()))
    loop.call_at(now_s + 0.01, lambda: rang.append(("early", loop.time())))
    loop.call_at(now_s + 0.01, lambda: rang.append(("early too", loop.time())))
    loop.run_forever()
    assert [name for name, _ in rang] == ["early", "early too", "late"]
    assert rang[0][1] >= now_s + 0.01
    assert rang[2][1] >= now_s + 0.03


@pytest.mark.parametrize("stopped", [True, False])
def test_what_waits_for_real_time_does_not_go_by_the_loops_clock(loop: EventLoop, stopped: bool) -> None:
    """Neither does it ring with a clock that is set ahead, nor wait for one that stands."""
    clock = Clock(stopped=stopped)
    loop.go_by(clock)
    rang: list[tuple[str, int]] = []

    def ring(name: str) -> None:
        rang.append((name, MACHINE.now_us()))
        if len(rang) == 2:
            loop.stop()

    called_us = MACHINE.now_us()
    loop.call_after(0.02, ring, "real")
    loop.call_after(0.01, ring, "cancelled").cancel()
    loop.call_later(3600, ring, "by the clock")
    loop.call_soon(clock.advance, 3600)
    loop.run_forever()
    at_us = dict(rang)
    assert at_us.keys() == {"by the clock", "real"}
    assert at_us["real"] >= called_us + 20_000


def test_a_timer_that_was_cancelled_does_not_ring(loop: EventLoop) -> None:
    rang: list[str] = []
    timer = loop.call_later(0, rang.append, "cancelled")
    loop.call_later(0, lambda: (timer.cancel(), timer.cancel()))
    timer.cancel()
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert rang == []


def test_a_timer_that_is_always_due_does_not_keep_a_socket_waiting(loop: EventLoop, pair: Pair) -> None:
    ours, theirs = pair

    def ring() -> None:
        loop.call_at(loop.time() - 1, ring)

    ring()
    loop.add_reader(ours, loop.stop)
    theirs.send(b"!")
    loop.run_forever()


def test_after_a_stop_of_the_process_sockets_come_before_timers(
    loop: EventLoop, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a stop (SIGSTOP, a laptop that sleeps) interrupts `select` past its timeout, it reports no ready socket."""
    ours, theirs = pair
    called: list[str] = []
    select = loop._selector.select

    def stopped(timeout_s: float | None) -> list[object]:
        monkeypatch.setattr(loop._selector, "select", select)
        theirs.send(b"x")
        while loop.time() < due_s:
            pass
        return []

    monkeypatch.setattr(loop._selector, "select", stopped)
    loop.add_reader(ours, lambda: (ours.recv(1), called.append("socket")))
    due_s = loop.time() + 0.01
    loop.call_at(due_s, lambda: (called.append("timer"), loop.stop()))
    loop.run_forever()
    assert called == ["socket", "timer"]


def test_a_socket_is_read_until_its_reader_is_removed(loop: EventLoop, pair: Pair) -> None:
    ours, theirs = pair
    heard: list[bytes] = []

    def readable(name: str) -> None:
        heard.append(ours.recv(1))
        if len(heard) == 2:
            loop.remove_reader(ours)
            loop.call_later(0.001, loop.stop)

    loop.add_reader(ours, readable, "ours")
    theirs.send(b"abc")
    loop.run_forever()
    assert heard == [b"a", b"b"]
    assert ours.recv(1) == b"c"


def test_reading_and_writing_of_one_socket_are_watched_apart(loop: EventLoop, pair: Pair) -> None:
    ours, theirs = pair
    done: list[str] = []

    def writable() -> None:
        done.append("writable")
        loop.remove_writer(ours)
        theirs.send(b"!")

    def readable() -> None:
        done.append(f"read {ours.recv(9)!r}")
        loop.stop()

    loop.add_reader(ours, readable)
    loop.add_writer(ours, writable)
    loop.run_forever()
    assert done == ["writable", "read b'!'"]
    loop.remove_reader(ours)
    loop.remove_reader(ours)
    loop.remove_writer(ours)


def test_a_socket_removed_in_the_same_turn_is_not_called_any_more(loop: EventLoop) -> None:
    """Both are ready at once; whichever is called first takes the other one away."""
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def readable(number: int) -> None:
        called.append(number)
        loop.remove_reader(pairs[1 - number][0])
        pairs[1 - number][0].close()
        loop.remove_reader(pairs[number][0])
        loop.call_later(0.001, loop.stop)

    for number, (ours, theirs) in enumerate(pairs):
        theirs.send(b"!")
        loop.add_reader(ours, readable, number)
    loop.run_forever()
    assert len(called) == 1
    for one in pairs:
        for sock in one:
            sock.close()


def test_a_callback_that_raises_is_logged_and_harms_no_other(
    loop: EventLoop, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = pair

    def broken() -> None:
        ours.recv(1)
        raise RuntimeError("a bug")

    loop.add_reader(ours, broken)
    theirs.send(b"!")
    loop.call_later(0.001, loop.stop)
    with caplog.at_level(logging.ERROR, "ottla.sockets"):
        loop.run_forever()
    assert "a bug" in caplog.text


_SIGNALLED = """
import os, signal, sys
from ottla.sockets.event_loop import EventLoop
loop = EventLoop()
def told():
    print("told", flush=True)
    loop.stop()
loop.add_signal_handler(signal.SIGTERM, told)
print("ready", flush=True)
loop.run_forever()
loop.close()
"""


def test_a_signal_is_heard_while_nothing_else_happens() -> None:
    with subprocess.Popen([sys.executable, "-c", _SIGNALLED], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGTERM)
        assert child.stdout.readline() == "told\n"
        assert child.wait(30) == 0
