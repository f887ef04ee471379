"""A port that is listened on: who is accepted, who is refused, and whose the port is meanwhile."""

from __future__ import annotations

import resource
import select
import socket
from collections.abc import Iterator

import pytest

from ottla.errors import UserMistake
from ottla.sockets.listening import ListeningSocket, NoRoom

HOST = "127.0.0.1"


@pytest.fixture
def listening() -> Iterator[ListeningSocket]:
    listening = ListeningSocket(HOST, 0)
    yield listening
    listening.close()


def connect(to: ListeningSocket) -> socket.socket:
    return socket.create_connection((HOST, to.port), timeout=30)


def wait_for_client(listening: ListeningSocket) -> None:
    assert select.select([listening], [], [], 30)[0]


def test_who_connects_is_accepted_and_does_not_block(listening: ListeningSocket) -> None:
    assert listening.accept() is None
    with connect(listening) as client:
        wait_for_client(listening)
        accepted = listening.accept()
        assert accepted is not None
        sock, peer = accepted
        with sock:
            assert peer == f"{HOST}:{client.getsockname()[1]}"
            assert not sock.getblocking()
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert listening.accept() is None


def test_a_client_by_ipv6_is_named_as_urls_name_it() -> None:
    listening = ListeningSocket("::1", 0)
    with socket.create_connection(("::1", listening.port), timeout=30) as client:
        wait_for_client(listening)
        accepted = listening.accept()
        assert accepted is not None
        with accepted[0]:
            assert accepted[1] == f"[::1]:{client.getsockname()[1]}"
    listening.close()


def test_a_port_that_is_shut_refuses_and_stays_ours(listening: ListeningSocket) -> None:
    port = listening.port
    listening.shut()
    with pytest.raises(ConnectionRefusedError):
        connect(listening)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    listening.reopen()
    assert listening.port == port
    with connect(listening):
        wait_for_client(listening)


def test_a_port_that_somebody_takes_while_it_is_shut_is_named(listening: ListeningSocket) -> None:
    listening.shut()
    other = ListeningSocket(HOST, listening.port)
    with pytest.raises(UserMistake, match=f"port {listening.port} on {HOST} is in use by another program"):
        listening.reopen()
    other.close()


def test_a_port_that_is_taken_is_named(listening: ListeningSocket) -> None:
    with pytest.raises(UserMistake, match=f"port {listening.port} on {HOST} is in use by another program"):
        ListeningSocket(HOST, listening.port)


def test_without_descriptors_left_whoever_comes_waits(listening: ListeningSocket) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connect(listening):
        wait_for_client(listening)
        # Whatever is opened next would be above the limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            with pytest.raises(NoRoom):
                listening.accept()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        accepted = listening.accept()
        assert accepted is not None
        accepted[0].close()
