"""SASL on one connection, the client's side: the requests between ApiVersions and the first other request.

How it works. A `SaslConversation` authenticates one connection once. `begin` returns SaslHandshake (version 1);
`receive` takes each answer and returns the next SaslAuthenticate, until `proved`. OAUTHBEARER needs a token first:
`wants_token` is True after the handshake, and `take_token` goes on. If the broker says how long the session lasts
(KIP-368), the owner begins another conversation on the same connection before it ends. Requests may be in flight then:
brokers answer in order.

PLAIN sends the password (RFC 4616), so use it only over TLS. With SCRAM (RFC 5802, 7677) each side proves to the other
that it knows the password, and does not send it; the library scramp computes it (extra `sasl`). OAUTHBEARER: RFC 7628.

Invariants: states change by `TRANSITIONS` only. `AuthenticationFailed` ends a conversation; its text never holds a
password or a token.

KIPs: 43, 84, 152, 255, 368.
"""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from random import Random
from typing import Any

from ottla.connection.oauth_settings import OAuthBearerToken
from ottla.connection.security_settings import (
    OAUTHBEARER,
    PLAIN,
    SCRAM,
    SecuritySettings,
)
from ottla.connection.setting import shown
from ottla.errors import ConfigError, MissingExtra
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_NONCE_BYTES = 18
# RFC 7628: what a client answers to a refusal; then the server ends the exchange.
_UNDERSTOOD = b"\x01"
_UNSECURED_LIFETIME_S = 3600
# As in Java: a session is renewed after 85 to 95 per cent of its time, drawn at random for each connection.
_RENEW_SOONEST, _RENEW_LATEST = 0.85, 0.95


class AuthenticationFailed(Exception):
    """This connection cannot be used; the text is the reason, for a person."""


class SaslState(Enum):
    """How far a conversation is."""

    NEW = "new"
    AGREEING = "agreeing on a mechanism"
    WAITING_FOR_TOKEN = "waiting for a token"
    PROVING = "proving"
    PROVED = "proved"
    FAILED = "failed"


TRANSITIONS: dict[SaslState, tuple[SaslState, ...]] = {
    SaslState.NEW: (SaslState.AGREEING, SaslState.FAILED),
    SaslState.AGREEING: (SaslState.PROVING, SaslState.WAITING_FOR_TOKEN, SaslState.FAILED),
    SaslState.WAITING_FOR_TOKEN: (SaslState.PROVING, SaslState.FAILED),
    SaslState.PROVING: (SaslState.PROVING, SaslState.PROVED, SaslState.FAILED),
    SaslState.PROVED: (),
    SaslState.FAILED: (),
}


class PlainExchange:
    """One token: NUL user NUL password."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()
        self.finished = False

    def first(self) -> bytes:
        """The only message."""
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        """None: there is no further message."""
        self.finished = True
        return None


class ScramExchange:
    """Two tokens each way; raises MissingExtra without scramp."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._client = scram_library().ScramClient([mechanism], username, password, c_nonce=nonce)
        self._proof_sent = False
        self.finished = False

    def first(self) -> bytes:
        """The client's first message: user name and nonce."""
        return str(self._client.get_client_first()).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The proof for a challenge; None once the broker's own proof was right. Raises AuthenticationFailed."""
        try:
            if not self._proof_sent:
                self._client.set_server_first(challenge.decode())
                self._proof_sent = True
                return str(self._client.get_client_final()).encode()
            self._client.set_server_final(challenge.decode())
        except Exception as error:
            # scramp raises several kinds of errors; each of them means that there is no proof.
            proof = "its challenge cannot be used" if not self._proof_sent else "it does not know the password"
            raise AuthenticationFailed(
                f"the broker did not prove itself by SCRAM: {proof} ({type(error).__name__})"
            ) from None
        self.finished = True
        return None


