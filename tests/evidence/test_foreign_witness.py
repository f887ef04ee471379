"""One topic of a foreign Kafka, looked at by reading: what can be read convicts, and what cannot is not acquitted."""

from __future__ import annotations

import pytest

import ottla
from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import ProducerPromise, SentRecord, TopicPromise
from ottla.audit.chronicles.judgement import judge
from ottla.cluster.cluster import Cluster
from ottla.evidence.foreign_witness import ForeignWitness
from ottla.evidence.times import RunClock
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import ACKED, NO_CRC, SEQUENCE_HEADER, pack_sequence

RECORDS = 5


@pytest.fixture
def witness(kafka_cluster: Cluster, kafka_name: str) -> ForeignWitness:
    """Of a topic with five records and no more than was sent."""
    kafka_cluster.create_topic(kafka_name, partitions=1, replication_factor=3)
    promise = ProducerPromise("p", acks=-1, idempotent=True)
    witness = ForeignWitness(kafka_cluster.bootstrap_servers, {}, TopicPromise(kafka_name, 1, 3), promise, RunClock())
    witness.look()
    with ottla.Producer(kafka_cluster.bootstrap_servers) as producer:
        for number in range(RECORDS):
            header = (SEQUENCE_HEADER, pack_sequence(number))
            offset = producer.send(kafka_name, b"%d" % number, headers=[header]).result().offset
            witness.chronicle.sent.append(
                SentRecord(number, "p", 0, kafka_name, 0, NO_CRC, record_crc(b"%d" % number), ACKED, offset, told_us=1)
            )
    witness.choose_part()
    witness.take_stock()
    return witness


def found(witness: ForeignWitness) -> dict[str, int]:
    return {finding.kind: finding.count for finding in judge(witness.chronicle) if finding.count}


def test_what_is_as_it_was_sent_is_acquitted_and_replicas_are_not(witness: ForeignWitness) -> None:
    assert witness.part == {(witness.promise.topic, 0): RECORDS}
    assert found(witness) == {}
    verdicts = {finding.kind: finding for finding in judge(witness.chronicle)}
    assert verdicts[kinds.LOST].passed
    assert not verdicts[kinds.DIVERGED].passed
    assert verdicts[kinds.DIVERGED].unseen


def test_what_was_acknowledged_and_cannot_be_read_is_lost(witness: ForeignWitness) -> None:
    lost = SentRecord(RECORDS, "p", 0, witness.promise.topic, 0, NO_CRC, record_crc(b"x"), ACKED, RECORDS, told_us=1)
    witness.chronicle.sent.append(lost)
    assert found(witness)[kinds.LOST] == 1


def test_a_transaction_that_stays_open_is_stuck(
    kafka_cluster: Cluster, witness: ForeignWitness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.evidence.foreign_witness._PATIENCE_S", 1.0)
    topic = witness.promise.topic
    with ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open").result()
        witness.settle()
        producer.abort_transaction()
    (words,) = witness.chronicle.stuck
    assert words.startswith(f"{topic} has an open transaction, or records still come")
