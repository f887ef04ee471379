"""The server itself: who may ask, what is no request, how many may ask at once, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

import pytest

import ottla
from ottla.errors import UserMistake
from ottla.remote.address import parse_address
from ottla.remote.client import RemoteCluster
from ottla.remote.http_connection import BODY_BYTES_MAX, HttpConnection
from ottla.remote.server import CONNECTIONS_MAX, ControlServer

from .http_client import Http, heard

TOKEN = "0123456789abcdef"
POST = b"POST /v1/brokers/1/kill HTTP/1.1\r\nHost: a\r\n"
JSON = b"Content-Type: application/json\r\n"


def parsed(answer: bytes) -> tuple[int, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    ("authorization", "words"),
    [
        (None, "the token is missing"),
        ("", "the token is not the right one"),
        (f"Bearer {TOKEN}0", "the token is not the right one"),
        (f"Bearer {TOKEN[:-1]}", "the token is not the right one"),
        ("Bearer ", "the token is not the right one"),
        (f"Basic {TOKEN}", "the token is not the right one"),
        ("Bearer \xe4", "the token is not the right one"),
        (TOKEN, "the token is not the right one"),
    ],
)
def test_without_the_token_nothing_is_done_and_nothing_told(
    cluster: ottla.Cluster, authorization: str | None, words: str
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with ControlServer("127.0.0.1", 0, token=TOKEN) as control, control.serving(cluster):
        http = Http(control.address)
        for method, path in (("GET", "/v1/cluster"), ("POST", "/v1/brokers/1/kill"), ("GET", "/nowhere")):
            status, told = http.ask(method, path, **headers)
            assert status == 401
            assert told == {"error": f"{words}: send the header Authorization: Bearer TOKEN."}
        assert cluster.brokers()[1] == "running"
        # The control: with the token it is done.
        assert Http(control.address, TOKEN).get("/v1/cluster")["brokers"][0]["state"] == "running"
        assert Http(control.address).ask("GET", "/v1", Authorization=f"bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize("token", ["", "short", "with space 012345", "x" * 257, "0123456789abcdeé"])
def test_a_token_that_is_none_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(UserMistake, match="token= holds no token: write 16 to 256 ASCII") as refused:
        ControlServer("127.0.0.1", 0, token=token)
    assert not token or token not in str(refused.value)


def test_a_page_in_a_browser_cannot_break_the_cluster(http: Http, cluster: ottla.Cluster) -> None:
    """A form or a script of any page may send this; only the header tells."""
    status, told = http.ask("POST", "/v1/brokers/1/kill", Origin="https://example.org")
    assert status == 403
    assert "pages in a browser" in told["error"]
    assert cluster.brokers()[1] == "running"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "Cross-Site"])
def test_an_image_or_a_script_of_a_page_reads_nothing(http: Http, site: str) -> None:
    """A browser names no `Origin` for these; what a user types into it is asked for by no page."""
    status, told = http.ask("GET", "/v1/cluster", Sec_Fetch_Site=site)
    assert (status, list(told)) == (403, ["error"])
    assert "pages in a browser" in told["error"]
    assert http.ask("GET", "/v1/cluster", Sec_Fetch_Site="none")[0] == 200


@pytest.mark.parametrize("hosts", [(b"localhost", b"example.org"), (b"example.org", b"localhost"), (b"a", b"a")])
def test_a_request_to_two_hosts_is_refused(http: Http, hosts: tuple[bytes, bytes]) -> None:
    status, told = parsed(http.say(b"GET /v1 HTTP/1.1\r\nHost: %s\r\nHost: %s\r\n\r\n" % hosts))
    assert (status, told) == (400, {"error": "the header Host must be there once."})


@pytest.mark.parametrize("host", ["example.org:9190", "example.org", "a.example.org."])
def test_a_page_whose_name_stands_for_this_machine_cannot_look_at_the_cluster(http: Http, host: str) -> None:
    status, told = http.ask("GET", "/v1/cluster", Host=host)
    assert status == 403
    assert "at this address it must be localhost or 127.0.0.1" in told["error"]


@pytest.mark.parametrize("host", ["localhost:9190", "127.0.0.1", "[::1]:9190", "[::ffff:127.0.0.1]:1", "a"])
def test_this_machine_is_known_by_each_of_its_names(http: Http, host: str) -> None:
    assert http.ask("GET", "/v1/cluster", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "the body is not JSON: "),
        (b'{"kind": NaN}', "the body is not JSON."),
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b"\xff\xfe", "the body is not JSON."),
        (b"[" * 60_000, "the body is not JSON."),
        (b'{"nth": ' + b"9" * 60_000 + b"}", "the body is not JSON."),
        (b"kind=lose_ack", "the body is not JSON: "),
    ],
    ids=range(8),
)
def test_a_body_that_is_no_object_is_refused(http: Http, content: bytes, words: str) -> None:
    status, told = http.send("POST", "/v1/faults", content)
    assert status == 400
    assert told["error"].startswith(words)


@pytest.mark.parametrize(
    ("head", "status", "words"),
    [
        (b"Content-Length: x\r\n", 400, "the header Content-Length must be one number."),
        (b"Content-Length: -1\r\n", 400, "the header Content-Length must be one number."),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n", 400, "the header Content-Length must be one number."),
        (b"Content-Length: 65537\r\n" + JSON, 413, "the body has more than 65536 bytes."),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n" + JSON, 413, "the body has more than 65536 bytes."),
        (b"Transfer-Encoding: chunked\r\n" + JSON, 411, "a body needs the header Content-Length"),
        (b"Content-Length: 2\r\n", 415, "Content-Type: application/json"),
        (b"Content-Length: 2\r\nContent-Type: application/x-www-form-urlencoded\r\n", 415, "Content-Type"),
        (b"X: y\r\n" * 101, 431, ""),
    ],
)
def test_a_request_that_is_none_is_refused(
    http: Http, cluster: ottla.Cluster, head: bytes, status: int, words: str
) -> None:
    got, told = parsed(http.say(POST + head + b"\r\n{}"))
    assert got == status
    assert list(told) == ["error"]
    assert words in told["error"]
    assert cluster.brokers()[1] == "running"


def test_a_body_that_is_too_large_is_refused_and_the_answer_arrives(http: Http) -> None:
    """All of it is on its way when it is refused; a connection that were just cut would lose the answer."""
    status, told = http.send("POST", "/v1/faults", b" " * (BODY_BYTES_MAX * 8))
    assert status == 413
    assert told == {"error": f"the body has more than {BODY_BYTES_MAX} bytes."}
    assert http.send("POST", "/v1/faults", b" " * BODY_BYTES_MAX)[0] == 400


def test_a_body_of_a_get_is_refused(http: Http) -> None:
    assert http.send("GET", "/v1", b"{}") == (400, {"error": "GET takes no body."})


def test_methods_that_nobody_knows_are_refused_in_json(http: Http) -> None:
    status, told = http.ask("BREW", "/v1")
    assert status == 501
    assert "BREW" in told["error"]
    answer = http.say(b"HEAD /v1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"Allow: GET\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "content",
    [b"\x00\x00\x00\x10\x00\x12\x00\x03", b"hello\r\n\r\n", b"GET /v1 HTTP/9.9\r\n\r\n", b"x" * 70_000 + b"\r\n"],
)
def test_what_is_no_http_ends_its_own_connection_only(http: Http, content: bytes) -> None:
    with http.connect() as sock:
        sock.sendall(content)
        sock.shutdown(socket.SHUT_WR)
        assert b"Traceback" not in heard(sock)
    assert http.get("/v1")["api"] == 1


@pytest.mark.parametrize(
    ("line", "status"), [(b"POST /v1", 400), (b"GET /v1 HTTQ/1.1", 400), (b"GET /v1 HTTP/2.0", 505)]
)
def test_a_version_that_is_none_is_refused_with_a_status(http: Http, line: bytes, status: int) -> None:
    got, told = parsed(http.say(line + b"\r\nHost: a\r\n\r\n"))
    assert got == status
    assert list(told) == ["error"]


def test_a_body_that_ends_early_does_nothing(http: Http, cluster: ottla.Cluster) -> None:
    with http.connect() as sock:
        sock.sendall(POST + JSON + b"Content-Length: 10\r\n\r\n{")
        sock.shutdown(socket.SHUT_WR)
        assert parsed(heard(sock)) == (400, {"error": "the body ends after 1 of 10 bytes."})
    assert cluster.brokers()[1] == "running"


def test_a_body_that_does_not_come_is_waited_for_a_while_only(
    http: Http, cluster: ottla.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpConnection, "timeout", 0.2)
    status, told = parsed(http.say(POST + JSON + b"Content-Length: 2\r\n\r\n"))
    assert status == 408
    assert "the body did not come" in told["error"]
    assert http.say(b"GET /v1") == b""
    assert cluster.brokers()[1] == "running"


def test_a_request_that_comes_byte_by_byte_is_waited_for_a_while_only(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time; all of them together do not."""
    monkeypatch.setattr(HttpConnection, "timeout", 1.0)
    with http.connect() as sock:
        sock.settimeout(0.05)
        assert is_ended_while_bytes_come(sock)


