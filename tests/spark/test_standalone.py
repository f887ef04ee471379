"""`ottla audit` and `ottla run` on a standalone cluster of Spark: a master and two workers, 600 MiB each.

The records are in an embedded cluster, or in three nodes of Apache Kafka that want to know who asks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.soak import SOAK
from tests.spark.sink_driver import QUICK_JAVA
from tests.spark.standalone import Daemons
from tests.topic_audit.sent import send_numbered
from tools.apache_kafka import QUICK_FAILOVER, ApacheKafka
from tools.kafka_jars import JarsUnavailable
from tools.ports import free_ports

import ottla
from ottla.spark.java import find_java as java_of_this_machine
from ottla.spark.java import lay_java_home

from ..needs import lacking

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address"),
]

HOSTS = ("127.0.0.1", "127.0.0.2")
RECORDS = 3_000
TIMEOUT_S = 600
DEFAULTS = f"""\
spark.executor.memory 512m
spark.executor.cores 1
spark.driver.memory 512m
spark.executor.extraJavaOptions {QUICK_JAVA}
"""


class Standalone(NamedTuple):
    """The master's address, a folder for what tests write, and what the user's environment says of Spark."""

    master: str
    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


@pytest.fixture(scope="module")
def standalone(find_java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("standalone")
    conf = folder / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(DEFAULTS)
    daemons = Daemons(folder / "daemons", {})
    [port] = free_ports(1)
    master = f"spark://{HOSTS[0]}:{port}"
    try:
        daemons.start("master.Master", HOSTS[0], "--port", str(port), said="New state: ALIVE")
        for host in HOSTS:
            daemons.start(
                "worker.Worker", host, "--cores", "1", "--memory", "600m", master, said="Successfully registered"
            )
        yield Standalone(master, folder, {**os.environ, "SPARK_CONF_DIR": str(conf), "TMPDIR": str(folder)})
    finally:
        daemons.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    with ottla.Cluster(brokers=1) as cluster:
        yield cluster


def outcome_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON among what a driver prints."""
    begin = done.stdout.index("{\n")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout[begin:])[0]
    return found


def test_an_audit_runs_on_two_workers(standalone: Standalone, cluster: ottla.Cluster) -> None:
    ledger = standalone.folder / "duplicated.jsonl"
    cluster.create_topic("duplicated", partitions=3)
    with cluster.faults.lose_ack(topic="duplicated", partition=1, nth=2):
        send_numbered(cluster, "duplicated", ledger, RECORDS, partitions=3, enable_idempotence=False)
    options = ("--ledger", str(ledger), "--topic", "duplicated", "-b", cluster.bootstrap_servers)
    done = standalone.run(*(sys.executable, "-m", "ottla", "audit", *options, "--master", standalone.master, "--json"))
    assert done.returncode == 1, done.stderr
    outcome = outcome_of(done)
    assert (outcome["engine"], outcome["seen"]) == ("on PySpark", "at-least-once")
    assert outcome["figures"]["sent"] == RECORDS
    assert list(outcome["found"]) == ["duplicated"]
    # With its request's answer the connection was lost, and so were all other answers on it.
    assert outcome["evidence"][0]["detail"].endswith("(the same timestamp: the producer sent the batch again)")
    executors = list((standalone.folder / "daemons" / "work").glob("app-*/*"))
    assert len(executors) == len(HOSTS)


def test_spark_submit_runs_the_file_that_is_shipped(standalone: Standalone, cluster: ottla.Cluster) -> None:
    ledger = standalone.folder / "clean.jsonl"
    cluster.create_topic("clean", partitions=3)
    send_numbered(cluster, "clean", ledger, RECORDS, partitions=3)
    where = standalone.run(sys.executable, "-m", "ottla.cli.submit", "--path").stdout.strip()
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **standalone.environment,
        "JAVA_HOME": str(lay_java_home(*java_of_this_machine(), standalone.folder / "java")),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOSTS[0],
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    submit = (str(home / "bin" / "spark-submit"), "--master", standalone.master, where)
    options = ("--ledger", str(ledger), "--topic", "clean", "--bootstrap", cluster.bootstrap_servers, "--json")
    done = standalone._replace(environment=environment).run(*submit, *options)
    assert done.returncode == 0, done.stderr
    outcome = outcome_of(done)
    assert (outcome["engine"], outcome["seen"], outcome["figures"]["stored"]) == ("on PySpark", "exactly-once", RECORDS)


