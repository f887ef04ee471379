"""What programs for other clients ask for: the error says what ottla has instead, and nothing else is changed by it."""

from __future__ import annotations

import copy
import importlib
import logging
import pkgutil
import pydoc
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import ottla
from ottla.foreign_names import OF_ADMIN, OF_PACKAGE, OF_PRODUCER, OF_READER

NOWHERE = "localhost:9"
POLL = "nothing has to be polled here; leave the call out."
SENDS = "call send(topic, value, key, headers=, partition=, timestamp_ms=, on_delivery=)."
READS = "ottla has no consumer groups: ottla.Reader and ottla.read_table read the partitions they are given."
WITHOUT_SERVERS = "takes the brokers' addresses as its first argument"
PRODUCERS = [ottla.Producer, ottla.AsyncProducer]


def error_of(what: Callable[[], object], kind: type[Exception] = AttributeError) -> str:
    with pytest.raises(kind) as caught:
        what()
    assert type(caught.value) is kind
    return str(caught.value)


# ---- the package ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("KafkaProducer", "ottla.Producer sends records."),
        ("AIOKafkaProducer", "ottla.AsyncProducer sends records from coroutines."),
        ("Consumer", READS),
        ("KafkaConsumer", READS),
        ("AdminClient", "ottla.Admin creates, changes, deletes and describes topics."),
        ("TopicPartition", "a partition is the tuple (topic, partition) here."),
    ],
)
def test_a_class_of_another_client_is_answered_with_what_there_is_instead(name: str, instead: str) -> None:
    assert error_of(lambda: getattr(ottla, name)) == f"module 'ottla' has no attribute {name!r}; {instead}"
    assert not hasattr(ottla, name)
    assert error_of(lambda: exec(f"from ottla import {name}", {}), ImportError) == (
        f"cannot import name {name!r} from 'ottla'; {instead}"
    )


@pytest.mark.parametrize(
    ("name", "meant"), [("Producr", "Producer"), ("reader_", "Reader"), ("DeliveryEror", "DeliveryError")]
)
def test_a_misspelt_name_is_answered_with_the_one_that_is_like_it(name: str, meant: str) -> None:
    assert error_of(lambda: getattr(ottla, name)) == f"module 'ottla' has no attribute {name!r}; did you mean {meant}?"
    assert error_of(lambda: exec(f"from ottla import {name}", {}), ImportError) == (
        f"cannot import name {name!r} from 'ottla'; did you mean {meant}?"
    )


def test_a_module_whose_name_is_like_a_public_one_can_be_imported() -> None:
    names = [each.name for each in pkgutil.iter_modules(ottla.__path__)]
    assert {"clock", "cluster", "producer", "proxy", "reader"} <= {*names}
    script = "import sys\nfor name in sys.argv[1:]: exec(f'from ottla import {name}')"
    subprocess.run([sys.executable, "-c", script, "clock", "cluster", "producer", "proxy", "reader"], check=True)


def test_a_name_that_is_like_none_is_left_to_python() -> None:
    told = error_of(lambda: exec("from ottla import xyzzy", {}), ImportError)
    assert told.startswith("cannot import name 'xyzzy' from 'ottla' (")


def test_the_package_has_none_of_these_names() -> None:
    assert [name for name in OF_PACKAGE if name in ottla.__all__ or name in dir(ottla)] == []


def test_no_module_of_the_package_has_such_a_name() -> None:
    """Else `from ottla import name` would be an error where it imports a module."""
    for name in OF_PACKAGE:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"ottla.{name}")


# ---- producers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PRODUCERS)
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("produce", SENDS),
        ("poll", POLL),
        ("flush_all", "flush() waits for the outcome of all records."),
        (
            "send_and_wait",
            "send(...).result() waits until a record is stored (AsyncProducer: await (await send(...))).",
        ),
        (
            "list_topics",
            "ottla.Admin(...).list_topics() does it; partitions_for(topic) has the partitions of one topic.",
        ),
        ("purge", "records cannot be taken back; close(timeout=0) gives up those that have no outcome yet."),
        ("bootstrap_connected", "a producer connects when it has to; ottla.Admin(...).cluster() asks a broker."),
        ("start", "a producer works as soon as it is made; leave the call out."),
    ],
)
def test_a_method_of_another_producer_is_answered(kind: type[ottla.Producer], name: str, instead: str) -> None:
    producer = kind(NOWHERE)
    told = f"has no attribute {name!r}; {instead}"
    assert error_of(lambda: getattr(producer, name)) == f"'{kind.__name__}' object {told}"
    assert error_of(lambda: getattr(kind, name)) == f"type object '{kind.__name__}' {told}"
    assert not hasattr(producer, name)


def public_names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kafka", "KafkaProducer"),
        ("aiokafka", "AIOKafkaProducer"),
        ("confluent_kafka", "Producer"),
        ("confluent_kafka", "SerializingProducer"),
    ],
)
def test_every_method_of_the_other_producers_is_there_or_answered(module: str, name: str) -> None:
    theirs = public_names(getattr(pytest.importorskip(module), name))
    assert len(theirs) > 10
    assert theirs - public_names(ottla.Producer) - set(OF_PRODUCER) == set()


@pytest.mark.parametrize("kind", PRODUCERS)
def test_dir_lists_none_of_these_names(kind: type[ottla.Producer]) -> None:
    assert "send" in dir(kind)
    assert set(dir(kind)).isdisjoint(OF_PRODUCER)
    assert set(dir(kind(NOWHERE))).isdisjoint(OF_PRODUCER)


