"""Settings that show only in where records go and how many bytes they take: `send` and `send_table` heed them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla.records.batch_header import iterate_headers

# Two keys in turn, for three partitions: round robin cannot look like a hash.
KEYS = [b"%d" % (n % 2) for n in range(300)]
IGNORING: list[dict[str, Any]] = [{"partitioner_class": "uniform_sticky"}, {"partitioner_ignore_keys": True}]


def places_of_keys(cluster: ottla.Cluster, topic: str, by: str, settings: dict[str, Any]) -> list[int]:
    """The partition of each record."""
    with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
        if by == "send":
            return [producer.send(topic, b"v", key).partition for key in KEYS]
        table = pa.table({"k": KEYS, "v": ["v"] * len(KEYS)})
        found: list[Any] = producer.send_table(topic, table, key="k", value="v").result(60)["partition"].to_pylist()
        return found


@pytest.mark.parametrize("by", ["send", "send_table"])
@pytest.mark.parametrize("settings", IGNORING, ids=str)
def test_keys_that_are_ignored_place_no_record(
    kafka_cluster: ottla.Cluster, kafka_topic: str, by: str, settings: dict[str, Any]
) -> None:
    # Small batches, so that the sticky partition moves on often.
    small = {"batch_size": 500, "partitioner_adaptive_partitioning_enable": False}
    places: defaultdict[bytes, set[int]] = defaultdict(set)
    for key, partition in zip(KEYS, places_of_keys(kafka_cluster, kafka_topic, by, settings | small), strict=True):
        places[key].add(partition)
    assert all(len(found) > 1 for found in places.values())


@pytest.mark.parametrize("by", ["send", "send_table"])
def test_round_robin_gives_every_record_to_the_next_partition(
    kafka_cluster: ottla.Cluster, kafka_topic: str, by: str
) -> None:
    places = places_of_keys(kafka_cluster, kafka_topic, by, {"partitioner_class": "round_robin"})
    assert places == [n % 3 for n in range(len(KEYS))]


@pytest.mark.parametrize("by", ["send", "send_table"])
@pytest.mark.parametrize(("codec", "lowest", "highest"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 19)])
def test_a_higher_compression_level_stores_fewer_bytes(
    kafka_cluster: ottla.Cluster, kafka_topic: str, codec: str, lowest: int, highest: int, by: str
) -> None:
    values = [b'{"flight": %d, "tail": "N%d", "delay": %d}' % (n * n, n * 7919 % 613, n % 97) for n in range(4000)]
    for level in (lowest, highest):
        # One batch of single records; but several of a table, which two threads compress. None is cut by its level.
        settings: Any = {"batch_size": 500_000 if by == "send" else 30_000, "linger_ms": 60_000}
        settings |= {"compression_type": codec, f"compression_{codec}_level": level}
        with ottla.Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
            if by == "send":
                for value in values:
                    producer.send(kafka_topic, value, partition=0)
            else:
                table = pa.table({"v": values, "p": [0] * len(values)})
                producer.send_table(kafka_topic, table, value="v", partition="p")
    with ottla.Reader(kafka_cluster.bootstrap_servers, kafka_topic) as reader:
        sizes = [header.size_bytes for fetched in reader.iter_raw() for header in iterate_headers(fetched.records)]
    half = len(sizes) // 2
    assert half == 1 if by == "send" else half >= 5
    assert all(high < 0.99 * low for low, high in zip(sizes[:half], sizes[half:], strict=True))
