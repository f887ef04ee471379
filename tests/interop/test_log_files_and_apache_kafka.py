"""Apache Kafka's own tool reads every file of a partition's folder as the embedded broker leaves it at a clean end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import Cluster

pytestmark = pytest.mark.kafka

DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of several segments, written by an idempotent producer; its brokers have shut down in order."""
    folder = tmp_path_factory.mktemp("logs")
    with Cluster(1, data_dir=folder) as cluster:
        cluster.create_topic("kept", configs={"segment.bytes": "60000"})
        with ottla.Producer(cluster.bootstrap_servers, batch_size=2000) as producer:
            for number in range(4000):
                producer.send("kept", b"%050d" % number, b"key", timestamp_ms=1_700_000_000_000 + number)
    return folder / "broker-1" / "kept-0"


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_apache_kafka_finds_our_indexes_in_order(java: Any, partition: Path, suffix: str, check: str) -> None:
    found = sorted(partition.glob(f"*.{suffix}"))
    assert len(found) == len(list(partition.glob("*.log"))) > 2
    said = java.run(DUMP, check, "--files", ",".join(map(str, found))).decode()
    assert not re.search(r"mismatch|fail|corrupt|out of order|not found|exception", said, re.IGNORECASE), said
    if check == "--index-sanity-check":
        assert said.count("passed sanity check") == len(found)


def test_apache_kafka_reads_our_producer_snapshots(java: Any, partition: Path) -> None:
    found = sorted(partition.glob("*.snapshot"))
    assert int(found[-1].stem) == 4000, "one at the log's end"
    said = java.run(DUMP, "--files", ",".join(map(str, found))).decode()
    assert len(re.findall(r"producerId: \d+ producerEpoch: 0", said)) == len(found)
    assert f"lastSequence: {4000 - 1}" in said
