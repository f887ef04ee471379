"""A log that no longer knows a producer, or has lost what it acknowledged: the producer goes on, nothing fails."""

from __future__ import annotations

import pytest
from tests.client.in_time import wait_until
from tests.read_back import stored
from tests.wire import Wire

import ottla
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.records.plain import decode_batches


def epochs(cluster: ottla.Cluster, topic: str) -> list[tuple[int, int]]:
    """(producer id, epoch) of every batch of a topic with one partition, repetitions left out."""
    with ottla.Reader(cluster.bootstrap_servers, topic) as reader:
        found = {
            (header.producer_id, header.producer_epoch): None
            for fetched in reader.iter_raw()
            for header, _ in decode_batches(fetched.records)
        }
    return list(found)


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_broker_that_breaks_the_sequence_gets_the_rest_in_the_next_epoch(
    kafka_cluster: ottla.Cluster, kafka_topic: str, code: int
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send(kafka_topic, b"first", partition=0).result(30)
        with kafka_cluster.faults.refuse(topic=kafka_topic, error=code, times=1) as fault:
            deliveries = [producer.send(kafka_topic, b"%d" % n, partition=0) for n in range(1000)]
            producer.flush(60)
            assert fault.fired == 1
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 1001))
    assert stored(kafka_cluster, kafka_topic) == [b"first", *(b"%d" % n for n in range(1000))]
    [(old_id, old_epoch), (new_id, new_epoch)] = epochs(kafka_cluster, kafka_topic)
    assert (new_id, new_epoch) == (old_id, old_epoch + 1)


def test_a_topic_deleted_and_made_anew_takes_the_records_of_a_producer_that_goes_on(
    kafka_cluster: ottla.Cluster,
) -> None:
    topic = "made-anew"
    kafka_cluster.create_topic(topic)
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        for n in range(20):
            producer.send(topic, b"before %d" % n).result(30)
        kafka_cluster.delete_topic(topic)
        kafka_cluster.create_topic(topic)
        deliveries = [producer.send(topic, b"%d" % n) for n in range(1000)]
        producer.flush(60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1000))
    assert stored(kafka_cluster, topic) == [b"%d" % n for n in range(1000)]
    kafka_cluster.delete_topic(topic)


def test_an_expired_producer_id_is_used_on() -> None:
    settings = {"producer_id_expiration_ms": 200, "producer_id_expiration_check_interval_ms": 20}
    with (
        ottla.Cluster(brokers=1, settings=settings) as cluster,
        ottla.Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
    ):
        cluster.create_topic("idle")
        wire = Wire(cluster.bootstrap_servers)
        question = DescribeProducersRequest(topics=[TopicRequest(name="idle", partition_indexes=[0])])
        for round_number in range(3):
            for n in range(200):
                producer.send("idle", b"%d" % (200 * round_number + n))
            producer.flush(60)
            wait_until(lambda: not wire.ask(question, 0).topics[0].partitions[0].active_producers)
        assert stored(cluster, "idle") == [b"%d" % n for n in range(600)]


def test_a_log_that_lost_what_it_acknowledged_takes_what_comes_next() -> None:
    with ottla.Cluster(brokers=2, settings={"unclean_leader_election_enable": False}) as cluster:
        cluster.create_topic("lossy", replication_factor=2)
        with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=20) as producer:
            for n in range(5):
                producer.send("lossy", b"%d" % n).result(30)
            leader = cluster.leader("lossy", 0)
            follower = 3 - leader
            cluster.kill(follower)
            for n in range(5, 10):
                producer.send("lossy", b"%d" % n).result(30)  # acknowledged by a leader that is alone
            cluster.kill(leader)
            cluster.start(follower)
            wait_until(lambda: cluster.leader("lossy", 0) == -1)
            assert cluster.elect_leader("lossy", 0, unclean=True) == follower
            deliveries = [producer.send("lossy", b"%d" % n) for n in range(10, 500)]
            producer.flush(60)
            assert [delivery.result(0).offset for delivery in deliveries] == list(range(5, 495))
        assert stored(cluster, "lossy") == [b"%d" % n for n in [*range(5), *range(10, 500)]]
