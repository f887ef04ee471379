"""OAUTHBEARER tokens by settings that are text: a token endpoint (KIP-768), or a function named by its place."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.client.in_time import wait_until
from tests.papers import Papers
from tests.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer

import ottla
from ottla import Listener
from ottla.client.token_endpoint import TokenEndpoint, TokenEndpointError
from ottla.clock import MACHINE
from ottla.connection.oauth_settings import ClientCredentials
from ottla.connection.settings import ConnectionSettings

_MODULE = """
from tests.client.test_token_endpoint import tokens_given
from ottla.connection.authentication import unsecured_token
import time

def token():
    tokens_given.append("token")
    return unsecured_token({"sub": "ada"}, time.time())

async def awaited_by_nobody():
    return ""

NOT_A_FUNCTION = 7
"""

tokens_given: list[str] = []


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    unsecured = {"protocol": "SASL_PLAINTEXT", "sasl_mechanisms": ["OAUTHBEARER"]}
    listeners = {"PLAINTEXT": Listener(), "TOKENS": Listener(**unsecured)}
    with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
        yield cluster


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name)
    return kafka_name


def credentials(url: str, **settings: Any) -> ClientCredentials:
    given = {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
        "sasl.login.retry.backoff.max.ms": 0,
        **settings,
    }
    tokens = ConnectionSettings({name: value for name, value in given.items() if value is not None}).security.tokens
    assert tokens is not None
    assert tokens.credentials is not None
    return tokens.credentials


def endpoint(url: str, **settings: Any) -> TokenEndpoint:
    return TokenEndpoint(credentials(url, **settings), MACHINE)


def test_every_client_comes_in_by_the_settings_of_a_java_properties_file(
    cluster: ottla.Cluster, topic: str, server: TokenServer
) -> None:
    address = cluster.bootstrap_servers_of("TOKENS")
    settings = server.settings(**{"sasl.oauthbearer.scope": "kafka"})
    with ottla.Producer.from_config({"bootstrap.servers": address, **settings}) as producer:
        producer.send(topic, b"x").result(30)

    async def send() -> None:
        async with ottla.AsyncProducer(address, **settings) as producer:
            await (await producer.send(topic, b"y"))

    asyncio.run(send())
    with ottla.Admin(address, **settings) as admin:
        assert topic in admin.list_topics()
    with ottla.Reader(address, topic, **settings) as reader:
        assert pa.Table.from_batches(list(reader))["value"].to_pylist() == [b"x", b"y"]
    assert {(asked.client_id, asked.client_secret, asked.path) for asked in server.asked} == {
        (CLIENT_ID, CLIENT_SECRET, "/oauth2/token")
    }
    assert [asked.form for asked in server.asked] == [{"grant_type": "client_credentials", "scope": "kafka"}] * 4


def test_what_java_clients_have_in_their_jaas_line_is_taken(
    cluster: ottla.Cluster, topic: str, server: TokenServer
) -> None:
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{CLIENT_ID}" clientSecret="{CLIENT_SECRET}" scope="kafka" extension_logicalCluster="lkc-1";'
    )
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        "sasl.jaas.config": line,
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
        "OAuthBearerLoginCallbackHandler",
    }
    with ottla.Producer(cluster.bootstrap_servers_of("TOKENS"), **settings) as producer:
        producer.send(topic, b"x").result(30)
    assert server.asked[0].form["scope"] == "kafka"
    tokens = ConnectionSettings({"bootstrap.servers": "one:1", **settings}).security.tokens
    assert tokens is not None
    assert tokens.credentials is not None
    assert TokenEndpoint(tokens.credentials, MACHINE)().extensions == {"logicalCluster": "lkc-1"}


def test_a_token_is_asked_for_again_before_it_ends() -> None:
    """Sessions end with their tokens, which last a minute; the connection goes on with new tokens."""
    clock = ottla.Clock()
    tokens = Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"])
    with (
        TokenServer(lifetime_s=60, wall_s=lambda: clock.wall_ms() / 1000) as server,
        ottla.Cluster(brokers=1, clock=clock, listeners={"TOKENS": tokens}) as cluster,
    ):
        cluster.create_topic("orders")
        # While the clock stands still, no session ends before its renewal is done.
        clock.stop()
        settings = server.settings(retries=0, linger_ms=0, clock=clock, **{"enable.idempotence": False})
        with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
            producer.send("orders", b"x").result()
            for _ in range(2):
                renewals = producer.metrics()["successful-reauthentication-total"]
                # Renewals are due after 95 % of a session at the latest.
                clock.advance(58)
                wait_until(lambda: producer.metrics()["successful-reauthentication-total"] > renewals)  # noqa: B023
            producer.send("orders", b"y").result()
            assert producer.metrics()["failed-reauthentication-total"] == 0
            assert producer.metrics()["connection-creation-total"] <= 2
        clock.go_on()
    assert len(server.asked) >= 3


@pytest.mark.parametrize("tells_lifetime", [True, False])
def test_when_a_token_ends_is_taken_from_the_answer_or_from_the_token(tells_lifetime: bool) -> None:
    with TokenServer(lifetime_s=100, tells_lifetime=tells_lifetime) as server:
        begun_s = MACHINE.wall_ms() / 1000
        token = endpoint(server.url)()
    assert token.expires_at_s is not None
    # A token tells whole seconds.
    assert begun_s + 98 <= token.expires_at_s <= MACHINE.wall_ms() / 1000 + 100


def test_a_token_that_tells_nothing_is_taken_as_it_is(server: TokenServer) -> None:
    server.answers.append((200, {"access_token": " opaque ", "expires_in": "soon"}))
    token = endpoint(server.url)()
    assert (token.value, token.expires_at_s) == ("opaque", None)


def test_an_error_that_passes_is_waited_for(cluster: ottla.Cluster, topic: str, server: TokenServer) -> None:
    server.answers += [(503, "busy"), (429, ""), (500, {"error": "server_error"})]
    settings = server.settings(**{"sasl.login.retry.backoff.ms": 1})
    with ottla.Producer(cluster.bootstrap_servers_of("TOKENS"), **settings) as producer:
        producer.send(topic, b"x").result(30)
    assert len(server.asked) == 4


def test_id_and_secret_are_url_encoded_where_asked_for(server: TokenServer) -> None:
    with pytest.raises(TokenEndpointError, match="401 invalid_client"):
        endpoint(server.url, **{"sasl.oauthbearer.header.urlencode": True})()
    assert server.asked[0].client_secret == "s3cret%3A0815"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (401, {"error": "invalid_client", "error_description": "Wrong."}),
            r"answered 401 invalid_client \(Wrong\); check sasl\.oauthbearer\.client\.credentials\.client\.id and ",
        ),
        ((400, {"error": "invalid_scope"}), r"answered 400 invalid_scope; check sasl\.oauthbearer\.scope$"),
        ((400, {"error_description": f"{CLIENT_SECRET} is wrong"}), "answered 400; check"),
        ((404, "<html>"), r"answered 404; check sasl\.oauthbearer\.token\.endpoint\.url"),
        ((302, ""), "answered 302; it refers to another address, which is not followed"),
        ((503, "busy"), "answered 503; try again later"),
        ((200, "<html>"), "answered without an access_token"),
        ((200, {"token": "x"}), "answered without an access_token"),
        ((200, "[]"), "answered without an access_token"),
        ((200, " " * 1_000_001), "answered with more than a token"),
    ],
)
def test_what_an_endpoint_refuses_is_one_sentence(server: TokenServer, answer: tuple[int, Any], said: str) -> None:
    server.answers.append(answer)
    with pytest.raises(TokenEndpointError, match=said) as refused:
        endpoint(server.url)()
    assert str(refused.value).startswith(f"the token endpoint {server.url} answered ")
    assert CLIENT_SECRET not in str(refused.value)


def test_an_endpoint_that_cannot_be_reached_is_one_sentence_without_what_may_be_secret(closed_port: str) -> None:
    with pytest.raises(TokenEndpointError) as refused:
        endpoint(f"http://{closed_port}/token?key=pass-0815")()
    assert str(refused.value) == (
        f"the token endpoint http://{closed_port}/token could not be reached (connection refused); check "
        "sasl.oauthbearer.token.endpoint.url, and whether this machine may connect to it"
    )


def test_an_endpoint_that_is_silent_is_not_waited_for_for_ever() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(TokenEndpointError, match=r"could not be reached \(no answer in time: sasl\.login"),
    ):
        endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/", **{"sasl.login.read.timeout.ms": 50})()


def test_a_producer_tells_what_the_endpoint_said_and_shows_no_secret(
    cluster: ottla.Cluster, server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "wrong-secret-4711"
    settings = server.settings(**{"sasl.oauthbearer.client.credentials.client.secret": secret})
    with ottla.Producer(cluster.bootstrap_servers_of("TOKENS"), **settings) as producer:
        told = repr(producer)
        with pytest.raises(ottla.AuthenticationError, match="answered 401 invalid_client") as refused:
            producer.send("any", b"x")
    assert secret not in told + str(refused.value) + caplog.text + repr(credentials(server.url))


def test_a_tls_endpoint_is_believed_by_the_jaas_lines_own_truststore(papers: Papers) -> None:
    line = 'a.OAuthBearerLoginModule required ssl.truststore.location="{}";'
    with TokenServer(certificate=papers.server) as server:
        with pytest.raises(TokenEndpointError, match=r"is not trusted \(.*\); name who issued its certificate"):
            endpoint(server.url)()
        token = endpoint(server.url, **{"sasl.jaas.config": line.format(papers.ca)})()
        assert token.value
    with pytest.raises(ottla.ConfigError, match=r"sasl\.jaas\.config, for the token endpoint: ssl\.truststore"):
        endpoint(server.url, **{"sasl.jaas.config": line.format("nowhere.pem")})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"sasl.oauthbearer.token.endpoint.url": "file:///secret-0815"},
            "is no URL that begins with https:// or http://",
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a b"}, "is no URL that begins with"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://u:secret-0815@host/"}, r"names a host \(and no user\)"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://host:port/"}, "is no URL that begins with"),
        ({"sasl.oauthbearer.client.credentials.client.secret": None}, r"client\.secret is missing"),
        ({"sasl.oauthbearer.client.credentials.client.id": None}, r"client\.id is missing"),
        ({"sasl.oauthbearer.token.provider": "a:b"}, "both say where tokens come from; keep one"),
        ({"sasl.jaas.config": 'a.OAuthBearerLoginModule required clientId="secret-0815";'}, "say the same; keep one"),
        ({"sasl.login.callback.handler.class": "com.example.Handler"}, "names a Java class, which Python cannot load"),
    ],
)
def test_settings_about_an_endpoint_that_do_not_go_together(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ottla.ConfigError, match=said) as refused:
        credentials("https://idp.example/token", **settings)
    assert "secret-0815" not in str(refused.value)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ottla_test_tokens.py").write_text(_MODULE)
    (tmp_path / "ottla_test_broken.py").write_text("raise ValueError('secret-0815')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "ottla_test_tokens"


def by_place(place: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": place,
    }


def test_a_function_may_be_named_by_its_place(cluster: ottla.Cluster, topic: str, module: str) -> None:
    tokens_given.clear()
    with ottla.Producer(cluster.bootstrap_servers_of("TOKENS"), **by_place(f"{module}:token")) as producer:
        producer.send(topic, b"x").result(30)
    assert tokens_given == ["token"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nothing", "names no function; as text it must be module:function"),
        ("a.b:c.d", "names no function; as text it must be module:function"),
        ("ottla_test_nowhere:token", r"cannot be imported \(No module named 'ottla_test_nowhere'\); put it where"),
        ("ottla_test_tokens:tokens", "the module has no such function; name a function without arguments"),
        ("ottla_test_tokens:NOT_A_FUNCTION", "has NOT_A_FUNCTION, which is no function"),
        ("ottla_test_tokens:awaited_by_nobody", "is an async function, which nobody would await"),
        ("ottla_test_broken:token", "importing the module raised ValueError"),
    ],
)
def test_a_place_that_cannot_be_used_is_one_sentence(module: str, place: str, said: str) -> None:
    with pytest.raises(ottla.ConfigError, match=said) as refused:
        ottla.Producer("127.0.0.1:9", **by_place(place))
    assert "secret-0815" not in str(refused.value)
