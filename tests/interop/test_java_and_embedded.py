"""Apache Kafka's own tools against the embedded cluster: its clients, and its judge of log files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.kafka

_TOOLS = "org.apache.kafka.tools"
_PATIENCE_S = 120


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture(scope="module")
def cluster(data_dir: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, data_dir=data_dir) as cluster:
        yield cluster


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_javas_perf_producer_is_acked_and_read_by_ottla(cluster: Cluster, java: Any, codec: str, exchange: Any) -> None:
    topic = f"perf-{codec}"
    cluster.create_topic(topic, partitions=3)
    arguments = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    settings = [f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all", f"compression.type={codec}"]
    said = java.run(f"{_TOOLS}.ProducerPerformance", *arguments, "--producer-props", *settings)
    assert b"20000 records sent" in said
    stored = exchange.ottla_reads(cluster.bootstrap_servers, topic)
    assert len(stored) == 20_000
    assert {len(value) for _, value, _, _ in stored.values()} == {100}


def test_javas_console_consumer_prints_what_ottla_sent(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("to-java", partitions=1)
    lines = [f"key-{number % 5}\tvalue {number} äöü" for number in range(500)]
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        for line in lines:
            key, value = line.split("\t")
            producer.send("to-java", value, key)
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "to-java", "--partition", "0"]
    shown = ["--offset", "earliest", "--max-messages", "500", "--formatter-property", "print.key=true"]
    said = java.run(f"{_TOOLS}.consumer.ConsoleConsumer", *where, *shown)
    assert said.decode().splitlines() == lines


def test_javas_consumer_has_a_fetch_session_while_it_waits_for_records(java: Any) -> None:
    """On a broker that nobody follows; the consumer ends with its second record, and its session with it."""
    sessions = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions"
    kept = "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached"
    with Cluster(brokers=1) as alone, ottla.Producer(alone.bootstrap_servers) as producer:
        alone.create_topic("waited-for", partitions=1)
        producer.send("waited-for", b"first").result(120)
        where = ["--bootstrap-server", alone.bootstrap_servers, "--topic", "waited-for", "--partition", "0"]
        shown = ["--offset", "earliest", "--max-messages", "2"]
        with ThreadPoolExecutor(1) as pool:
            said = pool.submit(java.run, f"{_TOOLS}.consumer.ConsoleConsumer", *where, *shown)
            try:
                wait_until(
                    lambda: alone.metrics(1)[sessions]["Value"] == 1, "the consumer begins no session", _PATIENCE_S
                )
                assert alone.metrics(1)[kept]["Value"] == 1
            finally:
                producer.send("waited-for", b"second").result(120)
            assert said.result().decode().splitlines() == ["first", "second"]
        wait_until(lambda: alone.metrics(1)[sessions]["Value"] == 0, "the session does not end with the consumer")


def test_ottla_reads_what_javas_console_producer_sent(cluster: Cluster, java: Any, exchange: Any) -> None:
    cluster.create_topic("from-java", partitions=3)
    lines = [f"key-{number % 5}\tvalue {number}" for number in range(500)]
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "from-java"]
    keyed = ["--reader-property", "parse.key=true"]
    java.run(f"{_TOOLS}.ConsoleProducer", *where, *keyed, given="\n".join(lines).encode())
    stored = exchange.ottla_reads(cluster.bootstrap_servers, "from-java")
    assert sorted(f"{key.decode()}\t{value.decode()}" for key, value, _, _ in stored.values()) == sorted(lines)


def test_javas_topic_tool_makes_lists_and_deletes_topics(cluster: Cluster, java: Any) -> None:
    def topics(*arguments: str) -> str:
        said: bytes = java.run(f"{_TOOLS}.TopicCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
        return said.decode()

    topics("--create", "--topic", "made-by-java", "--partitions", "2", "--replication-factor", "3")
    assert sorted(cluster.isr("made-by-java", 1)) == [1, 2, 3]
    assert "made-by-java" in topics("--list").splitlines()
    topics("--delete", "--topic", "made-by-java")
    assert "made-by-java" not in topics("--list").splitlines()


def test_javas_log_dump_finds_nothing_wrong_with_our_segments(
    cluster: Cluster, java: Any, data_dir: Path, exchange: Any
) -> None:
    """Apache Kafka's own reader walks the segment files of a leader and of a follower, records and CRCs included."""
    cluster.create_topic("dumped", partitions=1, configs={"segment.bytes": "60000"})
    given = exchange.rows(3000)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for key, value, headers, timestamp in given:
            producer.send("dumped", value, key, headers=headers, timestamp_ms=timestamp)
    for broker_id in cluster.isr("dumped", 0):
        logs = sorted((data_dir / f"broker-{broker_id}" / "dumped-0").glob("*.log"))
        assert len(logs) > 1
        said = java.run(f"{_TOOLS}.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, logs))).decode()
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", said, re.MULTILINE)]
        assert offsets == list(range(3000))
        assert set(re.findall(r"isvalid: (\w+)", said)) == {"true"}


def events(said: bytes) -> list[dict[str, Any]]:
    """What Kafka's verifiable clients tell of themselves: one JSON object a line."""
    return [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]


def test_javas_verifiable_clients_agree_on_what_was_acked(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("verified", partitions=3)
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "verified"]
    said = events(java.run(f"{_TOOLS}.VerifiableProducer", *where, "--max-messages", "2000", "--acks", "-1"))
    acked = [event["value"] for event in said if event["name"] == "producer_send_success"]
    assert sorted(map(int, acked)) == list(range(2000))
    (told,) = [event for event in said if event["name"] == "tool_data"]
    assert (told["sent"], told["acked"]) == (2000, 2000)
    reading = ["--group-id", "verifiers", "--max-messages", "2000", "--verbose", "--reset-policy", "earliest"]
    said = events(java.run(f"{_TOOLS}.VerifiableConsumer", *where, *reading))
    read = [event["value"] for event in said if event["name"] == "record_data"]
    assert sorted(map(int, read)) == list(range(2000))
    commits = [event for event in said if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in commits)
    committed = {place["partition"]: place["offset"] for event in commits for place in event["offsets"]}
    assert sum(committed.values()) == 2000


def test_javas_perf_consumer_reads_all_there_is(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("perf-read", partitions=3)
    with ottla.Producer(cluster.bootstrap_servers, compression_type="lz4") as producer:
        for number in range(20_000):
            producer.send("perf-read", b"%0100d" % number)
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "perf-read"]
    said = java.run(f"{_TOOLS}.ConsumerPerformance", *where, "--num-records", "20000", "--timeout", "30000")
    heading, figures = (line.split(", ") for line in said.decode().strip().splitlines()[-2:])
    assert int(figures[next(at for at, name in enumerate(heading) if name.startswith("data.consumed.in.nM"))]) == 20_000


def test_javas_end_to_end_latency_finds_every_record_it_sent(cluster: Cluster, java: Any) -> None:
    cluster.create_topic("end-to-end", partitions=1)
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "end-to-end"]
    sending = ["--num-records", "500", "--producer-acks", "all", "--record-size", "100"]
    said = java.run(f"{_TOOLS}.EndToEndLatency", *where, *sending)
    assert b"Avg latency" in said
