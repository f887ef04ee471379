"""Kafka's own admin tools against the embedded cluster, and a client of Java's that comes in by TLS and SASL."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.client.in_time import wait_until
from tests.wire import Wire

import ottla
from ottla import Listener
from ottla.broker.apis import OF_CLIENT_METRICS, VERSIONS
from ottla.cluster.cluster import Cluster
from ottla.protocol.messages import PRODUCE
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from ..papers import Papers
from .kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

_PATIENCE_S = 60
_TOOLS = "org.apache.kafka.tools"
_GROUPS = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
_USER, _PASSWORD = "ada", "lovelace-0815"
_MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[Cluster]:
    """Three brokers that take a transaction's word, so that one can be left hanging, and a way in by TLS and SASL."""
    secure = Listener(protocol="SASL_SSL", certificate=papers.server, users={_USER: _PASSWORD})
    settings = {"transaction_partition_verification_enable": False}
    with Cluster(brokers=3, settings=settings, listeners={"PLAINTEXT": Listener(), "SASL_SSL": secure}) as cluster:
        yield cluster


def run(kafka_tools: KafkaTools, cluster: Cluster, tool: str, *arguments: str) -> str:
    main_class = tool if tool.startswith(("org.", "kafka.")) else f"{_TOOLS}.{tool}"
    return kafka_tools.run(main_class, "--bootstrap-server", cluster.bootstrap_servers, *arguments)


def send(cluster: Cluster, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"value {number}", partition=partition)
    assert producer.flush(_PATIENCE_S) == 0


