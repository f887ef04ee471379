"""While a range is read, its partition gets a new leader that lacks records already read."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.errors import UserMistake
from ottla.spark.source import OttlaDataSource


def send(cluster: ottla.Cluster, topic: str, numbers: range) -> None:
    """One record a batch."""
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number).result(60)


def rows(cluster: ottla.Cluster, topic: str, *, strict: bool) -> Iterator[tuple[int, bytes]]:
    """The rows of the topic as it is now, fetched one by one."""
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "columns": "offset,value",
        "failOnDataLoss": str(strict),
        "kafka.max.partition.fetch.bytes": "1",
        "kafka.prefetch.max.bytes": "1",
        "kafka.retry.backoff.ms": "20",
    }
    source = OttlaDataSource(given)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    for batch in reader.read(partition):
        yield from zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)


@pytest.mark.parametrize("strict", [True, False])
def test_rows_that_were_read_and_lost_fail_the_query_or_are_warned_of(
    strict: bool, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Cluster(brokers=2, settings={"unclean_leader_election_enable": False}) as cluster:
        cluster.create_topic(kafka_name, replication_factor=2)
        send(cluster, kafka_name, range(5))
        leader = cluster.leader(kafka_name, 0)
        cluster.kill(3 - leader)
        send(cluster, kafka_name, range(5, 10))
        reading = rows(cluster, kafka_name, strict=strict)
        read = [next(reading) for _ in range(7)]
        cluster.kill(leader)
        cluster.start(3 - leader)
        wait_until(lambda: cluster.leader(kafka_name, 0) == -1)
        cluster.elect_leader(kafka_name, 0, unclean=True)
        send(cluster, kafka_name, range(100, 110))
        if strict:
            with pytest.raises(UserMistake, match=r"Data was lost: .* was truncated .* failOnDataLoss=false"):
                read += reading
            assert read == [(n, b"%d" % n) for n in range(len(read))]
            return
        with caplog.at_level(logging.WARNING, "ottla.spark"):
            read += reading
        assert "was truncated while offset" in caplog.text
        # Each offset once; what follows those that were read is the new leader's.
        assert [offset for offset, _ in read] == list(range(10))
        assert read[:7] == [(n, b"%d" % n) for n in range(7)]
        assert read[-1] == (9, b"104")