class OAuthBearerExchange:
    """The token, with extensions; and one more message where the broker refuses it."""

    def __init__(self, token: OAuthBearerToken) -> None:
        extensions = "".join(f"{name}={text}\x01" for name, text in token.extensions.items())
        self._token = f"n,,\x01auth=Bearer {token.value}\x01{extensions}\x01".encode()
        self.finished = False
        self.refusal = ""

    def first(self) -> bytes:
        """The token."""
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        """None where the broker took the token; else the message to which it answers with its error."""
        if not challenge:
            self.finished = True
            return None
        self.refusal = _status_of(challenge)
        return _UNDERSTOOD


def scram_library() -> Any:
    """The module scramp; raises MissingExtra where it is not installed."""
    try:
        return import_module("scramp")
    except ImportError:
        raise MissingExtra(
            'sasl.mechanism=SCRAM-SHA-256 and SCRAM-SHA-512 need the package scramp: pip install "ottla[sasl]".'
        ) from None


def check_scram(security: SecuritySettings) -> None:
    """Try what each connection will do: MissingExtra without scramp, ConfigError for characters that SCRAM forbids."""
    if security.mechanism not in SCRAM:
        return
    scram_library()
    assert security.username is not None
    assert security.password is not None
    try:
        ScramExchange(security.mechanism, security.username, security.password, "trial").first()
    except Exception:
        raise ConfigError(
            "sasl.username or sasl.password holds characters that SCRAM forbids (RFC 4013), such as control characters."
        ) from None


def _status_of(challenge: bytes) -> str:
    """The status in an OAUTHBEARER refusal, such as `invalid_token`; "" where it has none."""
    try:
        told = json.loads(challenge)
        status = told.get("status")
    except (ValueError, AttributeError):
        return ""
    return status if isinstance(status, str) and len(status) < 100 and status.isprintable() else ""


def unsecured_token(claims: Mapping[str, str], now_s: float) -> OAuthBearerToken:
    """A token without signature for brokers in development, as Java's clients make them (KIP-255)."""
    expires_s = int(now_s) + _UNSECURED_LIFETIME_S
    parts = ({"alg": "none"}, {"iat": int(now_s), "exp": expires_s, **claims})
    encoded = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return OAuthBearerToken(".".join(encoded) + ".", expires_s)


def check_token(given: Any) -> OAuthBearerToken:
    """Return what a provider returned as a token; else raise AuthenticationFailed, which does not quote it."""
    token = OAuthBearerToken(given) if isinstance(given, str) else given
    if not isinstance(token, OAuthBearerToken) or not isinstance(token.value, str):
        raise AuthenticationFailed(
            f"sasl.oauthbearer.token.provider returned {type(given).__name__}, neither text nor ottla.OAuthBearerToken"
        )
    if not token.value or not token.value.isascii() or any(not 0x20 < ord(letter) < 0x7F for letter in token.value):
        raise AuthenticationFailed("sasl.oauthbearer.token.provider returned a token that is empty or no plain ASCII")
    for name, text in token.extensions.items():
        # Fields are separated by the byte 1, so no field may have one.
        if not name.isalpha() or name == "auth" or not text.isprintable():
            raise AuthenticationFailed(
                "sasl.oauthbearer.token.provider returned an extension whose name is not made of letters, is auth, or "
                "whose text cannot be printed"
            )
    return token


