"""`ottla.Listener`: an address on each broker to which clients connect, with its protocol.

A cluster has one or more, by name; every broker opens all of them. A client is given the advertised addresses of the
listener to which it connected (in Metadata, for coordinators and new leaders), so it stays on that listener. Ports
count up from broker 1: `port=9092` is 9092 on broker 1, 9093 on broker 2. In Kafka's terms: `listeners`,
`advertised.listeners` and `listener.security.protocol.map` (KIP-103).

TLS takes PEM files. What TLS and SASL need is imported in the brokers' process, and only if a listener uses them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.errors import ConfigError

DEFAULT_NAME = "PLAINTEXT"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CLIENT_AUTH = ("none", "requested", "required")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
_PORT_MAX = 65_535
_ANY_ADDRESS = ("", "0.0.0.0", "::")
_SECRET = ("users", "private_key_password")


class Listener:
    """An address and a protocol by which clients connect; raises ConfigError.

    `host`, `port`: where broker 1 listens, the others on the ports after it; port 0 takes free ports.
    `advertised_host`, `advertised_port`: the address that clients are given instead (of a proxy, a forwarded port,
    another name of this machine); the port is broker 1's and counts up, too.
    `certificate`, `private_key`: PEM files for SSL and SASL_SSL: the certificate, the CA certificates that signed it,
    and its key if that is not in the same file; `private_key_password` opens it.
    `client_auth`: whether clients must have a certificate: none, requested or required; `client_ca` is the PEM
    file with the CA certificates to trust. (Kafka: `ssl.client.auth`.)
    `users`: passwords by user name for SASL_PLAINTEXT and SASL_SSL, by any of `sasl_mechanisms`.
    `oauthbearer_validator`: with OAUTHBEARER among `sasl_mechanisms`, the name of a function
    ("package.module:function") that the brokers import. It gets a token and returns the user's name, or (name, seconds
    since 1970 when the token ends), or raises. Without it, tokens are unsecured JSON Web Signatures that anybody can
    make: Apache Kafka's default, too. A token expires by the broker's clock.
    `session_lifetime_ms`: after how long SASL clients must authenticate again (KIP-368, Kafka's
    `connections.max.reauth.ms`); 0 for never.
    """

    __slots__ = (
        "advertised_host",
        "advertised_port",
        "certificate",
        "client_auth",
        "client_ca",
        "host",
        "oauthbearer_validator",
        "port",
        "private_key",
        "private_key_password",
        "protocol",
        "sasl_mechanisms",
        "session_lifetime_ms",
        "users",
    )

    def __init__(
        self,
        *,
        protocol: str = "PLAINTEXT",
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        advertised_port: int | None = None,
        certificate: str | os.PathLike[str] | None = None,
        private_key: str | os.PathLike[str] | None = None,
        private_key_password: str | None = None,
        client_auth: str = "none",
        client_ca: str | os.PathLike[str] | None = None,
        users: Mapping[str, str] | None = None,
        sasl_mechanisms: Sequence[str] = SASL_MECHANISMS,
        oauthbearer_validator: str | None = None,
        session_lifetime_ms: int = 0,
    ) -> None:
        self.protocol = protocol
        self.host = host
        self.port = port
        self.advertised_host = advertised_host
        self.advertised_port = advertised_port
        self.certificate = certificate
        self.private_key = private_key
        self.private_key_password = private_key_password
        self.client_auth = client_auth
        self.client_ca = client_ca
        self.users: Mapping[str, str] = {} if users is None else users
        self.sasl_mechanisms = sasl_mechanisms
        self.oauthbearer_validator = oauthbearer_validator
        self.session_lifetime_ms = session_lifetime_ms
        self._check()

    def __eq__(self, other: object) -> bool:
        return type(other) is Listener and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # its users are a mapping

    def __repr__(self) -> str:
        shown = {name: value for name in self.__slots__ if name not in _SECRET and (value := getattr(self, name))}
        return f"Listener({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _check(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"listener protocol={self.protocol!r} must be one of {', '.join(PROTOCOLS)}")
        for name, port in (("port", self.port), ("advertised_port", self.advertised_port)):
            if port is not None and (type(port) is not int or not 0 <= port <= _PORT_MAX):
                raise ConfigError(f"listener {name}={port!r} must be an integer from 0 to {_PORT_MAX}")
        if self.host in _ANY_ADDRESS and self.advertised_host in (None, *_ANY_ADDRESS):
            raise ConfigError(
                f"a listener on host={self.host!r} needs an advertised_host: the name or address clients are told."
            )
        self._check_tls()
        self._check_sasl()

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        """Whether clients must authenticate."""
        return self.protocol.startswith("SASL")

    def advertised(self, broker_id: int, port: int) -> tuple[str, int]:
        """The address that clients are given of a broker that listens on `port`."""
        told = port if self.advertised_port is None else self.advertised_port + broker_id - 1
        return self.advertised_host or self.host, told

    def to_dict(self) -> dict[str, Any]:
        """Plain values; paths are absolute, because the brokers' process may have another working directory."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        for name in ("certificate", "private_key", "client_ca"):
            if values[name] is not None:
                values[name] = os.path.abspath(os.fspath(values[name]))
        return {**values, "users": dict(self.users), "sasl_mechanisms": list(self.sasl_mechanisms)}

    def _check_tls(self) -> None:
        if self.client_auth not in CLIENT_AUTH:
            raise ConfigError(f"listener client_auth={self.client_auth!r} must be one of {', '.join(CLIENT_AUTH)}")
        if self.is_tls and self.certificate is None:
            raise ConfigError(f"a listener with protocol={self.protocol!r} needs a certificate (a PEM file).")
        if not self.is_tls and not (self.certificate is self.private_key is self.client_ca is None):
            raise ConfigError(f"a listener with protocol={self.protocol!r} takes no certificate: it does not encrypt.")
        if (self.client_auth != "none") != (self.client_ca is not None):
            raise ConfigError("client_auth and client_ca of a listener go together: give both, or neither.")

    def _check_sasl(self) -> None:
        lifetime = self.session_lifetime_ms
        if type(lifetime) is not int or lifetime < 0:
            raise ConfigError(f"listener session_lifetime_ms={lifetime!r} must be an integer from 0")
        known = (*SASL_MECHANISMS, OAUTHBEARER)
        if not self.sasl_mechanisms or not all(name in known for name in self.sasl_mechanisms):
            given = list(self.sasl_mechanisms)
            raise ConfigError(f"listener sasl_mechanisms={given!r} must be some of {', '.join(known)}")
        place = self.oauthbearer_validator
        if place is not None and OAUTHBEARER not in self.sasl_mechanisms:
            raise ConfigError("oauthbearer_validator of a listener needs OAUTHBEARER among its sasl_mechanisms.")
        if place is not None and (not isinstance(place, str) or not all(place.partition(":"))):
            raise ConfigError(
                f'listener oauthbearer_validator={place!r} must be text such as "package.module:function"'
            )
        needs_users = any(name != OAUTHBEARER for name in self.sasl_mechanisms)
        if self.is_sasl and needs_users and not self.users:
            raise ConfigError(f"a listener with protocol={self.protocol!r} needs users: {{name: password}}.")
        if not self.is_sasl and self.users:
            raise ConfigError(f"a listener with protocol={self.protocol!r} takes no users: it has no authentication.")


def check_listeners(listeners: Mapping[str, Listener], brokers: int) -> dict[str, Listener]:
    """The listeners as a dict, after checks: at least one, and ports for every broker; raises ConfigError."""
    if not listeners:
        raise ConfigError("listeners={} must name at least one listener")
    for name, listener in listeners.items():
        if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
            raise ConfigError(f"listener name {name!r} must consist of letters, digits, _ and -")
        if not isinstance(listener, Listener):
            raise ConfigError(f"listeners[{name!r}] must be an ottla.Listener, not {type(listener).__name__}")
        for port in (listener.port, listener.advertised_port):
            if port and port + brokers - 1 > _PORT_MAX:
                raise ConfigError(
                    f"port={port} of listener {name} must leave room for {brokers} brokers: "
                    f"1 to {_PORT_MAX + 1 - brokers}"
                )
    return dict(listeners)
