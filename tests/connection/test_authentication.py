"""SASL from the client's side: conversations with the broker's own half, and what the core does around them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.broker.authentication import Authenticator, Users
from ottla.connection.authentication import (
    TRANSITIONS,
    AuthenticationFailed,
    SaslConversation,
    SaslState,
    check_scram,
    unsecured_token,
)
from ottla.connection.events import TokenGiven
from ottla.connection.oauth_settings import OAuthBearerToken
from ottla.connection.settings import ConnectionSettings
from ottla.errors import AuthenticationError, ConfigError
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USERS = {"ada": "lovelace"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
VERSIONS = {3: (0, 13), 2: (1, 9), 17: (0, 1), 18: (0, 4), 36: (0, 2)}


def given(mechanism: str = "PLAIN", **more: Any) -> dict[str, Any]:
    user = {} if mechanism == "OAUTHBEARER" else {"sasl_username": "ada", "sasl_password": "lovelace"}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, **user, **more}


def conversation(mechanism: str = "PLAIN", **more: Any) -> SaslConversation:
    settings = ConnectionSettings({"bootstrap_servers": "one:9092", **given(mechanism, **more)})
    return SaslConversation(settings.security, Random(1))


def broker(session_lifetime_ms: int = 0, mechanisms: tuple[str, ...] = MECHANISMS) -> Authenticator:
    return Authenticator(Users(USERS, mechanisms, Random(2)), session_lifetime_ms, wall_s=lambda: 0.0)


def talk(client: SaslConversation, server: Authenticator) -> int:
    """Let them talk until one of them has enough; how many requests that took."""
    request: Any = client.begin()
    count = 0
    while request is not None:
        count += 1
        reply = server.receive(request.MAX_VERSION, request, 0)
        assert reply is not None
        request = client.receive(reply.answer)
    return count


@pytest.mark.parametrize(("mechanism", "requests"), [("PLAIN", 2), ("SCRAM-SHA-256", 3), ("SCRAM-SHA-512", 3)])
def test_the_right_password_is_proved(mechanism, requests):
    client, server = conversation(mechanism), broker(session_lifetime_ms=60_000)
    assert talk(client, server) == requests
    assert client.proved
    assert server.user == "ada"
    assert client.session_lifetime_ms == 60_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_wrong_password_fails_without_being_told(mechanism):
    client = conversation(mechanism, sasl_password="byron-secret")
    with pytest.raises(AuthenticationFailed, match="the broker does not take user 'ada'") as caught:
        talk(client, broker())
    assert client.state is SaslState.FAILED
    assert "byron" not in str(caught.value)


def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are():
    with pytest.raises(AuthenticationFailed, match="it offers SCRAM-SHA-256"):
        talk(conversation("PLAIN"), broker(mechanisms=("SCRAM-SHA-256",)))


def test_a_broker_that_repeats_the_password_is_not_quoted():
    client = conversation()
    client.begin()
    client.receive(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    with pytest.raises(AuthenticationFailed) as caught:
        client.receive(SaslAuthenticateResponse(error_code=58, error_message="no entry for ada:lovelace"))
    assert "lovelace" not in str(caught.value)


def test_a_broker_that_does_not_know_the_password_itself_is_not_believed():
    """SCRAM proves both sides: one that lets anybody in without knowing the password is an impostor."""
    client, server = conversation("SCRAM-SHA-256"), broker()
    request: Any = client.begin()
    request = client.receive(server.receive(1, request, 0).answer)
    request = client.receive(server.receive(2, request, 0).answer)
    with pytest.raises(AuthenticationFailed, match="the broker did not prove itself"):
        client.receive(SaslAuthenticateResponse(auth_bytes=b"v=" + b"A" * 43 + b"="))


@pytest.mark.parametrize("challenge", [b"", b"\xff\xfe", b"r=short,s=QUJD,i=4096", b"r=,s=,i=1", b"e=other-error"])
def test_a_challenge_that_is_none_fails(challenge):
    client = conversation("SCRAM-SHA-256")
    client.begin()
    client.receive(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    with pytest.raises(AuthenticationFailed, match="did not prove itself"):
        client.receive(SaslAuthenticateResponse(auth_bytes=challenge))


def test_an_answer_out_of_turn_fails():
    client = conversation()
    client.begin()
    with pytest.raises(AuthenticationFailed, match="the broker sent an answer that nobody waits for"):
        client.receive(SaslAuthenticateResponse())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_sent_does_not_show_itself(mechanism):
    client, server = conversation(mechanism), broker()
    request: Any = client.begin()
    while request is not None:
        assert "lovelace" not in repr(request)
        request = client.receive(server.receive(request.MAX_VERSION, request, 0).answer)


def test_letters_scram_forbids_are_refused_at_once():
    settings = ConnectionSettings({"bootstrap_servers": "one:9092", **given("SCRAM-SHA-256", sasl_password="a\x07b")})
    with pytest.raises(ConfigError, match="characters that SCRAM forbids") as caught:
        check_scram(settings.security)
    assert "a\x07b" not in str(caught.value)


def test_every_state_is_in_the_table():
    assert set(TRANSITIONS) == set(SaslState)


# ---- OAUTHBEARER -----------------------------------------------------------------------------------------------------


def bearer() -> SaslConversation:
    client = conversation("OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: "unused")
    client.begin()
    assert client.receive(SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])) is None
    assert client.wants_token
    return client


def test_a_token_is_sent_with_its_extensions():
    client = bearer()
    request = client.take_token(OAuthBearerToken("abc.def.", extensions={"logicalCluster": "lkc-1"}))
    assert bytes(request.auth_bytes) == b"n,,\x01auth=Bearer abc.def.\x01logicalCluster=lkc-1\x01\x01"
    assert client.receive(SaslAuthenticateResponse(session_lifetime_ms=1000)) is None
    assert client.proved


def test_a_token_that_is_refused_is_told_with_the_brokers_word():
    client = bearer()
    client.take_token("abc")
    word = client.receive(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert bytes(word.auth_bytes) == b"\x01"
    with pytest.raises(AuthenticationFailed, match=r"does not take the token \(invalid_token\) by OAUTHBEARER"):
        client.receive(SaslAuthenticateResponse(error_code=58, error_message=None))


@pytest.mark.parametrize(
    "token", [None, 7, "", "a b", "a\x01b", "é", OAuthBearerToken("abc", extensions={"auth": "x"}), b"abc"]
)
def test_what_is_no_token_is_not_sent_and_not_shown(token):
    with pytest.raises(AuthenticationFailed, match=r"token\.provider returned"):
        bearer().take_token(token)


def test_a_tokens_repr_hides_it():
    assert "secret" not in repr(OAuthBearerToken("secret", 5.0))


def test_an_unsecured_token_has_javas_claims():
    token = unsecured_token({"sub": "ada"}, 1000.5)
    assert token.expires_at_s == 4600
    assert token.value.count(".") == 2
    assert token.value.endswith(".")


# ---- the core --------------------------------------------------------------------------------------------------------


class Secured:
    """A line to one broker that asks who comes, answered by the broker's own half."""

    def __init__(self, make_line: Any, make_api_versions: Any, lifetime_ms: int = 0, **more: Any) -> None:
        self.line = make_line(**given(**more))
        self.versions = make_api_versions(VERSIONS)
        self.server = broker(lifetime_ms)
        self.line.core.want_topic("flights", self.line.now_us)
        self.line.turn()

    def come_in(self) -> int:
        connect = self.line.accept()
        self.line.answer(self.line.take(ApiVersionsRequest), self.versions)
        self.prove()
        return connect.connection_id

    def prove(self) -> None:
        while self.line.sent and type(self.line.sent[0].message) in (SaslHandshakeRequest, SaslAuthenticateRequest):
            transmit = self.line.sent.pop(0)
            reply = self.server.receive(transmit.version, transmit.message, self.line.now_us)
            self.line.answer(transmit, reply.answer)