def test_kafka_topics_makes_describes_and_grows_a_topic(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    size = ["--partitions", "2", "--replication-factor", "3"]
    run(
        kafka_tools,
        cluster,
        "TopicCommand",
        "--create",
        "--topic",
        "java.topic",
        *size,
        "--config",
        "retention.ms=77000",
    )
    run(kafka_tools, cluster, "TopicCommand", "--alter", "--topic", "java.topic", "--partitions", "4")
    said = run(kafka_tools, cluster, "TopicCommand", "--describe", "--topic", "java.topic")
    head, *partitions = said.strip().splitlines()
    assert "PartitionCount: 4" in head
    assert "ReplicationFactor: 3" in head
    assert "Configs: retention.ms=77000" in head
    leaders = [int(re.search(r"Leader: (\d+)", line)[1]) for line in partitions]  # type: ignore[index]
    assert leaders == [cluster.leader("java.topic", index) for index in range(4)]


def test_kafka_configs_changes_topics_and_brokers(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    def configs(*arguments: str) -> str:
        return run(kafka_tools, cluster, "kafka.admin.ConfigCommand", *arguments)

    cluster.create_topic("configured", partitions=1)
    topic = ["--entity-type", "topics", "--entity-name", "configured"]
    configs("--alter", *topic, "--add-config", "max.message.bytes=5000,cleanup.policy=[compact,delete]")
    said = configs("--describe", *topic)
    assert "max.message.bytes=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=5000" in said
    assert "cleanup.policy=compact,delete" in said
    configs("--alter", *topic, "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in configs("--describe", *topic)
    everybody = ["--entity-type", "brokers", "--entity-default"]
    configs("--alter", *everybody, "--add-config", "log.retention.bytes=123456789")
    assert "log.retention.bytes=123456789" in configs("--describe", *everybody)
    one = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "2")
    assert "log.retention.bytes=123456789 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG" in one
    assert "broker.id=2" in one
    configs("--alter", *everybody, "--delete-config", "log.retention.bytes")
    assert "log.retention.bytes" not in configs("--describe", *everybody)


def test_kafka_log_dirs_tells_sizes(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    cluster.create_topic("sized", partitions=1)
    send(cluster, "sized", 100)
    said = run(kafka_tools, cluster, "LogDirsCommand", "--describe", "--topic-list", "sized")
    told = json.loads(said.splitlines()[-1])
    sizes = [
        (partition["partition"], partition["size"], partition["offsetLag"])
        for broker in told["brokers"]
        for folder in broker["logDirs"]
        for partition in folder["partitions"]
    ]
    assert [each[0] for each in sizes] == ["sized-0"] * 3
    assert all(size > 100 and lag == 0 for _, size, lag in sizes)


def test_kafka_get_offsets_cluster_and_groups_tell_what_there_is(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    cluster.create_topic("counted", partitions=1)
    send(cluster, "counted", 7)
    offsets = run(kafka_tools, cluster, "GetOffsetShell", "--topic", "counted")
    assert offsets.split() == ["counted:0:7"]
    identity = kafka_tools.run(
        "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap_servers
    )
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", identity.strip())
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "java-looks", "log_level": 0}
    consumer = Consumer(config)
    consumer.commit(offsets=[TopicPartition("counted", 0, 3)], asynchronous=False)
    consumer.close()
    group = ["--group", "java-looks"]
    rows = run(kafka_tools, cluster, _GROUPS, "--describe", *group).splitlines()
    row = next(line.split() for line in rows if "counted" in line)
    assert row[:6] == ["java-looks", "counted", "0", "3", "7", "4"]
    forgotten = run(kafka_tools, cluster, _GROUPS, "--delete-offsets", *group, "--topic", "counted")
    assert re.search(r"counted\s+0\s+Successful", forgotten)
    run(kafka_tools, cluster, _GROUPS, "--delete", *group)
    assert "java-looks" not in run(kafka_tools, cluster, _GROUPS, "--list").split()


def test_kafka_delete_records_and_leader_election_do_their_work(
    cluster: Cluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    cluster.create_topic("cut", partitions=1)
    send(cluster, "cut", 7)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "cut", "partition": 0, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in run(kafka_tools, cluster, "DeleteRecordsCommand", "--offset-json-file", str(wanted))
    assert run(kafka_tools, cluster, "GetOffsetShell", "--topic", "cut", "--time", "earliest").split() == ["cut:0:4"]
    elected = run(
        kafka_tools,
        cluster,
        "LeaderElectionCommand",
        "--election-type",
        "preferred",
        "--topic",
        "cut",
        "--partition",
        "0",
    )
    assert "Valid replica already elected for partitions cut-0" in elected


def test_kafka_broker_api_versions_finds_every_version_usable(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    said = run(kafka_tools, cluster, "BrokerApiVersionsCommand")
    brokers = re.findall(r"^\S+ \(id: (\d) rack: null.*?\) -> \(\n(.*?)^\)", said, re.MULTILINE | re.DOTALL)
    assert sorted(broker_id for broker_id, _ in brokers) == ["1", "2", "3"]
    # Produce is said to begin at 0, as Apache Kafka does for old librdkafka.
    spoken = VERSIONS | {PRODUCE: (0, VERSIONS[PRODUCE][1])}
    for api_key in OF_CLIENT_METRICS:
        del spoken[api_key]  # told once somebody has subscribed
    for _, lines in brokers:
        # It tells ranges as "0 to 13", versions that stand alone as "0", and with each API which one it would take.
        told = re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", lines)
        assert {int(key): (int(low), int(high or low)) for key, low, high, _ in told} == spoken
        assert all(int(usable) == int(high or low) for _, low, high, usable in told)


def test_kafka_leader_election_brings_the_preferred_leader_back(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    cluster.create_topic("led", partitions=2)
    preferred = [cluster.leader("led", partition) for partition in (0, 1)]
    for partition in (0, 1):
        assert cluster.move_leader("led", partition) != preferred[partition]
    said = run(kafka_tools, cluster, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    for partition in (0, 1):
        assert re.search(rf"Successfully completed leader election \(PREFERRED\).*led-{partition}", said)
    assert [cluster.leader("led", partition) for partition in (0, 1)] == preferred


def test_kafka_leader_election_makes_a_replica_lead_that_was_not_in_sync(
    cluster: Cluster, kafka_tools: KafkaTools
) -> None:
    cluster.create_topic("leaderless", partitions=1, replication_factor=2)
    leader = cluster.leader("leaderless", 0)
    (follower,) = set(cluster.isr("leaderless", 0)) - {leader}
    send(cluster, "leaderless", 3)
    cluster.kill(follower)
    cluster.await_isr("leaderless", 0, 1, timeout=_PATIENCE_S)
    send(cluster, "leaderless", 4)
    cluster.kill(leader)
    cluster.start(follower)
    give_up_s = time.monotonic() + _PATIENCE_S
    while cluster.leader("leaderless", 0) != -1:
        assert time.monotonic() < give_up_s
    where = ["--topic", "leaderless", "--partition", "0"]
    tool = f"{_TOOLS}.LeaderElectionCommand", "--bootstrap-server", cluster.bootstrap_servers, *where
    # The preferred leader is away, and nobody else was asked about.
    status, said = kafka_tools.try_to_run(*tool, "--election-type", "preferred")
    assert (status, "PreferredLeaderNotAvailableException" in said) == (1, True), said
    said = kafka_tools.run(*tool, "--election-type", "unclean")
    assert "Successfully completed leader election (UNCLEAN) for partitions leaderless-0" in said
    assert cluster.leader("leaderless", 0) == follower
    assert run(kafka_tools, cluster, "GetOffsetShell", "--topic", "leaderless").split() == ["leaderless:0:3"]
    cluster.start(leader)
    cluster.await_isr("leaderless", 0, timeout=_PATIENCE_S)


def test_kafka_consumer_groups_resets_offsets(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    cluster.create_topic("again", partitions=2)
    for partition in (0, 1):
        send(cluster, "again", 7, partition)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "starts-anew", "log_level": 0})
    places = [TopicPartition("again", 0), TopicPartition("again", 1)]

    def reset(*how: str) -> list[int]:
        """Where the tool says the group goes on, once it has done so."""
        given = ["--reset-offsets", "--group", "starts-anew", "--topic", "again", *how]
        said = run(kafka_tools, cluster, _GROUPS, *given, "--dry-run")
        before = [place.offset for place in consumer.committed(places, _PATIENCE_S)]
        assert run(kafka_tools, cluster, _GROUPS, *given, "--execute") == said
        rows = sorted(re.findall(r"^starts-anew +again +(\d) +(\d+)", said, re.MULTILINE))
        after = [place.offset for place in consumer.committed(places, _PATIENCE_S)]
        assert [int(offset) for _, offset in rows] == after != before
        return after

    consumer.commit(offsets=[TopicPartition("again", 0, 3), TopicPartition("again", 1, 5)], asynchronous=False)
    assert reset("--to-earliest") == [0, 0]
    assert reset("--to-offset", "4") == [4, 4]
    assert reset("--shift-by", "-3") == [1, 1]
    assert reset("--to-latest") == [7, 7]
    assert reset("--to-datetime", "2020-01-01T00:00:00.000") == [0, 0]
    consumer.close()


def test_kafka_transactions_finds_a_hanging_one_and_aborts_it(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    """Its first batch came late and by a producer whose coordinator knows nothing of it: nobody will ever end it."""
    cluster.create_topic("hanging", partitions=1, configs={"retention.ms": "-1"})
    send(cluster, "hanging", 2)
    records = [Record(0, 1_700_000_000_000, None, b"for ever?")]
    batch = encode_batch(records, producer_id=4711, producer_epoch=3, base_sequence=0, is_transactional=True)
    topic = TopicProduceData(name="hanging", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id="late", acks=-1, timeout_ms=10_000, topic_data=[topic])
    wire = Wire(cluster.bootstrap_servers.split(",")[cluster.leader("hanging", 0) - 1])
    assert wire.ask(request, 11).responses[0].partition_responses[0].error_code == 0
    wire.close()
    send(cluster, "hanging", 1)

    def transactions(*asked: str) -> list[list[str]]:
        """The rows of what the tool tells."""
        said = run(kafka_tools, cluster, "TransactionsCommand", *asked)
        return [line.split() for line in said.splitlines()[1:]]

    def readable() -> list[bytes | None]:
        """What a reader may see that takes committed records only."""
        with ottla.Reader(cluster.bootstrap_servers, "hanging", isolation_level="read_committed") as reader:
            return [value for batch in reader for value in batch.column("value").to_pylist()]

    assert readable() == [b"value 0", b"value 1"]
    # Every replica can be asked, and what a broker only follows is asked of it, too.
    for broker_id in (1, 2, 3):
        (found,) = transactions("find-hanging", "--broker-id", str(broker_id))
        assert found[:6] == ["hanging", "0", "4711", "3", "-1", "2"]
    transactions("abort", "--topic", "hanging", "--partition", "0", "--start-offset", "2")
    for broker_id in (1, 2, 3):
        assert transactions("find-hanging", "--broker-id", str(broker_id)) == []
    assert readable() == [b"value 0", b"value 1", b"value 0"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_javas_clients_come_in_by_tls_and_sasl(
    cluster: Cluster, kafka_tools: KafkaTools, papers: Papers, mechanism: str, tmp_path: Path
) -> None:
    """A producer, a consumer and an admin client in one tool; each record is read before the next one is sent."""
    topic = f"secure-{mechanism}"
    cluster.create_topic(topic, partitions=1)
    module = f"{_MODULES}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{_MODULES}.scram.ScramLoginModule"
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(papers.ca),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{_USER}" password="{_PASSWORD}";',
    }
    path = tmp_path / "client.properties"

    def sends_and_reads() -> tuple[int, str]:
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        where = ["--bootstrap-server", cluster.bootstrap_servers_of("SASL_SSL"), "--topic", topic]
        sending = ["--num-records", "50", "--producer-acks", "all", "--record-size", "100"]
        return kafka_tools.try_to_run(f"{_TOOLS}.EndToEndLatency", *where, *sending, "--command-config", str(path))

    status, said = sends_and_reads()
    assert (status, "Avg latency" in said) == (0, True), said
    assert run(kafka_tools, cluster, "GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:50"]
    settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace(_PASSWORD, "byron")
    status, said = sends_and_reads()
    assert (status, "SaslAuthenticationException" in said) == (1, True), said
    assert run(kafka_tools, cluster, "GetOffsetShell", "--topic", topic).split() == [f"{topic}:0:50"]


def test_tools_that_ask_for_quorum_quotas_and_features_are_answered(cluster: Cluster, kafka_tools: KafkaTools) -> None:
    quorum = run(kafka_tools, cluster, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+[123]\n", quorum)
    assert re.search(r"ClusterId:\s+\S+\n", quorum)
    quotas = ["--entity-type", "clients", "--entity-name", "x"]
    assert run(kafka_tools, cluster, "kafka.admin.ConfigCommand", "--describe", *quotas).strip() == ""
    run(
        kafka_tools, cluster, "kafka.admin.ConfigCommand", "--alter", *quotas, "--add-config", "producer_byte_rate=1000"
    )
    described = run(kafka_tools, cluster, "kafka.admin.ConfigCommand", "--describe", *quotas).strip()
    assert described == "Quota configs for client-id 'x' are producer_byte_rate=1000.0"
    run(kafka_tools, cluster, "kafka.admin.ConfigCommand", "--alter", *quotas, "--delete-config", "producer_byte_rate")
    assert run(kafka_tools, cluster, "kafka.admin.ConfigCommand", "--describe", *quotas).strip() == ""
    features = run(kafka_tools, cluster, "FeatureCommand", "describe")
    assert re.search(r"Feature: transaction\.version\s.*FinalizedVersionLevel: 2", features)


def test_kafka_reassign_partitions_moves_replicas_and_cancels_a_move(
    cluster: Cluster, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    cluster.create_topic("moved", partitions=1, replication_factor=1)
    send(cluster, "moved", 20)
    (first,) = cluster.partition("moved", 0)["replicas"]
    second, third = (each for each in (1, 2, 3) if each != first)
    plan = tmp_path / "plan.json"

    def reassign(*how: str, to: int) -> str:
        moves = [{"topic": "moved", "partition": 0, "replicas": [to]}]
        plan.write_text(json.dumps({"version": 1, "partitions": moves}))
        given = ["--reassignment-json-file", str(plan), *how]
        return run(kafka_tools, cluster, "reassign.ReassignPartitionsCommand", *given)

    def listed() -> str:
        return run(kafka_tools, cluster, "reassign.ReassignPartitionsCommand", "--list").strip()

    assert listed() == "No partition reassignments found."
    assert "Successfully started partition reassignment for moved-0" in reassign("--execute", to=second)
    wait_until(lambda: cluster.partition("moved", 0)["replicas"] == [second])
    assert "Reassignment of partition moved-0 is completed." in reassign("--verify", to=second)
    assert cluster.leader("moved", 0) == second
    assert run(kafka_tools, cluster, "GetOffsetShell", "--topic", "moved").split() == ["moved:0:20"]
    wait_until(lambda: not list(Path(cluster.data_dir).glob(f"*{first}/moved-0")))
    cluster.kill(third)
    reassign("--execute", to=third)
    assert f"moved-0: replicas: {third},{second}. adding: {third}. removing: {second}." in listed()
    assert "Successfully cancelled" in reassign("--cancel", "--preserve-throttles", to=third)
    assert listed() == "No partition reassignments found."
    assert cluster.partition("moved", 0)["replicas"] == [second]
    cluster.start(third)
