"""What was answered stays: through kills of the registry and of brokers, and with two registries on one topic."""

from __future__ import annotations

import copy
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.in_time import wait_until
from tests.tiers import some_tested

import ottla
from ottla.embedded_registry import topic_writer
from ottla.embedded_registry.changes import Change
from ottla.embedded_registry.refusals import Refusal
from ottla.embedded_registry.store import Store
from ottla.embedded_registry.topic_reader import Read, TopicReader
from ottla.registry.client import RegistryClient

from .conftest import Asking, record

# For a whole test: on a busy machine, each restart of a registry or broker takes seconds.
_PATIENCE_S = 240.0


@pytest.fixture
def own(own_cluster: ottla.Cluster) -> str:
    return own_cluster.bootstrap_servers


@pytest.fixture
def own_cluster() -> Iterator[ottla.Cluster]:
    """Three brokers that may be killed."""
    with ottla.Cluster() as cluster:
        yield cluster


def schema(number: int) -> dict[str, Any]:
    return record((f"field{number}", "int", number), name=f"R{number}")


class Registering:
    """Registers schemas, one subject each, and remembers which were answered; goes on when nobody answers."""

    def __init__(self, url: Callable[[int], str], count: int) -> None:
        self.ids: dict[int, int] = {}
        self.refused: list[Any] = []
        self._url, self._count = url, count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        for number in range(self._count):
            while number not in self.ids and time.monotonic() < end_s:
                try:
                    status, told = Asking(self._url(number))(
                        "POST", f"/subjects/s{number}/versions", {"schema": json.dumps(schema(number))}
                    )
                except (OSError, http.client.HTTPException, ValueError):
                    continue
                if status == 200:
                    self.ids[number] = told["id"]
                else:
                    self.refused.append(told)

    def await_ids(self, count: int) -> None:
        wait_until(lambda: len(self.ids) >= count, lambda: (len(self.ids), self.refused[-1:]), _PATIENCE_S)

    def join(self) -> dict[int, int]:
        self._thread.join(_PATIENCE_S + 30)
        assert len(self.ids) == self._count, (len(self.ids), self.refused[-1:])
        return self.ids


def kept(servers: str) -> Store:
    """What the topic says, read from its beginning."""
    store = Store()
    read: list[Read] = []
    reader = TopicReader(servers, "_schemas", {}, read.extend, read.clear)
    with ottla.Producer(servers) as producer:
        offset = producer.send("_schemas", None, b'{"keytype":"NOOP","magic":0}', partition=0).result(30).offset
    assert reader.await_offset(offset, 30)
    reader.close()
    seen: dict[bytes | None, set[Any]] = {}
    for _, key, value in read:
        store.apply(key, value)
        if b'"SCHEMA"' in (key or b"") and value is not None:
            fields = json.loads(value)
            seen.setdefault(key, set()).add((fields["id"], fields["schema"]))
    # No version was ever written with two schemas, no id given to two.
    assert all(len(each) == 1 for each in seen.values())
    schemas: dict[int, set[str]] = {}
    for each in seen.values():
        for schema_id, text in each:
            schemas.setdefault(schema_id, set()).add(text)
    assert all(len(texts) == 1 for texts in schemas.values())
    return store


def check(servers: str, ids: dict[int, int]) -> None:
    """Every schema that was answered is there with the id that was told, and no id stands for two."""
    store = kept(servers)
    for number, schema_id in ids.items():
        found = store.by_id(schema_id)
        assert found is not None
        assert json.loads(found.text) == schema(number)
        assert [each.id for each in store.versions(f"s{number}")] == [schema_id]
    assert max(Counter(ids.values()).values()) == 1


def test_a_writer_that_cannot_read_what_others_wrote_decides_nothing(own: str) -> None:
    store, lock = Store(), threading.Lock()
    may_read, is_asked, is_answered = threading.Event(), threading.Event(), threading.Event()
    decided: list[bool] = []
    answers: list[Any] = []

    def took(records: list[Read]) -> None:
        assert may_read.wait(_PATIENCE_S)
        with lock:
            for _, key, value in records:
                store.apply(key, value)

    def decide(known: Store) -> Change:
        decided.append(bool(known.versions("s1")))
        # The answer comes from a reader that is being closed.
        if not is_asked.is_set():
            is_asked.set()
            assert is_closing.wait(_PATIENCE_S)
        return Change((), "decided")

    def answered(answer: Any) -> None:
        answers.append(answer)
        is_answered.set()

    is_closing = threading.Event()
    with ottla.Registry(own) as other:
        may_read.set()
        reader = TopicReader(own, "_schemas", {}, took, lambda: None)
        writer = topic_writer.TopicWriter(
            own, "_schemas", {}, reader, lambda: copy.deepcopy(store), record_bytes_max=1 << 20
        )
        writer.start()
        may_read.clear()
        Asking(other.url)("POST", "/subjects/s1/versions", {"schema": json.dumps(schema(1))})
        writer.ask(decide, answered)
        assert is_asked.wait(_PATIENCE_S)
        closer = threading.Thread(target=reader.close)
        closer.start()
        assert reader.await_offset(1 << 40, _PATIENCE_S) is False
        is_closing.set()
        assert is_answered.wait(_PATIENCE_S)
        may_read.set()
        closer.join(_PATIENCE_S)
        writer.close()
    assert isinstance(answers[0], Refusal)
    # What it decided first was for a producer that others had fenced.
    assert decided == [False]


