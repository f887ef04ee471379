"""SASL on one connection: which clients are let in, and how others are refused (KIP-43, KIP-84, KIP-152, KIP-368).

Each connection of a SASL listener has an `Authenticator` in front of the broker core. The driver gives every request to
`receive` until `finished` is true. `receive` answers SASL requests itself and passes others on (None) once the client
is authenticated; before that it passes only ApiVersions, once. A client that uses version 0 of SaslHandshake goes on
with bare tokens instead of requests: then `takes_tokens` is true, and the driver gives them to `receive_token`.

Where `session_lifetime_ms` is set, a client must authenticate again in time: as the same user, by the same mechanism.
Errors are those of Apache Kafka: an unknown mechanism, wrong credentials and a SASL request out of sequence are
answered, then the connection ends. A wrong bare token, and any other request out of sequence, end it without an answer.
All this happens only after `failure_delay_ms` (`connection.failed.authentication.delay.ms`), so that guessing takes
time; other connections do not wait. Only the end of a session that was not renewed is not delayed.

PLAIN compares passwords; SCRAM-SHA-256 and SCRAM-SHA-512 are the library scramp's (extra `sasl`); OAUTHBEARER is in
`bearer_tokens.py`. A session ends with the token it was begun with.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest
from importlib import import_module
from random import Random
from typing import Any

from ottla.broker.bearer_tokens import InvalidToken, OAuthBearerExchange, TokenValidator
from ottla.errors import MissingExtra
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM)
_ITERATIONS = 4096  # Kafka's default
_NONCE_BYTES = 18
_SALT_BYTES = 16
_LIFETIME_FROM_VERSION = 1


class State(Enum):
    """How far a client has come."""

    ARRIVED = "arrived"
    VERSIONS_TOLD = "versions told"
    PROVING = "proving"
    PROVING_BY_TOKENS = "proving by tokens"
    PROVED = "proved"
    PROVING_AGAIN = "proving again"
    REFUSED = "refused"


# What may follow what; anything else a client tries leads to REFUSED.
TRANSITIONS: dict[State, tuple[State, ...]] = {
    State.ARRIVED: (State.VERSIONS_TOLD, State.PROVING, State.PROVING_BY_TOKENS, State.REFUSED),
    State.VERSIONS_TOLD: (State.PROVING, State.PROVING_BY_TOKENS, State.REFUSED),
    State.PROVING: (State.PROVED, State.REFUSED),
    State.PROVING_BY_TOKENS: (State.PROVED, State.REFUSED),
    State.PROVED: (State.PROVING_AGAIN, State.REFUSED),
    State.PROVING_AGAIN: (State.PROVED, State.REFUSED),
    State.REFUSED: (),
}


class NotAuthenticated(Exception):
    """These credentials are not right; the text is for the log, the client gets another one."""


@dataclass(slots=True, frozen=True)
class Reply:
    """`answer` goes to the client (None: nothing); with a `refusal` (for the log) the connection ends then.

    Both come at `due_us`, not before.
    """

    answer: Any
    refusal: str | None = None
    due_us: int = 0


class Users:
    """The users of a listener: passwords by user name, and the mechanisms offered; raises MissingExtra.

    `validate` returns a token's user, where OAUTHBEARER is among the mechanisms.
    """

    def __init__(
        self,
        passwords: Mapping[str, str],
        mechanisms: tuple[str, ...],
        rng: Random,
        validate: TokenValidator | None = None,
    ) -> None:
        self.mechanisms = mechanisms
        self._validate = validate
        self._passwords = dict(passwords)
        self._rng = rng
        self._secrets: dict[tuple[str, str], tuple[bytes, bytes, bytes, int]] = {}
        self._scram = {name: _scram(name) for name in mechanisms if name in SCRAM}

    def exchange(
        self, mechanism: str, wall_s: Callable[[], float]
    ) -> PlainExchange | ScramExchange | OAuthBearerExchange:
        """A new exchange by one of the mechanisms; `wall_s` is the broker's time, in seconds since 1970."""
        if mechanism == OAUTHBEARER:
            assert self._validate is not None
            return OAuthBearerExchange(self._validate, wall_s)
        return PlainExchange(self) if mechanism == PLAIN else ScramExchange(self, mechanism)

    def has_password(self, user: str, password: str) -> bool:
        """Whether it is that user's; takes as long for a user who is not known."""
        known = self._passwords.get(user)
        right = compare_digest((known or "").encode(), password.encode())
        return right and known is not None

    def scram_server(self, mechanism: str, secret: Callable[[str], tuple[bytes, bytes, bytes, int]]) -> Any:
        """scramp's side of an exchange; it calls `secret` with the user's name."""
        nonce = b64encode(self._rng.randbytes(_NONCE_BYTES)).decode()
        return self._scram[mechanism].make_server(secret, s_nonce=nonce)

    def secret(self, mechanism: str, user: str) -> tuple[bytes, bytes, bytes, int]:
        """What SCRAM keeps of a password; made at the user's first authentication, as it takes milliseconds."""
        found = self._secrets.get((mechanism, user))
        if found is None:
            password = self._passwords.get(user)
            if password is None:
                raise NotAuthenticated(f"there is no user {user!r}")
            salt = self._rng.randbytes(_SALT_BYTES)
            found = self._scram[mechanism].make_auth_info(password, iteration_count=_ITERATIONS, salt=salt)
            self._secrets[mechanism, user] = found
        return found


