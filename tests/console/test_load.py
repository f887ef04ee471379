"""Clients that ask for much at once, stand still, or leave: what they hold is bounded, and comes back."""

from __future__ import annotations

import gc
import http.client
import json
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request

import ottla
from ottla.console import streams
from ottla.console.answers import refusal
from ottla.console.connection import CONNECTIONS_MAX, Connection
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.console.streams import STREAMS_MAX
from ottla.reader.events import Fetched

from .conftest import Asking

_PATIENCE_S = 60
HEAD = "Host: localhost\r\n"


def connected(asking: Asking, content: str, receive_bytes: int | None = None) -> socket.socket:
    """A connection on which this was sent."""
    url = urlsplit(asking.url)
    sock = socket.socket()
    sock.settimeout(_PATIENCE_S)
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.connect((url.hostname, url.port))
    sock.sendall(content.encode())
    return sock


def importing(asking: Asking, topic: str, body: str = "") -> str:
    """An import of a long file, and how the file begins."""
    token = asking.get("api/session")["change_token"]
    head = f"POST /api/topics/{topic}/import HTTP/1.1\r\n{HEAD}X-Ottla-Change: {token}\r\n"
    return f"{head}Content-Length: 1000000\r\n\r\n{body}"


def status_of(sock: socket.socket) -> int:
    answer = http.client.HTTPResponse(sock)
    answer.begin()
    return answer.status


@contextmanager
def all_closed(socks: list[socket.socket]) -> Iterator[list[socket.socket]]:
    try:
        yield socks
    finally:
        for sock in socks:
            sock.close()


