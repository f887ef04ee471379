"""The callable that gives a client's OAUTHBEARER tokens; it is found when the client is made.

A provider may be the text "module:function", because properties files and Spark's options can only hold text. The
module is imported here, so a name that cannot be used is a ConfigError before anything is connected.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ottla.clock import MachineClock
from ottla.connection.oauth_settings import PROVIDER, TokenSource
from ottla.connection.setting import refuse_coroutine
from ottla.errors import ConfigError, OttlaError


def provider_of(source: TokenSource, clock: MachineClock) -> Callable[[], Any]:
    """The callable that gives tokens, by the client's settings."""
    if source.credentials is not None:
        from ottla.client.token_endpoint import TokenEndpoint

        return TokenEndpoint(source.credentials, clock)
    if isinstance(source.provider, str):
        return _imported(source.provider)
    if source.provider is not None:
        return source.provider
    from ottla.connection.authentication import unsecured_token

    claims = source.unsecured_claims or {}
    return lambda: unsecured_token(claims, clock.wall_ms() / 1000)


def _imported(place: str) -> Callable[[], Any]:
    module_name, _, name = place.partition(":")
    try:
        module = import_module(module_name)
    except OttlaError:
        raise  # ottla's own: its text says what is missing
    except ImportError as error:
        raise ConfigError(
            f"{PROVIDER}={place}: the module cannot be imported ({error}); put it where this Python finds modules (in "
            "Spark on the driver and on every executor, by --py-files for instance)."
        ) from None
    except Exception as error:
        raise ConfigError(f"{PROVIDER}={place}: importing the module raised {type(error).__name__}.") from None
    found = getattr(module, name, None)
    if not callable(found):
        problem = "has no such function" if found is None else f"has {name}, which is no function"
        raise ConfigError(f"{PROVIDER}={place}: the module {problem}; name a function without arguments.")
    refuse_coroutine(f"{PROVIDER}={place}", found)
    provider: Callable[[], Any] = found
    return provider
