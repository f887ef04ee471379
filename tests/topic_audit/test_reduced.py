"""What is read of stored records for the judge: numbers, the same whatever reads them."""

from __future__ import annotations

import zlib

import pytest

import ottla
from ottla.ledger.schema import NO_TIMESTAMP, SEQUENCE_HEADER, pack_sequence
from ottla.topic_audit.reduced import read_reduced

SENT_MS = 1_700_000_000_123


@pytest.mark.parametrize(("timestamps", "told_ms"), [("CreateTime", SENT_MS), ("LogAppendTime", NO_TIMESTAMP)])
def test_a_record_is_reduced_to_its_numbers(
    kafka_cluster: ottla.Cluster, kafka_topic: str, timestamps: str, told_ms: int
) -> None:
    topic = f"{kafka_topic}-{timestamps}"
    kafka_cluster.create_topic(topic, partitions=2, configs={"message.timestamp.type": timestamps})
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        ours = [("trace", b"12345678"), (SEQUENCE_HEADER, pack_sequence(7))]
        producer.send(topic, b"v", b"k", partition=1, timestamp_ms=SENT_MS, headers=ours)
        producer.send(topic, None, None, partition=1, timestamp_ms=SENT_MS)
    batches = list(read_reduced(kafka_cluster.bootstrap_servers, topic, {1: (0, 2)}, {}))
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {
            "partition": 1,
            "offset": 0,
            "sequence": 7,
            "key_crc": zlib.crc32(b"k"),
            "value_crc": zlib.crc32(b"v"),
            "timestamp": told_ms,
        },
        {"partition": 1, "offset": 1, "sequence": -1, "key_crc": -1, "value_crc": -1, "timestamp": told_ms},
    ]
