"""Where the tokens of OAUTHBEARER come from: the settings for it, checked together.

There are three ways. A user's own provider (`sasl.oauthbearer.token.provider`) is a callable, or the text
"module:function" where settings are text, as in properties files and in Spark. A token endpoint
(`sasl.oauthbearer.token.endpoint.url`, KIP-768) gives tokens for a client's id and secret; these are settings
(KIP-1139) or options in `sasl.jaas.config`. A token without a signature is for development (KIP-255).

Invariants: nothing here imports a provider or connects to an endpoint (`client/security.py` and
`client/token_endpoint.py` do). No `repr`, and no error's text, has a secret, or the parts of a URL that may have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.connection.java_settings import HOW_TO_GET_TOKENS
from ottla.connection.setting import Setting, refuse_coroutine, shown
from ottla.errors import ConfigError

PROVIDER = "sasl.oauthbearer.token.provider"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE = "sasl.oauthbearer.scope"

MSK_PROVIDER = "ottla.client.aws_msk:iam_token"

# Java's class that asks a token endpoint: its present name, and the name it had in Kafka 3.1, which 4.0 removed.
_ENDPOINT_CLASSES = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_EXTENSION = "extension_"
_CLAIM = "unsecuredLoginStringClaim_"


@dataclass(frozen=True, slots=True)
class OAuthBearerToken:
    """What a token provider returns: the token, when it ends, and extensions for the broker (RFC 7628).

    `expires_at_s` is in seconds since 1970 (`time.time()`). With it, the token is used again until
    `sasl.login.refresh.window.factor` of its time is over; without it, each authentication asks for a new token.
    """

    value: str = field(repr=False)
    expires_at_s: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenProvider = Callable[[], "str | OAuthBearerToken"]


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """What is needed to ask a token endpoint; `tls` has the settings for its TLS, under their names."""

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    urlencode: bool
    connect_timeout_ms: int
    read_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    extensions: Mapping[str, str] = field(repr=False)
    tls: Mapping[str, str] = field(repr=False)

    @property
    def shown_url(self) -> str:
        """The endpoint's URL without the parts that may be secret."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port is not None else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def _read_provider(value: Any) -> Any:
    if isinstance(value, str):
        place = value.strip()
        if not _PLACE.fullmatch(place):
            raise ConfigError(
                f"{PROVIDER}={shown(value)} names no function; as text it must be module:function, such as "
                "my_company.tokens:kafka_token."
            )
        return place
    if not callable(value):
        raise ConfigError(
            f"{PROVIDER} must be a callable without arguments that returns a token (str) or an ottla.OAuthBearerToken, "
            f"or the text module:function, not {type(value).__name__}."
        )
    refuse_coroutine(PROVIDER, value)
    return value


def _read_url(value: Any) -> str:
    from urllib.parse import urlsplit

    url = value.strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or "@" in url or not url.isascii() or not url.isprintable() or " " in url:
        # It is not quoted: a URL may have a secret in it.
        raise ConfigError(
            f"{ENDPOINT} is no URL that begins with https:// or http:// and names a host (and no user); for "
            f"tokens in files give {PROVIDER}."
        )
    return url


def _read_handler(value: Any) -> str:
    if isinstance(value, str) and value.strip() in _ENDPOINT_CLASSES:
        return value.strip()
    raise ConfigError(
        "sasl.login.callback.handler.class names a Java class, which Python cannot load; "
        f"{HOW_TO_GET_TOKENS}. (OAuthBearerLoginCallbackHandler, Kafka's own, may stay.)"
    )