@SOAK
def test_the_main_job_audits_on_two_workers(standalone: Standalone) -> None:
    (standalone.folder / "orders.csv").write_text("id,customer\n" + "".join(f"{n},c{n % 7}\n" for n in range(2_000)))
    done = standalone.run(
        *(sys.executable, "-m", "ottla", "run", "--input", "orders.csv", "--key", "customer"),
        *("--master", standalone.master, "--json-file", "figures.json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads((standalone.folder / "figures.json").read_text())
    assert figures["guarantees"]["exactly-once"]["stored"] == 2_000
    assert figures["streamed"]["drivers_killed"] == 1


_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


GRANTED = (
    (
        ResourceType.TOPIC,
        "team.",
        (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE),
    ),
    (ResourceType.TRANSACTIONAL_ID, "ottla-sink-", (AclOperation.DESCRIBE, AclOperation.WRITE)),
    (ResourceType.TOPIC, "audited", (AclOperation.DESCRIBE, AclOperation.READ)),
)


@pytest.fixture(scope="module")
def apache_kafka() -> Iterator[ApacheKafka]:
    """Three nodes; whoever comes in by the listener USERS says who they are, and may do what the guide says."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f'{_LOGIN} user_ada="secret";',
    }
    try:
        kafka = ApacheKafka(3, heap_mb=320, listeners={"USERS": "SASL_PLAINTEXT"}, settings=QUICK_FAILOVER | settings)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        granted = [
            AclBinding(kind, name, ResourcePatternType.PREFIXED, "User:ada", "*", operation, AclPermissionType.ALLOW)
            for kind, name, operations in GRANTED
            for operation in operations
        ]
        for done in admin.create_acls(granted).values():
            done.result()
        yield kafka


@SOAK
@pytest.mark.kafka
def test_the_main_job_runs_on_three_nodes_of_apache_kafka_and_two_workers(
    standalone: Standalone, apache_kafka: ApacheKafka
) -> None:
    where = apache_kafka.bootstrap_servers_of("USERS")
    (standalone.folder / "orders.csv").write_text("id,customer\n" + "".join(f"{n},c{n % 7}\n" for n in range(2_000)))
    (standalone.folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ada\nsasl.password=secret\n"
    )
    with ottla.Admin(apache_kafka.bootstrap_servers) as admin:
        admin.create_topics("orders", replication_factor=3)
        done = standalone.run(
            *(sys.executable, "-m", "ottla", "run", "--input", "orders.csv", "--key", "customer"),
            *("--bootstrap-servers", where, "--command-config", "client.properties", "--topic-prefix", "team."),
            *("--master", standalone.master, "--json-file", "figures.json"),
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        assert admin.list_topics() == ["orders"]
    figures = json.loads((standalone.folder / "figures.json").read_text())
    assert figures["kafka"] == where
    assert figures["guarantees"]["exactly-once"]["stored"] == 2_000
    assert figures["guarantees"]["at-least-once"]["duplicated"] >= 20
    assert figures["guarantees"]["at-most-once"]["lost"] >= 20
    assert (figures["streamed"]["stored"], figures["streamed"]["drivers_killed"]) == (2_000, 1)
    # What cannot be seen there is not acquitted.
    verdicts = {int(number): each["verdict"] for number, each in figures["properties"].items()}
    assert [number for number, word in verdicts.items() if word == "not judged"] == [9, 10, 11, 16]
    assert {verdicts[number] for number in (2, 3, 4, 6, 15)} == {"held"}
    assert "Unseen there: which replicas had a record when it was acknowledged" in " ".join(done.stdout.split())


@pytest.mark.kafka
def test_an_audit_reads_apache_kafka_on_two_workers(standalone: Standalone, apache_kafka: ApacheKafka) -> None:
    ledger = standalone.folder / "on-apache.jsonl"
    with ottla.Admin(apache_kafka.bootstrap_servers) as admin:
        admin.create_topics("audited", partitions=3, replication_factor=3)
    with (
        ottla.Proxy(apache_kafka.bootstrap_servers) as proxy,
        proxy.faults.lose_ack(partition=1, topic="audited", nth=2),
    ):
        send_numbered(proxy, "audited", ledger, RECORDS, partitions=3, enable_idempotence=False)
    (standalone.folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ada\nsasl.password=secret\n"
    )
    where = ("-b", apache_kafka.bootstrap_servers_of("USERS"), "--command-config", "client.properties")
    options = ("--ledger", str(ledger), "--topic", "audited", *where, "--master", standalone.master, "--json")
    done = standalone.run(*(sys.executable, "-m", "ottla", "audit", *options))
    assert done.returncode == 1, done.stderr
    outcome = outcome_of(done)
    assert (outcome["engine"], outcome["seen"], list(outcome["found"])) == (
        "on PySpark",
        "at-least-once",
        ["duplicated"],
    )


def test_a_master_that_is_not_there_is_told_at_once(standalone: Standalone, cluster: ottla.Cluster) -> None:
    [port] = free_ports(1)
    ledger = standalone.folder / "nothing.jsonl"
    ledger.write_text('{"sequence": 0, "outcome": "failed"}\n')
    cluster.create_topic("nothing", partitions=1)
    options = ("--ledger", str(ledger), "--topic", "nothing", "-b", cluster.bootstrap_servers)
    done = standalone.run(*(sys.executable, "-m", "ottla", "audit", *options, "--master", f"spark://127.0.0.1:{port}"))
    assert done.returncode == 2
    assert f"no master of Spark takes a connection at spark://127.0.0.1:{port}" in done.stderr
