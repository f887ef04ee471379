"""Captures of clients that authenticate and encrypt: TLS on both sides of the proxy, and SASL through it.

A fault fires as it does without, the capture is read by `ottla tap` and `ottla explain`, and no secret is in it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from tests.papers import Papers
from tools.apache_kafka import Java
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla import Listener

from ..needs import lacking

_PASSWORD = "a-password-4711"
_COUNT = 20
_PATIENCE_S = 60
_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def secured(papers: Papers) -> Iterator[ottla.Cluster]:
    listeners = {
        "PLAINTEXT": Listener(),
        "SASL_SSL": Listener(protocol="SASL_SSL", certificate=papers.server, users={"ada": _PASSWORD}),
    }
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


def send_by_librdkafka(bootstrap: str, topic: str, mechanism: str, papers: Papers) -> None:
    who = {"sasl.mechanism": mechanism, "sasl.username": "ada", "sasl.password": _PASSWORD}
    config = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": str(papers.ca), **who}
    producer = Producer({**config, "enable.idempotence": True, "linger.ms": 0})
    for number in range(_COUNT):
        producer.produce(topic, b"%d" % number)
        assert producer.flush(_PATIENCE_S) == 0


def send_by_aiokafka(bootstrap: str, topic: str, mechanism: str, papers: Papers) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=str(papers.ca)),
            sasl_mechanism=mechanism,
            sasl_plain_username="ada",
            sasl_plain_password=_PASSWORD,
            enable_idempotence=True,
            request_timeout_ms=60_000,
        )
        async with producer:
            for number in range(_COUNT):
                await producer.send_and_wait(topic, b"%d" % number)

    asyncio.run(send())


def send_by_java(bootstrap: str, topic: str, mechanism: str, papers: Papers) -> None:
    try:
        java = Java()
    except JarsUnavailable as error:
        lacking("kafka", error)
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    who = f'org.apache.kafka.common.security.{module} required username="ada" password="{_PASSWORD}";'
    settings = [f"bootstrap.servers={bootstrap}", "security.protocol=SASL_SSL", f"sasl.mechanism={mechanism}"]
    settings += [f"sasl.jaas.config={who}", "ssl.truststore.type=PEM", f"ssl.truststore.location={papers.ca}"]
    config = papers.ca.with_name(f"java-{mechanism}.properties")
    # A request for each record, one after the other, as the other clients send here.
    config.write_text("\n".join([*settings, "batch.size=0", "max.in.flight.requests.per.connection=1"]))
    what = ["--topic", topic, "--num-records", str(_COUNT), "--record-size", "100", "--throughput", "100"]
    java.run("org.apache.kafka.tools.ProducerPerformance", *what, "--producer.config", str(config))


@pytest.mark.parametrize("mechanism", _MECHANISMS)
@pytest.mark.parametrize(
    "send", [send_by_librdkafka, send_by_aiokafka, pytest.param(send_by_java, marks=pytest.mark.kafka)]
)
def test_a_lost_ack_of_a_client_by_tls_and_sasl_is_in_a_capture_without_secrets(
    secured: ottla.Cluster,
    papers: Papers,
    kafka_name: str,
    tmp_path: Path,
    send: Callable[[str, str, str, Papers], None],
    mechanism: str,
) -> None:
    topic = kafka_name
    secured.create_topic(topic)
    capture = tmp_path / "seen.capture"
    listener = Listener(protocol="SSL", certificate=papers.server)
    upstream = {"security.protocol": "SSL", "ssl.truststore.location": str(papers.ca)}
    servers = secured.bootstrap_servers_of("SASL_SSL")
    with ottla.Proxy(servers, listener=listener, upstream_settings=upstream, record=capture, payloads=True) as proxy:
        with proxy.faults.lose_ack(topic=topic, nth=3) as fault:
            send(proxy.bootstrap_servers, topic, mechanism, papers)
        assert fault.fired == 1
    assert ottla.read_table(secured.bootstrap_servers, topic).num_rows == _COUNT
    told = ottla_says("tap", str(capture), "--json")
    exchanges = [each["exchange"] for each in map(json.loads, told.splitlines()) if "exchange" in each]
    outcomes = [each["outcome"] for each in exchanges if each["api"] == "Produce"]
    assert outcomes.count("unanswered") == 1
    assert outcomes.count("answered") == _COUNT
    assert {"SaslHandshake", "SaslAuthenticate"} <= {each["api"] for each in exchanges}
    # Sent again with its sequence number, the batch is stored once: no promise is broken.
    ottla_says("explain", str(capture))
    secret = _PASSWORD.encode()
    assert secret not in capture.read_bytes()
    assert base64.b64encode(b"\0ada\0" + secret).rstrip(b"=") not in capture.read_bytes()


def ottla_says(*arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