class SaslConversation:
    """Authenticates the client once; see the module."""

    def __init__(self, security: SecuritySettings, rng: Random) -> None:
        assert security.mechanism is not None
        self.state = SaslState.NEW
        self.session_lifetime_ms = 0
        self._security = security
        self._mechanism = security.mechanism
        self._rng = rng
        self._exchange: PlainExchange | ScramExchange | OAuthBearerExchange | None = None

    @property
    def proved(self) -> bool:
        """Whether the broker has accepted the client."""
        return self.state is SaslState.PROVED

    @property
    def wants_token(self) -> bool:
        """Whether `take_token` must be called next."""
        return self.state is SaslState.WAITING_FOR_TOKEN

    def begin(self) -> SaslHandshakeRequest:
        """The first request."""
        self._go(SaslState.AGREEING)
        return SaslHandshakeRequest(mechanism=self._mechanism)

    def receive(self, message: Any) -> SaslAuthenticateRequest | None:
        """Return the next request, None where a token is wanted or all is done; raises AuthenticationFailed."""
        if self.state is SaslState.AGREEING and type(message) is SaslHandshakeResponse:
            return self._on_handshake(message)
        if self.state is SaslState.PROVING and type(message) is SaslAuthenticateResponse:
            return self._on_authenticate(message)
        raise self._failed("the broker sent an answer that nobody waits for")

    def take_token(self, given: Any) -> SaslAuthenticateRequest:
        """Return the request with what a token provider returned; raises AuthenticationFailed."""
        try:
            token = check_token(given)
        except AuthenticationFailed as failed:
            raise self._failed(str(failed)) from None
        return self._prove(OAuthBearerExchange(token))

    def renew_after_us(self) -> int:
        """After how long the session should be renewed; 0 where it does not end."""
        return int(self.session_lifetime_ms * 1000 * self._rng.uniform(_RENEW_SOONEST, _RENEW_LATEST))

    def _on_handshake(self, response: SaslHandshakeResponse) -> SaslAuthenticateRequest | None:
        code = response.error_code
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            raise self._failed(f"the broker does not offer sasl.mechanism={self._mechanism}; it offers {offered}")
        if code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._failed(
                "this listener has no authentication; set security.protocol to "
                + ("SSL" if self._security.is_tls else "PLAINTEXT")
            )
        if code:
            raise self._failed(f"the broker refused SaslHandshake with error code {code}")
        if self._mechanism == OAUTHBEARER:
            self._go(SaslState.WAITING_FOR_TOKEN)
            return None
        username, password = self._security.username, self._security.password
        assert username is not None
        assert password is not None
        if self._mechanism == PLAIN:
            return self._prove(PlainExchange(username, password))
        nonce = b64encode(self._rng.randbytes(_NONCE_BYTES)).decode()
        return self._prove(ScramExchange(self._mechanism, username, password, nonce))

    def _prove(self, exchange: PlainExchange | ScramExchange | OAuthBearerExchange) -> SaslAuthenticateRequest:
        self._exchange = exchange
        self._go(SaslState.PROVING)
        return SaslAuthenticateRequest(auth_bytes=exchange.first())

    def _on_authenticate(self, response: SaslAuthenticateResponse) -> SaslAuthenticateRequest | None:
        exchange = self._exchange
        assert exchange is not None
        if response.error_code:
            raise self._failed(self._refusal(response, exchange))
        try:
            word = exchange.answer(bytes(response.auth_bytes))
        except AuthenticationFailed as failed:
            raise self._failed(str(failed)) from None
        if not exchange.finished:
            assert word is not None
            self._go(SaslState.PROVING)
            return SaslAuthenticateRequest(auth_bytes=word)
        self.session_lifetime_ms = max(0, response.session_lifetime_ms)
        self._exchange = None
        self._go(SaslState.PROVED)
        return None

    def _refusal(self, response: SaslAuthenticateResponse, exchange: Any) -> str:
        """What the broker says; left out where it quotes the password or cannot be printed."""
        said = (response.error_message or "").strip().rstrip(".")
        password = self._security.password
        if (password and password in said) or not said.isprintable():
            said = ""
        if self._mechanism == OAUTHBEARER:
            status = getattr(exchange, "refusal", "")
            who = f"the broker does not take the token{f' ({status})' if status else ''}"
        else:
            who = f"the broker does not take user {shown(self._security.username)} with this password"
        told = f"; it says: {said}" if said else ""
        return f"{who} by {self._mechanism}{told}"

    def _failed(self, reason: str) -> AuthenticationFailed:
        self._go(SaslState.FAILED)
        return AuthenticationFailed(reason)

    def _go(self, state: SaslState) -> None:
        assert state in TRANSITIONS[self.state], (self.state, state)
        self.state = state