def is_ended_while_bytes_come(sock: socket.socket) -> bool:
    """Send one after the other, for a minute; whether the other end gives up before."""
    for _ in range(1200):
        try:
            sock.sendall(b"G")
            if sock.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_who_has_left_while_it_waited_leaves_room_for_others(cluster: ottla.Cluster) -> None:
    """Each of them had half a minute more to wait."""
    with ControlServer("127.0.0.1", 0) as control, control.serving(cluster):
        http = Http(control.address)
        made = http.post("/v1/faults", kind="lose_ack", topic="orders")
        for _ in range(CONNECTIONS_MAX):
            with http.connect() as sock:
                sock.sendall(b"GET /v1/faults/%d?await=1&timeout=30 HTTP/1.1\r\nHost: a\r\n\r\n" % made["id"])
        assert http.get(f"/v1/faults/{made['id']}")["fired"] == 0
        assert http.ask("DELETE", f"/v1/faults/{made['id']}")[0] == 200


def test_more_connections_than_there_may_be_are_turned_away_in_words(http: Http) -> None:
    idle = [http.connect() for _ in range(CONNECTIONS_MAX)]
    try:
        full = "100 requests are being answered already: try again soon."
        assert parsed(http.say(b"GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n")) == (503, {"error": full})
        with pytest.raises(ottla.OttlaError) as refused:
            RemoteCluster(*parse_address(http.address, "control")).get("cluster")
        assert str(refused.value) == full
    finally:
        for sock in idle:
            # It has ended there, too, once nothing comes from it any more.
            sock.shutdown(socket.SHUT_WR)
            assert heard(sock) == b""
            sock.close()
    assert http.get("/v1")["api"] == 1


