"""What brokers count against the beans of a running node of Apache Kafka: every name and attribute is Kafka's own.

The node's beans are read by attaching to its process, which needs no JMX port of it: one run of a JVM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools.apache_kafka import ApacheKafka

import ottla
from ottla.cluster.cluster import Cluster

pytestmark = pytest.mark.kafka

Beans = dict[str, set[str]]

_SOURCE = Path(__file__).with_name("BeansOfKafka.java")
_TOPIC = "metered"
_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request="
# The beginnings of beans that Apache Kafka does not have, with the reason.
NOT_KAFKAS = {
    _REQUESTS: "the sum over all versions; Kafka has a bean for each, with version= behind the request",
    "ottla.network:type=SocketServer,name=SendfileBytesPerSec": "Kafka does not count what it gives to sendfile",
    "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs": (
        "a bean of Kafka's until 3.9; controllers of KRaft count unclean elections only"
    ),
    "kafka.server:type=BrokerTopicMetrics,name=FailedProduceRequestsPerSec,topic=": (
        "Kafka makes it with the topic's first failure, here it is 0 until then"
    ),
    "kafka.server:type=BrokerTopicMetrics,name=FailedFetchRequestsPerSec,topic=": (
        "Kafka makes it with the topic's first failure, here it is 0 until then"
    ),
}


def use(address: str) -> None:
    """The same traffic for both: what a bean is made for by its first use is there afterwards."""
    with ottla.Admin(address) as admin:
        admin.create_topics(_TOPIC, partitions=1)
        with ottla.Producer(address) as producer:
            producer.send(_TOPIC, b"value").result(60)
        with ottla.Reader(address, _TOPIC) as reader:
            assert len(list(reader.iter_raw())) == 1
        admin.describe(_TOPIC)
        admin.delete_records(_TOPIC, {0: 1})


@pytest.fixture(scope="module")
def theirs(apache_kafka_node: ApacheKafka, java: Any) -> Beans:
    """The attributes of every bean of the node."""
    use(apache_kafka_node.bootstrap_servers)
    told: bytes = java.run(str(_SOURCE), str(apache_kafka_node.pids[0]))
    lines = [line.split("|") for line in told.decode().splitlines()]
    return {bean: set(attributes) for bean, *attributes in lines}


@pytest.fixture(scope="module")
def ours() -> Beans:
    """The same of two embedded brokers, one of which follows the other."""
    with Cluster(brokers=2) as cluster:
        use(cluster.bootstrap_servers)
        return {bean: set(found) for told in cluster.metrics().values() for bean, found in told.items()}


def reason(bean: str) -> str | None:
    """Which exception allows a bean that Kafka does not have."""
    return next((begin for begin in NOT_KAFKAS if bean.startswith(begin)), None)


def test_every_bean_of_ours_is_one_of_apache_kafkas_or_has_a_reason_not_to_be(ours: Beans, theirs: Beans) -> None:
    assert len(ours) > 50
    unknown = sorted(ours.keys() - theirs.keys())
    assert [bean for bean in unknown if reason(bean) is None] == []
    assert {reason(bean) for bean in unknown} == set(NOT_KAFKAS)


def test_every_attribute_of_ours_is_one_of_the_same_bean(ours: Beans, theirs: Beans) -> None:
    both = ours.keys() & theirs.keys()
    assert len(both) > 40
    assert {bean: ours[bean] - theirs[bean] for bean in both if not ours[bean] <= theirs[bean]} == {}


def test_requests_that_are_counted_in_one_are_counted_by_version_there(ours: Beans, theirs: Beans) -> None:
    """What NOT_KAFKAS says of them: without the version, each is the beginning of beans of Kafka's."""
    asked = {bean.removeprefix(_REQUESTS) for bean in ours if bean.startswith(_REQUESTS)}
    counted = {bean.removeprefix(_REQUESTS).split(",version=")[0] for bean in theirs if bean.startswith(_REQUESTS)}
    followers = {"FetchFollower"}  # the node is alone
    assert {"Produce", "FetchConsumer", "Metadata", "DeleteRecords"} <= asked - followers
    assert asked - followers <= counted
    for bean in ours:
        if bean.startswith(_REQUESTS):
            versions = [each for each in theirs if each.startswith(f"{bean},version=")]
            assert all(ours[bean] <= theirs[each] for each in versions)


def test_connections_are_counted_by_listener() -> None:
    with Cluster(brokers=1, listeners={"A": ottla.Listener(), "B": ottla.Listener()}) as cluster:
        with ottla.Admin(cluster.bootstrap_servers_of("B")) as admin:
            admin.list_topics()
            told = cluster.metrics(1)
        counted = [told[f"kafka.server:type=socket-server-metrics,listener={name},networkProcessor=0"] for name in "AB"]
        assert counted == [{"connection-count": 0}, {"connection-count": 1}]
