"""SASL on one connection, without sockets: what each request out of turn, wrong or right, leads to."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.authentication import MECHANISMS, SCRAM, TRANSITIONS, Authenticator, State, Users
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

scramp = pytest.importorskip("scramp")

PASSWORDS = {"ada": "lovelace", "grace": "höpper"}
NOW_US = 5_000_000


class Client:
    """The other end of an authenticator."""

    def __init__(self, users: Users, session_lifetime_ms: int = 0) -> None:
        self.broker = Authenticator(users, session_lifetime_ms, wall_s=lambda: 0.0)
        self.now_us = NOW_US

    def send(self, message: Any, version: int = 1) -> Any:
        return self.broker.receive(version, message, self.now_us)

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.send(SaslHandshakeRequest(mechanism=mechanism), version)

    def prove(self, mechanism: str, user: str, password: str, version: int = 1) -> Any:
        """The last reply of an exchange."""
        if mechanism == "PLAIN":
            return self.send(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), version)
        scram = scramp.ScramClient([mechanism], user, password)
        reply = self.send(SaslAuthenticateRequest(auth_bytes=scram.get_client_first().encode()), version)
        if reply.refusal is not None:
            return reply
        scram.set_server_first(reply.answer.auth_bytes.decode())
        reply = self.send(SaslAuthenticateRequest(auth_bytes=scram.get_client_final().encode()), version)
        if reply.refusal is None:
            scram.set_server_final(reply.answer.auth_bytes.decode())  # the broker proves itself, too
        return reply

    def come_in(self, mechanism: str = "PLAIN", user: str = "ada", password: str = "lovelace") -> Any:
        assert self.handshake(mechanism).answer.error_code == 0
        return self.prove(mechanism, user, password)


@pytest.fixture(scope="module")
def users() -> Users:
    return Users(PASSWORDS, MECHANISMS, random.Random(1))


@pytest.fixture
def client(users: Users) -> Client:
    return Client(users)


@pytest.mark.parametrize("user", PASSWORDS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_opens_the_door(client: Client, mechanism: str, user: str) -> None:
    assert client.send(ApiVersionsRequest()) is None
    reply = client.come_in(mechanism, user, PASSWORDS[user])
    assert (reply.refusal, reply.answer.error_code) == (None, 0)
    assert client.broker.finished
    assert client.broker.user == user


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("ada", "byron"), ("nobody", "lovelace"), ("ada", "x" * 500)])
def test_wrong_credentials_are_answered_and_shut_out(client: Client, mechanism: str, user: str, password: str) -> None:
    reply = client.come_in(mechanism, user, password)
    assert reply.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert repr(user) in reply.refusal
    assert password not in reply.refusal + reply.answer.error_message
    assert client.broker.state is State.REFUSED
    assert client.broker.user is None


def test_a_client_is_not_told_whether_the_user_exists(users: Users) -> None:
    told = {Client(users).come_in("PLAIN", user, "wrong").answer.error_message for user in ("ada", "nobody")}
    assert len(told) == 1


def test_an_unknown_mechanism_is_told_which_are_there(client: Client) -> None:
    reply = client.handshake("GSSAPI")
    assert reply.answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert reply.answer.mechanisms == list(MECHANISMS)
    assert "'GSSAPI' is not offered" in reply.refusal


def test_a_mechanism_left_out_is_not_offered() -> None:
    client = Client(Users(PASSWORDS, ("SCRAM-SHA-512",), random.Random(1)))
    assert client.handshake("PLAIN").answer.mechanisms == ["SCRAM-SHA-512"]


@pytest.mark.parametrize("token", [b"", b"ada\0lovelace", b"\0ada\0love\0lace", b"\xff\0ada\0lovelace", b"\0\0"])
def test_plain_tokens_of_another_shape_are_refused(client: Client, token: bytes) -> None:
    client.handshake("PLAIN")
    reply = client.send(SaslAuthenticateRequest(auth_bytes=token))
    assert reply.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_nobody_acts_as_somebody_else(users: Users) -> None:
    client = Client(users)
    client.handshake("PLAIN")
    assert client.send(SaslAuthenticateRequest(auth_bytes=b"ada\0ada\0lovelace")).refusal is None
    client = Client(users)
    client.handshake("PLAIN")
    reply = client.send(SaslAuthenticateRequest(auth_bytes=b"grace\0ada\0lovelace"))
    assert "asks to act as 'grace'" in reply.refusal


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("token", [b"", b"n,,", b"n,,n=ada", b"\xff\xfe", b"n,,n=ada,r=", b"y" * 5000])
def test_scram_tokens_of_another_shape_are_refused(client: Client, mechanism: str, token: bytes) -> None:
    client.handshake(mechanism)
    reply = client.send(SaslAuthenticateRequest(auth_bytes=token))
    if reply.refusal is None:  # an empty nonce is allowed to be one
        reply = client.send(SaslAuthenticateRequest(auth_bytes=token))
    assert reply.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_nothing_but_versions_is_said_to_who_has_not_proved_who_it_is(users: Users) -> None:
    client = Client(users)
    reply = client.send(MetadataRequest())
    assert (reply.answer, reply.refusal) == (None, "Metadata before the client has proved who it is")
    client = Client(users)
    assert client.send(ApiVersionsRequest()) is None
    assert client.send(ApiVersionsRequest()).answer is None  # once is enough
    assert client.broker.state is State.REFUSED


def test_steps_out_of_turn_are_illegal(users: Users) -> None:
    client = Client(users)
    assert client.send(SaslAuthenticateRequest()).answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    client = Client(users)
    client.handshake("PLAIN")
    assert client.handshake("PLAIN").answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    client = Client(users)
    client.handshake("SCRAM-SHA-256")
    assert client.send(ApiVersionsRequest()).answer is None


def test_version_0_goes_on_with_bare_tokens(users: Users) -> None:
    client = Client(users)
    assert client.handshake("PLAIN", version=0).answer.error_code == 0
    assert client.broker.takes_tokens
    reply = client.broker.receive_token(b"\0ada\0lovelace", NOW_US)
    assert (reply.answer, reply.refusal) == (b"", None)
    assert client.broker.finished
    client = Client(users)
    client.handshake("PLAIN", version=0)
    reply = client.broker.receive_token(b"\0ada\0byron", NOW_US)
    assert reply.answer is None
    assert reply.refusal is not None


def test_a_session_ends_when_it_is_not_renewed(users: Users) -> None:
    client = Client(users, session_lifetime_ms=1000)
    assert client.come_in().answer.session_lifetime_ms == 1000
    assert not client.broker.finished
    client.now_us += 999_999
    assert client.send(MetadataRequest()) is None
    client.now_us += 1
    reply = client.send(MetadataRequest())
    assert (reply.answer, reply.refusal) == (None, "the session of user 'ada' is over and was not renewed")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_session_is_renewed_in_time_or_too_late(users: Users, mechanism: str) -> None:
    client = Client(users, session_lifetime_ms=1000)
    client.come_in(mechanism)
    for _ in range(3):
        client.now_us += 1_500_000
        assert client.come_in(mechanism).answer.session_lifetime_ms == 1000
        assert client.send(MetadataRequest()) is None


def test_a_session_is_renewed_by_nobody_else_and_in_no_other_way(users: Users) -> None:
    client = Client(users, session_lifetime_ms=1000)
    client.come_in()
    assert "cannot be renewed by 'grace'" in client.come_in("PLAIN", "grace", PASSWORDS["grace"]).refusal
    client = Client(users, session_lifetime_ms=1000)
    client.come_in()
    assert "cannot be renewed by SCRAM-SHA-256" in client.come_in("SCRAM-SHA-256").refusal


def test_who_does_not_know_of_lifetimes_is_told_none(users: Users) -> None:
    client = Client(users, session_lifetime_ms=1000)
    client.handshake("PLAIN")
    assert client.prove("PLAIN", "ada", "lovelace", version=0).answer.session_lifetime_ms == 0


def test_two_brokers_never_use_the_same_salt_or_nonce() -> None:
    firsts = []
    for seed in (1, 2):
        client = Client(Users(PASSWORDS, MECHANISMS, random.Random(seed)))
        client.handshake("SCRAM-SHA-256")
        reply = client.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ada,r=abc"))
        firsts.append(dict(part.split("=", 1) for part in reply.answer.auth_bytes.decode().split(",")))
    assert firsts[0]["s"] != firsts[1]["s"]
    assert firsts[0]["r"] != firsts[1]["r"]
    assert firsts[0]["i"] == "4096"


def test_every_state_is_in_the_table() -> None:
    assert list(TRANSITIONS) == list(State)


def wrong_password(client: Client) -> Any:
    return client.come_in(password="byron")


def wrong_mechanism(client: Client) -> Any:
    return client.handshake("GSSAPI")


def no_proof(client: Client) -> Any:
    return client.send(MetadataRequest())


def wrong_token(client: Client) -> Any:
    client.handshake("PLAIN", 0)
    return client.broker.receive_token(b"\0ada\0byron", client.now_us)


@pytest.mark.parametrize("fail", [wrong_password, wrong_mechanism, no_proof, wrong_token])
def test_who_fails_is_told_so_after_the_delay(users: Users, fail: Any) -> None:
    client = Client(users)
    client.broker = Authenticator(users, failure_delay_ms=100, wall_s=lambda: 0.0)
    reply = fail(client)
    assert reply.refusal
    assert reply.due_us == NOW_US + 100_000


def test_who_proves_who_it_is_does_not_wait_neither_does_who_had(users: Users) -> None:
    client = Client(users)
    client.broker = Authenticator(users, session_lifetime_ms=1000, failure_delay_ms=100, wall_s=lambda: 0.0)
    assert client.handshake("PLAIN").due_us <= NOW_US
    assert client.prove("PLAIN", "ada", "lovelace").due_us <= NOW_US
    client.now_us += 1_000_000
    over = client.send(MetadataRequest())
    assert "is over" in over.refusal
    assert over.due_us == client.now_us
