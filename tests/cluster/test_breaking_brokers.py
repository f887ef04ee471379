"""`Cluster`'s verbs that break brokers, over real sockets: what is acked stays, as far as Kafka promises."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from tests.client.in_time import wait_until
from tests.read_back import stored

from ottla.client.producer import Producer

# Only one reader of plain records is needed here: the client's raw one, which knows neither pyarrow nor numpy.
from ottla.client.reader import Reader
from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError, DeliveryError, KafkaError, OttlaError, UserMistake

QUICK = {"broker_session_timeout_ms": 600, "broker_heartbeat_interval_ms": 100}


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.prove)], ids=["process", "thread"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers that are missed soon."""
    with Cluster(settings=QUICK, in_process=request.param) as cluster:
        cluster.create_topic("flights", configs={"min.insync.replicas": "2"})
        yield cluster


def send(cluster: Cluster, *values: bytes) -> None:
    with Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("flights", value)


def port_of(cluster: Cluster, broker_id: int) -> int:
    return int(cluster.bootstrap_servers.split(",")[broker_id - 1].rpartition(":")[2])


def test_a_killed_leader_is_replaced_and_takes_its_place_again(cluster: Cluster) -> None:
    send(cluster, b"a")
    old = cluster.leader("flights", 0)
    cluster.kill(old)
    assert cluster.brokers()[old] == "down"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(cluster, old)), timeout=10)
    new = cluster.await_leader("flights", 0, other_than=old)
    send(cluster, b"b")
    cluster.start(old)
    assert sorted(cluster.await_isr("flights", 0)) == [1, 2, 3]
    assert cluster.leader("flights", 0) == new
    assert cluster.elect_leader("flights", 0) == old
    assert stored(cluster, "flights") == [b"a", b"b"]


def test_nothing_acked_is_lost_when_leaders_are_killed_in_the_middle_of_production(cluster: Cluster) -> None:
    with Producer(cluster.bootstrap_servers, linger_ms=0, batch_size=500) as producer:
        for number in range(3000):
            if number % 1000 == 500:
                down = [broker_id for broker_id, state in cluster.brokers().items() if state == "down"]
                for broker_id in down:
                    cluster.start(broker_id)
                    cluster.await_isr("flights", 0)
                cluster.kill(cluster.await_leader("flights", 0))
            producer.send("flights", b"%d" % number)
        producer.flush()
    assert stored(cluster, "flights") == [b"%d" % number for number in range(3000)]


def test_a_power_cut_of_everything_takes_what_was_not_synced_and_nothing_else(cluster: Cluster) -> None:
    """acks=all means three page caches, as with Apache Kafka; flush.messages=1 means three disks."""
    cluster.create_topic("synced", configs={"flush.messages": "1"})
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send("synced", b"kept").result(30)
        producer.send("flights", b"lost or kept").result(30)
    cluster.power_off()
    assert set(cluster.brokers().values()) == {"down"}
    with pytest.raises(UserMistake, match="start them first"):
        cluster.create_topic("later")
    cluster.start()
    cluster.await_isr("synced", 0)
    cluster.await_isr("flights", 0)
    with Reader(cluster.bootstrap_servers, "synced") as reader:
        assert sum(1 for _ in reader.iter_raw()) == 1
    send(cluster, b"next")
    assert stored(cluster, "flights") in ([b"next"], [b"lost or kept", b"next"])


def test_killing_everything_loses_nothing(cluster: Cluster) -> None:
    send(cluster, b"a", b"b")
    cluster.kill()
    cluster.start()
    cluster.await_isr("flights", 0)
    send(cluster, b"c")
    assert stored(cluster, "flights") == [b"a", b"b", b"c"]


def test_who_waits_for_a_leader_or_for_replicas_in_sync_waits_for_brokers_that_run(cluster: Cluster) -> None:
    """The metadata name brokers that have ended until somebody notices, and without any broker nobody does."""
    leader = cluster.leader("flights", 0)
    cluster.kill(leader)
    assert cluster.await_leader("flights", 0) != leader
    cluster.start(leader)
    cluster.await_isr("flights", 0)
    cluster.kill()
    with pytest.raises(OttlaError, match=r"in sync after 0 s; down are \["):
        cluster.await_leader("flights", 0, timeout=0)
    with pytest.raises(OttlaError, match="in sync after 0 s"):
        cluster.await_isr("flights", 0, 1, timeout=0)
    with pytest.raises(UserMistake, match="no broker is running: none can be killed now"):
        cluster.kill()
    cluster.start()
    assert cluster.await_leader("flights", 0) > 0


def test_a_paused_broker_keeps_its_clients_waiting_and_goes_on(cluster: Cluster) -> None:
    send(cluster, b"a")
    zombie = cluster.leader("flights", 0)
    with Producer(cluster.bootstrap_servers, request_timeout_ms=1000, delivery_timeout_ms=30_000) as producer:
        producer.send("flights", b"b").result(30)
        cluster.pause(zombie)
        delivery = producer.send("flights", b"c")
        assert cluster.await_leader("flights", 0, other_than=zombie) != zombie
        delivery.result(30)
    cluster.resume(zombie)
    cluster.await_isr("flights", 0)
    assert stored(cluster, "flights") == [b"a", b"b", b"c"]


