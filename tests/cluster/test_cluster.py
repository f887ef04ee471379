"""What the holder of a `Cluster` can ask for: topics, leaders, faults; over the control channel and over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError, KafkaError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.records.plain import decode_batches


@pytest.fixture(scope="module", params=[False, True], ids=["own process", "in process"])
def three(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, in_process=request.param) as cluster:
        yield cluster


def test_every_broker_names_every_broker(three: Cluster, connect: Any) -> None:
    expected = [(number, *address.split(":")) for number, address in enumerate(three.bootstrap_servers.split(","), 1)]
    answer = connect(three).call(MetadataRequest(), 12)
    assert [(b.node_id, b.host, str(b.port)) for b in answer.brokers] == expected


@pytest.mark.parametrize("in_process", [False, True], ids=["own process", "in process"])
def test_a_cluster_says_what_it_is(in_process: bool) -> None:
    with Cluster(brokers=1, in_process=in_process) as cluster:
        address = cluster.bootstrap_servers
        assert repr(cluster) == f"<Cluster of 1 broker at {address}, running>"
    assert repr(cluster) == f"<Cluster of 1 broker at {address}, closed>"


def test_a_new_topic_is_known_to_every_broker_at_once(
    three: Cluster, connect: Any, kafka_name: str, wire_to: Any
) -> None:
    three.create_topic(kafka_name, partitions=6)
    for address in three.bootstrap_servers.split(","):
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=kafka_name)])
        topic = wire_to(address).call(wanted, 12).topics[0]
        assert topic.error_code == 0
        assert [p.leader_id for p in sorted(topic.partitions, key=lambda p: p.partition_index)] == [
            three.leader(kafka_name, partition) for partition in range(6)
        ]
    assert sorted(three.leader(kafka_name, partition) for partition in range(6)) == [1, 1, 2, 2, 3, 3]
    assert sorted(three.isr(kafka_name, 5)) == [1, 2, 3]


def test_topics_are_replicated_three_times_unless_told_otherwise(three: Cluster, kafka_name: str) -> None:
    three.create_topic(kafka_name, replication_factor=1)
    assert len(three.isr(kafka_name, 0)) == 1
    three.create_topic(kafka_name + "-3")
    assert len(three.isr(kafka_name + "-3", 0)) == 3


def test_topic_settings_are_judged(three: Cluster, kafka_name: str) -> None:
    three.create_topic(kafka_name, configs={"segment.bytes": "100000"})
    with pytest.raises(KafkaError, match=r"segment\.bytes") as caught:
        three.create_topic(kafka_name + "-other", configs={"segment.bytes": "many"})
    assert caught.value.name == "INVALID_CONFIG"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "no/slashes"}, "INVALID_TOPIC_EXCEPTION"),
        ({"name": "a", "partitions": 0}, "INVALID_PARTITIONS"),
        ({"name": "a", "replication_factor": 4}, "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_error(
    three: Cluster, arguments: dict[str, Any], error: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        three.create_topic(**arguments)
    assert caught.value.name == error


def test_a_topic_is_made_once_and_deleted_once(three: Cluster, kafka_name: str) -> None:
    three.create_topic(kafka_name)
    with pytest.raises(KafkaError) as caught:
        three.create_topic(kafka_name)
    assert caught.value.name == "TOPIC_ALREADY_EXISTS"
    three.delete_topic(kafka_name)
    for use in (lambda: three.delete_topic(kafka_name), lambda: three.leader(kafka_name, 0)):
        with pytest.raises(KafkaError) as caught:
            use()
        assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_partition_that_is_not_there_has_no_leader(three: Cluster, kafka_name: str) -> None:
    three.create_topic(kafka_name, partitions=2)
    for partition in (-1, 2):
        with pytest.raises(KafkaError, match=f"no partition {partition} of topic '{kafka_name}'"):
            three.leader(kafka_name, partition)


def test_a_record_is_acked_by_all_replicas_and_read_from_the_leader(
    three: Cluster, kafka_name: str, wire_to: Any, make: Any
) -> None:
    three.create_topic(kafka_name)
    wire = wire_to(three.bootstrap_servers.split(",")[three.leader(kafka_name, 0) - 1])
    answer = wire.call(make.produce(kafka_name, b"one"), 9).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    fetched = wire.call(make.fetch(kafka_name), 12).responses[0].partitions[0]
    assert fetched.high_watermark == 1
    assert [row.value for _, rows in decode_batches(bytes(fetched.records)) for row in rows] == [b"one"]


def test_a_broker_that_does_not_lead_says_so(three: Cluster, kafka_name: str, wire_to: Any, make: Any) -> None:
    three.create_topic(kafka_name)
    other = three.leader(kafka_name, 0) % 3
    wire = wire_to(three.bootstrap_servers.split(",")[other])
    answer = wire.call(make.produce(kafka_name, b"one"), 9).responses[0].partition_responses[0]
    assert answer.error_code == 6


@pytest.fixture
def topic(three: Cluster, kafka_name: str) -> Iterator[str]:
    """A topic with one partition on the first broker, to which `connect` connects."""
    three.create_topic(kafka_name, partitions=3, replication_factor=1)
    yield kafka_name
    three.delete_topic(kafka_name)


@pytest.fixture
def partition(three: Cluster, topic: str) -> int:
    return next(number for number in range(3) if three.leader(topic, number) == 1)


def test_a_lost_ack_is_stored_and_cut(three: Cluster, topic: str, partition: int, connect: Any, make: Any) -> None:
    request = make.produce(topic, b"x", partition=partition)
    with three.faults.lose_ack(topic=topic, partition=partition, nth=2) as fault:
        wire = connect(three)
        assert wire.call(request, 9).responses[0].partition_responses[0].base_offset == 0
        assert fault.fired == 0
        wire.ask(request, 9)
        assert wire.is_closed_by_broker()
        assert (fault.fired, fault.matched) == (1, 2)
        assert connect(three).call(request, 9).responses[0].partition_responses[0].base_offset == 2
    assert (fault.fired, fault.matched) == (1, 3)


def test_a_lost_request_is_cut_and_not_stored(
    three: Cluster, topic: str, partition: int, connect: Any, make: Any
) -> None:
    request = make.produce(topic, b"x", partition=partition)
    fault = three.faults.lose_request(topic=topic, every=2, times=2)
    ends = []
    for _ in range(6):
        wire = connect(three)
        wire.ask(request, 9)
        try:
            ends.append(wire.answer().responses[0].partition_responses[0].base_offset)
        except (EOFError, ConnectionResetError):
            ends.append(None)
    assert ends == [0, None, 1, None, 2, 3]
    fault.heal()
    fault.heal()
    assert fault.fired == 2


def test_refusals_are_told_before_and_after_the_append(
    three: Cluster, topic: str, partition: int, connect: Any, make: Any
) -> None:
    wire = connect(three)

    def produce() -> tuple[int, int]:
        answer = wire.call(make.produce(topic, b"x", partition=partition), 9).responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    with three.faults.refuse(topic=topic) as fault:
        assert [produce()[0] for _ in range(3)] == [19] * 3
        assert (fault.fired, fault.matched) == (3, 3)
    with three.faults.refuse(topic=topic, error=7) as fault:
        assert produce()[0] == 7
        assert fault.fired == 1
    assert produce() == (0, 0)
    with three.faults.refuse_after_append(topic=topic) as fault:
        assert [produce()[0] for _ in range(2)] == [20, 20]
        assert (fault.fired, fault.matched) == (2, 2)
    assert produce() == (0, 3)


def test_a_delayed_ack_comes_after_its_delay(
    three: Cluster, topic: str, partition: int, connect: Any, make: Any
) -> None:
    slow, quick = connect(three), connect(three)
    with three.faults.delay_ack(delay_ms=300, topic=topic, nth=1) as fault:
        slow.ask(make.produce(topic, b"slow", partition=partition), 9)
        while not fault.fired:
            pass
        answer = quick.call(make.produce(topic, b"quick", partition=partition), 9)
        assert answer.responses[0].partition_responses[0].base_offset == 1
        assert slow.answer().responses[0].partition_responses[0].base_offset == 0


def test_a_fault_that_makes_no_sense_is_refused(three: Cluster) -> None:
    with pytest.raises(ConfigError, match="nth=0"):
        three.faults.lose_ack(topic="flights", nth=0)
    with pytest.raises(ConfigError, match="nth fires once"):
        three.faults.lose_ack(topic="flights", nth=1, every=2)


def test_what_each_replica_holds_is_told_of_one_moment(three: Cluster, connect: Any, kafka_name: str) -> None:
    three.create_topic(kafka_name, partitions=2)
    for partition in range(2):
        three.await_isr(kafka_name, partition)
    looked = three.replicas(kafka_name)
    assert [part["leader"] for part in looked] == [three.leader(kafka_name, partition) for partition in range(2)]
    for partition, part in enumerate(looked):
        assert sorted(part["isr"]) == [1, 2, 3]
        assert [each["broker"] for each in part["replicas"]] == [1, 2, 3]
        assert [each["broker"] for each in part["replicas"] if each["is_leader"]] == [part["leader"]]
        assert {each["leader_epoch"] for each in part["replicas"]} == {part["leader_epoch"]}
        assert {each["log_end_offset"] for each in part["replicas"]} == {0}
        assert (Path(three.data_dir) / "broker-1" / f"{kafka_name}-{partition}").is_dir()
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        three.replicas("nowhere")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda cluster: cluster.create_topic(5), "name=5 must be a text"),
        (lambda cluster: cluster.create_topic("t", "3"), "partitions='3' must be an integer"),
        (lambda cluster: cluster.create_topic("t", configs={"retention.ms": [5]}), "must be a mapping of names"),
        (lambda cluster: cluster.create_topic("t", configs="retention.ms=5"), "must be a mapping of names"),
        (lambda cluster: cluster.delete_topic(["t"]), r"name=\['t'\] must be a text"),
        (lambda cluster: cluster.leader("t", "0"), "partition='0' must be an integer"),
        (lambda cluster: cluster.replicas(b"t"), "topic=b't' must be a text"),
        (lambda cluster: cluster.elect_leader("t", "0"), "partition='0' must be an integer"),
        (lambda cluster: cluster.elect_leader("t", 0, unclean="no"), "unclean='no' must be True or False"),
        (lambda cluster: cluster.move_leader("t", 0, "2"), "broker_id='2' must be an integer"),
        (lambda cluster: cluster.await_isr("t", 0, "2"), "size='2' must be an integer"),
        (lambda cluster: cluster.await_isr("t", 0, timeout="9"), "timeout='9' must be a number of seconds"),
        (lambda cluster: cluster.await_leader("t", 0, timeout=float("inf")), "timeout=inf must be a number of seconds"),
        (lambda cluster: cluster.kill("1"), "broker_id='1' must be an integer"),
        (lambda cluster: cluster.pause(True), "broker_id=True must be an integer"),
        (lambda cluster: cluster.power_off(1, seed=-1), "seed=-1 must be an integer from 0 to 9223372036854775807"),
        (lambda cluster: cluster.metrics([1]), r"broker_id=\[1\] must be an integer"),
        (lambda cluster: cluster.coordinator(group=5), "group=5 must be a text"),
        (lambda cluster: cluster.faults.add("kill"), "'kill' is no fault"),
        (lambda cluster: Cluster(1, settings="log.dir=x"), "settings='log.dir=x' must be a mapping"),
        (lambda cluster: Cluster(1, listeners=[1]), r"listeners=\[1\] must be a mapping"),
    ],
)
def test_an_argument_that_is_not_what_it_may_be_is_refused_at_once(three: Cluster, ask: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ask(three)


def test_a_barrier_is_awaited_for_a_number_of_seconds(three: Cluster) -> None:
    with three.faults.hold() as hold, pytest.raises(ConfigError, match="timeout=None must be a number of seconds"):
        hold.await_reached(timeout=None)  # type: ignore[arg-type]


def test_the_topic_setting_that_was_probably_meant_is_told(kafka_cluster: Cluster) -> None:
    with pytest.raises(
        KafkaError, match=r"cleanup\.polcy is not supported by this broker; did you mean cleanup\.policy"
    ):
        kafka_cluster.create_topic("orders", configs={"cleanup.polcy": "compact"})
    with pytest.raises(KafkaError, match=r"setting x is not supported by this broker; supported are cleanup\.policy"):
        kafka_cluster.create_topic("orders", configs={"x": "compact"})
