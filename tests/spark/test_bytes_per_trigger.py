"""maxBytesPerTrigger: how far micro-batches go that are limited by bytes, by what brokers tell of sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from tests.client.altering_proxy import AlteringProxy

import ottla
from ottla.errors import UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.spark.stream_reader import OttlaStreamReader

Open = Callable[..., OttlaStreamReader]
# What a record of `send` takes in the log, each in a batch of its own: 61 bytes for the batch, some 9 for the record.
OVERHEAD = 75


def send(cluster: ottla.Cluster, topic: str, partition: int, count: int, size: int) -> None:
    """So many records of so many bytes, not compressed, each in a batch of its own."""
    with ottla.Producer(cluster.bootstrap_servers, batch_size=0, linger_ms=0) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * size, partition=partition)


def micro_batches(reader: OttlaStreamReader, topic: str) -> list[dict[str, int]]:
    """How many offsets each micro-batch has of each partition, until nothing is left."""
    start, found = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append({partition: end[topic][partition] - start[topic][partition] for partition in end[topic]})
        start = end
    return found


def test_micro_batches_have_no_more_bytes_than_the_option_says(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, 0, 60, 10_000)
    send(kafka_cluster, kafka_topic, 1, 60, 100)
    reader = stream(subscribe=kafka_topic, maxBytesPerTrigger="220k")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(220 * 1024)
    found = micro_batches(reader, kafka_topic)
    assert [sum(each[partition] for each in found) for partition in "012"] == [60, 60, 0]
    sizes = [each["0"] * (10_000 + OVERHEAD) + each["1"] * (100 + OVERHEAD) for each in found]
    assert max(sizes) <= 220 * 1024
    # As few as that takes: 612 kB in micro-batches of 225 kB.
    assert len(found) == 3
    # A trigger that takes all takes all.
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable())[kafka_topic] == {"0": 60, "1": 60, "2": 0}


def test_a_micro_batch_has_one_record_of_a_partition_at_least(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, 0, 3, 10_000)
    found = micro_batches(stream(subscribe=kafka_topic, maxBytesPerTrigger=1), kafka_topic)
    assert found == [{"0": 1, "1": 0, "2": 0}] * 3


@pytest.mark.parametrize(("most_offsets", "most_bytes"), [(10, "1m"), (1000, "101k")])
def test_of_a_limit_of_offsets_and_one_of_bytes_the_smaller_one_counts(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, most_offsets: int, most_bytes: str
) -> None:
    send(kafka_cluster, kafka_topic, 0, 30, 10_000)
    reader = stream(subscribe=kafka_topic, maxOffsetsPerTrigger=most_offsets, maxBytesPerTrigger=most_bytes)
    assert [each["0"] for each in micro_batches(reader, kafka_topic)] == [10, 10, 10]


def test_a_partition_that_was_empty_is_measured_when_it_has_records(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    # An average is remembered for some seconds, and there is none of an empty partition.
    reader = stream(subscribe=kafka_topic, maxBytesPerTrigger="101k", **{"kafka.metadata.max.age.ms": 60_000})
    send(kafka_cluster, kafka_topic, 0, 1, 10)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end[kafka_topic] == {"0": 1, "1": 0, "2": 0}
    send(kafka_cluster, kafka_topic, 1, 20, 10_000)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, reader.getDefaultReadLimit())[kafka_topic] == {"0": 1, "1": 10, "2": 0}


def test_an_open_transaction_does_not_make_records_look_larger(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, 0, 20, 100)
    with ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        producer.begin_transaction()
        producer.send(kafka_topic, b"x" * 900_000, partition=0).result(120)
        for _ in range(1000):
            producer.send(kafka_topic, b"", partition=0)
        producer.flush()
        reader = stream(subscribe=kafka_topic, maxBytesPerTrigger="100k", **{"kafka.isolation.level": "read_committed"})
        assert [each["0"] for each in micro_batches(reader, kafka_topic)] == [20]
        producer.abort_transaction()


@pytest.mark.parametrize("says_so", [True, False], ids=["from Kafka 3.2 on", "before"])
def test_a_user_who_may_not_see_sizes_is_told_before_the_first_micro_batch(
    kafka_name: str, stream: Open, says_so: bool
) -> None:
    def deny(frame: bytes, version: int) -> bytes:
        correlation_id, message = decode_response(memoryview(frame), DescribeLogDirsRequest, version)
        message.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if says_so else 0
        message.results = []
        return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))

    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic(kafka_name)
        proxy = AlteringProxy(cluster.bootstrap_servers, [deny], DescribeLogDirsRequest.API_KEY)
        try:
            servers = {"kafka.bootstrap.servers": proxy.bootstrap_servers}
            reader = stream(subscribe=kafka_name, maxBytesPerTrigger=1000, **servers)
            with pytest.raises(UserMistake) as refused:
                reader.initialOffset()
        finally:
            proxy.close()
    assert "The option maxBytesPerTrigger needs the sizes of partitions" in str(refused.value)
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(refused.value)
    assert "Have this user granted DESCRIBE on the cluster, or use maxOffsetsPerTrigger" in str(refused.value)
