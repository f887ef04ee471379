"""The client of a registry against ours and Apicurio's: what it asks, what it keeps, how it tells what goes wrong."""

from __future__ import annotations

import gc
import json
import multiprocessing
import pickle
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from tests.registries import EitherRegistry

import ottla
from ottla.registry.client import RegistryClient
from ottla.registry.registered import SchemaReference
from ottla.registry.subjects import read_strategy

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


@pytest.fixture
def client(either_registry: EitherRegistry) -> Iterator[RegistryClient]:
    with RegistryClient(either_registry.url) as client:
        yield client


def test_a_schema_is_registered_and_found(
    client: RegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    registered = client.register(kafka_name, RECORD)
    # Apicurio Registry tells no more than the id of what it takes, and knows no GUIDs.
    version = None if either_registry.is_apicurio else 1
    assert (registered.subject, registered.version, registered.kind) == (kafka_name, version, "AVRO")
    assert bool(registered.guid) is not either_registry.is_apicurio
    again = pickle.loads(pickle.dumps(client))
    by_guid = [again.by_guid(registered.guid)] if registered.guid else []
    for found in (again.by_id(registered.id), *by_guid, again.version(kafka_name)):
        assert json.loads(found.text) == json.loads(RECORD)
        assert found.guid == registered.guid
    assert again.look_up(kafka_name, RECORD).version == 1
    assert kafka_name in client.subjects()
    assert client.subjects(kafka_name) == [kafka_name]
    assert client.versions(kafka_name) == [1]
    assert client.for_writing(kafka_name, RECORD, auto_register_schemas=False).id == registered.id
    assert client.for_writing(kafka_name, '"int"', use_latest_version=True).id == registered.id


def test_what_a_schema_refers_to_comes_with_it(client: RegistryClient, kafka_name: str) -> None:
    inner = client.register(f"{kafka_name}-inner", '{"type":"fixed","name":"Inner","size":4}')
    middle = client.register(
        f"{kafka_name}-middle",
        '{"type":"record","name":"Middle","fields":[{"name":"i","type":"Inner"}]}',
        references=[SchemaReference("Inner", f"{kafka_name}-inner", 1)],
    )
    outer = client.register(
        f"{kafka_name}-outer",
        '{"type":"array","items":"Middle"}',
        references=[SchemaReference("Middle", f"{kafka_name}-middle", 1)],
    )
    assert list(client.referred(client.by_id(outer.id)).items()) == [("Inner", inner.text), ("Middle", middle.text)]


def test_an_incompatible_schema_is_told_by_its_fields(
    client: RegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    client.register(kafka_name, RECORD)
    other = RECORD.replace('"int"', '"string"')
    # Apicurio Registry compares what it is told to compare.
    client.set_compatibility("BACKWARD", kafka_name)
    told = "/a: string cannot read what was written as int"
    if either_registry.is_apicurio:
        told = "reader type: STRING not compatible with writer type: INT at /fields/0/type"
    assert told in client.differences(kafka_name, other)[0]
    with pytest.raises(ottla.RegistryError, match=told) as refused:
        client.register(kafka_name, other)
    assert (refused.value.code, refused.value.status, refused.value.abortable) == (409, 409, True)
    client.set_compatibility("NONE", kafka_name)
    assert client.compatibility(kafka_name) == "NONE"
    assert client.differences(kafka_name, other) == []
    client.register(kafka_name, other)
    assert client.version(kafka_name).version == 2


def test_what_is_not_there_says_so(client: RegistryClient, either_registry: EitherRegistry, kafka_name: str) -> None:
    # Apicurio Registry knows no such path.
    no_guid = 0 if either_registry.is_apicurio else 40403
    for asked, code in (
        (lambda: client.by_id(123_456), 40403),
        (lambda: client.by_guid("3f3a5c2e-0000-0000-0000-000000000000"), no_guid),
        (lambda: client.version(kafka_name), 40401),
        (lambda: client.look_up(kafka_name, RECORD), 40401),
        (lambda: client.register(kafka_name, "nothing"), 42201),
    ):
        with pytest.raises(ottla.RegistryError) as refused:
            asked()
        assert refused.value.code == code
        again = pickle.loads(pickle.dumps(refused.value))
        assert (str(again), again.code, again.retriable) == (str(refused.value), code, False)
    # A refusal is not remembered.
    client.register(kafka_name, RECORD)
    assert client.look_up(kafka_name, RECORD).version == 1


def test_what_is_deleted_is_not_remembered_by_its_subject(client: RegistryClient, kafka_name: str) -> None:
    schema_id = client.register(kafka_name, RECORD.replace('"R"', f'"{kafka_name.replace("-", "_")}"')).id
    client.version(kafka_name)
    assert client.delete_subject(kafka_name) == [1]
    with pytest.raises(ottla.RegistryError) as refused:
        client.version(kafka_name)
    assert refused.value.code == 40401
    assert client.by_id(schema_id).id == schema_id


def test_a_version_that_is_gone_for_good_is_asked_for_anew(client: RegistryClient, kafka_name: str) -> None:
    client.register(kafka_name, '"int"')
    assert client.version(kafka_name, 1).text == '"int"'
    client.delete_subject(kafka_name)
    client.delete_subject(kafka_name, permanent=True)
    with pytest.raises(ottla.RegistryError) as refused:
        client.version(kafka_name, 1)
    assert refused.value.code == 40401
    client.register(kafka_name, '"string"')
    assert client.version(kafka_name, 1).text == '"string"'


def test_what_a_client_has_registered_is_its_latest_version(client: RegistryClient, kafka_name: str) -> None:
    client.register(kafka_name, '"int"')
    assert client.version(kafka_name).version == 1
    client.register(kafka_name, '"long"')
    assert client.version(kafka_name).version == 2


def test_what_a_deleted_schema_refers_to_is_found_for_its_records(
    client: RegistryClient, either_registry: EitherRegistry, kafka_name: str
) -> None:
    inner = f"{kafka_name}-inner"
    client.register(inner, '{"type":"fixed","name":"Deleted","size":4}')
    outer = client.register(
        kafka_name, '{"type":"array","items":"Deleted"}', references=[SchemaReference("Deleted", inner, 1)]
    )
    client.delete_subject(kafka_name)
    if either_registry.is_apicurio:
        # What a deleted schema refers to stays until that is deleted for good.
        with pytest.raises(ottla.RegistryError) as refused:
            client.delete_subject(inner)
        assert refused.value.code == 42206
    else:
        client.delete_subject(inner)
    again = pickle.loads(pickle.dumps(client))
    assert list(again.referred(again.by_id(outer.id))) == ["Deleted"]


def _ask_in_child(client: RegistryClient, schema_id: int) -> None:
    raise SystemExit(client.by_id(schema_id).id - schema_id)


def test_a_child_waits_for_no_thread_of_its_parent(either_registry: EitherRegistry, kafka_name: str) -> None:
    with RegistryClient(either_registry.url) as client:
        schema_id = client.register(kafka_name, RECORD).id
    client = RegistryClient(either_registry.url)
    asked, forked = threading.Event(), threading.Event()

    def hold() -> Any:
        asked.set()
        forked.wait(30)
        return RegistryClient(either_registry.url).by_id(schema_id)

    thread = threading.Thread(target=lambda: client._schemas.get(("id", schema_id), hold))
    thread.start()
    assert asked.wait(30)
    # As if other threads were at their caches and connections at this moment.
    with client._schemas._lock, client._transport._lock:
        child = multiprocessing.get_context("fork").Process(target=_ask_in_child, args=(client, schema_id))
        child.start()
    child.join(30)
    told = child.exitcode
    child.kill()
    forked.set()
    thread.join()
    assert told == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda client: client.register(5, RECORD), "subject=5 must be text."),
        (lambda client: client.versions("\ud800"), "has half a character"),
        (lambda client: client.subjects("\ud800"), "subjectPrefix='\\ud800' has half a character"),
        (lambda client: client.by_guid(None), "guid=None must be text."),
        (lambda client: client.by_id(1 << 31), "an id is a number from 0 to 2147483647, not 2147483648"),
        (lambda client: client.by_id("1"), "not '1'"),
        (lambda client: client.register("s", {"type": "int"}), "a schema is given as text, not as dict."),
        (lambda client: client.register("s", RECORD, references=[{"name": "a"}]), "references= takes"),
        (lambda client: client.register("s", RECORD, references=5), "references= takes ottla.SchemaReference, not 5"),
        (
            lambda client: client.register("s", RECORD, references=[ottla.SchemaReference("a", [], "1")]),  # type: ignore[arg-type]
            "SchemaReference('a', [], '1') is none: the name and the subject are texts, the version is a number.",
        ),
        (lambda client: client.differences("s", RECORD, references=["x"]), "references= takes"),
        (lambda client: client.differences("s", {"type": "int"}), "a schema is given as text, not as dict."),
        (lambda client: client.differences("s", RECORD, "avro"), "kind='avro' must be one of AVRO, JSON, PROTOBUF"),
        (lambda client: client.differences("s", RECORD, version=[1]), "version=[1] must be a number, or 'latest'."),
        (lambda client: client.version("s", [1]), "version=[1] must be a number, or 'latest'."),
        (lambda client: client.version("s", True), "version=True must be a number, or 'latest'."),
        (lambda client: client.delete_version("s", None), "version=None must be a number, or 'latest'."),
        (lambda client: client.set_compatibility(object()), "must be text, such as 'BACKWARD'."),
        (lambda client: client.set_compatibility(None), "level=None must be text, such as 'BACKWARD'."),
    ],
)
def test_what_cannot_be_asked_is_told_before_it_is_sent(asked: Any, told: str) -> None:
    with pytest.raises(ottla.ConfigError) as refused:
        asked(RegistryClient("http://127.0.0.1:1"))
    assert told in str(refused.value)