def test_a_stopped_broker_hands_over_before_it_goes(cluster: Cluster) -> None:
    send(cluster, b"a")
    leader = cluster.leader("flights", 0)
    cluster.stop(leader)
    assert cluster.leader("flights", 0) not in (leader, -1)
    send(cluster, b"b")
    cluster.start(leader)
    cluster.await_isr("flights", 0)
    assert stored(cluster, "flights") == [b"a", b"b"]


def test_all_brokers_are_paused_and_go_on_at_once(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.pause()
    assert cluster.brokers() == {1: "down", 2: "paused", 3: "paused"}
    cluster.resume()
    assert cluster.brokers() == {1: "down", 2: "running", 3: "running"}
    cluster.start()
    cluster.await_isr("flights", 0)


def test_all_brokers_are_stopped_in_order_and_have_everything_again(cluster: Cluster) -> None:
    send(cluster, b"a")
    cluster.stop()
    assert set(cluster.brokers().values()) == {"down"}
    for verb in (cluster.pause, cluster.stop):
        with pytest.raises(UserMistake, match="no broker is running: none can be"):
            verb()
    cluster.start()
    cluster.await_isr("flights", 0)
    assert stored(cluster, "flights") == [b"a"]


def test_topics_tell_who_leads_what(cluster: Cluster) -> None:
    cluster.create_topic("trains", partitions=2, replication_factor=1)
    topics = cluster.topics()
    assert list(topics) == ["flights", "trains"]
    [flights], trains = topics["flights"], topics["trains"]
    assert flights["leader"] == cluster.leader("flights", 0)
    assert sorted(flights["isr"]) == sorted(flights["replicas"]) == [1, 2, 3]
    cluster.kill(trains[1]["leader"])
    assert cluster.await_leader("trains", 0) == trains[0]["leader"]
    wait_until(lambda: cluster.topics()["trains"][1]["leader"] == -1, "a broker that is down leads")
    assert cluster.topics()["trains"][1]["replicas"] == trains[1]["replicas"]


def test_with_too_few_replicas_nobody_is_told_that_a_record_is_safe(cluster: Cluster) -> None:
    leader = cluster.leader("flights", 0)
    for broker_id in {1, 2, 3} - {leader}:
        cluster.kill(broker_id)
    producer = Producer(cluster.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=1200, linger_ms=0)
    delivery = producer.send("flights", b"a")
    assert delivery.exception(30) is not None
    with pytest.raises((DeliveryError, OttlaError)):
        delivery.result(30)
    producer.close()


def test_what_cannot_be_done_to_a_broker_is_said_in_one_sentence(cluster: Cluster) -> None:
    with pytest.raises(UserMistake, match="there is no broker 9"):
        cluster.kill(9)
    with pytest.raises(UserMistake, match="no broker is down: none can be started now"):
        cluster.start()
    with pytest.raises(UserMistake, match="no broker is paused: none can be resumed now"):
        cluster.resume()
    with pytest.raises(UserMistake, match="broker 1 is running: it cannot be resumed"):
        cluster.resume(1)
    with pytest.raises(UserMistake, match="broker 1 is running: it cannot be started"):
        cluster.start(1)
    for verb in (cluster.stop, cluster.start):
        with pytest.raises(UserMistake, match="there is no broker 9: this cluster's brokers are 1, 2, 3"):
            verb(9)
    cluster.pause(2)
    with pytest.raises(UserMistake, match="broker 2 is paused: it cannot be stopped"):
        cluster.stop(2)
    with pytest.raises(UserMistake, match="broker 2 is paused: it cannot be started"):
        cluster.start(2)
    cluster.resume(2)
    with pytest.raises(ConfigError, match="seed='x' must be an integer"):
        cluster.power_off(2, seed="x")  # type: ignore[arg-type]
    cluster.kill(1)
    for verb, done in (
        (cluster.kill, "killed"),
        (cluster.power_off, "powered off"),
        (cluster.pause, "paused"),
        (cluster.stop, "stopped"),
    ):
        with pytest.raises(UserMistake, match=f"broker 1 is down: it cannot be {done} now"):
            verb(1)
    with pytest.raises(OttlaError, match="in sync after"):
        cluster.await_isr("flights", 0, size=4, timeout=0.01)
    with pytest.raises(KafkaError):
        cluster.leader("nowhere", 0)


def test_a_broker_has_its_port_again_when_it_comes_back_and_nobody_else_meanwhile(cluster: Cluster) -> None:
    servers, port = cluster.bootstrap_servers, port_of(cluster, 2)
    for end in (cluster.kill, cluster.power_off, cluster.stop):
        end(2)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        cluster.start(2)
        assert cluster.bootstrap_servers == servers
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    cluster.await_isr("flights", 0)
    with Producer(f"127.0.0.1:{port}") as producer:
        producer.send("flights", b"by the old address").result(30)
    assert stored(cluster, "flights") == [b"by the old address"]


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_brokers_that_are_killed_again_and_again_leave_no_descriptors_behind() -> None:
    with Cluster(2) as cluster:
        cluster.create_topic("flights", partitions=8)

        def left_after(lives: int) -> int:
            for _ in range(lives):
                send(cluster, *[b"%d" % number for number in range(50)])
                assert stored(cluster, "flights")
                cluster.kill(1)
                cluster.start(1)
                cluster.kill()
                left = len(os.listdir(f"/proc/{cluster.pid}/fd"))
                cluster.start()
            return left

        first = left_after(1)
        assert left_after(20) <= first


def left_by_a_power_cut(folder: Path, seed: int) -> bytes:
    with Cluster(1, data_dir=folder) as cluster:
        cluster.create_topic("flights")
        with Producer(cluster.bootstrap_servers, enable_idempotence=False, acks=1) as producer:
            for number in range(20):
                producer.send("flights", b"value %d" % number, timestamp_ms=1000).result(30)
        cluster.power_off(1, seed=seed)
        return (folder / "broker-1" / "flights-0" / f"{0:020d}.log").read_bytes()


def test_the_same_seed_leaves_the_same_bytes_without_power(tmp_path: Path) -> None:
    left = [left_by_a_power_cut(tmp_path / str(seed), seed) for seed in range(4)]
    again = [left_by_a_power_cut(tmp_path / f"{seed} again", seed) for seed in range(4)]
    assert left == again
    assert len(set(map(len, left))) > 1


def lives_that_lost(end: Callable[[Cluster, int], None]) -> int:
    """In how many of twenty lives something is missing after this `end`, which gets a seed, and another start."""
    sent, lost = [b"%d" % number for number in range(10)], 0
    for seed in range(20):
        with Cluster(1) as cluster:
            cluster.create_topic("flights")
            send(cluster, *sent)
            end(cluster, seed)
            cluster.start()
            lost += stored(cluster, "flights") != sent
    return lost


@pytest.mark.parametrize("power", [True, False])
def test_a_page_cache_outlives_its_killed_broker_and_not_the_power_of_the_cluster(power: bool) -> None:
    """What was acked by a broker that is down already goes with the power of all, as most seeds show."""

    def end(cluster: Cluster, seed: int) -> None:
        cluster.kill()
        if power:
            cluster.power_off(seed=seed)

    lost = lives_that_lost(end)
    assert (lost > 10) if power else (lost == 0)


@pytest.mark.parametrize("in_order", [True, False])
def test_who_was_stopped_in_order_has_nothing_to_lose_without_power(in_order: bool) -> None:
    """The control is a broker that was killed: what it had not synced goes with the power, as most seeds show."""

    def end(cluster: Cluster, seed: int) -> None:
        (cluster.stop if in_order else cluster.kill)(1)
        cluster.power_off(seed=seed)

    lost = lives_that_lost(end)
    assert (lost == 0) if in_order else (lost > 10)


@pytest.mark.parametrize("verb", ["power_off", "cut_power"])
def test_a_fault_that_cuts_the_power_leaves_the_same_bytes_again(tmp_path: Path, verb: str) -> None:
    def left(name: str, **seed: int) -> bytes:
        with Cluster(1, data_dir=tmp_path / name) as cluster:
            cluster.create_topic("flights")
            with (
                Producer(cluster.bootstrap_servers, enable_idempotence=False, acks=1, retries=0) as producer,
                getattr(cluster.faults, verb)(nth=20, **seed) as fault,
            ):
                for number in range(20):
                    sent = producer.send("flights", b"value %d" % number, timestamp_ms=1000)
                    assert sent.exception(30) is None or number == 19
                assert fault.fired == 1
                return (tmp_path / name / "broker-1" / "flights-0" / f"{0:020d}.log").read_bytes()

    assert left("a") == left("b") == left("c", seed=0)
    assert len({left(f"seed {seed}", seed=seed) for seed in range(4)}) > 1


def test_a_broker_that_does_not_get_to_stop_is_stopped_once_and_may_be_killed(cluster: Cluster) -> None:
    """Cut off from the controller it cannot hand over what it leads."""
    with cluster.faults.isolate(1), ThreadPoolExecutor(2) as threads:
        both = [threads.submit(cluster.stop, 1) for _ in range(2)]
        refused, left = wait(both, timeout=30, return_when=FIRST_COMPLETED)
        (only,), (waiting,) = refused, left
        with pytest.raises(UserMistake, match="broker 1 is being stopped already"):
            only.result()
        cluster.kill(1)
        assert waiting.result(30) is None
    assert cluster.brokers()[1] == "down"
    cluster.start(1)
    cluster.await_isr("flights", 0)
