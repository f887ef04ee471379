"""OAUTHBEARER with a token callable, against the embedded cluster's unsecured tokens and its own validator."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.client.in_time import wait_until

import ottla
from ottla import Listener, OAuthBearerToken
from ottla.client.security import Security
from ottla.clock import MACHINE, MachineClock
from ottla.connection.authentication import unsecured_token
from ottla.connection.settings import ConnectionSettings
from ottla.producer.settings import ProducerSettings


def accept_known(token: str) -> Any:
    """What the listener VALIDATED asks; the brokers import it from here."""
    if token == "forever":
        return "ada"
    if token == "a-minute":
        return "ada", time.time() + 60
    if token == "nobody":
        return None
    raise PermissionError(f"no such token: {token}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Cluster]:
    unsecured = {"protocol": "SASL_PLAINTEXT", "sasl_mechanisms": ["OAUTHBEARER"]}
    folder = tmp_path_factory.mktemp("validators")
    source = "import time\n" + _source_of(accept_known)
    (folder / "ottla_test_validators.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        listeners = {
            "PLAINTEXT": Listener(),
            "UNSECURED": Listener(**unsecured),
            "BOTH": Listener(
                protocol="SASL_PLAINTEXT", sasl_mechanisms=["PLAIN", "OAUTHBEARER"], users={"ada": "lovelace"}
            ),
            "VALIDATED": Listener(**unsecured, oauthbearer_validator="ottla_test_validators:accept_known"),
        }
        with ottla.Cluster(brokers=1, listeners=listeners) as cluster:
            yield cluster


def _source_of(function: Callable[..., Any]) -> str:
    import inspect

    return inspect.getsource(function).replace("-> Any", "").replace(": str", "")


@pytest.fixture
def topic(cluster: ottla.Cluster, kafka_name: str) -> str:
    cluster.create_topic(kafka_name)
    return kafka_name


class Provider:
    """Gives tokens, and counts how often and on which threads it was asked."""

    def __init__(self, give: Callable[[], Any]) -> None:
        self._give = give
        self.threads: list[str] = []

    def __call__(self) -> Any:
        self.threads.append(threading.current_thread().name)
        return self._give()


def good(lifetime_s: float = 3600, clock: MachineClock = MACHINE) -> OAuthBearerToken:
    token = unsecured_token({"sub": "ada"}, clock.wall_ms() / 1000 - 3600 + lifetime_s)
    return OAuthBearerToken(token.value, token.expires_at_s)


def settings(provider: Any, **more: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_provider": provider,
        **more,
    }


@pytest.mark.parametrize("listener", ["UNSECURED", "BOTH"])
def test_a_token_comes_in(cluster: ottla.Cluster, topic: str, listener: str) -> None:
    provider = Provider(good)
    with ottla.Producer(cluster.bootstrap_servers_of(listener), **settings(provider)) as producer:
        assert producer.send(topic, b"x").result(30).offset == 0
    assert provider.threads == ["ottla-token"]


def test_text_will_do_and_is_asked_for_every_time(cluster: ottla.Cluster, topic: str) -> None:
    provider = Provider(lambda: good().value)
    with ottla.Admin(cluster.bootstrap_servers_of("UNSECURED"), **settings(provider)) as admin:
        assert topic in admin.list_topics()


def test_a_token_is_used_again_until_most_of_its_time_is_over() -> None:
    """Sessions last a minute, and are renewed with a token that lasts an hour: the provider is called once."""
    clock = ottla.Clock()
    provider = Provider(lambda: good(3600, clock))
    _send_in_sessions_of_a_minute(4, clock, provider, session_lifetime_ms=60_000)
    assert len(provider.threads) == 1


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0])
def test_how_much_of_its_time_a_token_is_used_is_a_setting(factor: float) -> None:
    clock = ottla.Clock(stopped=True)
    provider = Provider(lambda: OAuthBearerToken("token", clock.wall_ms() / 1000 + 100))
    given = {"bootstrap_servers": "one:1", **settings(provider, sasl_login_refresh_window_factor=factor)}
    security = Security(ConnectionSettings(given).security, clock)
    for passed_s, asked in ((0, 1), (100 * factor - 1, 1), (2, 2)):
        clock.advance(passed_s)
        given_token = threading.Event()
        security.get_token(lambda token, why: given_token.set())  # noqa: B023
        assert given_token.wait(60)
        assert len(provider.threads) == asked


def test_connections_that_want_a_token_at_once_share_one(cluster: ottla.Cluster) -> None:
    provider = Provider(good)
    security = Security(ProducerSettings({"bootstrap_servers": "one:9092", **settings(provider)}).connection.security)
    found: deque[Any] = deque()
    for _ in range(20):
        security.get_token(lambda token, failure: found.append(token))
    for thread in threading.enumerate():
        if thread.name == "ottla-token":
            thread.join(30)
    assert len(found) == 20
    assert len(provider.threads) == len({token.value for token in found}) == 1


def test_a_token_that_was_refused_is_not_shown_again(cluster: ottla.Cluster, topic: str) -> None:
    """It says that it is good for an hour, and the broker knows better: the next try is with a new one."""
    tokens = deque([OAuthBearerToken("refused", time.time() + 3600), OAuthBearerToken("forever", time.time() + 3600)])
    address = cluster.bootstrap_servers_of("VALIDATED")
    with ottla.Producer(address, **settings(tokens.popleft)) as producer:
        with pytest.raises(ottla.AuthenticationError, match="does not take the token"):
            producer.send(topic, b"x")
        until_s, stored = time.monotonic() + 30, None
        while stored is None and time.monotonic() < until_s:
            # Told at once while the pause before the next connection lasts.
            with contextlib.suppress(ottla.AuthenticationError):
                stored = producer.send(topic, b"x").result(30)
        assert stored is not None
        assert producer.metrics()["connection-creation-total"] == 2


def test_a_session_ends_with_its_token_and_goes_on_with_the_next() -> None:
    clock = ottla.Clock()
    provider = Provider(lambda: good(60, clock))
    _send_in_sessions_of_a_minute(4, clock, provider)
    assert len(provider.threads) >= 2


@pytest.mark.parametrize("how", ["advance", "jump_clock"])
def test_a_token_ends_by_the_clock_of_the_broker(how: str) -> None:
    """Of two tokens that last an hour, the one that was made two hours ago is refused."""
    clock = ottla.Clock()
    tokens = Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"])
    with ottla.Cluster(1, clock=clock, listeners={"PLAINTEXT": Listener(), "TOKENS": tokens}) as cluster:
        address = cluster.bootstrap_servers_of("TOKENS")
        early = unsecured_token({"sub": "ada"}, clock.wall_ms() / 1000).value
        with ottla.Admin(address, **settings(lambda: early)) as admin:
            assert admin.list_topics() == []
        if how == "advance":
            clock.advance(7200)
        else:
            cluster.faults.jump_clock(1, jump_ms=7_200_000)
        late = unsecured_token({"sub": "ada"}, time.time() + 7200).value
        with ottla.Admin(address, **settings(lambda: late)) as admin:
            assert admin.list_topics() == []
        with (
            ottla.Admin(address, **settings(lambda: early)) as admin,
            pytest.raises(ottla.AuthenticationError, match="does not take the token"),
        ):
            admin.list_topics()


def test_a_producer_and_a_cluster_of_one_clock_agree_on_tokens_after_years() -> None:
    clock = ottla.Clock()
    tokens = Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"])
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    given = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_jaas_config": f'{module} required unsecuredLoginStringClaim_sub="ada";',
    }
    with ottla.Cluster(1, clock=clock, listeners={"TOKENS": tokens}) as cluster:
        cluster.create_topic("orders")
        with ottla.Producer(cluster.bootstrap_servers, clock=clock, **given) as producer:
            for offset in range(3):
                assert producer.send("orders", b"x").result(30).offset == offset
                clock.advance(3 * 365 * 86_400)


def _send_in_sessions_of_a_minute(count: int, clock: ottla.Clock, provider: Provider, **listener: Any) -> None:
    """Send a record in each of so many sessions, by one connection that is never lost."""
    tokens = Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"], **listener)
    given = settings(provider, clock=clock, linger_ms=0, retries=0, enable_idempotence=False)
    with ottla.Cluster(1, clock=clock, listeners={"TOKENS": tokens}) as cluster:
        cluster.create_topic("orders")
        # While the clock stands still, no session ends before its renewal is done.
        clock.stop()
        with ottla.Producer(cluster.bootstrap_servers, **given) as producer:
            producer.send("orders", b"x").result()
            opened = producer.metrics()["connection-creation-total"]
            for _ in range(count - 1):
                renewals = producer.metrics()["successful-reauthentication-total"]
                # Renewals are due after 95 % of a session at the latest.
                clock.advance(58)
                wait_until(lambda: producer.metrics()["successful-reauthentication-total"] > renewals)  # noqa: B023
                producer.send("orders", b"x").result()
            assert producer.metrics()["connection-creation-total"] == opened
        clock.go_on()


@pytest.mark.parametrize("token", ["forever", "a-minute"])
def test_a_validator_of_ones_own_says_who_comes_in(cluster: ottla.Cluster, topic: str, token: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers_of("VALIDATED"), **settings(lambda: token)) as producer:
        assert producer.send(topic, b"x").result(30).offset == 0


def _fails(kind: type[BaseException]) -> Any:
    raise kind("secret-0815 was refused")


@pytest.mark.parametrize(
    ("listener", "give", "said"),
    [
        ("UNSECURED", lambda: "secret-0815", r"does not take the token \(invalid_token\)"),
        ("VALIDATED", lambda: "secret-0815", r"does not take the token \(invalid_token\)"),
        ("VALIDATED", lambda: "nobody", r"does not take the token \(invalid_token\)"),
        ("UNSECURED", partial(_fails, ValueError), "token.provider raised ValueError"),
        ("UNSECURED", partial(_fails, SystemExit), "token.provider raised SystemExit"),
        ("UNSECURED", partial(_fails, KeyboardInterrupt), "token.provider raised KeyboardInterrupt"),
        ("UNSECURED", lambda: None, "token.provider returned NoneType"),
        ("UNSECURED", lambda: b"secret-0815", "token.provider returned bytes"),
        ("UNSECURED", lambda: "secret-0815\n", "a token that is empty or no plain ASCII"),
    ],
)
def test_without_a_good_token_it_is_told_and_the_token_is_not_shown(
    cluster: ottla.Cluster,
    listener: str,
    give: Callable[[], Any],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    address = cluster.bootstrap_servers_of(listener)
    with (
        ottla.Producer(address, **settings(give)) as producer,
        pytest.raises(ottla.AuthenticationError, match=said) as caught,
    ):
        producer.send("any", b"x")
    assert "secret-0815" not in str(caught.value) + caplog.text


def test_a_provider_that_takes_its_time_holds_up_nobody_else(cluster: ottla.Cluster) -> None:
    """The I/O thread goes on while a token is made: closing does not wait for it."""
    asked, release = threading.Event(), threading.Event()

    def slow() -> str:
        asked.set()
        release.wait(60)
        return "too late"

    producer = ottla.Producer(cluster.bootstrap_servers_of("UNSECURED"), **settings(slow, max_block_ms=100))
    with pytest.raises(ottla.Unreachable):
        producer.send("any", b"x")
    assert asked.wait(30)
    producer.close(30)
    release.set()


def test_a_provider_that_is_async_is_refused() -> None:
    async def awaited_by_nobody() -> str:
        return "token"

    with pytest.raises(ottla.ConfigError, match=r"token\.provider is an async function, which nobody would await"):
        ottla.Producer("127.0.0.1:9", **settings(awaited_by_nobody))


def test_a_listener_says_what_it_cannot_do() -> None:
    with pytest.raises(ottla.ConfigError, match="needs OAUTHBEARER among its sasl_mechanisms"):
        Listener(protocol="SASL_PLAINTEXT", users={"a": "b"}, oauthbearer_validator="a:b")
    with pytest.raises(ottla.ConfigError, match=r"package\.module:function"):
        Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"], oauthbearer_validator="a.b")
    with pytest.raises(ottla.ConfigError, match=r"must be some of PLAIN, .*OAUTHBEARER"):
        Listener(protocol="SASL_PLAINTEXT", sasl_mechanisms=["GSSAPI"])
    missing = Listener(
        protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"], oauthbearer_validator="ottla.nowhere:check"
    )
    with pytest.raises(ottla.UserMistake, match=r"cannot use oauthbearer_validator='ottla\.nowhere:check'"):
        ottla.Cluster(brokers=1, listeners={"T": missing}).close()
