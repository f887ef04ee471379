"""`--command-config FILE`: produce, read and topics on a cluster that asks who comes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from ottla import Cluster, Listener

pytest.importorskip("scramp")

PASSWORD = "lovelace-0815"


def ottla(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return folder


@pytest.fixture(scope="module")
def address(papers: Path) -> Iterator[str]:
    listener = Listener(protocol="SASL_SSL", certificate=papers / "server.pem", users={"ada": PASSWORD})
    with Cluster(brokers=1, listeners={"SASL_SSL": listener}) as cluster:
        yield cluster.bootstrap_servers_of("SASL_SSL")


@pytest.fixture
def config(papers: Path, address: str, tmp_path: Path) -> Path:
    """As a Java client has it; with settings of other tools, and where the brokers are."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={address}\n"
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={papers / 'ca.pem'}\n"
        "sasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'    username="ada" password="{PASSWORD}";\n'
        "group.id=another-tools\n"
        "compression.type=zstd\n"
    )
    return path


def test_topics_produce_and_read_come_in(config: Path, address: str) -> None:
    told = ("--command-config", str(config))
    made = ottla("topics", "create", "orders", *told)
    assert made.returncode == 0, made.stderr
    sent = ottla("produce", "orders", *told, given="one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    found = ottla("read", "orders", *told, "--format", "value")
    assert found.stdout == "one\ntwo\n", found.stderr
    listed = ottla("topics", *told, "--json")
    assert '"topic": "orders"' in listed.stdout, listed.stderr
    shown = ottla("topics", *told, "orders", "--bootstrap-servers", address)
    assert shown.returncode == 0, shown.stderr


def test_addresses_on_the_command_line_go_before_the_files(config: Path, address: str) -> None:
    config.write_text(config.read_text().replace(address, "127.0.0.1:1"))
    done = ottla("topics", "--command-config", str(config), "--bootstrap-servers", address)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("SCRAM-SHA-256", "GSSAPI"),
            "sasl.mechanism=GSSAPI is Kerberos, which ottla does not have; allowed are PLAIN",
        ),
        (
            ("group.id", "gruop.it"),
            "client.properties: gruop.it is not a setting of Kafka's clients; did you mean group.id?",
        ),
        (
            ("group.id", "ssl.truststore.password"),
            "is not a JKS or PKCS12 store, so ssl.truststore.password opens nothing",
        ),
        (("ScramLoginModule", "Krb5LoginModule"), "login module that ottla does not have"),
        ((PASSWORD, "byron-1788"), "does not take user 'ada' with this password"),
    ],
)
def test_what_is_wrong_with_the_file_is_one_sentence(config: Path, change: tuple[str, str], said: str) -> None:
    config.write_text(config.read_text().replace(*change))
    done = ottla("topics", "--command-config", str(config))
    assert done.returncode != 0
    # As lines are broken for a terminal.
    assert said in " ".join(done.stderr.split())
    assert PASSWORD not in done.stderr + done.stdout
    assert "byron" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_file_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    done = ottla("read", "orders", "--command-config", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "cannot be read (no such file" in " ".join(done.stderr.split())


COMMANDS = pytest.mark.parametrize(
    "command", [("topics",), ("read", "orders"), ("produce", "orders"), ("sink", "show", "orders")], ids=" ".join
)
# Nobody listens there: who comes so far has taken the file.
NOWHERE = ("-b", "127.0.0.1:1")
FAST = ("default.api.timeout.ms=100", "max.block.ms=100")


def with_lines(folder: Path, command: tuple[str, ...], *lines: str) -> subprocess.CompletedProcess[str]:
    (folder / "client.properties").write_text("".join(f"{line}\n" for line in lines))
    return ottla(*command, *NOWHERE, "--command-config", str(folder / "client.properties"))


@COMMANDS
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "securty.protocol=SSL",
            "securty.protocol is not a setting of Kafka's clients; did you mean security.protocol?",
        ),
        ("gruop.id=a", "gruop.id is not a setting of Kafka's clients; did you mean group.id?"),
        ("Linger.ms=5", "Linger.ms is not a setting of Kafka's clients; did you mean linger.ms?"),
        ("sasl.mechanisms=PLAIN", "sasl.mechanisms is called sasl.mechanism here"),
        ("ssl.provider=Sun", "ssl.provider chooses among Java's security providers"),
        ("security.protocol=TLS", "security.protocol='TLS' is not known"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.mechanism=PLAIN needs a user"),
    ],
)
def test_every_command_refuses_a_mistake_with_the_name_of_the_file(
    command: tuple[str, ...], line: str, said: str, tmp_path: Path
) -> None:
    done = with_lines(tmp_path, command, "client.id=ada", line)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ottla: {tmp_path / 'client.properties'}: {said}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@COMMANDS
