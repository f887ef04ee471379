"""The settings every client has: their table, and the class that holds them checked.

`producer/settings_table.py` and `reader/settings.py` put their own rows behind these; how a table is read stands in
`setting.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting, read_settings
from ottla.errors import ConfigError


def parse_bootstrap(value: Any) -> tuple[tuple[str, int], ...]:
    """Return (host, port) pairs from "host:port,[::1]:port" or a list of such; `ConfigError` names what is wrong."""
    if isinstance(value, str):
        parts = value.split(",")
    elif isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        parts = [piece for part in value for piece in part.split(",")]
    else:
        raise ConfigError(f"bootstrap.servers={value!r} is not text; give host:port, several separated by commas.")
    addresses = tuple(dict.fromkeys(_parse_address(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise ConfigError("bootstrap.servers is empty; give host:port, several separated by commas.")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    if "://" in text:
        raise ConfigError(f"bootstrap.servers: {text!r} is a URL; give host:port alone, such as localhost:9092.")
    host, colon, port_text = text.rpartition(":")
    if not colon or not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ConfigError(f"bootstrap.servers: {text!r} has no port; give host:port, such as localhost:9092.")
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) <= 65535):
        raise ConfigError(f"bootstrap.servers: the port in {text!r} must be a number from 1 to 65535.")
    return host.strip("[]"), int(port_text)


CONNECTION_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "bootstrap.servers",
        list,
        None,
        "Where to find the cluster: host:port, several separated by commas.",
        takes="str | Sequence[str]",
        reads=parse_bootstrap,
        group="The cluster",
    ),
    Setting("client.id", str, "ottla", "The name brokers log and count this client under.", group="The cluster"),
    Setting(
        "request.timeout.ms",
        int,
        30_000,
        "How long an answer may take before the connection is given up.",
        lowest=1,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "metadata.max.age.ms",
        int,
        300_000,
        "How old metadata may grow before it is asked for again.",
        lowest=0,
        highest=INT64_MAX,
        group="The cluster",
    ),
    Setting(
        "reconnect.backoff.ms",
        int,
        50,
        "The pause after a connection was lost; it doubles with each failure in a row.",
        lowest=0,
        highest=INT64_MAX,
        group="Connections",
    ),
    Setting(
        "reconnect.backoff.max.ms",
        int,
        1_000,
        "The longest pause between tries to connect to one broker.",
        lowest=0,
        highest=INT64_MAX,
        kip=144,
        group="Connections",
    ),
    Setting(
        "retry.backoff.ms",
        int,
        100,
        "The pause before a failed request is tried again; it doubles with each failure in a row.",
        lowest=0,
        highest=INT64_MAX,
        kip=580,
        group="Connections",
    ),
    Setting(
        "retry.backoff.max.ms",
        int,
        1_000,
        "The longest pause before a failed request is tried again.",
        lowest=0,
        highest=INT64_MAX,
        kip=580,
        group="Connections",
    ),
    Setting(
        "socket.connection.setup.timeout.ms",
        int,
        10_000,
        "How long opening a connection may take.",
        lowest=1,
        highest=INT64_MAX,
        kip=601,
        group="Connections",
    ),
    Setting(
        "connections.max.idle.ms",
        int,
        540_000,
        "After how long without a request a connection is closed (before the broker does).",
        lowest=1,
        highest=INT64_MAX,
        group="Connections",
    ),
    Setting(
        "send.buffer.bytes",
        int,
        131_072,
        "The socket's send buffer (SO_SNDBUF); -1 leaves it to the operating system.",
        lowest=-1,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "receive.buffer.bytes",
        int,
        65_536,
        "The socket's receive buffer (SO_RCVBUF); -1 leaves it to the operating system.",
        lowest=-1,
        highest=INT32_MAX,
        group="Connections",
    ),
)


class ConnectionSettings:
    """The settings of `CONNECTION_SETTINGS`, one attribute each, checked; `bootstrap_servers` parsed."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    receive_buffer_bytes: int
    reconnect_backoff_max_ms: int
    reconnect_backoff_ms: int
    request_timeout_ms: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    send_buffer_bytes: int
    socket_connection_setup_timeout_ms: int

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` for what cannot be used."""
        values, _ = read_settings(CONNECTION_SETTINGS, given)
        self._take(values)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> ConnectionSettings:
        """Take this part out of a larger table that `read_settings` has read already."""
        settings = cls.__new__(cls)
        settings._take(values)
        return settings

    def _take(self, values: Mapping[str, Any]) -> None:
        for row in CONNECTION_SETTINGS:
            setattr(self, row.keyword, values[row.keyword])
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing; give host:port, several separated by commas.")
        # Java does the same: a first pause above the maximum is cut to it.
        self.reconnect_backoff_ms = min(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms)
        self.retry_backoff_ms = min(self.retry_backoff_ms, self.retry_backoff_max_ms)
