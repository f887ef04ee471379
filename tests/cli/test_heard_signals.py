"""Commands that wait for standard input, or for a cluster's answer, hear of signals that end no system call."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import readable
from ottla.readable import await_readable, standard_input
from ottla.remote.client import RemoteCluster


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


def hears(told: signal.Signals, wait: Callable[[], object]) -> None:
    """The wait is ended by a signal that did not wake it."""
    main, is_over = threading.get_ident(), threading.Event()

    def send() -> None:
        while sys._current_frames()[main].f_code is not readable._is_readable.__code__:
            if is_over.is_set():
                return
        # Taken by this thread, it wakes the main thread as little as one that comes in the moment before that sleeps.
        signal.pthread_kill(threading.get_ident(), told)

    sender = threading.Thread(target=send)
    try:
        with pytest.raises(Told):  # noqa: PT012
            sender.start()
            wait()
    finally:
        is_over.set()
        sender.join()


def test_standard_input_that_says_nothing_keeps_no_signal(
    told: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = os.pipe()
    with open(ours) as stdin, open(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        given = standard_input()
        writer.write(b"a line\nhalf")
        assert given.readline() == b"a line\n"
        hears(told, given.readline)


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"line\n" * 100_000
    (tmp_path / "given").write_bytes(content)
    with (tmp_path / "given").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert standard_input().read() == content


def test_standard_input_that_is_no_file_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
    assert standard_input().read() == b"line\n"


def test_a_wait_ends_in_time() -> None:
    ours, theirs = os.pipe()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0) as writer:
        assert not await_readable(ours, 0.6)
        writer.write(b"x")
        assert await_readable(ours, 0)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1024, reason="there are no such descriptors")
def test_a_wait_for_a_descriptor_that_select_does_not_know() -> None:
    ours, theirs = os.pipe()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0) as writer:
        far = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 1024)
        try:
            assert not await_readable(far, 0)
            writer.write(b"x")
            assert await_readable(far, 30)
        finally:
            os.close(far)


def test_an_answer_that_is_awaited_keeps_no_signal(told: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = RemoteCluster("127.0.0.1", server.getsockname()[1])
        hears(told, lambda: remote.get("faults", 1))
