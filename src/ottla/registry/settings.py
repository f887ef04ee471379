"""The settings of a registry's client, named as in the Confluent Schema Registry's clients, with dots or underscores.

Those of TLS are the settings that all clients have (`ssl.truststore.location`, ...).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ottla.connection.security_settings import SECURITY_SETTINGS, SecuritySettings
from ottla.connection.setting import INT32_MAX, Setting, read_settings
from ottla.errors import ConfigError

_HIDDEN_LEAST = 4

REGISTRY_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "basic.auth.user.info",
        str,
        None,
        "NAME:PASSWORD for basic authentication; also in the URL (http://NAME:PASSWORD@host).",
        secret=True,
        group="Security",
    ),
    Setting(
        "bearer.auth.token",
        str,
        None,
        "A token for bearer authentication.",
        secret=True,
        group="Security",
    ),
    Setting(
        "request.timeout.ms",
        int,
        30_000,
        "How long one request to a registry may take.",
        lowest=1,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "max.retries",
        int,
        3,
        "How often the registries are asked again when none of them could answer.",
        lowest=0,
        highest=1000,
        group="Connections",
    ),
    Setting(
        "retries.wait.ms",
        int,
        200,
        "The pause before they are asked again; it doubles each time.",
        lowest=0,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "retries.max.wait.ms",
        int,
        5_000,
        "The longest pause before they are asked again.",
        lowest=0,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "cache.capacity",
        int,
        1_000,
        "How many schemas are kept: those that were used last.",
        lowest=1,
        highest=10_000_000,
        group="Batches and memory",
    ),
    Setting(
        "cache.latest.ttl.sec",
        int,
        60,
        "How long the latest version of a subject is kept before it is asked for again; 0 asks each time.",
        lowest=0,
        highest=INT32_MAX,
        group="Batches and memory",
    ),
    *(row for row in SECURITY_SETTINGS if row.name.startswith("ssl.")),
)


_NEEDLESS = "is not needed: give basic.auth.user.info or bearer.auth.token, or name and password in the URL."
# Settings of other clients, or of serializers.
_ELSEWHERE = {
    "url": "comes first, before the settings.",
    "schema.registry.url": "comes first, before the settings.",
    "timeout": "is request.timeout.ms here, in milliseconds.",
    "basic.auth.credentials.source": _NEEDLESS,
    "bearer.auth.credentials.source": _NEEDLESS,
    "auto.register.schemas": "is a setting of serializers, not of the client.",
    "use.latest.version": "is a setting of serializers, not of the client.",
    "normalize.schemas": "is a setting of serializers, not of the client.",
    "subject.name.strategy": "is a setting of serializers, not of the client.",
}


def _refuse_elsewhere(given: Mapping[str, Any]) -> None:
    for name in given:
        told = _ELSEWHERE.get(str(name).replace("_", "."))
        if told is not None:
            raise ConfigError(f"{name} {told}")


class ServerAddress:
    """One registry: its host and port, and the path in front of its API's. `shown` has no password in it."""

    __slots__ = ("credentials", "host", "is_tls", "path", "port", "shown")

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _no_url(f"{_without_password(url)} has a port that is no number, or is no address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _no_url(f"{_without_password(url)} is not http://HOST:PORT or https://HOST:PORT")
        self.is_tls = parts.scheme == "https"
        self.host: str = parts.hostname
        if not (parts.path.isascii() and parts.path.isprintable() and " " not in parts.path):
            raise _no_url(f"{_without_password(url)} has a path with characters that URLs write as %20 and the like")
        if not _is_host(self.host):
            raise _no_url(
                f"{_without_password(url)} has no host name: its parts have 1 to 63 letters, digits and hyphens"
            )
        self.port: int = port or (443 if self.is_tls else 80)
        self.path = parts.path.rstrip("/")
        self.credentials: str | None = None
        if parts.username is not None:
            self.credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            if not _is_utf8(self.credentials):
                raise _no_url(f"{_without_password(url)} has a name or a password that is no Unicode text")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.shown = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{self.path}"


def _is_host(name: str) -> bool:
    """Whether a name can be looked up; for others, the system's functions raise errors that explain nothing."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return name.isprintable() and " " not in name


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_password(url: str) -> str:
    """The part of a wrong address that may be shown: if a password has a comma, its "@" may be in the next address."""
    shown, colon, last = url.rpartition("@")[2].partition("?")[0].rpartition(":")
    if colon and not last.startswith("//") and not last.partition("/")[0].isdecimal():
        last = "..."
    return repr(f"{shown}{colon}{last}"[:60])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _no_url(told: str) -> ConfigError:
    return ConfigError(f"schema.registry.url: {told}; give an address such as http://localhost:8081")


class RegistrySettings:
    """All settings of one client, checked. ConfigError for what cannot be used."""

    def __init__(self, url: str | Sequence[str], given: Mapping[str, Any]) -> None:
        if isinstance(url, Mapping) or not isinstance(url, Iterable):
            raise ConfigError(
                "the address of the registry comes first, the settings behind it: RegistryClient(url, settings)"
            )
        urls = url.split(",") if isinstance(url, str) else list(url)
        if not urls or not all(isinstance(each, str) and each.strip() for each in urls):
            raise _no_url("it has no address, or one that is no text")
        try:
            self.addresses = tuple(ServerAddress(each.strip()) for each in urls)
        except ConfigError as error:
            if len(urls) > 1 and "@" in "".join(urls):
                raise ConfigError(f"{error}; a comma in a password is written %2C") from None
            raise
        _refuse_elsewhere(given)
        try:
            values, explicit = read_settings(REGISTRY_SETTINGS, given)
        except ConfigError as error:
            raise ConfigError(str(error).replace('"Settings"', '"Schema registry"')) from None
        self.request_timeout_ms: int = values["request_timeout_ms"]
        self.max_retries: int = values["max_retries"]
        self.retries_wait_ms: int = values["retries_wait_ms"]
        self.retries_max_wait_ms: int = values["retries_max_wait_ms"]
        self.cache_capacity: int = values["cache_capacity"]
        self.cache_latest_ttl_sec: int = values["cache_latest_ttl_sec"]
        self._basic: str | None = values["basic_auth_user_info"]
        self._bearer: str | None = values["bearer_auth_token"]
        if self._basic is not None and self._bearer is not None:
            raise ConfigError("basic.auth.user.info and bearer.auth.token exclude each other; keep one.")
        if self._basic is not None and ":" not in self._basic:
            raise ConfigError("basic.auth.user.info must be NAME:PASSWORD.")
        if self._bearer is not None and not (self._bearer.isascii() and self._bearer.isprintable()):
            raise ConfigError("bearer.auth.token must be printable ASCII characters, without a line's end.")
        self.tls: Any = None
        tls = sorted(name for name in explicit if name.startswith("ssl_"))
        if any(address.is_tls for address in self.addresses):
            self.tls = _tls_context(values)
            self._tls_values = values
        elif tls:
            name = tls[0].replace("_", ".")
            raise ConfigError(f"{name} is for https://, and all addresses are http://: give https://, or leave it out.")

    def tls_of_any_name(self) -> Any:
        """As `tls`, without a check of the certificate's names: only to read these names, never to send a request."""
        return _tls_context({**self._tls_values, "ssl_endpoint_identification_algorithm": ""})

    def authorization(self, address: ServerAddress) -> str | None:
        """The header of a request to this registry."""
        if self._bearer is not None:
            return f"Bearer {self._bearer}"
        pair = self._basic or address.credentials
        return None if pair is None else f"Basic {_base64(pair)}"

    def secrets(self, address: ServerAddress) -> list[str]:
        """What no error may show of the requests to this registry."""
        if self._bearer is not None:
            found = [self._bearer]
        elif (pair := self._basic or address.credentials) is not None:
            # Some servers leave out the "=" at the end.
            found = [_base64(pair).rstrip("="), pair, pair.partition(":")[2]]
        else:
            found = []
        # A very short secret would also hide parts of other words.
        return [each for each in found if len(each) >= _HIDDEN_LEAST]


def _tls_context(values: Mapping[str, Any]) -> Any:
    # Imported here: most registries of tests speak without TLS.
    from ottla.client.tls import client_context

    rows, _ = read_settings(SECURITY_SETTINGS, {"security.protocol": "SSL"})
    return client_context(
        SecuritySettings({**rows, **{name: value for name, value in values.items() if name.startswith("ssl_")}})
    )
