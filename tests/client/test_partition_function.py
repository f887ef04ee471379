"""A partitioner of the user's own: what it is given, what it may return, and who is told when it goes wrong."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ottla
from ottla.records.plain import partition_for_key

COUNT = 5


@pytest.fixture
def topic(kafka_cluster: ottla.Cluster, kafka_name: str) -> str:
    kafka_cluster.create_topic(kafka_name, partitions=COUNT)
    return kafka_name


def by_length(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
    return pc.bit_wise_and(pc.binary_length(pa.array(keys)), 3)


def listed(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
    return [None if key is None else len(key) & 3 for key in keys]


def as_numpy(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
    return np.array([len(key or b"") & 3 for key in keys], dtype=np.uint16)


def as_strided_numpy(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
    return np.repeat(np.array([len(key or b"") & 3 for key in keys], dtype=">i4").astype("i4"), 2)[::2]


def as_array(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
    return array("b", [len(key or b"") & 3 for key in keys])


KEYS = [b"x" * (n % 11) for n in range(200)]


@pytest.mark.parametrize("function", [by_length, listed, as_numpy, as_strided_numpy, as_array])
def test_it_places_single_records_and_whole_columns_alike(
    kafka_cluster: ottla.Cluster, topic: str, function: Any
) -> None:
    table = pa.table({"k": pa.array(KEYS, pa.binary()), "v": ["v"] * len(KEYS)})
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=function) as producer:
        sent = [producer.send(topic, b"v", key).partition for key in KEYS]
        rows = producer.send_table(topic, table, key="k", value="v")
    expected = [len(key) & 3 for key in KEYS]
    assert sent == expected
    assert rows.result(0)["partition"].to_pylist() == expected


def test_it_is_given_keys_and_the_cluster(kafka_cluster: ottla.Cluster, topic: str) -> None:
    seen = []

    def note(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        seen.append((list(keys), pa.array(keys), cluster))
        return [0] * len(keys)

    table = pa.table({"k": ["a", None, "", "größe"], "v": ["v"] * 4})
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=note) as producer:
        producer.send(topic, b"v")
        producer.send(topic, b"v", "größe")
        producer.send_table(topic, table, key="k", value="v")
        producer.send_table(topic, table, value="v")
    expected = [[None], ["größe".encode()], [b"a", None, b"", "größe".encode()], [None] * 4]
    assert [keys for keys, _, _ in seen] == expected
    assert [column.to_pylist() for _, column, _ in seen] == expected
    assert {column.type for _, column, _ in seen} == {pa.binary()}
    view = seen[0][2]
    assert (view.topic, view.partition_count, view.available) == (topic, COUNT, tuple(range(COUNT)))
    assert all(leader is not None for leader in view.leaders)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["a", None, "ccc", "a"]).dictionary_encode(),
        pa.chunked_array([["a"], [None, "ccc"], ["a"]]),
        pa.array(["a", None, "ccc", "a"], pa.large_string()),
        pa.array(["a", None, "ccc", "a"], pa.string_view()),
        pa.array(["x", "a", None, "ccc", "a"]).slice(1),
    ],
)
def test_columns_of_every_type_become_one_of_binary(kafka_cluster: ottla.Cluster, topic: str, keys: Any) -> None:
    seen: list[Any] = []

    def note(given: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        seen.extend(pa.array(given).to_pylist())
        return [given[i] and len(given[i] or b"") for i in range(len(given))]

    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=note) as producer:
        rows = producer.send_table(topic, pa.table({"k": keys, "v": ["v"] * 4}), key="k", value="v")
    assert seen == [b"a", None, b"ccc", b"a"]
    placed = rows.result(0)["partition"].to_pylist()
    assert [placed[0], placed[2], placed[3]] == [1, 3, 1]


def test_a_null_leaves_the_row_to_the_default_partitioner(kafka_cluster: ottla.Cluster, topic: str) -> None:
    def only_long_ones(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        lengths = pc.binary_length(pa.array(keys))
        return pc.if_else(pc.greater(lengths, 5), pa.scalar(4, pa.int32()), pa.scalar(None, pa.int32()))

    table = pa.table({"k": pa.array(KEYS, pa.binary()), "v": ["v"] * len(KEYS)})
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=only_long_ones) as producer:
        sent = [producer.send(topic, b"v", key).partition for key in KEYS]
        rows = producer.send_table(topic, table, key="k", value="v")
    expected = [4 if len(key) > 5 else partition_for_key(key, COUNT) for key in KEYS]
    assert sent == expected
    assert rows.result(0)["partition"].to_pylist() == expected


def test_explicit_partitions_win(kafka_cluster: ottla.Cluster, topic: str) -> None:
    asked = []

    def zero(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        asked.append(len(keys))
        return [0] * len(keys)

    table = pa.table({"v": ["v"] * 3, "p": [2, None, 3]})
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=zero) as producer:
        assert producer.send(topic, b"v", partition=3).partition == 3
        assert asked == []
        rows = producer.send_table(topic, table, value="v", partition="p")
    assert rows.result(0)["partition"].to_pylist() == [2, 0, 3]


def test_large_tables_are_placed_a_million_rows_at_a_time_and_asked_once_for_each(
    kafka_cluster: ottla.Cluster, topic: str
) -> None:
    asked = []

    def count_up(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        asked.append(len(keys))
        return pc.binary_length(pa.array(keys))

    keys = ["k" * (n % COUNT) for n in range(COUNT)] * 240_000
    # More than one step of the encoder, which ends one after 16 MiB, for each million keys.
    table = pa.table({"k": keys, "v": ["v" * 20] * len(keys)})
    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=count_up) as producer:
        rows = producer.send_table(topic, table, key="k", value="v")
    assert asked == [1 << 20, len(keys) - (1 << 20)]
    assert rows.result(0)["partition"].to_pylist() == [len(key) for key in keys]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([7], r"chose partition 7"),
        ([-1], r"chose partition -1"),
        (pa.array([COUNT], pa.uint64()), r"chose partition 5"),
        (pa.array([2**64 - 1], pa.uint64()), r"chose partition 18446744073709551615"),
        ([0, 1], "returned 2 partitions for 1 keys"),
        (pa.array([], pa.int32()), "returned 0 partitions for 1 keys"),
        (pa.array([1.0]), "returned Arrow data of type double.*has to return a column of whole numbers"),
        (pa.array(["0"]).dictionary_encode(), "returned Arrow data of type dictionary"),
        (np.array([0.5]), "a buffer of 1 dimensions and format 'd'"),
        (np.array([[1]]), "a buffer of 2 dimensions"),
        (np.array([1], dtype=">i4"), "format '>i'"),
        (["0"], r"returned list: \['0'\]"),
        ([1 << 70], "returned list"),
        (0, "returned int: 0"),
        (None, "returned NoneType"),
    ],
)
def test_what_is_no_column_of_partitions_is_refused_and_the_rest_arrives(
    kafka_cluster: ottla.Cluster, topic: str, returned: Any, words: str
) -> None:
    def broken(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        return returned if keys[0] == b"bad" else [1]

    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=broken) as producer:
        with pytest.raises(ottla.RecordError, match=rf"partitioner\.class .*broken .*{words}"):
            producer.send(topic, b"v", b"bad")
        with pytest.raises(ottla.RecordError, match=rf"partitioner\.class .*broken .*{words}"):
            producer.send_table(topic, pa.table({"k": ["bad"], "v": ["v"]}), key="k", value="v")
        assert producer.send(topic, b"v", b"good").result(30).offset == 0


def test_what_it_raises_is_said_with_its_name(kafka_cluster: ottla.Cluster, topic: str) -> None:
    def broken(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        raise KeyError("no such customer")

    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=broken) as producer:
        with pytest.raises(
            ottla.RecordError, match=r"partitioner\.class .*broken raised KeyError for 1 keys"
        ) as raised:
            producer.send(topic, b"v", b"k")
        assert isinstance(raised.value.__cause__, KeyError)
        with pytest.raises(ottla.RecordError, match="no such customer"):
            producer.send_table(topic, pa.table({"v": ["v"]}), value="v")
        with pytest.raises(ottla.RecordError, match="topic is a non-empty str"):
            producer.send(["flights"], b"v")  # type: ignore[arg-type]
        with pytest.raises(ottla.KafkaError):
            producer.send("no topic's name", b"v")


def test_objects_may_place_too_and_classes_may_not(kafka_cluster: ottla.Cluster, topic: str) -> None:
    class Always:
        def __init__(self, partition: int = 2) -> None:
            self.partition = partition

        def __call__(self, keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
            return [self.partition] * len(keys)

    with ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=Always(4)) as producer:
        assert producer.send(topic, b"v").partition == 4
    with pytest.raises(ottla.ConfigError, match="is a class; give a function"):
        ottla.Producer(kafka_cluster.bootstrap_servers, partitioner_class=Always)


def test_a_partitioner_that_is_async_is_refused() -> None:
    async def awaited_by_nobody(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        return [0]

    with pytest.raises(ottla.ConfigError, match=r"partitioner\.class is an async function, which nobody would await"):
        ottla.Producer("127.0.0.1:9", partitioner_class=awaited_by_nobody)


def test_coroutines_are_placed_alike(kafka_cluster: ottla.Cluster, topic: str) -> None:
    async def send() -> list[int]:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, partitioner_class=listed) as producer:
            return [(await producer.send(topic, b"v", key)).partition for key in KEYS]

    assert asyncio.run(send()) == [len(key) & 3 for key in KEYS]


def test_it_hears_of_new_partitions(kafka_cluster: ottla.Cluster, topic: str) -> None:
    def last(keys: ottla.KeyColumn, cluster: ottla.ClusterView) -> Any:
        return [cluster.partition_count - 1] * len(keys)

    with ottla.Producer(
        kafka_cluster.bootstrap_servers, partitioner_class=last, metadata_max_age_ms=100, linger_ms=0
    ) as producer:
        assert producer.send(topic, b"v").partition == COUNT - 1
        with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
            admin.create_partitions(topic, COUNT + 2)
        assert any(partition == COUNT + 1 for partition in placed_until(producer, topic))


def placed_until(producer: ottla.Producer, topic: str) -> Iterator[int]:
    for _ in range(10_000):
        delivery = producer.send(topic, b"v")
        delivery.result(30)
        yield delivery.partition