OAUTH_SETTINGS: tuple[Setting, ...] = (
    Setting(
        PROVIDER,
        object,
        None,
        "A callable that returns a token for OAUTHBEARER, text or ottla.OAuthBearerToken, or the text module:function "
        "that names one; it is called on a thread of its own (ottla's own; Java names a class in "
        "sasl.login.callback.handler.class).",
        takes="str | Callable[[], str | OAuthBearerToken]",
        reads=_read_provider,
        kip=255,
        group="Security",
    ),
    Setting(
        ENDPOINT,
        str,
        None,
        "The URL that gives tokens for OAUTHBEARER for a client's id and secret (OAuth's client credentials); http or "
        "https (Java also takes files).",
        takes="str",
        reads=_read_url,
        kip=768,
        group="Security",
    ),
    Setting(
        CLIENT_ID,
        str,
        None,
        "The client's id for the token endpoint (clientId in sasl.jaas.config).",
        kip=1139,
        group="Security",
    ),
    Setting(
        CLIENT_SECRET,
        str,
        None,
        "The client's secret for the token endpoint (clientSecret in sasl.jaas.config).",
        secret=True,
        kip=1139,
        group="Security",
    ),
    Setting(
        SCOPE,
        str,
        None,
        "What the token is to be good for (scope in sasl.jaas.config).",
        kip=1139,
        group="Security",
    ),
    Setting(
        "sasl.oauthbearer.header.urlencode",
        bool,
        False,
        "Whether id and secret are URL-encoded before they are sent, as RFC 6749 has it and some endpoints do not.",
        kip=1025,
        group="Security",
    ),
    Setting(
        "sasl.login.callback.handler.class",
        str,
        None,
        "Without effect; Java's clients need it for a token endpoint, so the name of Kafka's own class may stand here.",
        takes="str",
        reads=_read_handler,
        kip=768,
        group="Security",
    ),
    Setting(
        "sasl.login.connect.timeout.ms",
        int,
        10_000,
        "How long a connection to the token endpoint may take (Java: no limit).",
        lowest=1,
        highest=2**31 - 1,
        kip=768,
        group="Security",
    ),
    Setting(
        "sasl.login.read.timeout.ms",
        int,
        10_000,
        "How long the token endpoint may be silent (Java: no limit).",
        lowest=1,
        highest=2**31 - 1,
        kip=768,
        group="Security",
    ),
    Setting(
        "sasl.login.retry.backoff.ms",
        int,
        100,
        "The first pause before the token endpoint is asked again; it doubles each time.",
        lowest=0,
        highest=2**31 - 1,
        kip=768,
        group="Security",
    ),
    Setting(
        "sasl.login.retry.backoff.max.ms",
        int,
        10_000,
        "For how long a token endpoint that cannot be reached, or answers 5xx, 408 or 429, is asked again.",
        lowest=0,
        highest=2**31 - 1,
        kip=768,
        group="Security",
    ),
    Setting(
        "sasl.login.refresh.window.factor",
        float,
        0.8,
        "The share of an OAUTHBEARER token's time after which a new one is asked for.",
        lowest=0.5,
        highest=1.0,
        kip=255,
        group="Security",
    ),
)


class TokenSource:
    """Where one client's tokens come from; exactly one of the three is set.

    `provider`: a callable, or "module:function". `credentials`: for a token endpoint. `unsecured_claims`: those of a
    token without a signature.
    """

    __slots__ = ("credentials", "provider", "unsecured_claims")

    def __init__(self, values: Mapping[str, Any], options: Mapping[str, str]) -> None:
        """Take read settings, and the options of `sasl.jaas.config`; ConfigError if they contradict each other."""
        self.provider: TokenProvider | str | None = values["sasl_oauthbearer_token_provider"]
        self.unsecured_claims: dict[str, str] | None = None
        self.credentials: ClientCredentials | None = None
        url = values["sasl_oauthbearer_token_endpoint_url"]
        if self.provider is not None and url is not None:
            raise ConfigError(f"{PROVIDER} and {ENDPOINT} both say where tokens come from; keep one.")
        if url is not None:
            self.credentials = _credentials(url, values, options)
        claims = {name.removeprefix(_CLAIM): text for name, text in options.items() if name.startswith(_CLAIM)}
        if self.provider is None and url is None:
            if not claims.get("sub"):
                raise ConfigError(
                    f"sasl.mechanism=OAUTHBEARER needs tokens: {HOW_TO_GET_TOKENS}; for development an "
                    f'{_CLAIM}sub="..." in sasl.jaas.config makes one without a signature.'
                )
            self.unsecured_claims = claims


def _credentials(url: str, values: Mapping[str, Any], options: Mapping[str, str]) -> ClientCredentials:
    client_id = _one_of(CLIENT_ID, "clientId", values, options)
    client_secret = _one_of(CLIENT_SECRET, "clientSecret", values, options)
    if not client_id or not client_secret:
        missing = CLIENT_SECRET if client_id else CLIENT_ID
        raise ConfigError(
            f"{ENDPOINT} needs {CLIENT_ID} and {CLIENT_SECRET}, or clientId and clientSecret in sasl.jaas.config; "
            f"{missing} is missing."
        )
    return ClientCredentials(
        url=url,
        client_id=client_id,
        client_secret=client_secret,
        scope=_one_of(SCOPE, "scope", values, options),
        urlencode=values["sasl_oauthbearer_header_urlencode"],
        connect_timeout_ms=values["sasl_login_connect_timeout_ms"],
        read_timeout_ms=values["sasl_login_read_timeout_ms"],
        retry_backoff_ms=values["sasl_login_retry_backoff_ms"],
        retry_backoff_max_ms=values["sasl_login_retry_backoff_max_ms"],
        extensions={
            name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)
        },
        tls={name: text for name, text in options.items() if name.startswith("ssl.")},
    )


def _one_of(name: str, option: str, values: Mapping[str, Any], options: Mapping[str, str]) -> str | None:
    """Return a setting's value, or that of the option that means the same."""
    given: str | None = values[name.replace(".", "_")]
    if given is not None and option in options:
        raise ConfigError(f"{name} and {option} in sasl.jaas.config say the same; keep one.")
    return options.get(option) if given is None else given
