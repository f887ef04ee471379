"""A reader while leaders change: it reads on if the log is the same, and raises if records are lost (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla.reader.events import Fetched
from ottla.records.plain import decode_batches

PATIENCE_S = 30


def send(cluster: ottla.Cluster, topic: str, values: Iterator[int] | range) -> None:
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=20) as producer:
        for number in values:
            producer.send(topic, b"%d" % number)
        producer.flush(60)


def take(arriving: Iterator[Fetched], count: int) -> list[bytes]:
    """The next records that arrive, at least so many."""
    taken: list[bytes] = []
    while len(taken) < count:
        fetched = next(arriving)
        taken += [
            bytes(record.value)
            for _, records in decode_batches(fetched.records)
            for record in records
            if record.offset >= fetched.fetch_offset
        ]
    return taken


def elect_the_other(cluster: ottla.Cluster, topic: str) -> int:
    """Of two brokers, make the one lead that is down and not in sync; returns its id."""
    leader = cluster.leader(topic, 0)
    cluster.kill(leader)
    cluster.start(3 - leader)
    wait_until(lambda: cluster.leader(topic, 0) == -1)
    assert cluster.elect_leader(topic, 0, unclean=True) == 3 - leader
    return 3 - leader


def test_a_log_that_lost_what_was_read_is_told_and_other_records_are_not_read_in_its_place() -> None:
    with ottla.Cluster(brokers=2, settings={"unclean_leader_election_enable": False}) as cluster:
        cluster.create_topic("lossy", replication_factor=2)
        send(cluster, "lossy", range(5))
        leader = cluster.leader("lossy", 0)
        with ottla.Reader(cluster.bootstrap_servers, "lossy", end=None, retry_backoff_ms=20) as reader:
            arriving = reader.iter_raw(patience_s=PATIENCE_S)
            assert take(arriving, 5) == [b"%d" % n for n in range(5)]
            cluster.kill(3 - leader)
            send(cluster, "lossy", range(5, 10))  # acknowledged by a leader that is alone
            assert take(arriving, 5) == [b"%d" % n for n in range(5, 10)]
            elect_the_other(cluster, "lossy")
            send(cluster, "lossy", range(100, 120))
            with pytest.raises(ottla.LogTruncated, match="offsets 5 to 9 of leader epoch 0, which were read") as caught:
                take(arriving, 1)
            error = caught.value
            assert (error.topic, error.partition, error.broker_id) == ("lossy", 0, 3 - leader)
            assert (error.offset, error.truncated_from) == (10, 5)
        # Whoever begins anew reads what is there.
        found = ottla.read_table(cluster.bootstrap_servers, "lossy", start=5)
        assert found["value"].to_pylist() == [b"%d" % n for n in range(100, 120)]


def test_a_table_that_is_cut_off_while_it_is_read_is_told(kafka_name: str) -> None:
    """The end offset is from before the election: the reader must not wait for it, nor return other records."""
    with ottla.Cluster(brokers=2, settings={"unclean_leader_election_enable": False}) as cluster:
        cluster.create_topic(kafka_name, replication_factor=2)
        send(cluster, kafka_name, range(5))
        leader = cluster.leader(kafka_name, 0)
        cluster.kill(3 - leader)
        send(cluster, kafka_name, range(5, 10))
        fetch = cluster.faults.lose_request(api="Fetch", broker_id=leader, every=1)
        with ottla.Reader(cluster.bootstrap_servers, kafka_name, retry_backoff_ms=20) as reader:
            wait_until(lambda: fetch.fired > 0)
            elect_the_other(cluster, kafka_name)
            send(cluster, kafka_name, range(100, 120))
            with pytest.raises(ottla.LogTruncated, match="offsets 5 to 9 of leader epoch 0, which were to be read"):
                take(reader.iter_raw(patience_s=PATIENCE_S), 1)


def test_leaders_that_change_in_order_are_followed_without_an_alarm() -> None:
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("moving", replication_factor=3)
        with ottla.Reader(cluster.bootstrap_servers, "moving", end=None, retry_backoff_ms=20) as reader:
            arriving = reader.iter_raw(patience_s=PATIENCE_S)
            found: list[bytes] = []
            for turn in range(6):
                send(cluster, "moving", range(10 * turn, 10 * turn + 10))
                found += take(arriving, 10)
                leader = cluster.leader("moving", 0)
                if turn % 2:
                    cluster.move_leader("moving", 0)
                else:
                    cluster.kill(leader)
                    cluster.await_leader("moving", 0, other_than=leader)
                    cluster.start(leader)
                    cluster.await_isr("moving", 0)
            assert found == [b"%d" % n for n in range(60)]
