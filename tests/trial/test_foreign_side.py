"""Trials on a Kafka that is not their own; an embedded cluster stands for one here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla import Listener
from ottla.cli import main
from ottla.errors import OttlaError
from ottla.foreign.kafka import ForeignKafka
from ottla.patience import comes_within
from ottla.trial.foreign_side import TOPIC_PREFIX, why_not
from ottla.trial.junit import as_junit
from ottla.trial.outcome import LeftOut
from ottla.trial.report_page import as_report
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import load_shipped, read_scenario, shipped_names

from ..papers import Papers

USER, PASSWORD = "ada", "lovelace-0815"
OTHERS = "orders"
HEAD = 'title = "t"\nteaches = "t"\nrecords = 40\n'
CONTROL = (
    '[[fault]]\nkind = "lose_ack"\nnth = 1\n'
    '[[side]]\nname = "control"\nclaims = "at-least-once"\nshows = ["duplicated"]\n'
    'producer = { acks = "all", "enable.idempotence" = false }\n'
)
# Nothing that is sent is ever answered.
FOR_EVER = (
    '[[fault]]\nkind = "hold"\nmoment = "ack"\nevery = 1\n'
    '[[side]]\nname = "patient"\nclaims = "exactly-once"\nerrors = ["INVALID_RECORD"]\n'
    'producer = { "delivery.timeout.ms" = 3_600_000 }\n'
)


@pytest.fixture(scope="module")
def cluster(papers: Papers) -> Iterator[ottla.Cluster]:
    """One broker, with a topic of somebody else's."""
    secure = Listener(protocol="SASL_SSL", certificate=papers.server, users={USER: PASSWORD})
    mutual = Listener(protocol="SSL", certificate=papers.server, client_auth="required", client_ca=papers.ca)
    far = Listener(advertised_host="broker.invalid")
    listeners = {"PLAINTEXT": Listener(), "SASL_SSL": secure, "MUTUAL": mutual, "FAR": far}
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        cluster.create_topic(OTHERS)
        yield cluster


class Silent:
    def advance(self, count: int = 1) -> None: ...


