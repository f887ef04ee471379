"""Checks the tokens of an OAUTHBEARER listener: by a function of the user's, or as Kafka's unsecured tokens.

Imported when a listener offers OAUTHBEARER. The brokers run in another process than the user's program, so a function
is given as the text "package.module:function", and imported there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ottla.broker.bearer_tokens import Bearer, InvalidToken, TokenValidator, read_unsecured
from ottla.errors import UserMistake


def token_validator(name: str, place: str | None) -> TokenValidator:
    """The validator of the listener called `name`; UserMistake where there is no such function."""
    if place is None:
        return read_unsecured
    function = _import(name, place)

    def validate(token: str, now_s: float) -> Bearer:
        try:
            found = function(token)
        except Exception as error:
            # The error's text may contain the token.
            raise InvalidToken(f"{place} refused the token ({type(error).__name__})") from None
        user, expires_at_s = found if isinstance(found, tuple) else (found, None)
        if not isinstance(user, str) or not user:
            raise InvalidToken(f"{place} returned neither a user name nor (user name, expires_at_s)")
        if expires_at_s is None:
            return Bearer(user, None)
        return Bearer(user, max(1, int((expires_at_s - now_s) * 1000)))

    return validate


def _import(name: str, place: str) -> Any:
    module_name, _, path = place.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserMistake(
            f"listener {name} cannot use oauthbearer_validator={place!r} ({error}): give the place of a function that "
            'can be imported, such as "package.module:function".'
        ) from None
    if not callable(found):
        raise UserMistake(f"listener {name} cannot use oauthbearer_validator={place!r}: it is not a function.")
    return found
