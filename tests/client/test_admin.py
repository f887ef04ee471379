"""Topics, offsets and the cluster, asked for by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.client.in_time import ahead, wait_until

import ottla
from ottla.client.admin import Admin
from ottla.client.producer import Producer


def test_topics_are_made_described_listed_and_deleted(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_topics(["admin-a", "admin-b"], partitions=3, replication_factor=2)
        assert {"admin-a", "admin-b"} <= set(admin.list_topics())
        topic = admin.describe("admin-a")
        assert (topic.name, len(topic.topic_id), len(topic.partitions)) == ("admin-a", 16, 3)
        assert topic.authorized_operations is None
        allowed = admin.describe("admin-a", include_authorized_operations=True).authorized_operations
        assert allowed is not None
        assert {"READ", "WRITE", "DESCRIBE"} < allowed
        for number, place in enumerate(topic.partitions):
            assert place.partition == number
            assert place.leader == place.replicas[0]
            assert len(place.replicas) == 2
        admin.delete_topics(["admin-a", "admin-b"])
        assert not {"admin-a", "admin-b"} & set(admin.list_topics())


def test_a_topic_that_exists_is_refused_and_the_others_are_made(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        with pytest.raises(ottla.KafkaError, match=f"TOPIC_ALREADY_EXISTS.*{kafka_topic}"):
            admin.create_topics([kafka_topic, "admin-other"])
        assert "admin-other" in admin.list_topics()
        admin.delete_topics("admin-other")


def test_offsets_are_asked_of_the_next_leader_where_the_last_one_has_died(kafka_name: str) -> None:
    with ottla.Cluster(brokers=3) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics(kafka_name, partitions=3, replication_factor=3)
        with Producer(cluster.bootstrap_servers, acks="all") as producer:
            producer.send(kafka_name, b"x", partition=0).result(60)
        cluster.kill(cluster.leader(kafka_name, 0))
        assert admin.end_offsets(kafka_name) == {0: 1, 1: 0, 2: 0}
        cluster.start()
        cluster.await_isr(kafka_name, 0)
        cluster.kill(cluster.leader(kafka_name, 0))
        assert admin.delete_records(kafka_name, {0: 1}) == {0: 1}


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda admin, _name: admin.list_topics(), id="any broker"),
        pytest.param(lambda admin, name: admin.create_topics(name), id="the controller"),
    ],
)
def test_a_question_whose_connection_ends_before_it_leaves_is_asked_again(
    kafka_name: str, ask: Callable[[Admin, str], object]
) -> None:
    with ottla.Cluster(brokers=1) as cluster, Admin(cluster.bootstrap_servers) as admin, ThreadPoolExecutor(1) as other:
        admin.create_topics(f"{kafka_name}-before")
        loop = admin._driver.loop
        # While the turn is taken the I/O thread goes on sleeping: it hears of the question and of the end at once.
        with loop.turn:
            cluster.kill()
            cluster.start()
            asked = other.submit(ask, admin, kafka_name)
            wait_until(lambda: len(loop._posted) > 0)
        asked.result(30)


@pytest.mark.parametrize("fault", ["drop_request", "lose_request", "lose_ack"])
def test_the_first_question_of_all_is_asked_again_where_its_connection_is_lost(
    kafka_cluster: ottla.Cluster, fault: str
) -> None:
    first = {"client_id": "first-question", "request_timeout_ms": 500, "default_api_timeout_ms": 86_400_000}
    with getattr(kafka_cluster.faults, fault)(api="Metadata", nth=1) as lost:
        with Admin(kafka_cluster.bootstrap_servers, **first) as admin:
            assert len(admin.cluster().brokers) == 3
        assert lost.fired == 1


@pytest.mark.parametrize("fault", ["lose_ack", "drop_ack"])
def test_an_error_says_that_a_change_may_have_been_made_where_its_answer_was_lost(
    kafka_cluster: ottla.Cluster, kafka_name: str, fault: str
) -> None:
    with Admin(kafka_cluster.bootstrap_servers, request_timeout_ms=500) as admin:
        with getattr(kafka_cluster.faults, fault)(api="CreateTopics", nth=1) as lost:
            with pytest.raises(ottla.Unreachable, match=r"^CreateTopics was sent, .*may have been carried out$"):
                admin.create_topics(kafka_name)
            assert lost.fired == 1
        wait_until(lambda: kafka_name in admin.list_topics(), lambda: "the topic was not made")
        with (
            getattr(kafka_cluster.faults, fault)(api="DescribeConfigs", nth=1),
            pytest.raises(ottla.Unreachable, match=r"^DescribeConfigs was sent to broker 2, and no answer came: "),
        ):
            admin.describe_configs(broker_id=2)


def test_topics_are_made_with_as_many_partitions_as_each_is_to_have(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_topics({"admin-three": 3, "admin-five": 5}, replication_factor=1)
        assert [len(admin.describe(name).partitions) for name in ("admin-three", "admin-five")] == [3, 5]
        admin.delete_topics(["admin-three", "admin-five"])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda admin: admin.create_topics({"aa": 3}, partitions=4), "partitions twice"),
        (lambda admin: admin.create_topics({"aa": "three"}), "'three' for the partitions of 'aa': give a whole number"),
        (lambda admin: admin.create_topics({"aa": True}), "True for the partitions of 'aa'"),
        (lambda admin: admin.create_topics([("aa", 3)]), "<tuple> as a name: names are str"),
        (lambda admin: admin.delete_topics({"aa": 3}), "delete_topics takes a name or a list of names"),
        (lambda admin: admin.describe_transactions({"aa": 3}), "describe_transactions takes a name or a list"),
        (lambda admin: admin.fence_producers({"aa": 3}), "fence_producers takes a name or a list"),
    ],
)
def test_what_would_be_ignored_is_refused_and_nothing_is_done(
    kafka_cluster: ottla.Cluster, call: Callable[[Admin], object], told: str
) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        with pytest.raises(ottla.UserMistake, match=told):
            call(admin)
        assert "aa" not in admin.list_topics()


def test_one_transactional_id_may_be_given_as_it_is(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        assert list(admin.fence_producers("admin-one")) == ["admin-one"]
        assert list(admin.describe_transactions("admin-one")) == ["admin-one"]


def test_an_admin_says_what_it_is_without_asking_anybody(kafka_name: str) -> None:
    with Admin("localhost:1,[::1]:2") as admin:
        assert repr(admin) == "<Admin for localhost:1,[::1]:2, open>"
    assert repr(admin) == "<Admin for localhost:1,[::1]:2, closed>"


def test_a_topic_that_does_not_exist_is_named(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        for ask in (admin.describe, admin.end_offsets, admin.begin_offsets, admin.delete_topics):
            with pytest.raises(ottla.KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic") as caught:
                ask("no-such-topic")
            assert caught.value.topic == "no-such-topic"


def test_offsets_grow_with_what_is_stored(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        assert admin.end_offsets(kafka_topic) == {0: 0, 1: 0, 2: 0}
        with Producer(kafka_cluster.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(kafka_topic, b"x", partition=number % 2)
        assert admin.end_offsets(kafka_topic) == {0: 5, 1: 5, 2: 0}
        assert admin.begin_offsets(kafka_topic) == {0: 0, 1: 0, 2: 0}


def test_records_are_deleted_up_to_an_offset(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin, Producer(kafka_cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(kafka_topic, b"x", partition=number % 2)
        producer.flush()
        assert admin.delete_records(kafka_topic, {1: 3, 0: 2}) == {0: 2, 1: 3}
        assert admin.begin_offsets(kafka_topic) == {0: 2, 1: 3, 2: 0}
        assert admin.delete_records(kafka_topic, {0: -1}) == {0: 5}
        assert admin.delete_records(kafka_topic, {}) == {}
        assert admin.end_offsets(kafka_topic) == {0: 5, 1: 5, 2: 0}


def test_what_cannot_be_deleted_is_named_and_the_rest_is_deleted(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin, Producer(kafka_cluster.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"x", partition=0).result(30)
        with pytest.raises(ottla.KafkaError, match=rf"OFFSET_OUT_OF_RANGE.*\({kafka_topic}-1, broker \d\)") as caught:
            admin.delete_records(kafka_topic, {0: 1, 1: 1})
        leader = kafka_cluster.leader(kafka_topic, 1)
        assert (caught.value.topic, caught.value.partition, caught.value.broker_id) == (kafka_topic, 1, leader)
        assert admin.begin_offsets(kafka_topic) == {0: 1, 1: 0, 2: 0}
        with pytest.raises(
            ottla.KafkaError, match=f"UNKNOWN_TOPIC_OR_PARTITION.*{kafka_topic}-9: .* 3 partitions"
        ) as caught:
            admin.delete_records(kafka_topic, {9: 1})
        assert (caught.value.topic, caught.value.partition) == (kafka_topic, 9)
        with pytest.raises(ottla.KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
            admin.delete_records("no-such-topic", {0: 1})


def test_a_topic_is_given_more_partitions(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_topics("admin-grown", partitions=2)
        admin.create_partitions("admin-grown", 5)
        assert len(admin.describe("admin-grown").partitions) == 5
        with pytest.raises(ottla.KafkaError, match=r"INVALID_PARTITIONS.*admin-grown"):
            admin.create_partitions("admin-grown", 3)
        with pytest.raises(ottla.KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
            admin.create_partitions("no-such-topic", 3)
        admin.delete_topics("admin-grown")


def test_settings_of_topics_and_brokers_are_told_and_changed(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.alter_configs({"segment.ms": 77_000, "cleanup.policy": "compact"}, topic=kafka_topic)
        found = admin.describe_configs(topic=kafka_topic)
        assert (found["segment.ms"].value, found["segment.ms"].source) == ("77000", "topic")
        assert found["segment.bytes"].source == "default"
        admin.alter_configs({"segment.ms": None}, topic=kafka_topic)
        assert admin.describe_configs(topic=kafka_topic)["segment.ms"].source == "default"
        for broker_id in (1, 2, 3):
            told = admin.describe_configs(broker_id=broker_id)
            assert (told["broker.id"].value, told["broker.id"].read_only) == (str(broker_id), True)
        admin.alter_configs({"log.cleaner.backoff.ms": 9_000}, broker_id=2)
        assert admin.describe_configs(broker_id=2)["log.cleaner.backoff.ms"].source == "broker"
        assert admin.describe_configs(broker_id=3)["log.cleaner.backoff.ms"].source == "default"
        admin.alter_configs({"log.cleaner.backoff.ms": None}, broker_id=2)
        admin.alter_configs({"log.cleaner.backoff.ms": 8_000})
        assert admin.describe_configs()["log.cleaner.backoff.ms"].value == "8000"
        admin.alter_configs({"log.cleaner.backoff.ms": None})
        assert admin.describe_configs() == {}


def test_settings_that_cannot_be_are_refused_in_a_sentence(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    # None of them is tried again until the time is over.
    with Admin(kafka_cluster.bootstrap_servers, default_api_timeout_ms=86_400_000) as admin:
        with pytest.raises(ottla.KafkaError, match=r"INVALID_CONFIG.*segment.ms=never") as caught:
            admin.alter_configs({"segment.ms": "never"}, topic=kafka_topic)
        assert caught.value.topic == kafka_topic
        with pytest.raises(ottla.KafkaError, match=r"INVALID_REQUEST.*broker 2.*num.partitions") as caught:
            admin.alter_configs({"num.partitions": 3}, broker_id=2)
        assert caught.value.broker_id == 2
        with pytest.raises(ottla.KafkaError, match=r"INVALID_REQUEST.*num.partitions"):
            admin.alter_configs({"num.partitions": 3})
        with pytest.raises(ottla.KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
            admin.describe_configs(topic="no-such-topic")
        with pytest.raises(ottla.KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION.*no-such-topic"):
            admin.alter_configs({"segment.ms": 60_000}, topic="no-such-topic")
        with pytest.raises(ottla.OttlaError, match="topic and broker_id"):
            admin.describe_configs(topic=kafka_topic, broker_id=1)


def test_the_cluster_tells_its_brokers(kafka_cluster: ottla.Cluster) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        cluster = admin.cluster()
    addresses = [f"{broker.host}:{broker.port}" for broker in cluster.brokers]
    assert sorted(addresses) == sorted(kafka_cluster.bootstrap_servers.split(","))
    assert cluster.controller_id in [broker.broker_id for broker in cluster.brokers]


def test_the_sizes_of_logs_are_told_by_each_broker_that_keeps_them(
    kafka_cluster: ottla.Cluster, kafka_name: str
) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_topics(kafka_name, partitions=2, replication_factor=2)
        with Producer(kafka_cluster.bootstrap_servers, acks="all") as producer:
            producer.send(kafka_name, b"x" * 5_000, partition=1).result(30)
        told = admin.describe_log_dirs()
        replicas = {place.partition: set(place.replicas) for place in admin.describe(kafka_name).partitions}
        assert set(told) == {broker.broker_id for broker in admin.cluster().brokers}
        for broker_id, folders in told.items():
            (folder,) = folders
            assert folder.error is None
            assert folder.total_bytes is not None
            assert folder.usable_bytes is not None
            assert 0 < folder.usable_bytes < folder.total_bytes
            sizes = {each.partition: each.size_bytes for each in folder.replicas if each.topic == kafka_name}
            assert set(sizes) == {partition for partition in (0, 1) if broker_id in replicas[partition]}
            assert all(size > 5_000 if partition else size == 0 for partition, size in sizes.items())
        assert admin.describe_log_dirs([min(told)]).keys() == {min(told)}


def test_a_broker_that_is_not_there_is_named(kafka_cluster: ottla.Cluster) -> None:
    clock = ottla.Clock()
    with (
        Admin(kafka_cluster.bootstrap_servers, clock=clock) as admin,
        # Whoever asks for the brokers again has not found this one among them.
        kafka_cluster.faults.hold(api="Metadata", nth=2) as asked_again,
        ahead(clock, 60, asked_again.await_fired),
        pytest.raises(ottla.Unreachable, match="DescribeConfigs could not be asked of broker 9: ") as caught,
    ):
        admin.describe_configs(broker_id=9)
    assert caught.value.broker_id == 9


@pytest.mark.parametrize(
    ("api", "ask"),
    [
        ("ListOffsets", lambda admin, topic: admin.end_offsets(topic)),
        ("DeleteRecords", lambda admin, topic: admin.delete_records(topic, {0: 0, 1: 0, 2: 0})),
    ],
)
def test_all_leaders_are_asked_at_the_same_time(
    kafka_cluster: ottla.Cluster, kafka_topic: str, api: str, ask: Callable[[Admin, str], object]
) -> None:
    leaders = {kafka_cluster.leader(kafka_topic, partition) for partition in range(3)}
    assert len(leaders) > 1
    with (
        ThreadPoolExecutor(1) as other,
        # Its clock stands still, so no leader is given up.
        Admin(kafka_cluster.bootstrap_servers, clock=ottla.Clock(stopped=True)) as admin,
        kafka_cluster.faults.hold(api=api) as held,
    ):
        asked = other.submit(ask, admin, kafka_topic)
        held.await_fired(len(leaders))
        held.release()
        assert asked.result(30) == {0: 0, 1: 0, 2: 0}


def test_a_name_that_utf8_cannot_write_is_refused_and_not_taken_for_an_outage(kafka_cluster: ottla.Cluster) -> None:
    told = r"the cluster was not asked: .*'\\udcff' cannot be written as UTF-8"
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        for ask in (admin.describe, admin.create_topics, admin.delete_topics):
            with pytest.raises(ottla.UserMistake, match=told):
                ask("\udcff")


def test_a_closed_admin_says_so(kafka_cluster: ottla.Cluster) -> None:
    admin = Admin(kafka_cluster.bootstrap_servers)
    admin.close()
    admin.close()
    with pytest.raises(ottla.ClosedError, match="this admin client is closed"):
        admin.list_topics()


# Longer than any test: what a broker is told late, or not at all, nobody else makes up for.
NEVER_FENCED = {"broker_session_timeout_ms": 600_000}


def make_topic(admin: Admin, name: str) -> None:
    admin.create_topics(name, partitions=4)


def add_partitions(admin: Admin, name: str) -> None:
    admin.create_partitions(name, 4)


@pytest.mark.parametrize("make", [make_topic, add_partitions])
def test_what_is_made_can_be_used_of_every_broker(make: Callable[[Admin, str], None], kafka_name: str) -> None:
    """Whoever turns to another broker than the one that was asked is not told that there is no such topic."""
    with ottla.Cluster(brokers=3, settings=NEVER_FENCED) as cluster, ThreadPoolExecutor(1) as threads:
        others = ",".join(cluster.bootstrap_servers.split(",")[:2])
        with Admin(others) as admin:
            if make is add_partitions:
                cluster.create_topic(kafka_name)
            asked = cluster.faults.delay_request(api="Metadata", broker_id=3, delay_ms=1)
            with cluster.faults.isolate(3):
                making = threads.submit(make, admin, kafka_name)
                # Broker 3 says what it knew before, and is asked again.
                deadline = time.monotonic() + 30
                while asked.fired < 3:
                    assert not making.done()
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                assert not making.done()
            making.result(30)


@pytest.mark.parametrize(
    "lose",
    [ottla.Cluster.kill, ottla.Cluster.pause, lambda cluster, broker_id: cluster.faults.unplug(broker_id)],
    ids=["killed", "paused", "unplugged"],
)
def test_a_topic_is_made_though_a_broker_does_not_answer(
    lose: Callable[[ottla.Cluster, int], object], kafka_name: str
) -> None:
    with ottla.Cluster(brokers=3, settings=NEVER_FENCED) as cluster:
        lose(cluster, 3)
        with Admin(cluster.bootstrap_servers.split(",")[:2]) as admin:
            make_topic(admin, kafka_name)
            assert len(admin.describe(kafka_name).partitions) == 4


def test_a_topic_is_made_though_a_broker_that_is_given_up_does_not_hear_of_it(kafka_name: str) -> None:
    """It counts itself among the living for as long as it is cut off, and answers."""
    with ottla.Cluster(brokers=3) as cluster, cluster.faults.isolate(3):
        with Admin(cluster.bootstrap_servers.split(",")[2]) as admin:
            make_topic(admin, kafka_name)
        with Admin(cluster.bootstrap_servers.split(",")[0]) as admin:
            assert kafka_name in admin.list_topics()


class _Interrupted:
    """In place of `Waiting`: Ctrl+C comes at once."""

    def wait(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        raise KeyboardInterrupt

    def look(self) -> None:
        """Nobody waits."""


def test_an_answer_that_nobody_waits_for_any_more_is_not_kept(
    kafka_cluster: ottla.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Admin(kafka_cluster.bootstrap_servers) as admin:
        topics = admin.list_topics()
        driver = admin._driver
        with monkeypatch.context() as patched:
            patched.setattr(driver, "waiting", _Interrupted())
            with pytest.raises(KeyboardInterrupt):
                admin.list_topics()
        # Brokers answer in order.
        assert admin.list_topics() == topics
        assert driver._answers == {}