def _scram(mechanism: str) -> Any:
    try:
        scramp = import_module("scramp")
    except ImportError:
        raise MissingExtra(
            f'a listener that offers {mechanism} needs the package scramp: pip install "ottla[sasl]".'
        ) from None
    return scramp.ScramMechanism(mechanism)


class PlainExchange:
    """One token: [authorization id] NUL user NUL password (RFC 4616)."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        """The answer to the token; `user` is set then. Raises NotAuthenticated."""
        try:
            authorized, user, password = token.decode().split("\0")
        except ValueError:
            raise NotAuthenticated("the PLAIN token is not [authorization id] NUL user NUL password") from None
        if authorized not in ("", user):
            raise NotAuthenticated(f"user {user!r} asks to act as {authorized!r}")
        if not user or not self._users.has_password(user, password):
            raise NotAuthenticated(f"wrong user name or password for user {user!r}")
        self.user = user
        return b""


class ScramExchange:
    """Two tokens each way (RFC 5802); the password itself is never sent."""

    def __init__(self, users: Users, mechanism: str) -> None:
        self._users = users
        self._mechanism = mechanism
        self._server = users.scram_server(mechanism, self._secret)
        self._asking = ""
        self._challenged = False
        self.user: str | None = None

    def step(self, token: bytes) -> bytes:
        """The answer to a token; `user` is set with the last one. Raises NotAuthenticated."""
        try:
            if not self._challenged:
                self._server.set_client_first(token.decode())
                self._challenged = True
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(token.decode())
            final = str(self._server.get_server_final()).encode()
        except NotAuthenticated:
            raise
        except Exception as error:
            # scramp raises several kinds of errors for wrong proofs and broken tokens; each one is a refusal.
            detail = str(error) or type(error).__name__
            raise NotAuthenticated(f"no {self._mechanism} proof of user {self._asking!r} ({detail})") from None
        self.user = self._asking
        return final

    def _secret(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self._asking = user
        return self._users.secret(self._mechanism, user)


class Authenticator:
    """Authenticates the client of one connection; see the module.

    `wall_s` is the broker's time, in seconds since 1970; it decides whether a token has expired.
    """

    def __init__(
        self, users: Users, session_lifetime_ms: int = 0, failure_delay_ms: int = 0, *, wall_s: Callable[[], float]
    ) -> None:
        self.state = State.ARRIVED
        self.user: str | None = None
        self._users = users
        self._wall_s = wall_s
        self._failure_delay_us = failure_delay_ms * 1000
        self._lifetime_ms = session_lifetime_ms
        # Of the present session: that of the listener, or what is left of a token.
        self._session_ms = session_lifetime_ms
        self._expires_us = 0
        self._mechanism = ""
        self._other_mechanism: str | None = None
        self._exchange: PlainExchange | ScramExchange | OAuthBearerExchange | None = None

    @property
    def takes_tokens(self) -> bool:
        """Whether what comes is a bare token, not a request."""
        return self.state is State.PROVING_BY_TOKENS

    @property
    def finished(self) -> bool:
        """Whether the client is authenticated, and its session does not end."""
        return self.state is State.PROVED and not self._session_ms

    def receive(self, version: int, message: Any, now_us: int) -> Reply | None:
        """The reply to a request; None: it goes on to the core."""
        api_key, state = message.API_KEY, self.state
        if api_key == SASL_HANDSHAKE and state in (State.ARRIVED, State.VERSIONS_TOLD, State.PROVED):
            return self._handshake(version, message.mechanism, now_us)
        if state is State.PROVED:
            if now_us < self._expires_us:
                return None
            return self._refuse(None, f"the session of user {self.user!r} is over and was not renewed", now_us)
        if api_key == SASL_AUTHENTICATE and state in (State.PROVING, State.PROVING_AGAIN):
            return self._authenticate(version, bytes(message.auth_bytes), now_us)
        if api_key == API_VERSIONS and state is State.ARRIVED:
            self._go(State.VERSIONS_TOLD)
            return None
        name = type(message).__name__.removesuffix("Request")
        refusal = f"{name} before the client has proved who it is"
        if api_key == SASL_HANDSHAKE:
            illegal = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            return self._refuse(illegal, refusal, now_us)
        if api_key == SASL_AUTHENTICATE:
            return self._refuse(_failed(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake comes first"), refusal, now_us)
        return self._refuse(None, refusal, now_us)

    def receive_token(self, token: bytes, now_us: int) -> Reply:
        """The answer (bytes) to a bare token."""
        try:
            answer = self._step(token)
        except NotAuthenticated as error:
            return self._refuse(None, str(error), now_us)
        if self.user is not None:
            self._go(State.PROVED)
            self._expires_us = 1 << 62  # there is no way to renew such a session
        return Reply(answer)

    def _handshake(self, version: int, mechanism: str, now_us: int) -> Reply:
        mechanisms = list(self._users.mechanisms)
        if mechanism not in self._users.mechanisms:
            answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
            offered = ", ".join(mechanisms)
            return self._refuse(answer, f"the mechanism {mechanism!r} is not offered, {offered} are", now_us)
        self._other_mechanism = None
        if self.state is State.PROVED:
            self._go(State.PROVING_AGAIN)
            if mechanism != self._mechanism:
                self._other_mechanism = mechanism
        else:
            self._go(State.PROVING if version else State.PROVING_BY_TOKENS)
            self._mechanism = mechanism
        self._exchange = self._users.exchange(mechanism, self._wall_s)
        return Reply(SaslHandshakeResponse(mechanisms=mechanisms))

    def _authenticate(self, version: int, token: bytes, now_us: int) -> Reply:
        try:
            answer = SaslAuthenticateResponse(error_message=None, auth_bytes=self._step(token))
        except NotAuthenticated as error:
            wrong = "the token" if self._mechanism == OAUTHBEARER else "user name or password"
            detail = f"Authentication failed by {self._mechanism}: wrong {wrong}"
            return self._refuse(_failed(ErrorCode.SASL_AUTHENTICATION_FAILED, detail), str(error), now_us)
        if self._exchange is None:
            self._go(State.PROVED)
            self._expires_us = now_us + self._session_ms * 1000 if self._session_ms else 1 << 62
            if version >= _LIFETIME_FROM_VERSION:
                answer.session_lifetime_ms = self._session_ms
        return Reply(answer)

    def _step(self, token: bytes) -> bytes:
        """Go one step on with the exchange, which is None after its last one."""
        exchange = self._exchange
        assert exchange is not None
        if self._other_mechanism is not None:
            raise NotAuthenticated(f"a session begun by {self._mechanism} cannot be renewed by {self._other_mechanism}")
        try:
            answer = exchange.step(token)
        except InvalidToken as invalid:
            raise NotAuthenticated(str(invalid)) from None
        if exchange.user is not None:
            if self.user not in (None, exchange.user):
                raise NotAuthenticated(f"the session of user {self.user!r} cannot be renewed by {exchange.user!r}")
            self.user = exchange.user
            self._exchange = None
            self._session_ms = self._lifetime_ms
            if isinstance(exchange, OAuthBearerExchange) and exchange.lifetime_ms is not None:
                self._session_ms = min(self._lifetime_ms or exchange.lifetime_ms, exchange.lifetime_ms)
        return answer

    def _refuse(self, answer: Any, refusal: str, now_us: int) -> Reply:
        # The client of a session that is over was authenticated: there is nothing to guess.
        due_us = now_us if self.state is State.PROVED else now_us + self._failure_delay_us
        self._go(State.REFUSED)
        return Reply(answer, refusal, due_us)

    def _go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state]
        self.state = state


def _failed(error_code: int, detail: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error_code, error_message=detail)