def test_what_other_clients_are_told_is_not_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    done = with_lines(
        tmp_path,
        command,
        "acks=all",
        "fetch.min.bytes=1",
        "prefetch.max.bytes=1000000",
        "max.poll.records=5",
        *FAST,
        "security_protocol=PLAINTEXT",
        "key.serializer=io.confluent.kafka.serializers.KafkaAvroSerializer",
        "value.deserializer=org.apache.kafka.common.serialization.StringDeserializer",
        "interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor",
        "metric.reporters=org.apache.kafka.common.metrics.JmxReporter",
    )
    assert "no Kafka broker could be reached" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@COMMANDS
def test_settings_of_other_programs_are_passed_over_by_name(command: tuple[str, ...], tmp_path: Path) -> None:
    others = ("schema.registry.url", "basic.auth.user.info", "schema.registry.ssl.truststore.location", "producer.acks")
    done = with_lines(tmp_path, command, *(f"{name}={PASSWORD}" for name in others), *FAST)
    passed_over, failed = done.stderr.splitlines()
    path = tmp_path / "client.properties"
    assert passed_over == f"ottla: {path}: ignored, no settings of Kafka's clients: {', '.join(others)}"
    assert "no Kafka broker could be reached" in failed


def test_a_key_that_is_not_continued_is_never_shown(tmp_path: Path) -> None:
    secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    done = with_lines(tmp_path, ("topics",), "ssl.keystore.key=-----BEGIN PRIVATE KEY-----", secret, "-----END")
    assert done.returncode == 2
    assert "client.properties: a line sets nothing" in done.stderr
    assert secret not in done.stderr


def test_lines_go_as_they_are_whatever_serializer_a_java_client_has(config: Path) -> None:
    names = ("key.serializer", "value.serializer")
    config.write_text(
        config.read_text()
        + "".join(f"{name}=org.apache.kafka.common.serialization.IntegerSerializer\n" for name in names)
    )
    told = ("--command-config", str(config))
    assert ottla("topics", "create", "lines", *told).returncode == 0
    sent = ottla("produce", "lines", *told, given="one\n")
    assert sent.returncode == 0, sent.stderr
    assert ottla("read", "lines", *told, "--format", "value").stdout == "one\n"


def test_lines_are_sent_in_no_transaction(config: Path) -> None:
    config.write_text(config.read_text() + "transactional.id=lines\n")
    refused = ottla("produce", "lines", "--command-config", str(config), given="one\n")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"ottla: {config}: transactional.id is for programs that begin and commit")
    assert len(refused.stderr.splitlines()) == 1


def test_nothing_is_called_acknowledged_that_nobody_was_asked_about(config: Path) -> None:
    config.write_text(config.read_text() + "acks=0\n")
    told = ("--command-config", str(config))
    assert ottla("topics", "create", "unasked", *told).returncode == 0
    sent = ottla("produce", "unasked", *told, given="one\ntwo\n")
    assert sent.returncode == 0
    assert sent.stderr == "2 records sent to unasked, and with acks=0 nobody says whether they arrived\n"
    assert ottla("read", "unasked", *told, "--format", "value").stdout == "one\ntwo\n"
