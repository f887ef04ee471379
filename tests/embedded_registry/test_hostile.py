"""Altered and hostile requests: every one is answered in time with a number, and the registry goes on."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import random
import socket
import tracemalloc
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.drawn import fixed_seeds

import ottla
from ottla.embedded_registry.api import Api
from ottla.embedded_registry.refusals import Refusal
from ottla.embedded_registry.schema_kinds import parse
from ottla.embedded_registry.server import CONNECTIONS_MAX
from ottla.embedded_registry.store import Store

from .conftest import Asking, record

SEEDS = fixed_seeds(2, soak=20)

AVRO = json.dumps(
    record(
        ("a", {"type": "array", "items": {"type": "map", "values": ["null", "int"]}}),
        ("e", {"type": "enum", "name": "E", "symbols": ["X", "Y"], "default": "X"}),
        ("f", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}),
        ("r", ["null", "R"], None),
        ("s", {"type": "string", "logicalType": "uuid"}, "b"),
    )
)
JSON = json.dumps(
    {
        "$id": "http://a/b.json",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"oneOf": [{"type": "string"}, {"enum": [1, None]}]}},
        "patternProperties": {"^x": {"minimum": 1, "multipleOf": 2}},
        "required": ["a"],
        "$defs": {"d": {"type": ["array", "null"], "items": [{"$ref": "#"}], "additionalItems": {"not": {}}}},
    }
)
PROTOBUF = """
syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
message M { oneof o { int32 a = 1; string b = 2; } map<string, M> c = 3; reserved 7, 9 to 11; E e = 4; }
enum E { X = 0; Y = 1; } // the end
"""
PIECES = [*'{}[]":,#', "null", "-1", "1e999", "\\u0000", "9" * 40, "type", "int", "$ref", " = "]


def altered(text: str, rng: random.Random) -> str:
    """The text with a few places cut, repeated, swapped or replaced."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 12))
        choice = rng.randrange(5)
        if choice == 0:
            text = text[:start] + text[end:]
        elif choice == 1:
            text = text[:start] + rng.choice(PIECES) + text[end:]
        elif choice == 2:
            text = text[:end] + text[start:end] * rng.randint(1, 40) + text[end:]
        elif choice == 3:
            other = rng.randrange(len(text) + 1)
            text = text[:start] + text[other : other + 20] + text[end:]
        else:
            text = text[:start] + chr(rng.choice([0, 9, 34, 92, 128, 0x20AC, 0x1F600])) + text[end:]
    return text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "text"), [("AVRO", AVRO), ("JSON", JSON), ("PROTOBUF", PROTOBUF)])
def test_altered_schemas_are_taken_or_refused_in_time(kind: str, text: str, seed: int) -> None:
    rng = random.Random(seed)
    store = Store()
    answers: list[tuple[int, bytes]] = []
    api = Api(store, lambda decide, done: done(_decided(store, decide)))
    parsed = parse(kind, text, {})
    taken = 0
    for number in range(1200):
        changed = altered(text, rng)
        body = json.dumps({"schema": changed, "schemaType": kind}).encode()
        api.handle("POST", f"/subjects/s{number % 7}/versions", "", body, lambda *answer: answers.append(answer))
        status, told = answers.pop()
        # 500 would say that something was not foreseen.
        assert status in (200, 409, 422), (changed, told)
        if status == 200:
            taken += 1
            again = parse(kind, changed, {})
            assert not again.differences(again), changed
            parsed.differences(again)
    assert taken


def _decided(store: Store, decide: Any) -> Any:
    try:
        change = decide(store)
    except Refusal as refusal:
        return refusal
    for key, value in change.records:
        store.apply(key, value)
    return change.answer


