"""OAUTHBEARER on a listener: who a token belongs to (RFC 7628, KIP-255).

Without a validator of the user's, tokens are unsecured JSON Web Signatures, as Apache Kafka takes them where nothing
else is set up: three parts with an empty third, `alg` none, `sub` the user, `exp` in seconds since 1970, and `nbf` and
`iat` not in the future. Anybody can make one, so this is for development and tests. A token that is refused is
answered with `{"status":"invalid_token"}`; the exchange fails with what the client says to that.

Invariants: a token is never part of a refusal's text. A session ends with its token.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, NamedTuple


class Bearer(NamedTuple):
    """Whose token it is, and how long it is still good; None: for ever."""

    user: str
    lifetime_ms: int | None


class InvalidToken(Exception):
    """This token is not valid; the text is for the log and never contains the token."""


# Called with a token and the broker's time, in seconds since 1970; raises InvalidToken.
TokenValidator = Callable[[str, float], Bearer]

_BEGINNING = b"auth=Bearer "
_REFUSED = b'{"status":"invalid_token"}'


class OAuthBearerExchange:
    """One token, and one more message where it is refused."""

    def __init__(self, validate: TokenValidator, wall_s: Callable[[], float]) -> None:
        self._validate = validate
        self._wall_s = wall_s
        self._refusal: str | None = None
        self.user: str | None = None
        self.lifetime_ms: int | None = None

    def step(self, message: bytes) -> bytes:
        """The answer to a message; `user` is set where the token is good. Raises InvalidToken at the second step."""
        if self._refusal is not None:
            raise InvalidToken(self._refusal)
        try:
            bearer = self._validate(_token_in(message), self._wall_s())
        except InvalidToken as error:
            self._refusal = str(error)
            return _REFUSED
        self.lifetime_ms = bearer.lifetime_ms
        self.user = bearer.user
        return b""


def _token_in(message: bytes) -> str:
    header, _, rest = message.partition(b"\x01")
    fields = rest.split(b"\x01")
    tokens = [field.removeprefix(_BEGINNING) for field in fields if field.startswith(_BEGINNING)]
    # No channel binding ("n"), and no authorization id.
    if header != b"n,," or len(tokens) != 1 or fields[-2:] != [b"", b""]:
        raise InvalidToken("what came is no OAUTHBEARER message")
    try:
        return tokens[0].decode("ascii")
    except UnicodeDecodeError:
        raise InvalidToken("the token is not ASCII") from None


def read_unsecured(token: str, now_s: float) -> Bearer:
    """Whose an unsecured token is; raises InvalidToken."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise InvalidToken("the token is not an unsecured one: three parts, of which the third is empty")
    header, claims = _json_in(parts[0]), _json_in(parts[1])
    if header.get("alg") != "none":
        raise InvalidToken("the token is signed, and this listener has no oauthbearer_validator")
    user, expires_s = claims.get("sub"), claims.get("exp")
    if not isinstance(user, str) or not user:
        raise InvalidToken("the token names no user (sub)")
    if expires_s is None or not _is_number(expires_s):
        raise InvalidToken("the token does not say when it ends (exp)")
    if expires_s <= now_s:
        raise InvalidToken(f"the token of user {user!r} has expired")
    for name in ("nbf", "iat"):
        begins_s = claims.get(name, 0)
        if not _is_number(begins_s) or begins_s > now_s:
            raise InvalidToken(f"the token of user {user!r} is not valid yet ({name})")
    return Bearer(user, int((expires_s - now_s) * 1000))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 53


def _json_in(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidToken("a part of the token is no JSON object")
    return found
