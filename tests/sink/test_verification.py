"""Brokers that do not verify transactions cannot be used, and are refused before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.sink.planning import plan
from ottla.sink.session import session_of
from ottla.sink.verification import problem

from .conftest import busy, make_job


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    settings = {"transaction_version": 1, "transaction_partition_verification_enable": False}
    with ottla.Cluster(brokers=1, settings=settings) as cluster:
        yield cluster


def test_brokers_that_do_not_verify_are_refused(cluster: ottla.Cluster, kafka_name: str, tmp_path: Path) -> None:
    job = make_job(cluster, kafka_name, tmp_path)
    with pytest.raises(ottla.UserMistake, match=r"transaction.partition.verification.enable=false: set it to true"):
        plan(session_of(job.settings()))
    assert busy(job) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"transaction.partition.verification.enable": "true"}, None),
        ({"inter.broker.protocol.version": "3.5-IV2"}, "these are older than Kafka 3.6: update them"),
        # A service that hides its brokers' settings.
        ({"message.max.bytes": "1048588"}, None),
    ],
)
def test_what_brokers_say_of_themselves_is_believed(settings: dict[str, str | None], told: str | None) -> None:
    assert problem(settings) == told