@pytest.fixture
def secured(make_line, make_api_versions):
    return lambda lifetime_ms=0, **more: Secured(make_line, make_api_versions, lifetime_ms, **more)


def test_nothing_but_sasl_is_sent_before_the_proof(secured):
    world = secured()
    line = world.line
    line.accept()
    line.answer(line.take(ApiVersionsRequest), world.versions)
    assert [type(transmit.message) for transmit in line.sent] == [SaslHandshakeRequest]
    assert line.sent[0].version == 1
    assert line.core.ready_nodes() == []
    world.prove()
    line.take(MetadataRequest)
    assert line.core.ready_nodes() == [-1]


def test_a_refusal_is_told_once_and_the_pauses_grow(secured):
    world = secured(sasl_password="wrong")
    line = world.line
    pauses = []
    for _ in range(4):
        world.server = broker()
        world.come_in()
        pauses.append(line.run_to_deadline())
    assert pauses[0] < pauses[-1]
    error = line.core.reach_error()
    assert isinstance(error, AuthenticationError)
    assert "does not take user 'ada'" in str(error)
    assert "wrong" not in str(error).replace("wrong user name or password", "")


def test_the_driver_hears_why_the_connection_is_closed(secured):
    world = secured(sasl_password="wrong")
    world.come_in()
    world.line.turn()
    assert [reason.startswith("authentication failed: ") for reason in world.line.close_reasons] == [True]


