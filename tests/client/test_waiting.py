"""Signal handlers run while a thread waits for its producer, also if the signal interrupts no system call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from ottla.client.waiting import Waiting
from ottla.clock import MACHINE, Clock, MachineClock


class Told(Exception):
    """Raised by the signal's handler."""


@pytest.fixture
def told() -> Iterator[signal.Signals]:
    """A signal whose handler raises Told, on the main thread."""

    def tell(number: int, frame: object) -> None:
        raise Told

    before = signal.signal(signal.SIGUSR1, tell)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("clock", [MACHINE, Clock()], ids=["machine", "set ahead"])
@pytest.mark.parametrize("timeout_s", [None, 50])
def test_a_wait_hears_of_a_signal_that_did_not_wake_it(
    told: signal.Signals, timeout_s: float | None, clock: MachineClock
) -> None:
    waiting = Waiting(clock)

    def send() -> None:
        while not waiting.has_waiters:
            pass
        # A signal that this thread takes does not wake the main thread; nor does one that comes just before it sleeps.
        signal.pthread_kill(threading.get_ident(), told)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Told):
            # `done` is a function in C: in one in Python, the interpreter would run the signal handler.
            waiting.wait([].__len__, timeout_s)  # type: ignore[arg-type]
    finally:
        sender.join()
    assert not waiting.has_waiters


def test_a_wait_longer_than_its_looks_ends_when_it_is_done_and_not_before() -> None:
    waiting = Waiting()
    is_done = threading.Event()

    def finish() -> None:
        is_done.set()
        waiting.look()

    timer = threading.Timer(1.2, finish)
    timer.start()
    assert waiting.wait(is_done.is_set, 60)
    timer.join()
    assert not waiting.wait(threading.Event().is_set, 0.6)