def await_places(asking: Asking) -> None:
    """Until all places are free, or will be soon: so many streams were opened at once."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        # 503 is raised.
        with suppress(urllib.error.HTTPError), ExitStack() as stack:
            for _ in range(STREAMS_MAX):
                stack.enter_context(urllib.request.urlopen(f"{asking.url}api/served/live", timeout=_PATIENCE_S))
            return
        assert time.monotonic() < give_up


def test_imports_that_stand_still_keep_no_view_waiting_and_end_with_their_clients(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    begun = importing(asking, kafka_name)
    with all_closed([connected(asking, begun) for _ in range(STREAMS_MAX)]):
        give_up = time.monotonic() + _PATIENCE_S
        while asking.raw("GET", f"api/topics/{kafka_name}/search")[0] != 503:
            assert time.monotonic() < give_up
        with all_closed([connected(asking, begun) for _ in range(45)]) as others:
            assert [status_of(sock) for sock in others] == [503] * 45
            assert asking.get("api/session")["change_token"]
            assert len(asking.get("api/brokers")["brokers"]) == 3
    await_places(asking)


@pytest.mark.prove
def test_many_whole_imports_at_once_are_all_answered(asking: Asking, cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    content = b'{"value": "x"}\n' * 100
    found: list[tuple[int, int]] = []

    def one() -> None:
        status, told = asking.change("POST", f"api/topics/{kafka_name}/import", content)
        found.append((status, told.get("stored", 0)))

    threads = [threading.Thread(target=one) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(found)
    assert set(counts) <= {(200, 100), (503, 0)}
    assert counts[200, 100] >= STREAMS_MAX
    done = asking.lines(f"api/topics/{kafka_name}/search?limit=1")[-1]["end"]
    assert done["offsets_total"] == 100 * counts[200, 100]


@pytest.mark.prove
def test_the_line_that_a_client_did_not_end_before_it_left_is_not_sent(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    body = '{"value": "whole"}\n{"value": "cut"}'
    with all_closed([connected(asking, importing(asking, kafka_name, body)) for _ in range(STREAMS_MAX)]):
        give_up = time.monotonic() + _PATIENCE_S
        while len(asking.get(f"api/topics/{kafka_name}/records")["records"]) < STREAMS_MAX:
            assert time.monotonic() < give_up
    await_places(asking)
    values = [each["value"]["text"] for each in asking.get(f"api/topics/{kafka_name}/records")["records"]]
    assert values == ["whole"] * STREAMS_MAX


def test_an_import_that_says_nothing_for_long_is_given_up_and_told_so(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SILENCE_S", 0.3)
    cluster.create_topic(kafka_name)
    with connected(asking, importing(asking, kafka_name, '{"value": "x"}\n')) as sock:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        told = json.loads(answer.read())
    assert "no more of the file came for 0.3 s" in told["error"]
    assert answer.status == 400 or told["stored"] == 1


@pytest.fixture
def asking(looked_at: Console) -> Iterator[Asking]:
    """A console whose places are all free."""
    with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        yield Asking(server.url)


@pytest.fixture(scope="module")
def large(cluster: ottla.Cluster) -> str:
    """A topic that is longer than what the system holds back for a client that reads nothing."""
    cluster.create_topic("large", partitions=1)
    random = Random(1)
    with ottla.Producer(cluster.bootstrap_servers, compression_type="none") as producer:
        for _ in range(16):
            producer.send("large", random.randbytes(900_000))
    return "large"


def test_of_many_exports_whose_clients_read_nothing_the_first_alone_are_begun(asking: Asking, large: str) -> None:
    asked = f"GET /api/topics/{large}/export HTTP/1.1\r\n{HEAD}\r\n"
    with all_closed([connected(asking, asked, 4096) for _ in range(STREAMS_MAX * 3)]) as socks:
        counts = Counter(status_of(sock) for sock in socks)
        assert counts == {200: STREAMS_MAX, 503: STREAMS_MAX * 2}
        assert asking.raw("GET", f"api/topics/{large}/search")[0] == 503
        assert len(asking.get("api/brokers")["brokers"]) == 3
    await_places(asking)
    # What their readers had fetched ahead is gone, too.
    assert sum(type(each) is Fetched and each.topic == large for each in gc.get_objects()) == 0


@pytest.mark.prove
def test_searches_at_once_are_not_more_than_there_may_be(asking: Asking, large: str) -> None:
    asked = f"GET /api/served/live HTTP/1.1\r\n{HEAD}\r\n"
    with all_closed([connected(asking, asked) for _ in range(50)]) as socks:
        counts = Counter(status_of(sock) for sock in socks)
    assert counts == {200: STREAMS_MAX, 503: 50 - STREAMS_MAX}
    await_places(asking)


@pytest.mark.prove
def test_a_client_that_takes_nothing_for_long_is_cut_off(
    asking: Asking, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "taken_s", 0.3)
    asked = f"GET /api/topics/{large}/export HTTP/1.1\r\n{HEAD}\r\n"
    with all_closed([connected(asking, asked, 4096) for _ in range(STREAMS_MAX)]):
        await_places(asking)


@pytest.mark.prove
def test_a_client_that_takes_little_at_a_time_gets_all(
    asking: Asking, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "taken_s", 2.0)
    whole = len(asking.raw("GET", f"api/topics/{large}/export")[2])
    with connected(asking, f"GET /api/topics/{large}/export HTTP/1.1\r\n{HEAD}\r\n", 65_536) as sock:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert sum(len(piece) for piece in iter(lambda: answer.read(65_536), b"")) == whole


@pytest.mark.parametrize(
    "begun",
    [
        "",
        "GET /api/se",
        f"GET /api/session HTTP/1.1\r\n{HEAD}\r\nGET /api/se",
        f"POST /api/topics HTTP/1.1\r\n{HEAD}Content-Length: 1000\r\n\r\n{{",
    ],
    ids=["nothing", "half", "the second half", "a refused body"],
)
def test_half_a_request_is_waited_for_a_while_only(asking: Asking, monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    """Each byte comes in time; all of them together do not."""
    monkeypatch.setattr(Connection, "head_s", 1.0)
    with connected(asking, begun) as sock:
        sock.settimeout(0.05)
        for _ in range(1200):
            try:
                sock.sendall(b"G")
                if sock.recv(65_536) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it is not ended")


def test_a_live_view_has_no_end(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("head_s", "taken_s"):
        monkeypatch.setattr(Connection, name, 0.1)
    with urllib.request.urlopen(f"{asking.url}api/served/live", timeout=_PATIENCE_S) as stream:
        # Ten a second.
        assert all(stream.readline() for _ in range(10))


def test_who_only_waits_gives_way_to_who_asks(asking: Asking) -> None:
    with all_closed([connected(asking, "GET /api/se") for _ in range(CONNECTIONS_MAX * 3)]) as socks:
        assert asking.get("api/session")["change_token"]
        # That which has waited longest was closed.
        with suppress(ConnectionError):
            assert socks[0].recv(1) == b""
        socks[-1].sendall(f"ssion HTTP/1.1\r\n{HEAD}\r\n".encode())
        assert status_of(socks[-1]) == 200


@pytest.mark.prove
def test_where_all_connections_are_being_answered_a_further_one_is_refused_in_words(asking: Asking) -> None:
    token = asking.get("api/session")["change_token"]
    asked = f"POST /api/topics HTTP/1.1\r\n{HEAD}X-Ottla-Change: {token}\r\nContent-Length: 10\r\n\r\n"
    with all_closed([connected(asking, asked) for _ in range(CONNECTIONS_MAX)]) as socks:
        # One that was not read yet when another came may have given way to it.
        while (answer := asking.raw("GET", "api/session"))[0] == 200:
            socks.append(connected(asking, asked))
            assert len(socks) < CONNECTIONS_MAX * 2
        assert answer[0] == 503
        assert "200 requests are being answered already" in json.loads(answer[2])["error"]


def test_a_path_is_logged_without_what_a_terminal_obeys(caplog: pytest.LogCaptureFixture) -> None:
    scope = {"type": "http", "method": "GET", "path": "/api/topics/x\x1b]0;PWN\x07", "headers": [], "query_string": b""}
    with caplog.at_level(logging.ERROR, "ottla.console"):
        assert refusal(ValueError("no"), Request(scope)).status_code == 500
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == r"GET /api/topics/x\x1b]0;PWN\x07 failed"
