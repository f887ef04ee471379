"""What is made of strange answers to the question which protocol a listener speaks."""

from __future__ import annotations

import queue
import socket

import pytest
from tests.client.conftest import Peer

from ottla.client.listener_probe import ask_for_sasl, ask_in_plaintext
from ottla.connection.loss import Loss

# A SaslHandshake (version 1) to whoever may be there: its length, API key 17, correlation id 1, no client id.
QUESTION = b"\x00\x00\x00\x0c\x00\x11\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00"
OUT_OF_PLACE = b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x22\x00\x00\x00\x00"
MECHANISMS = b"\x00\x00\x00\x11\x00\x00\x00\x01\x00\x21\x00\x00\x00\x01\x00\x05PLAIN"

NO_MECHANISM = b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x21\x00\x00\x00\x00"


def asked(address: str, *, sasl: bool = False) -> str:
    host, port = address.split(":")
    told: queue.Queue[Loss | None] = queue.Queue()
    place = socket.AF_INET, (host, int(port))
    if sasl:
        ask_for_sasl(place, None, host, told.put)
    else:
        ask_in_plaintext(place, told.put)
    loss = told.get(timeout=30)
    return "" if loss is None else loss.detail


def test_the_question_says_nothing_of_the_client(peer: Peer) -> None:
    heard: queue.Queue[bytes] = queue.Queue()
    asked(peer(lambda connection: heard.put(connection.recv(100)) or connection.close()))
    assert heard.get() == QUESTION


def test_an_answer_says_what_to_set(peer: Peer) -> None:
    plain = peer(lambda connection: connection.recv(100) and connection.sendall(OUT_OF_PLACE))
    assert asked(plain).endswith("this listener speaks no TLS; set security.protocol to PLAINTEXT")
    assert asked(plain, sasl=True) == ""
    wants_sasl = peer(lambda connection: connection.recv(100) and connection.sendall(MECHANISMS))
    assert asked(wants_sasl).endswith("to SASL_PLAINTEXT and sasl.mechanism to one of PLAIN")
    assert asked(wants_sasl, sasl=True).endswith("to SASL_PLAINTEXT and sasl.mechanism to one of PLAIN")
    none = peer(lambda connection: connection.recv(100) and connection.sendall(NO_MECHANISM))
    assert asked(none, sasl=True).endswith("set security.protocol to SASL_PLAINTEXT")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x50",
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\x00\x00\x0a\xff\xff\xff\xff\x00\x22\x00\x00\x00\x00",
        b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x21\xff\xff\xff\xff",
        b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x21\x00\x00\xff\xff",
        MECHANISMS[:-2],
    ],
)
def test_what_is_no_answer_of_kafkas_leaves_it_open(peer: Peer, answer: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(answer)
        connection.close()

    address = peer(say)
    assert asked(address) == asked(address, sasl=True) == ""


def test_where_nobody_listens_it_stays_open(closed_port: str) -> None:
    assert asked(closed_port) == asked(closed_port, sasl=True) == ""
