"""Registries that are not there, slow, or answer nonsense: bounded in time, told in one sentence, tried again."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.interrupting import interrupted_below, interrupted_within

import ottla
from ottla.registry.cache import Cache
from ottla.registry.client import RegistryClient

from .conftest import ScriptedRegistry, answer

QUICK = {"retries_wait_ms": 1, "retries_max_wait_ms": 2}
_SCHEMA = b'{"schema":"\\"int\\"","guid":"g"}'


@pytest.fixture
def absent() -> Iterator[str]:
    """An address on which no registry listens; its port is bound, so that nobody else gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_registry_that_is_not_there_is_named(absent: str) -> None:
    client = RegistryClient(absent, QUICK, max_retries=1)
    with pytest.raises(ottla.RegistryError, match=f"{absent} cannot be reached .* check schema.registry.url") as error:
        client.by_id(1)
    assert error.value.retriable


def test_the_next_registry_is_asked_where_one_is_not_there(
    registry_of: Callable[..., ScriptedRegistry], absent: str
) -> None:
    there = registry_of(answer(_SCHEMA))
    client = RegistryClient([absent, there.url], QUICK, max_retries=0)
    assert client.by_id(1).text == '"int"'
    assert client.by_id(2).text == '"int"'
    assert len(there.requests) == 2


def test_a_registry_with_an_error_of_its_own_is_asked_again(registry_of: Callable[..., ScriptedRegistry]) -> None:
    failure = answer(b'{"error_code":50001,"message":"the store"}', "500 Internal Server Error")
    registry = registry_of(failure, failure, answer(_SCHEMA))
    assert RegistryClient(registry.url, QUICK).by_id(1).text == '"int"'
    assert len(registry.requests) == 3
    with pytest.raises(ottla.RegistryError, match=r"50001: the store") as error:
        RegistryClient(registry_of(failure).url, QUICK).by_id(1)
    assert (error.value.retriable, error.value.code) == (True, 50001)


def test_a_server_that_repeats_the_password_does_not_have_it_shown(
    registry_of: Callable[..., ScriptedRegistry],
) -> None:
    encoded = base64.b64encode(b"joe:s3cretPW").decode()
    for said, settings in (
        ("no joe:s3cretPW here", {"basic.auth.user.info": "joe:s3cretPW"}),
        ("the password s3cretPW is wrong", {"basic.auth.user.info": "joe:s3cretPW"}),
        (f"Authorization: Basic {encoded} is refused", {"basic.auth.user.info": "joe:s3cretPW"}),
        ("Bearer s3cretPW is refused", {"bearer.auth.token": "s3cretPW"}),
        (encoded.rstrip("="), {"basic.auth.user.info": "joe:s3cretPW"}),
        ("joe:s3cretPW  and more", {"basic.auth.user.info": "joe:s3cretPW  and"}),
        ("joe:s3cretPW%20%26", {"basic.auth.user.info": "joe:s3cretPW &"}),
        ("joe:s3cretPW&amp;", {"basic.auth.user.info": "joe:s3cretPW&"}),
        ("JOE:S3CRETpw", {"basic.auth.user.info": "joe:s3cretPW"}),
    ):
        registry = registry_of(answer(json.dumps({"error_code": 401, "message": said}).encode(), "401 Unauthorized"))
        with pytest.raises(ottla.RegistryError, match=r"does not let this client in.*\*\*\*") as error:
            RegistryClient(registry.url, settings).by_id(1)
        assert "s3cretpw" not in str(error.value).lower()
        assert encoded.rstrip("=") not in str(error.value)


@pytest.mark.parametrize("number", [-1, 1 << 31, 1 << 70])
def test_an_id_that_no_record_can_name_is_no_answer(registry_of: Callable[..., ScriptedRegistry], number: int) -> None:
    told = answer(f'{{"id":{number}}}'.encode())
    with pytest.raises(ottla.RegistryError, match="is no schema; check schema"):
        RegistryClient(registry_of(told).url, QUICK).register("s", '"int"')


