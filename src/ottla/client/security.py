"""A client's TLS context and its source of OAUTHBEARER tokens: made with the client, which raises for wrong settings.

A plaintext client has no `Security`. Token providers are the user's code and may ask a server: each call runs on a
short-lived thread of its own, never on the I/O thread. A token with an end is shared by all connections until
`sasl.login.refresh.window.factor` of its time is over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any

from ottla.clock import MACHINE, MachineClock
from ottla.connection.oauth_settings import OAuthBearerToken
from ottla.connection.security_settings import SecuritySettings
from ottla.errors import OttlaError

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger("ottla.client")


def unguessable(settings: SecuritySettings, rng: Random) -> Random:
    """The random generator for a client's core; with SASL the operating system's, for SCRAM's nonces."""
    return SystemRandom() if settings.is_sasl else rng


class Security:
    """One client's security; ConfigError or MissingExtra where the settings cannot be used on this machine."""

    __slots__ = ("_asking", "_clock", "_good_until_s", "_provider", "_settings", "_token", "tls")

    def __init__(self, settings: SecuritySettings, clock: MachineClock = MACHINE) -> None:
        self._clock = clock
        self._settings = settings
        self._token: OAuthBearerToken | None = None
        # Held while a provider runs: connections that need a token at the same time share one.
        self._asking = threading.Lock()
        self._good_until_s = 0.0
        self.tls: ssl.SSLContext | None = None
        if settings.is_tls:
            from ottla.client.tls import client_context

            self.tls = client_context(settings)
        if settings.is_sasl:
            from ottla.connection.authentication import check_scram

            check_scram(settings)
        self._provider: Callable[[], Any] | None = None
        if settings.tokens is not None:
            from ottla.client.token_provider import provider_of

            self._provider = provider_of(settings.tokens, clock)

    @classmethod
    def of(cls, settings: SecuritySettings, clock: MachineClock) -> Security | None:
        """What these settings need, None for a plaintext client."""
        return cls(settings, clock) if settings.is_tls or settings.is_sasl else None

    @property
    def is_sasl(self) -> bool:
        """Whether this client authenticates by SASL."""
        is_sasl: bool = self._settings.is_sasl
        return is_sasl

    def get_token(self, given: Callable[[Any, str], None]) -> None:
        """Call `given` with (token, "") or (None, why there is none): now, or later on another thread."""
        token = self._good_token()
        if token is not None:
            given(token, "")
            return
        try:
            threading.Thread(target=self._ask, args=(given,), name="ottla-token", daemon=True).start()
        except RuntimeError as error:
            # The process has as many threads as it may have. That must not end the I/O thread.
            given(None, f"no thread can ask for a token ({error})")

    def forget_token(self) -> None:
        """A broker refused the token: the next connection gets a new one."""
        self._token = None

    def _good_token(self) -> OAuthBearerToken | None:
        token = self._token
        return token if token is not None and self._clock.wall_ms() / 1000 < self._good_until_s else None

    def _ask(self, given: Callable[[Any, str], None]) -> None:
        try:
            assert self._provider is not None
            with self._asking:
                token = self._good_token() or self._keep(self._provider())
        except OttlaError as error:
            # ottla's own: its text may be shown.
            given(None, str(error))
            return
        except BaseException as error:
            # The error's text may contain a secret that was sent to the token's issuer: only its type is shown.
            _log.debug("the token provider raised %s", type(error).__name__)
            given(None, f"sasl.oauthbearer.token.provider raised {type(error).__name__}")
            return
        given(token, "")

    def _keep(self, token: Any) -> Any:
        if isinstance(token, OAuthBearerToken) and token.expires_at_s is not None:
            now_s = self._clock.wall_ms() / 1000
            self._good_until_s = now_s + (token.expires_at_s - now_s) * self._settings.token_refresh_factor
            self._token = token
        return token