@pytest.mark.parametrize("kind", PRODUCERS)
def test_mocks_of_a_producer_have_none_of_these_names(kind: type[ottla.Producer]) -> None:
    for double in (mock.create_autospec(kind), mock.create_autospec(kind(NOWHERE)), mock.Mock(spec=kind)):
        assert callable(double.send)
        assert callable(double.flush)
        for name in OF_PRODUCER:
            assert not hasattr(double, name)
    with pytest.raises(AttributeError), mock.patch.object(kind, "poll"):
        pass


def test_a_producer_that_is_made_by_a_mock_is_called_as_the_real_one() -> None:
    double = mock.create_autospec(ottla.Producer)
    assert double(NOWHERE, linger_ms=5).send("flights", b"JFK") is not None
    with pytest.raises(TypeError):
        double()


def test_help_shows_how_a_producer_is_made_and_none_of_these_names() -> None:
    page = pydoc.plain(pydoc.render_doc(ottla.Producer))
    assert " send(" in page
    assert "send_and_wait" not in page


def test_a_subclass_may_have_what_producers_do_not() -> None:
    class Polled(ottla.Producer):
        def poll(self, timeout: float) -> int:
            return 7

        def __getattr__(self, name: str) -> str:
            return f"its own {name}"

    producer: Any = Polled(NOWHERE)
    assert producer.poll(0) == 7
    assert "poll" in dir(producer)
    assert "poll" in dir(Polled)
    assert producer.purge == "its own purge"
    producer.produce = producer.send
    assert producer.produce == producer.send


def test_a_producer_is_still_neither_copied_nor_sent_elsewhere() -> None:
    producer = ottla.Producer(NOWHERE)
    assert error_of(lambda: copy.copy(producer), TypeError).startswith("this Producer cannot be pickled or copied")


@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_whole_configuration_as_keywords_is_told_where_it_goes(kind: type[ottla.Producer]) -> None:
    config: dict[str, Any] = {"bootstrap.servers": NOWHERE, "linger.ms": 5}
    name = kind.__name__
    assert error_of(lambda: kind(**config), ottla.ConfigError) == (
        f"{name} {WITHOUT_SERVERS}; settings in a dict go to {name}.from_config(config)."
    )
    assert kind.from_config(config) is not None


def test_no_servers_at_all_is_a_type_error_as_ever() -> None:
    make: Any = ottla.Producer
    assert "missing 1 required positional argument: 'bootstrap_servers'" in error_of(make, TypeError)


# ---- readers and admins -----------------------------------------------------------------------------------------


def test_methods_of_other_consumers_and_admin_clients_are_answered() -> None:
    reader, admin = ottla.Reader(NOWHERE, "flights"), ottla.Admin(NOWHERE)
    assert error_of(lambda: reader.poll) == (  # type: ignore[attr-defined]
        "'Reader' object has no attribute 'poll'; iterate over the Reader: for batch in reader."
    )
    assert error_of(lambda: reader.subscribe) == (  # type: ignore[attr-defined]
        "'Reader' object has no attribute 'subscribe'; give topic= or assignments={(topic, partition): (start, end)} "
        "to ottla.Reader."
    )
    assert error_of(lambda: admin.describe_topics) == (  # type: ignore[attr-defined]
        "'Admin' object has no attribute 'describe_topics'; describe(topic) describes one topic."
    )
    assert error_of(lambda: admin.zzz) == "'Admin' object has no attribute 'zzz'"  # type: ignore[attr-defined]
    assert [name for name in OF_READER if hasattr(reader, name)] == []
    assert [name for name in OF_ADMIN if hasattr(admin, name)] == []


@pytest.mark.parametrize("kind", [ottla.Reader, ottla.Admin])
def test_a_whole_configuration_of_a_reader_or_an_admin_is_told_how_it_is_given(kind: type[ottla.Admin]) -> None:
    config: dict[str, Any] = {"bootstrap.servers": NOWHERE, "client.id": "billing"}
    name = kind.__name__
    assert error_of(lambda: kind(**config), ottla.ConfigError) == (
        f"{name} {WITHOUT_SERVERS}: {name}(config.pop('bootstrap.servers'), **config)."
    )
    assert kind(config.pop("bootstrap.servers"), **config, **({"topic": "t"} if kind is ottla.Reader else {}))


# ---- deliveries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("get", "result(timeout=seconds) waits until the record is stored."),
        ("add_callback", "add_done_callback(function) calls function(delivery) when the outcome is known."),
        ("add_errback", "add_done_callback(function) calls function(delivery) when the outcome is known."),
        ("offset", "result().offset is it, once the record is stored."),
    ],
)
def test_what_futures_of_other_clients_have_is_answered(
    kafka_cluster: ottla.Cluster, kafka_topic: str, name: str, instead: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        delivery = producer.send(kafka_topic, b"JFK")
    assert error_of(lambda: getattr(delivery, name)) == f"'Delivery' object has no attribute {name!r}; {instead}"
    assert not hasattr(delivery, name)


def test_a_callback_of_another_client_is_told_how_it_is_called(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def acked(error: object, message: object) -> None:
        """As confluent-kafka calls it."""

    def failing(delivery: ottla.Delivery) -> None:
        raise TypeError("of its own")

    callbacks: list[Any] = [acked, failing]
    with caplog.at_level(logging.ERROR, "ottla.producer"), ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for callback in callbacks:
            producer.send(kafka_topic, b"JFK", on_delivery=callback).result(30)
    of_two, of_one = (record.getMessage() for record in caplog.records)
    raised = "raised; the delivery itself is not affected."
    assert of_two == (
        f"The delivery callback {acked!r} {raised} It is called with one argument, the Delivery: its exception() is "
        "the error, or None."
    )
    assert of_one == f"The delivery callback {failing!r} {raised}"
