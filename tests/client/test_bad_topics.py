"""What is no topic, through every way into a producer: a RecordError, nothing breaks, and what is right arrives."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from tests.read_back import stored

import ottla

from ..markers import await_markers

NO_TOPICS: list[Any] = [None, 5, b"t", ["t"], ""]
SENTENCE = "A topic is a non-empty str, not "


def first_partition(keys: ottla.KeyColumn, view: ottla.ClusterView) -> Any:
    return [0] * len(keys)


class Silent:
    """An interceptor that changes nothing."""

    def on_send(self, record: ottla.ProducerRecord) -> None: ...


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "serializer": {"value_serializer": bytes},
    "partitioner of one's own": {"partitioner_class": first_partition},
    "interceptor": {"interceptor_classes": [Silent()]},
}


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_it_may_be_the_first_thing_that_is_sent(
    kafka_cluster: ottla.Cluster, kafka_topic: str, topic: Any, settings: dict[str, Any]
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
        for value in (b"1", b"2"):
            with pytest.raises(ottla.RecordError, match=SENTENCE):
                producer.send(topic, b"x")
            producer.send(kafka_topic, value, partition=0)
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1", b"2"]


@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_an_interceptor_may_put_it_in_place_of_the_topic(
    kafka_cluster: ottla.Cluster, kafka_topic: str, topic: Any
) -> None:
    class Redirecting:
        def on_send(self, record: ottla.ProducerRecord) -> ottla.ProducerRecord:
            return record._replace(topic=topic) if record.value == b"x" else record

    with ottla.Producer(kafka_cluster.bootstrap_servers, interceptor_classes=[Redirecting()]) as producer:
        with pytest.raises(ottla.RecordError, match=SENTENCE):
            producer.send(kafka_topic, b"x")
        producer.send(kafka_topic, b"1")
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1"]


@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_a_transaction_goes_on_without_it(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, topic: Any
) -> None:
    with (
        ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_name) as producer,
        producer.transaction(),
    ):
        with pytest.raises(ottla.RecordError, match=SENTENCE):
            producer.send(topic, b"x")
        producer.send(kafka_topic, b"1")
    await_markers(kafka_cluster.bootstrap_servers, kafka_topic)
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1"]


@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_coroutines_are_told_too(kafka_cluster: ottla.Cluster, kafka_topic: str, topic: Any) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            with pytest.raises(ottla.RecordError, match=SENTENCE):
                await producer.send(topic, b"x")
            await producer.send(kafka_topic, b"1")

    asyncio.run(work())
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1"]


@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_it_has_no_partitions_and_takes_no_table(kafka_cluster: ottla.Cluster, kafka_topic: str, topic: Any) -> None:
    table = pa.table({"v": ["1"]})
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        with pytest.raises(ottla.RecordError, match=SENTENCE):
            producer.partitions_for(topic)
        with pytest.raises(ottla.RecordError, match=SENTENCE):
            producer.send_table(topic, table, value="v")
        assert producer.partitions_for(kafka_topic) == [0, 1, 2]
        producer.send_table(kafka_topic, table, value="v")
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1"]


@pytest.mark.parametrize("topic", NO_TOPICS, ids=repr)
def test_coroutines_find_no_partitions_of_it(kafka_cluster: ottla.Cluster, kafka_topic: str, topic: Any) -> None:
    table = pa.table({"v": ["1"]})

    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers) as producer:
            with pytest.raises(ottla.RecordError, match=SENTENCE):
                await producer.partitions_for(topic)
            with pytest.raises(ottla.RecordError, match=SENTENCE):
                await producer.send_table(topic, table, value="v")
            assert await producer.partitions_for(kafka_topic) == [0, 1, 2]
            await producer.send_table(kafka_topic, table, value="v")

    asyncio.run(work())
    assert stored(kafka_cluster, kafka_topic, isolation_level="read_committed") == [b"1"]