@pytest.mark.parametrize("seed", SEEDS)
def test_altered_records_of_the_topic_are_passed_over(seed: int) -> None:
    rng = random.Random(seed)
    store = Store()
    key = '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = '{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","references":[]}'
    config = '{"keytype":"CONFIG","subject":"s","magic":0}', '{"compatibilityLevel":"FULL","normalize":true}'
    deleted = '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', '{"subject":"s","version":1}'
    for _ in range(3000):
        one, other = rng.choice([(key, value), config, deleted])
        store.apply(altered(one, rng).encode(), rng.choice([None, altered(other, rng).encode(), other.encode()]))
    store.apply(key.encode(), value.encode())
    assert [each.text for each in store.versions("s")[:1]] == ['"int"']
    for schema in store.all():
        assert store.by_id(schema.id) is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_altered_requests_are_answered_and_the_registry_goes_on(registry: ottla.Registry, seed: int) -> None:
    rng = random.Random(seed)
    address = urlsplit(registry.url).netloc
    body = json.dumps({"schema": AVRO, "references": [], "schemaType": "AVRO", "id": 0, "version": 0})
    paths = [
        "/subjects/s/versions/1",
        "/schemas/ids/1?fetchMaxId=true",
        "/config/s",
        "/mode",
        "/compatibility/subjects/s",
    ]
    statuses: dict[int, None] = {}
    for _ in range(400):
        written = altered(rng.choice(paths), rng)
        path = "/" + "".join(each for each in written if each.isascii() and each.isprintable() and each not in " #")
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request(rng.choice(["GET", "POST", "PUT", "DELETE"]), path, altered(body, rng).encode())
        response = connection.getresponse()
        told = json.loads(response.read())
        assert response.status < 500, (path, told)
        statuses[response.status] = None
        connection.close()
    assert len(statuses) > 2
    assert Asking(registry.url).register("after", '"int"')


def test_texts_that_are_looked_up_are_not_kept() -> None:
    store = Store()
    answers: list[int] = []
    api = Api(store, lambda decide, done: done(_decided(store, decide)))

    def ask(path: str, number: int) -> None:
        text = json.dumps({"title": f"{number}", "description": "x" * 1_000_000})
        body = json.dumps({"schema": text, "schemaType": "JSON"}).encode()
        api.handle("POST", path, "", body, lambda status, _: answers.append(status))

    ask("/subjects/s/versions", 0)
    tracemalloc.start()
    try:
        for number in range(1, 11):
            ask("/subjects/s", number)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answers == [200, *[404] * 10]
    assert kept < 1_000_000


def test_references_that_multiply_are_bounded(ask: Asking) -> None:
    """Each schema refers to the one before it by ten names."""
    ask.register("zip0", {"type": "fixed", "name": "Z0", "size": 1})
    for level in range(1, 12):
        references = [{"name": f"Z{level - 1}", "subject": f"zip{level - 1}", "version": 1}]
        references += [{"name": f"N{each}", "subject": f"zip{level - 1}", "version": 1} for each in range(10)]
        text = record(("a", f"Z{level - 1}"), name=f"Z{level}")
        status, told = ask(
            "POST", f"/subjects/zip{level}/versions", {"schema": json.dumps(text), "references": references}
        )
        assert status in (200, 422), told
        if status == 422:
            break


def test_a_body_that_never_comes_keeps_nobody_waiting(registry: ottla.Registry, ask: Asking) -> None:
    host, port = urlsplit(registry.url).netloc.split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /subjects/s/versions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        assert ask("GET", "/schemas/types")[0] == 200


def test_one_connection_too_many_is_answered_with_503(cluster: ottla.Cluster) -> None:
    def asked(sock: socket.socket, more: str = "") -> tuple[int, str | None, Any]:
        sock.sendall(f"POST /subjects/a HTTP/1.1\r\n{more}Content-Length: 2\r\n\r\n".encode())
        sock.sendall(b"[]")
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        return answer.status, answer.getheader("Connection"), json.loads(answer.read())

    with ottla.Registry(cluster.bootstrap_servers, topic="crowded") as registry, contextlib.ExitStack() as held:
        host, port = urlsplit(registry.url).netloc.split(":")

        def connected() -> socket.socket:
            return held.enter_context(socket.create_connection((host, int(port)), timeout=60))

        crowd = [connected() for _ in range(CONNECTIONS_MAX)]
        assert {asked(sock)[:2] for sock in crowd} == {(422, None)}
        for _ in range(2):
            status, connection, told = asked(connected())
            assert (status, connection, told["error_code"]) == (503, "close", 503)
            assert "there are 1000 connections already" in told["message"]
        with pytest.raises(ottla.RegistryError, match="503: there are 1000 connections already") as error:
            ottla.RegistryClient(registry.url, max_retries=0).subjects()
        assert error.value.retriable
        # As soon as one is closed, there is room again.
        leaving = crowd.pop()
        assert asked(leaving, "Connection: close\r\n")[:2] == (422, "close")
        assert leaving.recv(1) == b""
        assert ottla.RegistryClient(registry.url, max_retries=0).subjects() == []


@pytest.mark.filterwarnings("error")
def test_a_pattern_of_json_schema_is_not_compiled_as_one_of_pythons() -> None:
    # Compiling the first would take 17 seconds, in which nobody is answered; the second is warned of on stderr.
    for pattern in ("(?i)" + "[\u0100-\uffff]" * 600, "[[:alpha:]]"):
        parse("JSON", json.dumps({"type": "string", "pattern": pattern}), {})
    with pytest.raises(Refusal, match="a parenthesis has no partner"):
        parse("JSON", json.dumps({"type": "string", "pattern": "(a"}), {})
