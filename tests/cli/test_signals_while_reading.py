"""Signal handlers run while commands wait for standard input or an answer, also if no system call is interrupted."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interrupting import ended_by_a_signal_that_wakes_nobody

import ottla
from ottla.interruptible_reads import await_readable, standard_input
from ottla.remote.client import RemoteCluster


def test_standard_input_that_says_nothing_keeps_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    with open(ours) as stdin, open(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        given = standard_input()
        writer.write(b"a line\nhalf")
        assert given.readline() == b"a line\n"
        assert ended_by_a_signal_that_wakes_nobody(given.readline)


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"line\n" * 100_000
    (tmp_path / "given").write_bytes(content)
    with (tmp_path / "given").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert standard_input().read() == content


def test_standard_input_that_is_no_file_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"line\n")))
    assert standard_input().read() == b"line\n"


def test_standard_input_that_cannot_be_read_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    # What `nohup` gives a command that was started in a terminal.
    with open(os.devnull, "wb") as unreadable:
        monkeypatch.setattr(sys, "stdin", unreadable)
        with pytest.raises(ottla.UserMistake, match=r"standard input cannot be read \(Bad file descriptor\)"):
            standard_input().readline()


def test_standard_input_whose_bytes_another_process_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    with open(ours) as stdin, open(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", stdin)
        read = os.readv
        taken: list[bytes] = []

        def read_late(fd: int, rooms: list[Any]) -> int:
            if taken:
                return read(fd, rooms)
            taken.append(os.read(fd, 100))
            try:
                return read(fd, rooms)
            finally:
                writer.write(b"ours\n")

        monkeypatch.setattr(os, "readv", read_late)
        writer.write(b"theirs\n")
        assert standard_input().readline() == b"ours\n"
    assert taken == [b"theirs\n"]


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


def test_an_answer_that_is_awaited_keeps_no_signal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = RemoteCluster("127.0.0.1", server.getsockname()[1])
        assert ended_by_a_signal_that_wakes_nobody(lambda: remote.get("faults", 1))