def test_what_is_refused_is_not_asked_again(registry_of: Callable[..., ScriptedRegistry]) -> None:
    registry = registry_of(answer(b'{"error_code":40403,"message":"Schema not found"}', "404 Not Found"))
    with pytest.raises(ottla.RegistryError, match="40403: Schema not found"):
        RegistryClient(registry.url, QUICK).by_id(1)
    assert len(registry.requests) == 1


def test_a_kept_connection_that_has_ended_is_replaced_at_once(
    registry_of: Callable[..., ScriptedRegistry],
) -> None:
    registry = registry_of(answer(_SCHEMA), None, answer(_SCHEMA))
    client = RegistryClient(registry.url, QUICK, max_retries=0)
    assert client.by_id(1).text == '"int"'
    assert client.by_id(2).text == '"int"'


def test_a_deletion_is_sent_once(registry_of: Callable[..., ScriptedRegistry], absent: str) -> None:
    registry = registry_of(answer(_SCHEMA), None, answer(b"[1]"))
    client = RegistryClient(registry.url, QUICK)
    client.by_id(1)
    with pytest.raises(ottla.RegistryError, match="cannot be reached"):
        client.delete_subject("s")
    assert len(registry.requests) == 2
    # What was never sent is sent to the next one.
    assert RegistryClient([absent, registry.url], QUICK).delete_subject("s") == [1]


def test_a_slow_registry_is_waited_for_as_long_as_one_said(registry_of: Callable[..., ScriptedRegistry]) -> None:
    held = threading.Event()

    def hold() -> bytes:
        held.wait(60)
        return answer(_SCHEMA)

    with pytest.raises(ottla.RegistryError, match=r"no answer within request\.timeout\.ms=50"):
        RegistryClient(registry_of(hold).url, QUICK, request_timeout_ms=50, max_retries=0).by_id(1)
    held.set()


@pytest.mark.parametrize("where", ["head", "body"])
def test_an_answer_that_comes_byte_by_byte_must_be_through_in_time(where: str) -> None:
    """It would be whole after seconds."""
    head, body = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 150 + b"\r\nContent-Length: 200\r\n\r\n", b" " * 166 + _SCHEMA
    body = body[-200:]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            sock, _ = server.accept()
            with sock, contextlib.suppress(OSError):
                sock.recv(65_536)
                if where == "body":
                    sock.sendall(head)
                for byte in head + body if where == "head" else body:
                    sock.sendall(bytes([byte]))
                    gone.wait(0.02)

        gone = threading.Event()
        threading.Thread(target=trickle, daemon=True).start()
        client = RegistryClient(f"http://127.0.0.1:{server.getsockname()[1]}", request_timeout_ms=300, max_retries=0)
        with pytest.raises(ottla.RegistryError, match=r"no answer within request\.timeout\.ms=300"):
            client.by_id(1)
        gone.set()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"nothing\r\n\r\n", "is not HTTP"),
        (answer(b"<html>"), "is no schema registry"),
        (answer(b"[1]"), "is no schema"),
        (answer(b'{"schema":1}'), "is no schema"),
        (answer(b'{"schema":"a","schemaType":"XML"}'), "is no schema"),
        (answer(b'{"schema":"a","references":[1]}'), "is no schema"),
        (answer(b"", "302 Found", b"Location: http://elsewhere\r\n"), "refers to another address"),
        (answer(b"<html>", "404 Not Found"), "has no such path"),
        (answer(b'{"message":"\x1b[31m"}', "403 Forbidden"), "does not allow this"),
        (answer(b"[" * 100_000), "is no schema registry"),
        (answer(b'{"error_code":1%s}' % (b"0" * 4000), "409 Conflict"), "(409: no reason was given)"),
        (answer(b'{"message":"a\xe2\x80\x8bb"}', "422 Unprocessable"), r"(422: a\u200bb)"),
    ],
)
def test_what_is_no_answer_is_told(registry_of: Callable[..., ScriptedRegistry], given: bytes, told: str) -> None:
    with pytest.raises(ottla.RegistryError) as error:
        RegistryClient(registry_of(given).url, QUICK, max_retries=0).by_id(1)
    assert told in str(error.value)
    assert "\x1b" not in str(error.value)