def test_what_a_killed_registry_has_answered_is_there_in_the_next_one(own: str) -> None:
    registry = ottla.Registry(own)
    port = int(registry.url.rpartition(":")[2])
    registering = Registering(lambda _: registry.url, 60)
    for count in (10, 30):
        registering.await_ids(count)
        registry.kill()
        assert not registry.is_running
        registry.close()
        registry = ottla.Registry(own, port=port)
    ids = registering.join()
    with registry:
        for number, schema_id in ids.items():
            assert Asking(registry.url)("GET", f"/subjects/s{number}/versions/1")[1]["id"] == schema_id
    check(own, ids)


@pytest.mark.prove
def test_brokers_may_be_killed_while_schemas_are_registered(own_cluster: ottla.Cluster, own: str) -> None:
    with ottla.Registry(own) as registry:
        registering = Registering(lambda _: registry.url, 60)
        for broker_id, count in ((1, 10), (2, 25), (3, 40)):
            registering.await_ids(count)
            own_cluster.kill(broker_id)
            registering.await_ids(count + 5)
            own_cluster.start(broker_id)
        ids = registering.join()
    check(own, ids)


def test_schemas_are_read_while_no_broker_is_there_and_written_when_they_are_back(
    own_cluster: ottla.Cluster, own: str
) -> None:
    with ottla.Registry(own) as registry:
        ask = Asking(registry.url)
        schema_id = ask.register("s", schema(0))
        for broker_id in own_cluster.brokers():
            own_cluster.kill(broker_id)
        registering = Registering(lambda _: registry.url, 1)
        assert ask("GET", f"/schemas/ids/{schema_id}")[0] == 200
        # It is there already, and needs no writing.
        assert ask.register("s", schema(0)) == schema_id
        assert not registering.ids
        own_cluster.start()
        assert registering.join() == {0: schema_id}


@pytest.mark.parametrize("restarts", some_tested([False, True], False))
def test_two_registries_on_one_topic_give_no_id_twice(own: str, restarts: bool) -> None:
    registries = [ottla.Registry(own), ottla.Registry(own)]
    clients = [Registering(lambda number, shift=shift: registries[(number + shift) % 2].url, 25) for shift in (0, 1)]
    if restarts:
        clients[0].await_ids(8)
        port = int(registries[1].url.rpartition(":")[2])
        registries[1].kill()
        registries[1].close()
        registries[1] = ottla.Registry(own, port=port)
    # Both register the same schemas, each in the other one's registry.
    first, second = (client.join() for client in clients)
    assert first == second
    for registry in registries:
        registry.close()
    check(own, first)


def test_registries_may_start_at_the_same_moment(own: str) -> None:
    registries: list[ottla.Registry] = []

    def start() -> None:
        registries.append(ottla.Registry(own, in_process=True))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = []
    for number, registry in enumerate(registries):
        ids.append(Asking(registry.url).register(f"s{number}", schema(number)))
    for registry in registries:
        registry.close()
    assert ids == [1, 2, 3, 4]


def test_what_others_write_does_not_gather_where_nobody_writes(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_writer, "_UNTAKEN_MAX", 5)
    with ottla.Registry(own, in_process=True) as one, ottla.Registry(own, in_process=True) as other:
        first, second = Asking(one.url), Asking(other.url)
        assert [first.register(f"s{number}", schema(number)) for number in range(20)] == list(range(1, 21))
        assert second.register("other", schema(20)) == 21
        assert first.register("last", schema(21)) == 22


def test_what_one_registry_writes_the_other_one_knows(own: str) -> None:
    with ottla.Registry(own) as one, ottla.Registry(own) as other:
        first, second = Asking(one.url), Asking(other.url)
        first.register("s", record(("a", "int")))
        # It decides by what the other one has written, though that was never asked for here.
        assert second("POST", "/subjects/s/versions", {"schema": json.dumps(record(("a", "string")))})[0] == 409
        second.register("s", record(("a", "int"), ("b", "int", 0)))
        first.register("s", record(("a", "int"), ("b", "int", 0), ("c", "int", 0)))
        assert first("GET", "/subjects/s/versions") == (200, [1, 2, 3])


