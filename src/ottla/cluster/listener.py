"""`ottla.Listener`: one way into the brokers, with an address of its own on each of them.

A cluster has one or more, by name; every broker opens all of them. What a client learns of the cluster (Metadata,
coordinators, new leaders) are the advertised addresses of the listener it came in by, so a client stays on it. Ports
count up from broker 1: `port=9092` is 9092 on broker 1, 9093 on broker 2. In Kafka's terms: `listeners`,
`advertised.listeners` and `listener.security.protocol.map` (KIP-103).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla.errors import ConfigError

DEFAULT_NAME = "PLAINTEXT"
PROTOCOLS = ("PLAINTEXT",)
_PORT_MAX = 65_535
_ANY_ADDRESS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where and how clients come in; raises ConfigError.

    `host`, `port`: where broker 1 listens, the others on the ports after it; port 0 takes free ports.
    `advertised_host`, `advertised_port`: what clients are told instead (a proxy, a forwarded port, another name of
    this machine); the port is broker 1's and counts up, too.
    """

    protocol: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str | None = None
    advertised_port: int | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"listener protocol={self.protocol!r} must be one of {', '.join(PROTOCOLS)}")
        for name, port in (("port", self.port), ("advertised_port", self.advertised_port)):
            if port is not None and (type(port) is not int or not 0 <= port <= _PORT_MAX):
                raise ConfigError(f"listener {name}={port!r} must be an integer from 0 to {_PORT_MAX}")
        if self.host in _ANY_ADDRESS and self.advertised_host in (None, *_ANY_ADDRESS):
            raise ConfigError(
                f"a listener on host={self.host!r} needs an advertised_host: the name or address clients are told."
            )

    def advertised(self, broker_id: int, port: int) -> tuple[str, int]:
        """What clients are told of a broker that listens on `port`."""
        told = port if self.advertised_port is None else self.advertised_port + broker_id - 1
        return self.advertised_host or self.host, told

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def check_listeners(listeners: Mapping[str, Listener], brokers: int) -> dict[str, Listener]:
    """The listeners, if there are any and every broker finds room on them; raises ConfigError."""
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


def bootstrap(addresses: list[tuple[str, int]]) -> str:
    """Addresses as clients want them: "host:port,host:port", IPv6 in brackets."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