def test_nobody_is_answered_before_there_is_a_cluster_and_after_it() -> None:
    with ControlServer("127.0.0.1", 0) as control:
        http = Http(control.address)
        with pytest.raises(ConnectionRefusedError):
            http.connect()
        with ottla.Cluster(1) as cluster, control.serving(cluster):
            assert http.get("/v1")["api"] == 1
        with pytest.raises(ConnectionRefusedError):
            http.connect()


def test_who_waits_when_the_cluster_is_closed_is_told_so() -> None:
    with ControlServer("127.0.0.1", 0) as control:
        http = Http(control.address)
        with ottla.Cluster(1) as cluster, control.serving(cluster):
            made = http.post("/v1/faults", kind="lose_ack")
            waiting, silent = http.connect(), http.connect()
            waiting.sendall(b"GET /v1/faults/%d?await=1&timeout=600 HTTP/1.1\r\nHost: a\r\n\r\n" % made["id"])
            # Connections are taken in their order, so the one that waits is there.
            assert http.get("/v1")["api"] == 1
        with waiting, silent:
            assert parsed(heard(waiting)) == (503, {"error": "the cluster is being closed."})
            assert heard(silent) == b""


def test_brokers_that_died_are_told_of() -> None:
    with ControlServer("127.0.0.1", 0) as control, ottla.Cluster(1) as cluster, control.serving(cluster):
        http = Http(control.address)
        os.kill(cluster.pid, signal.SIGKILL)
        status, told = http.ask("GET", "/v1/cluster")
        assert status == 503
        assert told == {"error": "the brokers' process ended by itself (killed by signal 9)."}


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserMistake, match=f"port {port} on 127.0.0.1 is in use"):
            ControlServer("127.0.0.1", port)


def test_a_cluster_that_goes_by_the_machine_s_clock_is_not_set_ahead() -> None:
    with ControlServer("127.0.0.1", 0) as control, ottla.Cluster(1) as cluster, control.serving(cluster):
        for method, body in (("GET", None), ("POST", {"advance_s": 1})):
            status, told = Http(control.address).ask(method, "/v1/clock", body)
            assert status == 409
            assert "clock of the machine" in told["error"]


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_ipv6_address_is_shown_in_brackets() -> None:
    with ControlServer("::1", 0) as control, ottla.Cluster(1) as cluster, control.serving(cluster):
        assert control.address.startswith("[::1]:")
        assert Http(control.address).ask("GET", "/v1")[0] == 200
