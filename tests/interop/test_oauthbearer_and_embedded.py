"""OAUTHBEARER on the embedded cluster's listeners, met by librdkafka and by Java's own tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import ottla
from ottla import Listener

_PATIENCE_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    listener = Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"])
    with ottla.Cluster(brokers=1, listeners={"PLAINTEXT": Listener(), "TOKENS": listener}) as cluster:
        cluster.create_topic("flights")
        yield cluster


def _config(cluster: ottla.Cluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers_of("TOKENS"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **more,
    }


def test_librdkafka_comes_in_by_an_unsecured_token(cluster: ottla.Cluster) -> None:
    more = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=ada"}
    admin = AdminClient(_config(cluster) | more)
    assert "flights" in admin.list_topics(timeout=120).topics


def test_librdkafka_is_refused_with_a_token_that_is_none(cluster: ottla.Cluster) -> None:
    said: list[str] = []

    def token(_: str) -> tuple[str, float]:
        return "no.token.", 4e9

    more = {"oauth_cb": token, "error_cb": lambda error: said.append(str(error)), "log_level": 0}
    admin = AdminClient(_config(cluster) | more)
    give_up_s = time.monotonic() + _PATIENCE_S
    while not any("invalid_token" in text or "Authentication failed" in text for text in said):
        assert time.monotonic() < give_up_s, said
        with pytest.raises(Exception, match=r"(?i)transport|timed out|broker"):
            admin.list_topics(timeout=1)
        admin.poll(0)


@pytest.mark.kafka
def test_javas_tools_come_in_by_an_unsecured_token(cluster: ottla.Cluster, java: Any, tmp_path: Path) -> None:
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="ada";'
    )
    path = tmp_path / "client.properties"
    config = _config(cluster, **{"sasl.jaas.config": line})
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    address = config["bootstrap.servers"]
    told = ("--bootstrap-server", address, "--command-config", str(path), "--list")
    assert b"flights" in java.run("org.apache.kafka.tools.TopicCommand", *told)
