"""A `send` that a subclass overrides, or that a test patches, is called in place of the compiled one."""

from __future__ import annotations

import abc
import asyncio
import inspect
from typing import Any
from unittest import mock

import pytest

import ottla


class Upper(ottla.Producer):
    """Calls what it overrides."""

    def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> ottla.Delivery:
        return super().send(topic, {"told": value["told"].upper()}, key, **more)

    def send_table(self, topic: str, data: Any, **columns: Any) -> Any:
        raise LookupError("mine")


class AsyncUpper(ottla.AsyncProducer):
    """The same, awaited."""

    async def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> ottla.Delivery:
        return await super().send(topic, value.upper(), key, **more)


class Mixed(ottla.Producer, abc.ABC):
    """A subclass with a metaclass."""


def values(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    return sorted(ottla.read_table(cluster.bootstrap_servers, topic).column("value").to_pylist())


def test_a_subclass_overrides_send_and_calls_what_it_overrides(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """With the serializer, which stands before the appender."""
    with Upper(kafka_cluster.bootstrap_servers, value_serializer="json") as producer:
        producer.send(kafka_topic, {"told": "x"})
        with pytest.raises(LookupError):
            producer.send_table(kafka_topic, None)
    assert values(kafka_cluster, kafka_topic) == [b'{"told":"X"}']


def test_a_subclass_overrides_the_send_of_coroutines(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def send() -> None:
        async with AsyncUpper(kafka_cluster.bootstrap_servers) as producer:
            await producer.send(kafka_topic, "x")

    asyncio.run(send())
    assert values(kafka_cluster, kafka_topic) == [b"X"]


@pytest.mark.parametrize("patched", [ottla.Producer, Mixed], ids=["the class", "a subclass"])
def test_a_patched_send_is_called_of_producers_made_before_and_after(
    kafka_cluster: ottla.Cluster, kafka_topic: str, patched: type[ottla.Producer]
) -> None:
    with Mixed(kafka_cluster.bootstrap_servers) as before:
        with (
            mock.patch.object(patched, "send") as send,
            mock.patch.object(patched, "send_table") as send_table,
            Mixed(kafka_cluster.bootstrap_servers) as after,
        ):
            for producer in (before, after):
                producer.send(kafka_topic, b"not sent")
                producer.send_table(kafka_topic, b"not sent")
        assert send.mock_calls == [mock.call(kafka_topic, b"not sent")] * 2
        assert send_table.mock_calls == [mock.call(kafka_topic, b"not sent")] * 2
        # And afterwards it is again as it was.
        before.send(kafka_topic, b"sent")
        assert before.send is before.send
    assert values(kafka_cluster, kafka_topic) == [b"sent"]


def test_a_patch_that_keeps_to_the_signature_is_given_the_producer(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with (
        ottla.Producer(kafka_cluster.bootstrap_servers) as producer,
        mock.patch.object(ottla.Producer, "send", autospec=True) as send,
    ):
        producer.send(kafka_topic, value=b"not sent")
        with pytest.raises(TypeError):
            producer.send(kafka_topic, valeu=b"not sent")  # type: ignore[call-arg]
    send.assert_called_once_with(producer, kafka_topic, value=b"not sent")


def test_a_patched_send_of_coroutines_is_called(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def send() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            with mock.patch.object(ottla.AsyncProducer, "send") as patched:
                await producer.send(kafka_topic, b"not sent")
            await producer.send(kafka_topic, b"sent")
        patched.assert_awaited_once_with(kafka_topic, b"not sent")

    asyncio.run(send())
    assert values(kafka_cluster, kafka_topic) == [b"sent"]


def test_a_send_that_nobody_has_overridden_is_the_compiled_one(kafka_cluster: ottla.Cluster) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer, Mixed(kafka_cluster.bootstrap_servers) as mixed:
        for each in (producer, mixed):
            assert not inspect.ismethod(each.send) or not inspect.isfunction(each.send.__func__)
        assert inspect.isfunction(ottla.Producer.send)
