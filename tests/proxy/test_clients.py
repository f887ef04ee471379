"""Clients of all kinds through a proxy: they stay inside, by TLS and SASL on either side."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from tests.markers import await_markers
from tests.papers import Papers
from tools.ports import free_ports

import ottla
from ottla import Listener
from ottla.errors import ConfigError, NotKafka, Unreachable, UserMistake

_PATIENCE_S = 60
_USERS = {"ada": "lovelace"}
_COUNT = 20


def addresses_of(proxy: ottla.Proxy) -> set[str]:
    return {node["local"] for node in proxy.describe()["nodes"]}


def confluent_round_trip(config: dict[str, Any], topic: str) -> list[bytes]:
    """What librdkafka reads of what it has written, by a group, so that coordinators are asked for, too."""
    # Records that are sent again after a lost ack must not be stored twice, however many requests they are in.
    producer = Producer({**config, "enable.idempotence": True})
    for number in range(_COUNT):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(_PATIENCE_S) == 0
    consumer = Consumer({**config, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = [consumer.poll(_PATIENCE_S) for _ in range(_COUNT)]
        consumer.commit(asynchronous=False)
        return sorted((message.value() for message in messages if message is not None), key=int)
    finally:
        consumer.close()


def expected() -> list[bytes]:
    return [b"%d" % number for number in range(_COUNT)]


def test_librdkafka_stays_inside(cluster: ottla.Cluster, proxy: ottla.Proxy, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    config = {"bootstrap.servers": proxy.bootstrap_servers}
    assert confluent_round_trip(config, kafka_name) == expected()
    admin = AdminClient(config)
    brokers = admin.list_topics(timeout=_PATIENCE_S).brokers.values()
    assert {f"{each.host}:{each.port}" for each in brokers} == addresses_of(proxy)
    described = admin.describe_cluster().result(_PATIENCE_S)
    assert {f"{each.host}:{each.port}" for each in described.nodes} == addresses_of(proxy)


def test_librdkafka_in_a_transaction_loses_an_ack(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    with proxy.faults.lose_ack(topic=topic, nth=1) as produced, proxy.faults.lose_ack(api="EndTxn", nth=1) as ended:
        producer = Producer({"bootstrap.servers": proxy.bootstrap_servers, "transactional.id": topic})
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
        for number in range(_COUNT):
            producer.produce(topic, b"%d" % number)
        producer.commit_transaction(_PATIENCE_S)
    assert (produced.fired, ended.fired) == (1, 1)
    await_markers(cluster.bootstrap_servers, topic)
    table = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    assert table.column("value").to_pylist() == expected()


def test_kafka_python_stays_inside(cluster: ottla.Cluster, proxy: ottla.Proxy, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    with proxy.faults.lose_ack(topic=kafka_name, nth=1) as fault:
        producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers.split(","), acks="all", retries=5)
        for value in expected():
            producer.send(kafka_name, value)
        producer.flush(_PATIENCE_S)
        producer.close()
    assert fault.fired == 1
    consumer = KafkaConsumer(
        kafka_name,
        bootstrap_servers=proxy.bootstrap_servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=_PATIENCE_S * 1000,
    )
    found = {next(consumer).value for _ in range(_COUNT)}
    consumer.close()
    assert found == set(expected())


def test_bootstrap_by_another_name_gets_ports_of_its_own(cluster: ottla.Cluster, topic: str) -> None:
    port = cluster.bootstrap_servers.split(",")[0].split(":")[1]
    with ottla.Proxy(f"localhost:{port}") as proxy:
        nodes = proxy.describe()["nodes"]
        assert [node["node"] for node in nodes] == ["bootstrap server", "broker 1", "broker 2", "broker 3"]
        assert len(addresses_of(proxy)) == 4
        with ottla.Producer(proxy.bootstrap_servers) as producer:
            producer.send(topic, b"v").result(_PATIENCE_S)


def test_ports_count_up_from_the_one_given(cluster: ottla.Cluster, topic: str) -> None:
    first = free_ports(3)[0]
    with ottla.Proxy(cluster.bootstrap_servers, listener=Listener(port=first)) as proxy:
        assert proxy.bootstrap_servers.split(",")[0] == f"127.0.0.1:{first}"
        with ottla.Producer(proxy.bootstrap_servers) as producer:
            producer.send(topic, b"v").result(_PATIENCE_S)


def test_clients_are_told_the_advertised_name(cluster: ottla.Cluster, topic: str) -> None:
    listener = Listener(host="127.0.0.1", advertised_host="localhost")
    with ottla.Proxy(cluster.bootstrap_servers, listener=listener) as proxy:
        assert all(each.startswith("localhost:") for each in addresses_of(proxy))
        with ottla.Producer(proxy.bootstrap_servers) as producer:
            producer.send(topic, b"v").result(_PATIENCE_S)


# ---- TLS and SASL ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(papers: Papers) -> Iterator[ottla.Cluster]:
    listeners = {
        "PLAINTEXT": Listener(),
        "SSL": Listener(protocol="SSL", certificate=papers.server),
        "SASL_PLAINTEXT": Listener(protocol="SASL_PLAINTEXT", users=_USERS),
        "SASL_SSL": Listener(protocol="SASL_SSL", certificate=papers.server, users=_USERS),
    }
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


@pytest.mark.parametrize("client_tls", [False, True])
@pytest.mark.parametrize("upstream", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_tls_and_sasl_on_either_side(
    secured: ottla.Cluster, papers: Papers, kafka_name: str, upstream: str, client_tls: bool
) -> None:
    secured.create_topic(kafka_name)
    listener = Listener(protocol="SSL", certificate=papers.server) if client_tls else Listener()
    is_sasl = upstream.startswith("SASL")
    settings: dict[str, Any] = {}
    if upstream.endswith("SSL"):
        settings = {"security.protocol": upstream, "ssl.truststore.location": str(papers.ca)}
    config: dict[str, Any] = {"security.protocol": f"{'SASL_' * is_sasl}{'SSL' if client_tls else 'PLAINTEXT'}"}
    if client_tls:
        config["ssl.ca.location"] = str(papers.ca)
    if is_sasl:
        config |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ada", "sasl.password": "lovelace"}
    servers = secured.bootstrap_servers_of(upstream)
    with ottla.Proxy(servers, listener=listener, upstream_settings=settings) as proxy:
        with proxy.faults.lose_ack(topic=kafka_name, nth=1) as fault:
            found = confluent_round_trip({"bootstrap.servers": proxy.bootstrap_servers, **config}, kafka_name)
        assert found == expected()
        assert fault.fired == 1


def test_a_listener_with_sasl_is_refused(cluster: ottla.Cluster) -> None:
    with pytest.raises(ConfigError, match="SASL passes through a proxy"):
        ottla.Proxy(cluster.bootstrap_servers, listener=Listener(protocol="SASL_PLAINTEXT", users=_USERS))
    with pytest.raises(ConfigError, match=r"sasl.username is for clients"):
        ottla.Proxy(cluster.bootstrap_servers, upstream_settings={"sasl.username": "ada"})


def test_tls_where_none_is_spoken_is_told(secured: ottla.Cluster, papers: Papers) -> None:
    with pytest.raises(NotKafka, match=r"hangs up without an answer.*If it wants TLS, give --upstream-tls|TLS"):
        ottla.Proxy(secured.bootstrap_servers_of("SSL"))
    settings = {"security.protocol": "SSL", "ssl.truststore.location": str(papers.ca)}
    with pytest.raises(Unreachable, match=r"does not speak TLS|handshake"):
        ottla.Proxy(secured.bootstrap_servers, upstream_settings=settings)
    with pytest.raises(Unreachable, match="certificate"):
        ottla.Proxy(
            secured.bootstrap_servers_of("SSL"),
            upstream_settings={"security.protocol": "SSL", "ssl.truststore.location": str(papers.other_ca)},
        )


def test_an_upstream_that_is_not_kafka_is_told() -> None:
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split(" port ")[1].split()[0]
        with pytest.raises(NotKafka, match=rf"upstream 127.0.0.1:{port} .*is it a Kafka broker\?"):
            ottla.Proxy(f"127.0.0.1:{port}")
        process.terminate()


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_a_name_that_can_be_no_name_is_told(host: str) -> None:
    with pytest.raises(Unreachable, match=rf"upstream {host}:9092 cannot be reached \(the name cannot be resolved\)"):
        ottla.Proxy(f"{host}:9092")


def test_an_upstream_that_answers_a_byte_now_and_then_is_not_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never falls silent for as long as one may wait for it, and the answer would take a thousand bytes."""
    monkeypatch.setattr("ottla.proxy.upstream._PATIENCE_S", 0.5)
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            sock, _ = server.accept()
            with sock, contextlib.suppress(OSError):
                sock.sendall((1000).to_bytes(4, "big"))
                for _ in range(1000):
                    sock.sendall(b"x")
                    if is_over.wait(0.05):
                        return

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NotKafka, match=r"does not answer within 0\.5 s"):
            ottla.Proxy(f"127.0.0.1:{server.getsockname()[1]}")
        is_over.set()
        thread.join()


def test_a_second_proxy_on_the_same_port_is_refused(cluster: ottla.Cluster) -> None:
    first = free_ports(3)[0]
    with (
        ottla.Proxy(cluster.bootstrap_servers, listener=Listener(port=first)),
        pytest.raises(UserMistake, match=f"port {first} on 127.0.0.1 is in use"),
    ):
        ottla.Proxy(cluster.bootstrap_servers, listener=Listener(port=first))