def test_many_threads_share_a_client(client: RegistryClient, either_registry: EitherRegistry, kafka_name: str) -> None:
    found: list[int] = []
    refused: list[ottla.RegistryError] = []
    texts = [RECORD.replace('"R"', f'"R{number % 5}"') for number in range(40)]
    # Apicurio Registry has no settings for a subject that is not there.
    client.register(kafka_name, texts[0])
    client.set_compatibility("NONE", kafka_name)

    def register(text: str) -> None:
        try:
            found.append(client.register(kafka_name, text).id)
        except ottla.RegistryError as error:
            refused.append(error)

    threads = [threading.Thread(target=register, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) + len(refused) == 40
    # Of several that register a version at once, Apicurio Registry may refuse all but one.
    assert not refused or (either_registry.is_apicurio and {error.status for error in refused} == {409})
    found.extend(client.register(kafka_name, text).id for text in texts)
    assert len({*found}) == len(client.versions(kafka_name)) == 5


def test_clients_that_register_the_same_schema_at_once_get_one_id(
    either_registry: EitherRegistry, kafka_name: str
) -> None:
    found: list[int] = []
    for number in range(3):
        text = RECORD.replace('"R"', f'"Once{number}"')
        ready = threading.Barrier(8)

        def register(subject: str, text: str = text, ready: threading.Barrier = ready) -> None:
            with RegistryClient(either_registry.url) as client:
                client.subjects()
                ready.wait(60)
                found.append(client.register(subject, text).id)

        threads = [threading.Thread(target=register, args=(f"{kafka_name}-{number}",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 24
    assert len({*found}) == 3


def test_a_registry_with_passwords_lets_in_who_knows_them() -> None:
    with ottla.Cluster(brokers=1) as cluster:
        own = ottla.Registry(cluster.bootstrap_servers, users={"ann": "s3:cret"}, token="t0ken")
        with own:
            for settings in ({"basic_auth_user_info": "ann:s3:cret"}, {"bearer.auth.token": "t0ken"}):
                assert RegistryClient(own.url, settings).subjects() == []
            in_url = own.url.replace("://", "://ann:s3%3Acret@")
            assert RegistryClient(in_url).subjects() == []
            assert "s3" not in repr(RegistryClient(in_url))
            for settings in ({}, {"basic_auth_user_info": "ann:other"}, {"bearer.auth.token": "other"}):
                with pytest.raises(ottla.RegistryError, match=r"check basic\.auth\.user\.info") as refused:
                    RegistryClient(own.url, settings).subjects()
                assert (refused.value.status, refused.value.fatal) == (401, True)
                assert "other" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "settings", "told"),
    [
        ("", {}, "no address"),
        ("127.0.0.1:8081", {}, "not http://HOST:PORT"),
        ("ftp://a", {}, "not http://HOST:PORT"),
        ("http://a:x", {}, "a port that is no number"),
        ("http://a?b", {}, "not http://HOST:PORT"),
        ("http://joe:secret,x@a:1", {}, "'http://joe:...' has a port that is no number, or is no address; give an"),
        ("http://joe:secret,x@a:1", {}, "a comma in a password is written %2C"),
        ("http://joe:secret", {}, "'http://joe:...' has a port"),
        ("joe:secret", {}, "'joe:...' is not http://HOST:PORT"),
        ("http://joe:secret@a:x", {}, "'a:...' has a port"),
        ("http://a/é", {}, "a path with characters that URLs write as %20 and the like"),
        ("http://a/b c", {}, "a path with characters"),
        ("http://a:1/\udc80", {}, "a path with characters"),
        ("http://n:\udc80@a:1", {}, "a name or a password that is no Unicode text"),
        (f"http://n:secret@{'a' * 64}.example:1", {}, "aaaa' has no host name: its parts have 1 to 63 letters"),
        (f"http://{'é' * 63}:1", {}, "has no host name"),
        ("http://a..b", {}, "'http://a..b' has no host name"),
        ("http://\udc80", {}, "has no host name"),
        ("http://a\0b", {}, "has no host name"),
        ("http://a", {"request_timeout_ms": 0}, "request.timeout.ms=0 is out of range"),
        ("http://a", {"cache_capacity": "many"}, "cache.capacity='many' is not a whole number"),
        (5, {}, "the address of the registry comes first"),
        ({"url": "http://a"}, {}, "the address of the registry comes first"),
        ("http://a", {"basic.auth.credentials.source": "URL"}, "is not needed"),
        ("http://a", {"timeout": 5}, "is request.timeout.ms here"),
        ("http://a", {"auto_register_schemas": True}, "is a setting of serializers"),
        ("http://a", {"colour": 1}, 'the page "Schema registry" of the documentation lists'),
        ("http://a", {"max_retrys": 1}, "did you mean max_retries"),
        ("http://a", {"ssl_truststore_location": "/a"}, "all addresses are http://"),
        ("https://a", {"ssl_truststore_location": "/nowhere"}, "cannot be read"),
        ("http://a", {"basic_auth_user_info": "a:b", "bearer_auth_token": "c"}, "exclude each other"),
        ("http://a", {"basic_auth_user_info": "secret"}, "basic.auth.user.info must be NAME:PASSWORD"),
        ("http://a", {"bearer_auth_token": "a\r\nb"}, "without a line's end"),
    ],
)
def test_settings_that_cannot_be_used_are_told(url: Any, settings: dict[str, object], told: str) -> None:
    with pytest.raises(ottla.ConfigError) as refused:
        RegistryClient(url, settings)
    assert told in str(refused.value)
    assert not isinstance(url, str) or "secret" not in str(refused.value)


def test_subjects_are_named_by_topic_by_record_or_by_both() -> None:
    assert read_strategy("topic")("t", "value", None) == "t-value"
    assert read_strategy("record")("t", "value", "a.R") == "a.R"
    assert read_strategy("topic_record")("t", "key", "a.R") == "t-a.R"
    java = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    assert read_strategy(java)("t", "key", "R") == "t-R"
    assert read_strategy(lambda topic, part, name: f"{topic}/{part}")("t", "key", None) == "t/key"
    with pytest.raises(ottla.ConfigError, match="needs a schema with a name"):
        read_strategy("record")("t", "value", None)
    with pytest.raises(ottla.ConfigError, match="allowed are topic, record, topic_record"):
        read_strategy("subject")


def test_who_registers_a_version_knows_the_latest_one(client: RegistryClient, kafka_name: str) -> None:
    client.register(kafka_name, RECORD)
    assert client.version(kafka_name).version == 1
    later = json.loads(RECORD)
    later["fields"].append({"name": "b", "type": ["null", "int"], "default": None})
    client.register(kafka_name, json.dumps(later))
    assert client.version(kafka_name).version == 2


def test_a_client_that_is_dropped_leaves_no_connection_open(either_registry: EitherRegistry) -> None:
    # What tests before it have dropped: clients of confluent_kafka leave connections open.
    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        RegistryClient(either_registry.url).subjects()
        gc.collect()
    assert not [str(each.message) for each in seen]


def test_where_no_registry_listens_the_error_is_one_that_can_be_caught() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(ottla.RegistryError, match=r"cannot be reached \(connection refused\)") as caught:
            RegistryClient(f"http://127.0.0.1:{silent.getsockname()[1]}", max_retries=0).subjects()
    assert caught.type is ottla.RegistryError


@pytest.mark.parametrize("url", ["localhost:8081", "me:secret@localhost:8081", "ftp://me:secret@localhost:8081"])
def test_an_address_that_is_none_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ottla.ConfigError, match=r"localhost:8081.*http://localhost:8081") as caught:
        RegistryClient(url)
    assert "secret" not in str(caught.value)
