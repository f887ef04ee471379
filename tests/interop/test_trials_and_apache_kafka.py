"""Trials on Apache Kafka: what runs there is as on an embedded cluster, and the rights that are told are enough."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from tests.acls import grant_only
from tests.client.in_time import wait_until
from tools.apache_kafka import ApacheKafka, Java

import ottla
from ottla.cli import main
from ottla.trial.foreign_side import why_not
from ottla.trial.scenario_file import load_shipped, shipped_names

pytestmark = pytest.mark.kafka

PREFIX = "team."
_PATIENCE_S = 60
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f'{_LOGIN} user_ada="secret";',
}
_ANYWHERE = [name for name in shipped_names() if why_not(load_shipped(name)) is None]


def trial(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, outcomes, stderr."""
    try:
        status = main(["trial", *map(str, arguments), "--json"])
    except SystemExit as end:
        status = int(end.code or 0)
    told = capsys.readouterr()
    return status, json.loads(told.out or "[]"), told.err


def left_by_trials(address: str, count: int = 0) -> list[str]:
    """Topics of trials, once no more than `count` are left: brokers learn of a deletion after it is answered."""
    with ottla.Admin(address) as admin:

        def left() -> list[str]:
            return [name for name in admin.list_topics() if name.startswith(("ottla-trial-", PREFIX))]

        wait_until(lambda: len(left()) <= count, lambda: left(), _PATIENCE_S)
        return left()


@pytest.mark.sample
def test_lost_acks_of_apache_kafka_tell_the_guarantees_apart(
    apache_kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, (outcome,), err = trial(capsys, "lost-ack", "--bootstrap-servers", apache_kafka)
    assert (status, err) == (0, "")
    assert (outcome["kafka"], outcome["controlled"]) == (apache_kafka, True)
    control, sound = outcome["sides"]
    assert control["found"]["duplicated"] > 0
    assert (sound["found"], sound["figures"]["stored"]) == ({}, 300)
    assert left_by_trials(apache_kafka) == []


@pytest.mark.parametrize("name", [name for name in _ANYWHERE if name != "lost-ack"])
def test_a_trial_that_runs_on_any_kafka_is_as_expected_on_apache_kafka(
    apache_kafka: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    status, (outcome,), err = trial(capsys, name, "--bootstrap-servers", apache_kafka)
    assert (status, err, outcome["passed"]) == (0, "", True), outcome
    assert left_by_trials(apache_kafka) == []


def test_another_client_is_tried_on_apache_kafka(apache_kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, (outcome,), err = trial(
        capsys, "lost-ack", "--bootstrap-servers", apache_kafka, "--client", "confluent-kafka"
    )
    assert (status, err, outcome["passed"]) == (0, "", True), outcome
    assert outcome["client"].startswith("confluent-kafka ")


# ---- rights ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(java: Java) -> Iterator[ApacheKafka]:
    with ApacheKafka(listeners={"USERS": "SASL_PLAINTEXT"}, settings=_SETTINGS) as kafka:
        yield kafka


@pytest.fixture
def as_ada(guarded: ApacheKafka, tmp_path: Path) -> list[str | Path]:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ada\nsasl.password=secret\n"
    )
    where = guarded.bootstrap_servers_of("USERS")
    return ["-b", where, "--command-config", config, "--topic-prefix", PREFIX]


def grant(kafka: ApacheKafka, *on_topics: AclOperation) -> None:
    """These permissions on what has the prefix, and those on transactional ids; no others."""
    rules = [
        *((ResourceType.TOPIC, operation) for operation in on_topics),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
    ]
    granted = [
        AclBinding(kind, PREFIX, ResourcePatternType.PREFIXED, "User:ada", "*", operation, AclPermissionType.ALLOW)
        for kind, operation in rules
    ]
    grant_only(kafka.bootstrap_servers, granted)


ALL_BUT_DELETE = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)


def test_the_rights_that_are_told_are_enough(
    guarded: ApacheKafka, as_ada: list[str | Path], capsys: pytest.CaptureFixture[str]
) -> None:
    grant(guarded, *ALL_BUT_DELETE, AclOperation.DELETE)
    status, outcomes, err = trial(capsys, "lost-ack", "between-ack-and-note", *as_ada)
    assert (status, err, [each["passed"] for each in outcomes]) == (0, "", [True, True]), outcomes
    assert left_by_trials(guarded.bootstrap_servers) == []


def test_who_may_not_make_topics_is_told_what_is_needed(
    guarded: ApacheKafka, as_ada: list[str | Path], capsys: pytest.CaptureFixture[str]
) -> None:
    grant(guarded, AclOperation.READ, AclOperation.WRITE)
    status, _, err = trial(capsys, "lost-ack", *as_ada)
    (line,) = err.splitlines()
    assert status == 2
    assert f"{as_ada[1]} does not let this user make the topic {PREFIX}" in line
    assert "needs CREATE, DESCRIBE, READ, WRITE and DELETE on topics with its prefix" in line
    assert left_by_trials(guarded.bootstrap_servers) == []


def test_topics_that_may_not_be_deleted_are_named(
    guarded: ApacheKafka, as_ada: list[str | Path], capsys: pytest.CaptureFixture[str]
) -> None:
    grant(guarded, *ALL_BUT_DELETE)
    status, (outcome,), err = trial(capsys, "lost-ack", *as_ada)
    left = left_by_trials(guarded.bootstrap_servers, 2)
    assert (status, outcome["passed"], len(left)) == (0, True, 2)
    for name, line in zip(left, sorted(err.splitlines()), strict=True):
        assert f"the topic {name} at {as_ada[1]} could not be deleted, and may still be there" in line


def test_a_kafka_that_wants_more_replicas_in_sync_than_it_has_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with ApacheKafka(settings={"min.insync.replicas": 2}) as kafka:
        status, _, err = trial(capsys, "lost-ack", "-b", kafka.bootstrap_servers)
        (line,) = err.splitlines()
        assert status == 2
        assert f"{kafka.bootstrap_servers} gives new topics min.insync.replicas=2, and this topic has 1" in line
        assert left_by_trials(kafka.bootstrap_servers) == []