def test_tls_with_a_registry_that_has_none_is_told_at_once(kafka_cluster: ottla.Cluster) -> None:
    with ottla.Registry(kafka_cluster.bootstrap_servers, topic="plain") as registry:
        url = registry.url.replace("http", "https")
        with pytest.raises(ottla.RegistryError, match=f"at {url} speaks no TLS; give {registry.url} as schema") as told:
            RegistryClient(url, request_timeout_ms=600_000).subjects()
    assert told.value.fatal


def test_a_server_that_expects_tls_and_refuses_ours_is_not_said_to_have_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                with server.accept()[0] as sock:
                    # A record of TLS, or a request without it.
                    is_tls = sock.recv(1000).startswith(b"\x16")
                    alert = b"\x15\x03\x03\x00\x02\x02\x28"
                    sock.sendall(alert if is_tls else answer(b"This is an HTTPS port", "400 Bad Request"))

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ottla.RegistryError) as told:
            RegistryClient(url, max_retries=0).subjects()
        thread.join()
    assert "no TLS" not in str(told.value)
    assert "handshake failure" in str(told.value)


@pytest.mark.prove
def test_a_server_that_waits_for_the_end_of_a_line_of_http_is_asked_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            held, _ = server.accept()  # the handshake, which is never answered
            with held, server.accept()[0] as sock:
                assert sock.recv(1000).startswith(b"GET / HTTP/1.0")
                sock.sendall(answer(b"{}", "404 Not Found"))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ottla.RegistryError, match=f"speaks no TLS; give http://{address} as schema.registry.url"):
            RegistryClient(f"https://{address}", request_timeout_ms=600_000).subjects()
        thread.join()


def test_one_thread_asks_for_all_that_ask_the_same(registry_of: Callable[..., ScriptedRegistry]) -> None:
    waiting, go = threading.Semaphore(0), threading.Event()

    def hold() -> bytes:
        go.wait(60)
        return answer(_SCHEMA)

    registry = registry_of(hold)
    client = RegistryClient(registry.url, QUICK)
    found: list[str] = []

    def ask() -> None:
        waiting.release()
        found.append(client.by_id(1).text)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for _ in threads:
        waiting.acquire()
    go.set()
    for thread in threads:
        thread.join()
    assert found == ['"int"'] * 20
    assert len(registry.requests) == 1


@pytest.mark.parametrize("interrupted", [interrupted_within, interrupted_below])
def test_wherever_asking_is_interrupted_the_next_one_who_asks_is_told(
    interrupted: Callable[..., contextlib.AbstractContextManager[None]],
) -> None:
    cache = Cache(10)

    def ask(number: int) -> str:
        # Not kept: the request under way is all that the next one may find.
        told: str = cache.get(number, lambda: "told", keep_s=0)
        return told

    for nth in itertools.count(1):
        try:
            with interrupted(Cache.get.__code__, nth):
                assert ask(nth) == "told"
            break
        except KeyboardInterrupt:
            found: list[str] = []
            asking = threading.Thread(target=lambda: found.append(ask(nth)), daemon=True)  # noqa: B023
            asking.start()
            asking.join(30)
            assert found == ["told"]
    assert nth > 3


def test_a_cache_does_not_grow_and_forgets_what_was_not_asked_for() -> None:
    cache = Cache(2)
    asked: list[int] = []

    def get(number: int) -> int:
        def fetch() -> int:
            asked.append(number)
            return number

        found: int = cache.get(number, fetch)
        return found

    for number in (1, 2, 1, 3, 1, 2):
        assert get(number) == number
    assert asked == [1, 2, 3, 2]
    assert len(cache) == 2


def test_what_is_kept_for_a_while_is_asked_for_again_after_it() -> None:
    now_s = 0.0
    cache = Cache(10, lambda: now_s)
    values = iter(range(10))
    assert cache.get("a", lambda: next(values), keep_s=60) == 0
    now_s = 59.0
    assert cache.get("a", lambda: next(values), keep_s=60) == 0
    now_s = 60.0
    assert cache.get("a", lambda: next(values), keep_s=60) == 1
    assert cache.get("b", lambda: next(values), keep_s=0) == 2
    assert cache.get("b", lambda: next(values), keep_s=0) == 3
