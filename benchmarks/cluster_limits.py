"""What the embedded cluster must hold: a quick start, little memory, many topics and connections, long writing."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import ottla
from benchmarks.apache_kafka import measured_kafka, resident_bytes
from benchmarks.bench_start import CLUSTER, timed
from benchmarks.producer_speed import log_folder
from benchmarks.wire import Wire, create_topics, request
from benchmarks.worker import PARTITIONS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

MIB = 1 << 20
START_MUST_S = 0.3
START_MUST_RATIO = 15
MEMORY_MUST_MIB = 80
TOPICS, TOPICS_MUST_S = 1000, 10
CONNECTIONS = 1000
_BATCH_BYTES = 900_000
_FOLDER_BYTES_MAX = 4 << 30
_SAMPLES = 40


def start(arguments: argparse.Namespace) -> dict[str, Any]:
    """Three embedded brokers from `Cluster()`, one Apache Kafka node from the start of its process, to Metadata."""
    ours_s, theirs_s = [], []
    for _ in range(arguments.repeat):
        ours_s.append(timed(CLUSTER, 1))
        node = measured_kafka(1, log_folder())
        try:
            theirs_s.append(node.start())
        finally:
            node.stop()
    took, ratio = median(ours_s), median(b / a for a, b in zip(ours_s, theirs_s, strict=True))
    return {
        "three_brokers_answer_metadata_s": {"s": round(took, 3), "must": START_MUST_S, "ok": took <= START_MUST_S},
        "one_apache_kafka_node_s": round(median(theirs_s), 2),
        "times_sooner": {"ratio": round(ratio, 1), "must": START_MUST_RATIO, "ok": ratio >= START_MUST_RATIO},
    }


def idle_memory(_arguments: argparse.Namespace) -> dict[str, Any]:
    """The child process of three brokers that have answered Metadata, once it is at rest; a node of Apache Kafka."""
    with ottla.Cluster(brokers=3) as cluster:
        for address in cluster.bootstrap_servers.split(","):
            with Wire(address) as wire:
                wire.call(MetadataRequest(), 9)
        time.sleep(2)
        ours_mib = resident_bytes(cluster.pid) / MIB
    with measured_kafka(1, log_folder()) as apache:
        time.sleep(2)
        theirs_mib = resident_bytes(apache.pids[0]) / MIB
    return {
        "three_idle_brokers_mib": {
            "mib": round(ours_mib, 1),
            "must": MEMORY_MUST_MIB,
            "ok": ours_mib < MEMORY_MUST_MIB,
        },
        "one_apache_kafka_node_mib": round(theirs_mib),
    }


def many_topics(_arguments: argparse.Namespace) -> dict[str, Any]:
    """1,000 topics of 6 partitions at replication factor 3, made by one request; their folders lie on the disk."""
    names = [f"topic-{number:04d}" for number in range(TOPICS)]
    with tempfile.TemporaryDirectory() as data_dir, ottla.Cluster(brokers=3, data_dir=data_dir) as cluster:
        first, *others = cluster.bootstrap_servers.split(",")
        begin = time.perf_counter()
        create_topics(first, names, PARTITIONS, 3)
        took_s = time.perf_counter() - begin
        for address in others:
            with Wire(address) as wire:
                asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
                assert all(len(topic.partitions) == PARTITIONS for topic in wire.call(asked, 9).topics)
        folders = sum(1 for _ in Path(data_dir).glob("broker-*/topic-*-*"))
        assert folders == TOPICS * PARTITIONS * 3, folders
        mib = resident_bytes(cluster.pid) / MIB
        descriptors = len(os.listdir(f"/proc/{cluster.pid}/fd"))
    return {
        "made_s": {"s": round(took_s, 2), "must": TOPICS_MUST_S, "ok": took_s < TOPICS_MUST_S},
        "resident_mib_afterwards": round(mib),
        "descriptors_afterwards": descriptors,
    }


def idle_connections(_arguments: argparse.Namespace) -> dict[str, Any]:
    """1,000 connections that have said who they are and now say nothing; a producer and a newcomer still work."""
    with ottla.Cluster(brokers=1) as cluster:
        address = cluster.bootstrap_servers
        create_topics(address, ["while-idle"], PARTITIONS, 1)
        before = resident_bytes(cluster.pid)
        wires = [Wire(address) for _ in range(CONNECTIONS)]
        for wire in wires:
            wire.call(ApiVersionsRequest(), 2)
        held = resident_bytes(cluster.pid) - before
        begin = time.perf_counter()
        with ottla.Producer(address) as producer:
            for number in range(100_000):
                producer.send("while-idle", b"%092d" % number, b"%08d" % number)
        took_s = time.perf_counter() - begin
        answered = sum(wire.call(ApiVersionsRequest(), 2).error_code == 0 for wire in wires)
        for wire in wires:
            wire.close()
        with Wire(address) as wire:
            wire.call(MetadataRequest(), 9)
        descriptors = len(os.listdir(f"/proc/{cluster.pid}/fd"))
    return {
        "held": {"connections": answered, "must": CONNECTIONS, "ok": answered == CONNECTIONS},
        "kib_per_connection": round(held / 1024 / CONNECTIONS, 1),
        "producer_beside_them_records_per_s": round(100_000 / took_s),
        "descriptors_after_they_left": descriptors,
    }


def retention(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write `--gigabytes` through Produce requests with retention on; the memory of the broker must not grow.

    The first quarter is for warming up; then the least and the most that was seen are compared.
    """
    total = arguments.gigabytes << 30
    configs = {"retention.bytes": str(32 * MIB), "segment.bytes": str(16 * MIB), "cleanup.policy": "delete"}
    settings = {"log_retention_check_interval_ms": 500, "log_segment_delete_delay_ms": 0}
    batch = encode_batch([Record(0, int(time.time() * 1000), None, os.urandom(_BATCH_BYTES))])
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    message = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="long", partition_data=data)]
    )
    content = request(message, 9)
    samples_mib: list[float] = []
    with (
        tempfile.TemporaryDirectory(dir=log_folder()) as data_dir,
        ottla.Cluster(brokers=1, data_dir=data_dir, settings=settings) as cluster,
    ):
        create_topics(cluster.bootstrap_servers, ["long"], PARTITIONS, 1, configs)
        with Wire(cluster.bootstrap_servers) as wire:
            begin = time.perf_counter()
            written = 0
            for sample in range(1, _SAMPLES + 1):
                while written < total * sample // _SAMPLES:
                    wire.send(content)
                    wire.frame()
                    written += len(batch) * PARTITIONS
                samples_mib.append(resident_bytes(cluster.pid) / MIB)
                if _stored_bytes(data_dir) > _FOLDER_BYTES_MAX:
                    raise SystemExit("retention removes nothing: the folder has grown beyond 4 GiB")
            took_s = time.perf_counter() - begin
        stored = _stored_bytes(data_dir)
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            ends = admin.end_offsets("long")
    expected = written // len(batch)
    assert sum(ends.values()) == expected, f"{expected} records written, {ends}"
    warm = samples_mib[_SAMPLES // 4 :]
    growth = max(warm) / min(warm)
    return {
        "written_gb": round(written / 1e9, 1),
        "mb_per_s": round(written / took_s / 1e6),
        "stored_at_the_end_mib": round(stored / MIB),
        "resident_mib": {"least": round(min(warm)), "most": round(max(warm)), "last": round(warm[-1])},
        "most_of_least": {"ratio": round(growth, 2), "must": 1.2, "ok": growth <= 1.2},
    }


def _stored_bytes(folder: str) -> int:
    total = 0
    for path in Path(folder).rglob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
