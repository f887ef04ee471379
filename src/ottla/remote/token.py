"""The token: whoever knows it may control the cluster. HTTP carries it as `Authorization: Bearer TOKEN` (RFC 6750)."""

from __future__ import annotations

import hmac

from ottla.errors import UserMistake

_SCHEME = "bearer "
_LENGTHS = 16, 256


def check_token(token: str, where: str) -> str:
    """The token, if it is one; UserMistake names `where` it stands and never repeats it."""
    least, most = _LENGTHS
    if not (least <= len(token) <= most and token.isascii() and token.isprintable() and " " not in token):
        raise UserMistake(
            f"{where} holds no token: write {least} to {most} ASCII characters without spaces, "
            "such as `openssl rand -hex 16` prints"
        )
    return token


def is_allowed(authorization: str | None, token: str | None) -> bool:
    """Whether a request with this header may be carried out; the time that this takes does not depend on the token."""
    if token is None:
        return True
    given = authorization or ""
    if not given.lower().startswith(_SCHEME):
        return False
    return hmac.compare_digest(given[len(_SCHEME) :].strip().encode(), token.encode())