def test_a_question_is_answered_at_once_where_every_broker_refuses(secured):
    world = secured(sasl_password="wrong")
    world.come_in()
    world.line.core.ask(ListOffsetsRequest(), "question", world.line.now_us)
    world.line.turn()
    (answer,) = world.line.answers
    assert answer.message is None
    assert "does not take user 'ada'" in answer.failure


def test_a_broker_without_sasl_says_which_protocol_to_set(secured):
    world = secured()
    line = world.line
    line.accept()
    line.answer(line.take(ApiVersionsRequest), world.versions)
    line.answer(line.take(SaslHandshakeRequest), SaslHandshakeResponse(error_code=34, mechanisms=[]))
    assert "set security.protocol to PLAINTEXT" in str(line.core.reach_error())


def test_a_broker_of_before_1_0_is_told_of(secured, make_api_versions):
    world = secured()
    world.line.accept()
    world.line.answer(world.line.take(ApiVersionsRequest), make_api_versions({**VERSIONS, 17: (0, 0)}))
    assert "older than Apache Kafka 1.0" in str(world.line.core.reach_error())


def test_a_session_is_renewed_before_it_ends_behind_what_is_in_flight(secured):
    # No timeout may come first here.
    world = secured(lifetime_ms=100_000, request_timeout_ms=1_000_000)
    line = world.line
    world.come_in()
    line.tell_metadata(topics={"flights": [1]})
    line.core.request(1, ListOffsetsRequest(), "before", line.now_us)
    line.turn()
    before = line.take(ListOffsetsRequest)
    line.answer(before, "here")
    line.core.request(1, ListOffsetsRequest(), "slow", line.now_us)
    line.turn()
    slow = line.take(ListOffsetsRequest)
    waited = 0
    while not any(type(transmit.message) is SaslHandshakeRequest for transmit in line.sent):
        waited += line.run_to_deadline()
    assert 85_000_000 <= waited <= 95_000_000
    assert not line.core.can_send(1, line.now_us)
    line.sent = [transmit for transmit in line.sent if type(transmit.message) is not MetadataRequest]
    line.answer(slow, "late")
    world.prove()
    assert line.core.can_send(1, line.now_us)
    assert [answer.message for answer in line.answers] == ["here", "late"]
    assert line.closed == []
    assert line.connects == []
    meter = line.core.meters[1]
    assert (meter.connections_opened, meter.authentications) == (1, 1)
    assert (meter.reauthentications, meter.reauthentication_failures) == (1, 0)
    assert meter.reauthentication_us_max >= 0


