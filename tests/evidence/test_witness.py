"""One topic of a real cluster, looked at: the judge convicts by what was seen, and excuses what the network did."""

from __future__ import annotations

import pytest

import ottla
from ottla.audit import findings as kinds
from ottla.audit.chronicles.chronicle import ProducerPromise, SentRecord, TopicPromise
from ottla.audit.chronicles.judgement import judge
from ottla.cluster.cluster import Cluster
from ottla.evidence.times import RunClock
from ottla.evidence.witness import NOT_SEEN, TopicWitness, looked_at
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import NO_CRC, NO_OFFSET, SEQUENCE_HEADER, UNKNOWN, pack_sequence
from ottla.patience import comes_within

VALUE = b"a value"


def stored(cluster: Cluster, topic: str) -> int:
    (partition,) = cluster.replicas(topic)
    return min(replica["high_watermark"] for replica in partition["replicas"])


@pytest.fixture
def witness(kafka_cluster: Cluster, kafka_name: str) -> TopicWitness:
    """Of a topic to which a producer without acks has sent one record, that the network delivered twice."""
    kafka_cluster.create_topic(kafka_name, partitions=1, replication_factor=3)
    promise = ProducerPromise("p", acks=0, idempotent=False)
    witness = TopicWitness(kafka_cluster, TopicPromise(kafka_name, 1, 3), promise, RunClock())
    witness.look()
    with kafka_cluster.faults.redeliver(topic=kafka_name, nth=1) as fault:
        with ottla.Producer(kafka_cluster.bootstrap_servers, acks=0, enable_idempotence=False) as producer:
            producer.send(kafka_name, VALUE, headers=[(SEQUENCE_HEADER, pack_sequence(0))])
        assert comes_within(30, lambda: stored(kafka_cluster, kafka_name) == 2)
        assert fault.fired == 1
    witness.choose_part()
    witness.take_stock()
    witness.chronicle.sent.append(
        SentRecord(0, "p", 0, kafka_name, 0, NO_CRC, record_crc(VALUE), UNKNOWN, NO_OFFSET, told_us=1)
    )
    return witness


def found(witness: TopicWitness) -> list[str]:
    return [finding.kind for finding in judge(witness.chronicle) if finding.count and finding.kind not in NOT_SEEN]


def test_a_copy_is_the_producers_doing_until_somebody_says_who_made_it(witness: TopicWitness) -> None:
    assert found(witness) == [kinds.DUPLICATED, kinds.BROKEN_PROMISE]
    witness.note_faults({"redeliver": 1})
    assert found(witness) == []


def test_all_replicas_and_both_copies_were_looked_at(witness: TopicWitness) -> None:
    assert witness.part == {(witness.promise.topic, 0): 2}
    assert [len(replica.batches) for replica in witness.chronicle.replicas or ()] == [2, 2, 2]
    assert looked_at([witness]).startswith("2 records one by one, 6 batches in the 3 logs of all replicas, ")
