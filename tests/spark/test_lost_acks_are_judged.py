"""The way from sending to verdict, small: lost acks and lost requests, one ledger per guarantee, one audit in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.audit.ledgers.spark import audit_topics
from ottla.audit.ledgers.verdict import Verdict, judge
from ottla.audit.promises import PROMISES
from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.ledger import schema
from ottla.ledger.checksum import record_crc
from ottla.ledger.writer import LedgerWriter
from ottla.topic_audit.stored import stored_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.spark

RECORDS = 600
COMMON = {
    "max_in_flight_requests_per_connection": 1,
    "batch_size": 2_000,
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}


def run(cluster: Cluster, topic: str, guarantee: str, ledger: Path) -> None:
    """Send under one guarantee and write what was learned."""
    with Producer(cluster.bootstrap_servers, **COMMON, **PROMISES[guarantee].settings) as producer:
        deliveries = [
            producer.send(
                topic,
                f"value {number}",
                f"key {number % 7}",
                headers=[(schema.SEQUENCE_HEADER, schema.pack_sequence(number))],
            )
            for number in range(RECORDS)
        ]
        places = [delivery.result(120).offset for delivery in deliveries]
    with LedgerWriter(ledger, run_id="run", guarantee=guarantee, topic=topic) as book:
        book.add(
            sequence=list(range(RECORDS)),
            partition=[delivery.partition for delivery in deliveries],
            key_crc=[record_crc(f"key {number % 7}") for number in range(RECORDS)],
            value_crc=[record_crc(f"value {number}") for number in range(RECORDS)],
            # Without acks nobody was told anything.
            outcome=["unknown" if guarantee == schema.AT_MOST_ONCE else "acked"] * RECORDS,
            offset=places,
        )


def audit(spark: SparkSession, cluster: Cluster, topics: dict[str, str], ledgers: Path) -> dict[str, Verdict]:
    with Admin(cluster.bootstrap_servers) as admin:
        bounds = {}
        for topic in topics.values():
            begin, end = admin.begin_offsets(topic), admin.end_offsets(topic)
            bounds[topic] = {partition: (begin[partition], end[partition]) for partition in end}
    records = stored_frame(spark, cluster.bootstrap_servers, bounds, {})
    audits = audit_topics(spark.read.parquet(str(ledgers)), records, bounds)
    return {guarantee: judge(guarantee, audits[topic]) for guarantee, topic in topics.items()}


def test_each_guarantee_is_seen_to_be_what_it_is(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    topics = {guarantee: f"{kafka_topic}-{guarantee}" for guarantee in PROMISES}
    for guarantee, topic in topics.items():
        kafka_cluster.create_topic(topic, partitions=3)
        with (
            kafka_cluster.faults.lose_ack(topic=topic, every=4) as lost_acks,
            kafka_cluster.faults.lose_request(topic=topic, every=7) as lost_requests,
        ):
            run(kafka_cluster, topic, guarantee, tmp_path / f"{guarantee}.parquet")
            assert lost_acks.fired
            assert lost_requests.fired
    verdicts = audit(spark, kafka_cluster, topics, tmp_path)
    for guarantee, verdict in verdicts.items():
        assert verdict.passed, (guarantee, verdict.seen, verdict.breaches)
        assert verdict.figures.sent == RECORDS
    most, least, exactly = (verdicts[guarantee].figures for guarantee in PROMISES)
    assert (most.unknown, most.stored) == (RECORDS, RECORDS - most.lost)
    assert (least.acked, least.stored) == (RECORDS, RECORDS + least.duplicated)
    assert (exactly.acked, exactly.stored) == (RECORDS, RECORDS)
    for topic in topics.values():
        kafka_cluster.delete_topic(topic)


def test_a_ledger_of_another_run_is_not_believed(
    spark: SparkSession, kafka_cluster: Cluster, kafka_topic: str, tmp_path: Path
) -> None:
    run(kafka_cluster, kafka_topic, schema.EXACTLY_ONCE, tmp_path / "ledger.parquet")
    with Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, "value 1", "key 1")
    verdict = audit(spark, kafka_cluster, {schema.EXACTLY_ONCE: kafka_topic}, tmp_path)[schema.EXACTLY_ONCE]
    assert not verdict.kept
    assert [finding.kind for finding in verdict.breaches] == ["altered"]