def trial(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    try:
        status = main(["trial", *map(str, arguments)])
    except SystemExit as end:
        status = int(end.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


def topics(cluster: ottla.Cluster) -> list[str]:
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        return admin.list_topics()


def test_a_trial_makes_topics_of_its_own_and_deletes_them(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_file = tmp_path / "outcome.json"
    status, out, err = trial(capsys, "lost-ack", "--bootstrap", cluster.bootstrap_servers, "--json-file", json_file)
    assert (status, err) == (0, "")
    assert "unseen on this Kafka: which replicas had a record, and had synced it" in " ".join(out.split())
    (outcome,) = json.loads(json_file.read_text())
    assert (outcome["passed"], outcome["kafka"], len(outcome["unseen"])) == (True, cluster.bootstrap_servers, 3)
    control, sound = outcome["sides"]
    assert control["found"]["duplicated"] > 0
    assert sound["found"] == {}
    assert control["faults"][0]["topic"] != sound["faults"][0]["topic"]
    assert topics(cluster) == [OTHERS]


def test_topics_are_kept_where_that_is_asked_for_and_begin_as_they_should(
    cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--topic-prefix", "team.x-", "--keep-topics", "--json")
    status, out, err = trial(capsys, "lost-ack", "-b", cluster.bootstrap_servers, *options)
    assert (status, [each["passed"] for each in json.loads(out)]) == (0, [True])
    kept = [name for name in topics(cluster) if name != OTHERS]
    assert [name.startswith("team.x-") for name in kept] == [True, True]
    assert err.splitlines() == [
        f"ottla: the topic {name} at {cluster.bootstrap_servers} is kept" for name in sorted(kept, key=err.index)
    ]
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.delete_topics(kept)


def test_sasl_passes_through_and_tls_ends_at_the_proxy(
    cluster: ottla.Cluster, papers: Papers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        f"bootstrap.servers={cluster.bootstrap_servers_of('SASL_SSL')}\nsecurity.protocol=SASL_SSL\n"
        f"ssl.truststore.location={papers.ca}\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username={USER}\nsasl.password={PASSWORD}\n"
    )
    mine = tmp_path / "mine.toml"
    mine.write_text(HEAD + CONTROL)
    for client in ("ottla", "confluent-kafka", "kafka-python", "aiokafka"):
        status, out, err = trial(capsys, mine, "--command-config", config, "--client", client)
        assert (status, err) == (0, ""), out
    # One that has no such setting says so, and tells nobody the password.
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    login = config.read_text().partition("sasl.username")[0]
    config.write_text(f"{login}sasl.jaas.config={jaas}\n")
    status, out, _ = trial(capsys, mine, "--command-config", config, "--client", "kafka-python")
    assert (status, "it cannot be given sasl.jaas.config" in out, PASSWORD in out) == (1, True, False)


def test_a_certificate_of_the_client_is_shown_by_the_proxy(
    cluster: ottla.Cluster, papers: Papers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, mine = tmp_path / "client.properties", tmp_path / "mine.toml"
    config.write_text(
        f"bootstrap.servers={cluster.bootstrap_servers_of('MUTUAL')}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.location={papers.ca}\nssl.keystore.location={papers.client}\n"
    )
    mine.write_text(HEAD + CONTROL)
    status, out, err = trial(capsys, mine, "--command-config", config)
    assert (status, err) == (0, ""), out
    status, _, err = trial(capsys, mine, "-b", cluster.bootstrap_servers_of("MUTUAL"))
    (line,) = err.splitlines()
    assert status == 2
    assert f"{cluster.bootstrap_servers_of('MUTUAL')}" in line
    assert "TLS" in line


def test_a_broker_that_cannot_be_reached_where_it_says_is_named(
    cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    port = cluster.bootstrap_servers_of("FAR").rpartition(":")[2]
    status, _, err = trial(capsys, "lost-ack", "-b", f"127.0.0.1:{port}")
    (line,) = err.splitlines()
    assert status == 2
    assert f"127.0.0.1:{port} says that its broker 1 is at broker.invalid:{port}, and that cannot be reached" in line


def test_the_list_says_which_trials_run_on_any_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = trial(capsys, "--list", "--json")
    told = {each["trial"]: each for each in json.loads(out)}
    assert (status, list(told)) == (0, shipped_names())
    assert (told["lost-ack"]["any_kafka"], told["lost-ack"]["why_not"]) == (True, None)
    assert not told["leader-killed"]["any_kafka"]
    count = sum(each["any_kafka"] for each in told.values())
    status, out, _ = trial(capsys, "--list")
    assert f"* also on a Kafka of yours (--bootstrap-servers): {count} of {len(told)} trials." in out
    assert "lost-ack *" in out
    assert "leader-killed *" not in out


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("leader-killed", "the fault kill is about brokers, and a proxy reaches only requests and connections"),
        ("coordinator-moved", "the fault move_leader is about brokers, and a proxy reaches only requests and"),
        ("late-commit", "side 'transaction.version=1' sets transaction.version of the brokers"),
        ("acks-0-in-flight", None),
    ],
)
def test_why_a_trial_runs_on_embedded_clusters_only(name: str, why: str | None) -> None:
    told = why_not(load_shipped(name))
    assert told == why or (told is not None and why is not None and told.startswith(why))


def test_what_is_left_out_is_neither_passed_nor_failed(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.trial.scenario_file.shipped_names", lambda: ["lost-ack", "leader-killed"])
    json_file, junit, page = tmp_path / "outcome.json", tmp_path / "junit.xml", tmp_path / "report.html"
    files = ("--json-file", json_file, "--junit", junit, "--report", page)
    status, out, _ = trial(capsys, "all", "-b", cluster.bootstrap_servers, *files)
    assert status == 0
    assert "1 trial left out: neither passed nor failed." in out
    ran, left_out = json.loads(json_file.read_text())
    assert (ran["trial"], ran["passed"]) == ("lost-ack", True)
    assert (left_out["trial"], left_out["passed"]) == ("leader-killed", None)
    assert left_out["left_out"].startswith("the fault kill is about brokers")
    assert 'tests="4" failures="0" errors="0" skipped="2"' in junit.read_text()
    assert "What is left out has neither passed nor failed." in page.read_text()
    assert f"the Kafka at {cluster.bootstrap_servers}. Unseen there: " in page.read_text()


def test_a_report_of_nothing_but_what_is_left_out_says_so() -> None:
    left_out = [LeftOut(load_shipped("leader-killed"), "it cannot <be>")]
    assert "it cannot &lt;be&gt;" in as_report([], left_out)
    assert '<skipped message="it cannot &lt;be&gt;"/>' in as_junit([], left_out)


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("replicas = 3\n", "side 'control' wants 3 replicas, and {where} has 1 broker"),
        ('topic = {{ "min.insync.replicas" = 2 }}\n', "side 'control' wants min.insync.replicas=2, and {where} has 1"),
        (
            '[[fault]]\nkind = "half_open"\nbroker = "first follower"\n',
            "a fault is about the first follower, and {where} has 1 broker",
        ),
        (
            '[[fault]]\nkind = "lose_ack"\napi = "StreamsGroupHeartbeat"\n',
            "api='StreamsGroupHeartbeat' is no request that this proxy knows",
        ),
        ('topic = {{ "no.such.setting" = 2 }}\n', "{where} does not make the topic ottla-trial-"),
    ],
)
def test_a_topic_that_this_kafka_cannot_make_is_one_sentence(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str, words: str
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(HEAD + CONTROL + side.format())
    status, out, err = trial(capsys, mine, "-b", cluster.bootstrap_servers)
    (line,) = err.splitlines()
    assert status == 2, out
    assert words.format(where=cluster.bootstrap_servers) in line
    assert topics(cluster) == [OTHERS]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("leader-killed", "-b", "{where}"), "the trial leader-killed does not run on a foreign Kafka: the fault kill"),
        (("lost-ack", "-b", "127.0.0.1:1"), "no Kafka broker could be reached at 127.0.0.1:1 (connection refused)"),
        (("lost-ack", "-b", ""), "bootstrap.servers"),
        (("lost-ack", "-b", "{where}", "--bootstrap", "x:1"), "--bootstrap and --bootstrap-servers both say where"),
        (
            ("lost-ack", "--json-file", "a.out", "--junit", "./a.out"),
            "--json-file and --junit both write to a.out: give each a",
        ),
        (("lost-ack", "--keep-topics"), "--keep-topics is about topics on a Kafka of yours: give --bootstrap-servers"),
        (("lost-ack", "--topic-prefix", "x"), "--topic-prefix is about topics on a Kafka of yours"),
        (("lost-ack", "-b", "{where}", "--topic-prefix", "a b"), "--topic-prefix 'a b' cannot begin the name of a"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    cluster: ottla.Cluster, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    given = [each.format(where=cluster.bootstrap_servers) for each in arguments]
    status, _, err = trial(capsys, *given)
    (line,) = err.splitlines()
    assert (status, words in line) == (2, True), line
    assert topics(cluster) == [OTHERS]


def test_a_request_that_comes_again_after_the_last_record_is_judged_too(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(HEAD + CONTROL.replace('"lose_ack"', '"redeliver"\ndelay_ms = 700'))
    status, out, err = trial(capsys, mine, "-b", cluster.bootstrap_servers)
    assert (status, err) == (0, ""), out


@pytest.mark.parametrize("keeps", [False, True])
def test_ctrl_c_deletes_the_topic_or_names_it(cluster: ottla.Cluster, tmp_path: Path, keeps: bool) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(HEAD + FOR_EVER)
    command = [sys.executable, "-m", "ottla", "trial", str(mine), "-b", cluster.bootstrap_servers]
    if keeps:
        command.append("--keep-topics")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert comes_within(120, lambda: topics(cluster) != [OTHERS])
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "ottla: interrupted")
    left = [name for name in topics(cluster) if name != OTHERS]
    assert len(left) == keeps
    if keeps:
        assert said.splitlines()[-2] == f"ottla: the topic {left[0]} at {cluster.bootstrap_servers} is kept"
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            admin.delete_topics(left)


def test_an_error_keeps_what_had_ended_before_it(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, json_file = tmp_path / "good.toml", tmp_path / "bad.toml", tmp_path / "outcome.json"
    good.write_text(HEAD + CONTROL)
    bad.write_text(HEAD + CONTROL + 'topic = { "no.such.setting" = 2 }\n')
    junit_file = tmp_path / "junit.xml"
    files = ["--json-file", json_file, "--junit", junit_file]
    status, _, err = trial(capsys, good, bad, "-b", cluster.bootstrap_servers, *files)
    assert (status, "does not make the topic" in err) == (2, True)
    assert [each["passed"] for each in json.loads(json_file.read_text())] == [True]
    _, broken_off = ElementTree.parse(junit_file).getroot()
    assert (broken_off.get("name"), broken_off.get("errors")) == ("bad", "1")
    error = broken_off.find("testcase/error")
    assert error is not None
    assert err == f"ottla: {error.get('message')}\n"


def test_an_error_of_the_first_trial_is_in_the_junit_file(
    cluster: ottla.Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, junit_file = tmp_path / "bad.toml", tmp_path / "junit.xml"
    bad.write_text(HEAD + CONTROL + 'topic = { "no.such.setting" = 2 }\n')
    status, _, _ = trial(capsys, bad, "-b", cluster.bootstrap_servers, "--junit", junit_file)
    root = ElementTree.parse(junit_file).getroot()
    assert (status, root.get("tests"), root.get("errors")) == (2, "1", "1")


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_somebody_deletes_meanwhile_is_told(cluster: ottla.Cluster, is_made_again: bool) -> None:
    class Deleting:
        handed_over = 0

        def advance(self, count: int = 1) -> None:
            self.handed_over += count
            if self.handed_over == 40:
                with ottla.Admin(cluster.bootstrap_servers) as admin:
                    (name,) = (name for name in admin.list_topics() if name.startswith(TOPIC_PREFIX))
                    admin.delete_topics(name)
                    if is_made_again:
                        admin.create_topics(name)

    with ForeignKafka(cluster.bootstrap_servers, {}, topic_prefix=TOPIC_PREFIX, say=pytest.fail) as kafka:
        stepping: Any = lambda *_: nullcontext(Deleting())  # noqa: E731
        with pytest.raises(OttlaError, match=r"^somebody has deleted the topic ottla-trial-.* while the trial ran"):
            run_scenario(
                read_scenario("mine", HEAD + "flush_every = 40\n" + CONTROL, "mine.toml"), stepping, kafka=kafka
            )
    assert topics(cluster) == [OTHERS]


def test_a_topic_of_which_somebody_deletes_the_oldest_records_meanwhile_is_told(cluster: ottla.Cluster) -> None:
    class Deleting:
        handed_over = 0

        def advance(self, count: int = 1) -> None:
            self.handed_over += count
            if self.handed_over == 21:
                with ottla.Admin(cluster.bootstrap_servers) as admin:
                    (name,) = (name for name in admin.list_topics() if name.startswith(TOPIC_PREFIX))
                    admin.delete_records(name, {0: 15})

    told = (
        r"^somebody, or the topic's retention, has deleted the oldest records of ottla-trial-\S+-0 at \S+ while the "
        r"trial ran: it begins at offset 15 now, and nothing can be said of what was stored before; run it again$"
    )
    with ForeignKafka(cluster.bootstrap_servers, {}, topic_prefix=TOPIC_PREFIX, say=pytest.fail) as kafka:
        stepping: Any = lambda *_: nullcontext(Deleting())  # noqa: E731
        with pytest.raises(OttlaError, match=told):
            run_scenario(
                read_scenario("mine", HEAD + "flush_every = 20\n" + CONTROL, "mine.toml"), stepping, kafka=kafka
            )


@pytest.mark.prove
@pytest.mark.parametrize("more", ["", "transaction_records = 5\n"])
def test_a_kafka_that_goes_away_in_the_middle_proves_nothing_and_its_topic_is_named(
    more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("ottla.trial.foreign_side._CHECK_EVERY_S", 1.0 if more else 3600.0)
    times = '"delivery.timeout.ms" = 1000, "request.timeout.ms" = 500, "max.block.ms" = 1000'
    hasty = CONTROL.replace('"enable.idempotence" = false', times) + more
    with ottla.Cluster(brokers=1) as cluster:

        class Ending:
            handed_over = 0

            def advance(self, count: int = 1) -> None:
                self.handed_over += count
                if self.handed_over == 22:
                    cluster.kill(1)

        settings = {"default_api_timeout_ms": 1_000}
        with ForeignKafka(cluster.bootstrap_servers, settings, topic_prefix=TOPIC_PREFIX, say=said.append) as kafka:
            stepping: Any = lambda *_: nullcontext(Ending())  # noqa: E731
            with pytest.raises(OttlaError, match=r"^the Kafka at .* went away in the middle of a trial: "):
                run_scenario(read_scenario("mine", HEAD + hasty, "mine.toml"), stepping, kafka=kafka)
    (line,) = said
    assert line.startswith("the topic ottla-trial-")
    assert "could not be deleted, and may still be there" in line