def test_what_one_registry_has_deleted_does_not_count_in_the_other_one(own: str) -> None:
    with ottla.Registry(own) as one, ottla.Registry(own) as other:
        first, second = Asking(one.url), Asking(other.url)
        for number in range(10):
            first.register(f"s{number}", record(("a", "int")))
            second("GET", f"/subjects/s{number}/versions")
            assert first("DELETE", f"/subjects/s{number}") == (200, [1])
            # It would speak against this one, which is asked for at once.
            second.register(f"s{number}", record(("a", "string")))
            reference = {"name": "R", "subject": f"s{number}", "version": 2}
            first.register(f"array{number}", {"type": "array", "items": "R"}, references=[reference])


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(own: str) -> None:
    with ottla.Registry(own) as registry, ottla.Admin(own) as admin:
        ask = Asking(registry.url)
        for number in range(5):
            ask.register(f"s{number}", schema(number))
        admin.delete_topics("_schemas")
        admin.create_topics("_schemas", configs={"cleanup.policy": "compact"})
        end_s = time.monotonic() + _PATIENCE_S
        while ask("GET", "/subjects") != (200, []):
            assert time.monotonic() < end_s
            time.sleep(0.05)
        assert ask.register("again", schema(9)) == 1
        assert ask("GET", "/schemas/ids/2")[0] == 404
    with ottla.Registry(own) as registry:
        assert Asking(registry.url)("GET", "/subjects") == (200, ["again"])


def test_the_topic_is_looked_at_before_schemas_are_entrusted_to_it(own_cluster: ottla.Cluster, own: str) -> None:
    own_cluster.create_topic("wide", partitions=2)
    with pytest.raises(ottla.ConfigError, match="the topic wide has 2 partitions"):
        ottla.Registry(own, topic="wide")
    own_cluster.create_topic("short-lived", partitions=1)
    with pytest.raises(ottla.ConfigError, match=r"cleanup\.policy=delete, by which schemas would be deleted"):
        ottla.Registry(own, topic="short-lived")


def test_a_schema_that_its_topic_cannot_hold_is_refused_alone(own: str) -> None:
    with ottla.Admin(own) as admin:
        admin.create_topics("small", configs={"cleanup.policy": "compact", "max.message.bytes": 20_000})
    with ottla.Registry(own, topic="small") as registry:
        ask = Asking(registry.url)
        large = record(*((f"field{number}", "int") for number in range(1000)))
        status, told = ask("POST", "/subjects/s/versions", {"schema": json.dumps(large)})
        assert (status, told["error_code"]) == (422, 42209)
        assert "small takes" in told["message"]
        ask.register("s", '"int"')


def test_a_registry_that_cannot_start_says_why(own_cluster: ottla.Cluster, own: str) -> None:
    with ottla.Registry(own) as registry:
        port = int(registry.url.rpartition(":")[2])
        with pytest.raises(ottla.UserMistake, match=f"port {port} on 127.0.0.1 is in use"):
            ottla.Registry(own, port=port)
    for settings, told in (
        ({"users": {"a:b": "c"}}, "may not have a colon"),
        ({"topic": ""}, "must be the name of a topic"),
        ({"linger_ms": 5}, "linger"),
        ({"request_timeout_ms": object()}, "request.timeout.ms"),
        ({"token": "a\n"}, "printable"),
        ({"listener": ottla.Listener(), "port": 5}, "leave out"),
    ):
        with pytest.raises(ottla.ConfigError, match=told):
            ottla.Registry(own, **settings)
    with pytest.raises(ottla.OttlaError, match=r"127\.0\.0\.1:1 "):
        ottla.Registry("127.0.0.1:1", start_timeout_s=0.5)


def test_a_client_goes_on_when_its_registry_is_back(own: str) -> None:
    registry = ottla.Registry(own)
    port = int(registry.url.rpartition(":")[2])
    with RegistryClient(registry.url, max_retries=0) as client:
        known = client.register("s", '"int"')
        registry.kill()
        # What is known is not asked for.
        assert client.by_id(known.id).text == '"int"'
        with pytest.raises(ottla.RegistryError, match="cannot be reached") as error:
            client.register("t", '"int"')
        assert error.value.retriable
        registry.close()
        with ottla.Registry(own, port=port):
            assert client.register("t", '"int"').id == known.id


def test_a_registry_may_run_in_the_program_itself(own: str) -> None:
    with ottla.Registry(own, in_process=True) as registry:
        assert registry.is_running
        assert registry.pid is None
        assert Asking(registry.url).register("s", '"int"') == 1
        with pytest.raises(ottla.ConfigError, match="in_process=True"):
            registry.kill()
        assert "running" in repr(registry)
    assert not registry.is_running
    registry.close()
    assert "closed" in repr(registry)
