"""`ottla bench`: every client's records are counted against what its topic holds, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import Listener
from ottla.bench import run
from ottla.bench.clients import CLIENTS, MODULES
from ottla.bench.order import Order
from ottla.bench.security import for_kafka_python, for_others
from ottla.bench.worker import measure
from ottla.cli import main
from ottla.cluster.cluster import Cluster

Bench = Callable[..., tuple[str, str]]


@pytest.fixture
def bench(capfd: pytest.CaptureFixture[str]) -> Bench:
    def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        """(stdout, stderr)"""
        ended = main(["bench", *arguments])
        shown = capfd.readouterr()
        assert ended == status, shown
        return shown.out, shown.err

    return command


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_was_told_of_is_stored(kafka_cluster: Cluster, kafka_topic: str, client: str) -> None:
    measured = measure(Order(client, kafka_cluster.bootstrap_servers, kafka_topic, 100, 0.05, {}))
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert sum(admin.end_offsets(kafka_topic).values()) == measured.sent
    assert measured.records >= 500
    assert measured.seconds >= 0.05
    if client == "ottla send_table":
        assert (measured.ack_p50_ms, measured.ack_p99_ms) == (None, None)
    else:
        assert measured.ack_p50_ms is not None
        assert measured.ack_p99_ms is not None
        assert 0 < measured.ack_p50_ms <= measured.ack_p99_ms


@pytest.mark.prove
def test_all_clients_stand_in_one_table_and_leave_no_topic(kafka_cluster: Cluster, bench: Bench) -> None:
    out, _ = bench("-b", kafka_cluster.bootstrap_servers, "--seconds", "1")
    lines = out.splitlines()
    assert lines[0].split() == ["client", "version", "records/s", "MB/s", "ack", "p50", "ms", "ack", "p99", "ms"]
    assert [line[: len(name)] for line, name in zip(lines[1:], CLIENTS, strict=True)] == list(CLIENTS)
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        assert not [name for name in admin.list_topics() if name.startswith("ottla-bench-")]


def test_json_tells_the_figures_and_what_is_not_installed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "confluent-kafka", "no_such_module")
    monkeypatch.setattr(run, "CLIENTS", {name: CLIENTS[name] for name in ("ottla", "confluent-kafka")})
    out, err = bench("--seconds", "1", "--json")
    told = json.loads(out)
    assert told["not_installed"] == ["confluent-kafka"]
    [row] = told["clients"]
    assert (row["client"], row["error"], row["version"]) == ("ottla", None, ottla.__version__)
    assert row["records"] > 500
    assert err == ""


def test_client_that_fails_is_told_with_its_reason(
    kafka_cluster: Cluster, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    out, err = bench("-b", kafka_cluster.bootstrap_servers, "--seconds", "1", "--client", "ottla", status=1)
    assert (out, err) == ("", "ottla: ottla failed: exit status 1\n")


def test_what_cannot_be_measured_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "kafka-python", "no_such_module")
    for arguments, said in (
        (("--client", "java"), "--client java is not known: give one of ottla, ottla send_table, confluent-kafka"),
        (("--client", "kafka-python"), "needs no_such_module, which is not installed: pip install kafka-python"),
        (("--seconds", "0"), "--seconds 0 is no whole number from 1 to 600"),
        (("--record-bytes", "1000000"), "--record-bytes 1000000 is no whole number"),
        (("-b", "nowhere"), "nowhere"),
    ):
        out, err = bench(*arguments, status=2)
        assert (out, said in err, len(err.splitlines())) == ("", True, 1), err


@pytest.mark.prove
def test_every_client_comes_in_by_what_the_file_says_of_security(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("scramp")
    listener = Listener(protocol="SASL_PLAINTEXT", users={"ada": "lovelace-0815"})
    with Cluster(1, listeners={"SASL_PLAINTEXT": listener}) as cluster:
        config = tmp_path / "client.properties"
        config.write_text(
            f"bootstrap.servers={cluster.bootstrap_servers_of('SASL_PLAINTEXT')}\n"
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ada" password="lovelace-0815";\ncompression.type=zstd\n'
        )
        out, err = bench("--command-config", str(config), "--seconds", "1", "--json")
    assert err == ""
    told = json.loads(out)
    assert [(row["client"], row["error"]) for row in told["clients"]] == [(name, None) for name in CLIENTS]
    assert "lovelace" not in out


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, {"security.protocol": "PLAINTEXT"}),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "ada", "sasl_password": "x"},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ada",
                "sasl.password": "x",
            },
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "ca.pem"},
            {"security.protocol": "SSL", "ssl.ca.location": "ca.pem"},
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": ""},
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
        ),
        ({"security_protocol": "SSL", "ssl_truststore_location": "ca.jks"}, "a truststore that is not PEM"),
        ({"security_protocol": "SSL", "ssl_keystore_location": "me.pem"}, "a keystore"),
    ],
)
def test_security_is_told_under_other_clients_names(
    settings: dict[str, Any], told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    Path("ca.jks").write_bytes(b"\xfe\xed\xfe\xed")
    assert for_others(settings) == told


def test_security_is_told_under_kafka_pythons_names() -> None:
    told = {"sasl.username": "ada", "ssl.ca.location": "ca.pem", "ssl.endpoint.identification.algorithm": "none"}
    assert for_kafka_python(told) == {
        "sasl_plain_username": "ada",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
    }


def test_clients_that_cannot_be_told_the_security_are_not_measured(bench: Bench, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\nssl.keystore.location=me.p12\n")
    refused = bench("--command-config", str(config), "--client", "kafka-python", status=2)
    assert "--client kafka-python cannot be told a keystore" in refused[1]
    names, _ = run.chosen((), "a keystore")
    assert names == ["ottla", "ottla send_table"]
