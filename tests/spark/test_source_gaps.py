"""What is odd in a topic: offsets without records, which compaction and transactions leave, read in ranges that begin
and end anywhere; times that Spark cannot hold; topics that are nobody's data."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import ottla
from ottla.errors import UserMistake
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.settings import SINK_TOPICS, SinkSettings
from ottla.spark.options import read_options
from ottla.spark.source import OttlaDataSource
from ottla.spark.stream_reader import OttlaStreamReader

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 1024, "min.cleanable.dirty.ratio": 0.01}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(settings={"log_cleaner_backoff_ms": 20, "log_cleaner_delete_retention_ms": 1}) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name, partitions=1)
    return kafka_name


def read(cluster: ottla.Cluster, topic: str, **options: object) -> list[int]:
    """The offsets of the records that a batch of these options reads."""
    offsets: list[int] = column(cluster, "offset", subscribe=topic, **options)
    return offsets


def column(cluster: ottla.Cluster, name: str, **options: object) -> list[Any]:
    """One column of what a batch of these options reads."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "columns": name}
    source = OttlaDataSource(given | {name.replace("__", "."): str(value) for name, value in options.items()})
    reader = source.reader(source.schema())
    read = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return [value for batch in read for value in batch.column(name).to_pylist()]


def assert_every_range_is_read(cluster: ottla.Cluster, topic: str, there: list[int], end: int, **more: object) -> None:
    for first in range(end + 1):
        for behind in range(first, end + 1):
            bounds = {
                "startingOffsets": json.dumps({topic: {"0": first}}),
                "endingOffsets": json.dumps({topic: {"0": behind}}),
            }
            assert read(cluster, topic, **bounds, **more) == [each for each in there if first <= each < behind]


def test_ranges_that_begin_and_end_where_compaction_has_left_nothing(cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=1, configs=COMPACTED)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(24):
            # Keys that stay apart; all others are written again and again, "gone" until it is deleted.
            key = f"kept-{number}" if number % 7 == 3 else "gone"
            producer.send(kafka_name, b"v" * 300 if number < 18 or key != "gone" else None, key).result()
    deadline = time.monotonic() + 60
    while len(there := read(cluster, kafka_name)) > 8:
        assert time.monotonic() < deadline, "the topic was not compacted"
        time.sleep(0.02)
    assert {3, 10, 17} < {*there}
    assert_every_range_is_read(cluster, kafka_name, there, 24)


def test_ranges_that_begin_and_end_in_transactions(cluster: ottla.Cluster, topic: str) -> None:
    committed, all_there = [], []
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        for counts in (True, False, False, True, False):
            producer.begin_transaction()
            sent = [producer.send(topic, b"v", partition=0) for _ in range(3)]
            producer.flush()
            all_there += [each.result().offset for each in sent]
            if counts:
                committed += all_there[-3:]
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    # The last two are of an aborted transaction and its marker: nothing ends such a range but its offsets.
    assert_every_range_is_read(cluster, topic, all_there, 20)
    assert_every_range_is_read(cluster, topic, committed, 20, kafka__isolation__level="read_committed")


def test_micro_batches_pass_over_what_was_taken_back(cluster: ottla.Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        for counts in (False, True):
            producer.begin_transaction()
            for _ in range(10):
                producer.send(topic, b"v", partition=0)
            producer.flush()
            producer.commit_transaction() if counts else producer.abort_transaction()
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "columns": "offset",
    }
    reader = OttlaStreamReader(read_options(given, streaming=True), OttlaDataSource(given).schema())
    start, found, batches = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(start, ReadMaxRows(4))) != start:
        for partition in reader.partitions(start, end):
            for batch in reader.read(partition):
                found += batch.column("offset").to_pylist()
        start, batches = end, batches + 1
    reader.stop()
    assert (found, batches) == ([*range(11, 21)], 6)


def test_times_that_spark_cannot_hold_are_told_and_can_be_left_out(cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=1, configs={"message.timestamp.after.max.ms": 2**63 - 1})
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for time_ms in (0, 2**63 - 1):
            producer.send(kafka_name, b"v", timestamp_ms=time_ms).result()
    until_then = json.dumps({kafka_name: {"0": 1}})
    assert column(cluster, "timestamp", subscribe=kafka_name, endingOffsets=until_then) == [
        datetime(1970, 1, 1, tzinfo=UTC)
    ]
    with pytest.raises(
        UserMistake, match=f"Partition 0 of {kafka_name} has a record whose timestamp Spark cannot hold"
    ):
        column(cluster, "timestamp", subscribe=kafka_name)
    assert read(cluster, kafka_name) == [0, 1]


def test_a_pattern_for_all_topics_leaves_out_those_of_the_sink(cluster: ottla.Cluster, topic: str) -> None:
    # A stream of all topics into the sink would find a decision of its own after each micro-batch.
    plan(session_of(SinkSettings(topic, cluster.bootstrap_servers)))
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for each in (topic, *SINK_TOPICS):
            producer.send(each, b"v", b"k").result()
    found = {*column(cluster, "topic", subscribePattern=".*")}
    assert topic in found
    assert not found & {*SINK_TOPICS, "__transaction_state"}
    # As in Spark's own source, a pattern is found anywhere in a name.
    assert {*column(cluster, "topic", subscribePattern="leaves-out-those")} == {topic}
    assert column(cluster, "topic", subscribePattern="^leaves-out-those$") == []
    assert column(cluster, "topic", subscribe=SINK_TOPICS[0])


def test_headers_keep_their_order_and_their_doubles(cluster: ottla.Cluster, topic: str) -> None:
    several: list[tuple[str, bytes | None]] = [("b", b"1"), ("a", b""), ("b", None), ("", b"2"), ("b", b"1")]
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for headers in (several, [], several[:1]):
            producer.send(topic, None, headers=headers).result()
    found = column(cluster, "headers", subscribe=topic, includeHeaders=True)
    wanted = [{"key": key, "value": value} for key, value in several]
    assert found == [wanted, None, wanted[:1]]


def test_a_record_larger_than_what_is_fetched_ahead_is_read(cluster: ottla.Cluster, kafka_name: str) -> None:
    size = 20 << 20
    cluster.create_topic(kafka_name, partitions=1, configs={"max.message.bytes": 2 * size})
    with ottla.Producer(cluster.bootstrap_servers, max_request_size=2 * size, buffer_memory=3 * size) as producer:
        for value in (b"before", bytes(size), b"behind"):
            producer.send(kafka_name, value).result()
    assert [len(value) for value in column(cluster, "value", subscribe=kafka_name)] == [6, size, 6]
