"""OAUTHBEARER at the broker: whose token it is, and what becomes of one that proves nothing."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from random import Random
from typing import Any

import pytest

from ottla.broker.authentication import Authenticator, State, Users
from ottla.broker.bearer_tokens import Bearer, InvalidToken, read_unsecured
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

NOW_S = 1_000.0


def token(header: Any = None, third: str = "", **claims: Any) -> str:
    parts = ({"alg": "none"} if header is None else header, {"sub": "ada", "exp": NOW_S + 60, **claims})
    return ".".join([*(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), third])


def test_an_unsecured_token_says_whose_it_is_and_how_long():
    assert read_unsecured(token(), NOW_S) == Bearer("ada", 60_000)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        (token(third="c2ln"), "three parts"),
        ("!.!.", "no JSON object"),
        (token([1]), "no JSON object"),
        (token({"alg": "RS256"}), "signed"),
        (token({}), "signed"),
        (token(sub=""), "no user"),
        (token(sub=5), "no user"),
        (token(exp=None), "when it ends"),
        (token(exp="soon"), "when it ends"),
        (token(exp=True), "when it ends"),
        (token(exp=1e300), "when it ends"),
        (token(exp=float("nan")), "when it ends"),
        (token(exp=NOW_S), "has expired"),
        (token(iat=NOW_S + 1), "not valid yet"),
        (token(nbf="x"), "not valid yet"),
        ("W" * 200_000 + ".e30.", "no JSON object"),
    ],
)
def test_what_is_no_good_token_is_refused_without_showing_it(given, said):
    with pytest.raises(InvalidToken, match=said) as caught:
        read_unsecured(given, NOW_S)
    assert len(str(caught.value)) < 200


class Client:
    def __init__(self, validate: Any = None, lifetime_ms: int = 0) -> None:
        users = Users({}, ("OAUTHBEARER",), Random(1), validate or read_unsecured)
        self.broker = Authenticator(users, lifetime_ms, wall_s=lambda: NOW_S)
        self.now_us = 0

    def shake_hands(self) -> None:
        assert self.broker.receive(1, SaslHandshakeRequest(mechanism="OAUTHBEARER"), self.now_us).answer.error_code == 0

    def say(self, message: bytes) -> Any:
        return self.broker.receive(2, SaslAuthenticateRequest(auth_bytes=message), self.now_us)

    def show(self, text: str) -> Any:
        return self.say(b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01")


def test_a_good_token_comes_in_for_as_long_as_it_lasts():
    client = Client()
    client.shake_hands()
    reply = client.show(token())
    assert (reply.refusal, reply.answer.error_code, bytes(reply.answer.auth_bytes)) == (None, 0, b"")
    assert reply.answer.session_lifetime_ms == 60_000
    assert client.broker.user == "ada"
    assert not client.broker.finished


def test_the_shorter_of_token_and_session_counts():
    client = Client(lifetime_ms=1_000)
    client.shake_hands()
    assert client.show(token()).answer.session_lifetime_ms == 1_000
    client = Client(lambda text, now_s: Bearer("ada", None), lifetime_ms=2_000)
    client.shake_hands()
    assert client.show("anything").answer.session_lifetime_ms == 2_000


def test_a_token_without_an_end_makes_a_session_without_one():
    client = Client(lambda text, now_s: Bearer("ada", None))
    client.shake_hands()
    assert client.show("anything").answer.session_lifetime_ms == 0
    assert client.broker.finished


def test_a_bad_token_is_told_first_and_refused_then_as_rfc_7628_wants():
    client = Client()
    client.shake_hands()
    reply = client.show(token(exp=1))
    assert (reply.refusal, bytes(reply.answer.auth_bytes)) == (None, b'{"status":"invalid_token"}')
    reply = client.say(b"\x01")
    assert reply.answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert reply.refusal == "the token of user 'ada' has expired"
    assert client.broker.state is State.REFUSED


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,a=grace,\x01auth=Bearer x\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_what_is_no_bearer_message_is_refused(message):
    client = Client(lambda text, now_s: Bearer("anybody", None))
    client.shake_hands()
    assert bytes(client.say(message).answer.auth_bytes) == b'{"status":"invalid_token"}'
    assert client.say(b"\x01").refusal is not None


def test_a_session_is_renewed_with_the_next_token_of_the_same_user():
    client = Client()
    client.shake_hands()
    client.show(token())
    client.shake_hands()
    assert client.show(token(exp=NOW_S + 90)).answer.session_lifetime_ms == 90_000
    client.shake_hands()
    assert "cannot be renewed by 'grace'" in client.show(token(sub="grace")).refusal
