"""TLS and passwords: of the registry's clients, and of the brokers behind it."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.papers import Papers

import ottla
from ottla.registry.client import RegistryClient


def encrypted(papers: Papers, **more: object) -> ottla.Listener:
    return ottla.Listener(protocol="SSL", certificate=papers.server, **more)  # type: ignore[arg-type]


def test_a_registry_speaks_tls_with_who_believes_it(cluster: ottla.Cluster, papers: Papers) -> None:
    with ottla.Registry(cluster.bootstrap_servers, listener=encrypted(papers)) as registry:
        assert registry.url.startswith("https://127.0.0.1:")
        with RegistryClient(registry.url, ssl_truststore_location=papers.ca) as client:
            # Larger than what TLS encrypts in one piece, both ways.
            fields = ",".join(f'{{"name":"field{number}","type":"long"}}' for number in range(5000))
            schema = client.register("large", f'{{"type":"record","name":"Large","fields":[{fields}]}}')
            assert RegistryClient(registry.url, ssl_truststore_location=papers.ca).by_id(schema.id).text == schema.text
        with pytest.raises(ottla.RegistryError, match=r"is not trusted .*ssl\.truststore\.location") as refused:
            RegistryClient(registry.url, ssl_truststore_location=papers.other_ca).subjects()
        assert refused.value.fatal
        plain = registry.url.replace("https", "http")
        with pytest.raises(ottla.RegistryError, match="cannot be reached") as refused:
            RegistryClient(plain, max_retries=0).subjects()
        assert "no answer within" not in str(refused.value)
        # Who says nothing holds nobody up.
        host, port = urlsplit(registry.url).netloc.split(":")
        with socket.create_connection((host, int(port))):
            assert RegistryClient(registry.url, ssl_truststore_location=papers.ca).subjects() == ["large"]


def test_a_certificate_for_other_names_is_told_with_these(cluster: ottla.Cluster, papers: Papers) -> None:
    listener = ottla.Listener(protocol="SSL", certificate=papers.elsewhere)
    with ottla.Registry(cluster.bootstrap_servers, listener=listener, topic="elsewhere") as registry:
        with pytest.raises(ottla.RegistryError) as refused:
            RegistryClient(registry.url, ssl_truststore_location=papers.ca).subjects()
        told = str(refused.value)
        assert "its certificate is for kafka.elsewhere.example: give such a name in schema.registry.url" in told
        assert "or give the registry a certificate for 127.0.0.1." in told
        assert refused.value.fatal
        any_name = RegistryClient(
            registry.url, ssl_truststore_location=papers.ca, ssl_endpoint_identification_algorithm=""
        )
        assert any_name.subjects() == []


def test_a_certificate_that_has_expired_is_to_be_renewed(cluster: ottla.Cluster, papers: Papers) -> None:
    listener = ottla.Listener(protocol="SSL", certificate=papers.expired)
    with ottla.Registry(cluster.bootstrap_servers, listener=listener, topic="expired") as registry:
        told = r"is not trusted \(certificate has expired\): have its certificate renewed, or set the clock"
        with pytest.raises(ottla.RegistryError, match=told):
            RegistryClient(registry.url, ssl_truststore_location=papers.ca).subjects()


def test_a_client_shows_a_certificate_where_one_is_asked_for(cluster: ottla.Cluster, papers: Papers) -> None:
    listener = encrypted(papers, client_auth="required", client_ca=papers.ca)
    believing = {"ssl_truststore_location": papers.ca, "max_retries": 0}
    with ottla.Registry(cluster.bootstrap_servers, listener=listener, topic="asking") as registry:
        assert RegistryClient(registry.url, believing, ssl_keystore_location=papers.client).subjects() == []
        for settings in ({}, {"ssl_keystore_location": papers.untrusted}):
            with pytest.raises(ottla.RegistryError):
                RegistryClient(registry.url, {**believing, **settings}).subjects()


def test_a_registry_shows_brokers_who_it_is(papers: Papers, tmp_path: Path) -> None:
    listener = ottla.Listener(protocol="SASL_SSL", certificate=papers.server, users={"registry": "s3cret"})
    settings = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "registry",
        "ssl_truststore_location": papers.ca,
    }
    with ottla.Cluster(brokers=1, listeners={"CLIENTS": listener}) as cluster:
        servers = cluster.bootstrap_servers
        with ottla.Registry(servers, **settings, sasl_password="s3cret") as registry:
            assert RegistryClient(registry.url).register("s", '"int"').id == 1
        with pytest.raises(ottla.OttlaError) as refused:
            ottla.Registry(servers, **settings, sasl_password="wr0ng", start_timeout_s=5)
        assert "wr0ng" not in str(refused.value)


def test_the_body_of_who_is_not_let_in_is_not_waited_for(cluster: ottla.Cluster) -> None:
    with ottla.Registry(cluster.bootstrap_servers, users={"ann": "s3cret"}, topic="closed") as registry:
        head = b"POST /subjects/a/versions HTTP/1.1\r\nContent-Length: 10000000\r\n%s\r\n"
        for more in (b"", b"Authorization: Basic eDp5\r\n", b"Expect: 100-continue\r\n"):
            host, port = urlsplit(registry.url).netloc.split(":")
            with socket.create_connection((host, int(port)), timeout=30) as sock:
                sock.sendall(head % more)
                came = b"".join(iter(lambda: sock.recv(65_536), b""))
            assert came.startswith(b"HTTP/1.1 401 "), came