def test_a_session_that_cannot_be_renewed_loses_the_connection_and_its_requests(secured):
    world = secured(lifetime_ms=1000)
    line = world.line
    connection_id = world.come_in()
    line.tell_metadata(topics={"flights": [1]})
    line.core.request(1, ListOffsetsRequest(), "asked", line.now_us)
    line.turn()
    line.sent.clear()
    line.pass_ms(960)
    handshake = line.take(SaslHandshakeRequest)
    line.answer(handshake, SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512"]))
    assert line.closed == [connection_id]
    (answer,) = line.answers
    assert answer.sent
    assert "does not offer sasl.mechanism=PLAIN" in answer.failure
    meter = line.core.meters[1]
    assert (meter.authentications, meter.authentication_failures) == (1, 0)
    assert (meter.reauthentications, meter.reauthentication_failures) == (0, 1)


def test_a_session_whose_end_passed_unnoticed_is_renewed_before_anything_is_sent(secured):
    """The process was stopped for a while: whoever wants to send next must not meet a session that is over."""
    world = secured(lifetime_ms=1000)
    line = world.line
    world.come_in()
    line.tell_metadata(topics={"flights": [1]})
    line.now_us += 990_000
    assert not line.core.can_send(1, line.now_us)
    line.turn()
    line.take(SaslHandshakeRequest)


def test_renewing_does_not_keep_an_unused_connection(secured):
    world = secured(lifetime_ms=1000, connections_max_idle_ms=5000)
    line = world.line
    connection_id = world.come_in()
    line.tell_metadata(topics={"flights": [1]})
    line.core.forget_topic("flights")
    for _ in range(40):
        if line.closed:
            break
        line.run_to_deadline()
        world.prove()
    assert line.closed == [connection_id]
    assert line.now_us < 7_000_000


def wants_token(secured: Any) -> Any:
    world = secured(mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: "unused")
    line = world.line
    connect = line.accept()
    line.answer(line.take(ApiVersionsRequest), world.versions)
    line.answer(line.take(SaslHandshakeRequest), SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
    assert [output.connection_id for output in line.tokens_wanted] == [connect.connection_id]
    return line, connect.connection_id


def test_a_token_is_asked_for_and_sent(secured):
    line, connection_id = wants_token(secured)
    line.core.receive(TokenGiven(connection_id, "abc"), line.now_us)
    line.turn()
    line.answer(line.take(SaslAuthenticateRequest), SaslAuthenticateResponse())
    line.take(MetadataRequest)


@pytest.mark.parametrize("token", [("", "the provider raised OSError"), (7, "")])
def test_no_token_is_a_failed_authentication(secured, token):
    line, connection_id = wants_token(secured)
    line.core.receive(TokenGiven(connection_id, *token), line.now_us)
    line.turn()
    assert line.closed == [connection_id]
    assert isinstance(line.core.reach_error(), AuthenticationError)
    (meter,) = line.core.meters.values()
    assert (meter.authentications, meter.authentication_failures) == (0, 1)


def test_no_token_for_a_session_that_ends_is_a_failed_renewal(secured):
    line, connection_id = wants_token(secured)
    line.core.receive(TokenGiven(connection_id, "abc"), line.now_us)
    line.turn()
    line.answer(line.take(SaslAuthenticateRequest), SaslAuthenticateResponse(session_lifetime_ms=1000))
    line.tell_metadata(topics={"flights": [1]})
    line.pass_ms(960)
    line.answer(line.take(SaslHandshakeRequest), SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
    line.core.receive(TokenGiven(connection_id, None, "the provider raised OSError"), line.now_us)
    line.turn()
    assert line.closed == [connection_id]
    meter = line.core.meters[1]
    assert (meter.authentications, meter.authentication_failures) == (1, 0)
    assert (meter.reauthentications, meter.reauthentication_failures) == (0, 1)


def test_a_token_that_never_comes_is_given_up_in_time(secured):
    line, connection_id = wants_token(secured)
    assert line.run_to_deadline() == 30_000_000
    assert line.closed == [connection_id]
    assert "no token within request.timeout.ms (30000 ms)" in str(line.core.reach_error())
    line.core.receive(TokenGiven(connection_id, "late"), line.now_us)
    line.turn()
    assert line.sent == []
