"""`ottla bench`: every client's records are counted against what its topic holds, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import ottla
from ottla.bench import run
from ottla.bench.clients import CLIENTS
from ottla.bench.order import Order
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
    measured = measure(Order(client, kafka_cluster.bootstrap_servers, kafka_topic, 100, 0.05))
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
    monkeypatch.setitem(run.MODULES, "confluent-kafka", "no_such_module")
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
    monkeypatch.setitem(run.MODULES, "kafka-python", "no_such_module")
    for arguments, said in (
        (("--client", "java"), "--client java is not known: give one of ottla, ottla send_table, confluent-kafka"),
        (("--client", "kafka-python"), "needs no_such_module, which is not installed: pip install kafka-python"),
        (("--seconds", "0"), "--seconds 0 is no whole number from 1 to 600"),
        (("--record-bytes", "1000000"), "--record-bytes 1000000 is no whole number"),
        (("-b", "nowhere"), "nowhere"),
    ):
        out, err = bench(*arguments, status=2)
        assert (out, said in err, len(err.splitlines())) == ("", True, 1), err
