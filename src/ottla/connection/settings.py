"""The settings every client has: their table, and the class with their checked values.

`producer/settings_table.py` and `reader/settings.py` add their own rows after these; `setting.py` reads a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.clock import MACHINE, MachineClock, read_clock
from ottla.connection.security_settings import SECURITY_SETTINGS, SecuritySettings
from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting, read_settings, shown
from ottla.errors import ConfigError

# In requests the length of a text is a signed number of two bytes.
TEXT_BYTES_MAX = 0x7FFF


def parse_bootstrap(value: Any) -> tuple[tuple[str, int], ...]:
    """Return (host, port) pairs from "host:port,[::1]:port" or a list of such; `ConfigError` names what is wrong."""
    if isinstance(value, str):
        parts = value.split(",")
    elif isinstance(value, Sequence) and all(isinstance(part, str) for part in value):
        parts = [piece for part in value for piece in part.split(",")]
    else:
        hint = (
            " Settings in a dict go to Producer.from_config; Reader and Admin take them as keywords."
            if isinstance(value, Mapping)
            else ""
        )
        told = f"bootstrap.servers={shown(value)} is not text; give host:port, several separated by commas."
        raise ConfigError(told + hint)
    for part in [value] if isinstance(value, str) else value:
        # Before it is split at commas: a password may have one.
        if "@" in part:
            address = shown(part.rpartition("@")[2])
            raise ConfigError(
                f"bootstrap.servers: a user is named before {address}; give host:port alone, and the user as "
                "sasl.username and sasl.password."
            )
    addresses = tuple(dict.fromkeys(_parse_address(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise ConfigError("bootstrap.servers is empty; give host:port, several separated by commas.")
    return addresses


def _parse_address(text: str) -> tuple[str, int]:
    if "://" in text:
        raise ConfigError(f"bootstrap.servers: {shown(text)} is a URL; give host:port alone, such as localhost:9092.")
    host, colon, port_text = text.rpartition(":")
    if not colon or not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        several = ", several separated by commas" if " " in text else ""
        raise ConfigError(
            f"bootstrap.servers: {shown(text)} has no port; give host:port, such as localhost:9092{several}."
        )
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) <= 65535):
        raise ConfigError(f"bootstrap.servers: the port in {shown(text)} must be a number from 1 to 65535.")
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
    Setting(
        "client.id",
        str,
        "",
        "The name brokers log and count this client under. Empty: producer-, consumer- or adminclient- with the "
        "transactional.id or, where there is none, a number that counts within the process.",
        group="The cluster",
    ),
    Setting(
        "client.dns.lookup",
        str,
        "use_all_dns_ips",
        "use_all_dns_ips tries every address of a host name in turn; resolve_canonical_bootstrap_servers_only also "
        "replaces each bootstrap name by the canonical names of its addresses, on the thread that makes the client.",
        allowed=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        kip=302,
        group="The cluster",
    ),
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
        "metadata.recovery.strategy",
        str,
        "rebootstrap",
        "What to do when none of the brokers known can be reached: ask the bootstrap servers again (rebootstrap), or "
        "go on trying those that are known (none).",
        allowed=("rebootstrap", "none"),
        any_case=True,
        kip=899,
        group="The cluster",
    ),
    Setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        int,
        300_000,
        "With metadata.recovery.strategy=rebootstrap: after how long without an answer about metadata all brokers "
        "known are given up and the bootstrap servers asked again.",
        lowest=0,
        highest=INT64_MAX,
        kip=1102,
        group="The cluster",
    ),
    Setting(
        "reconnect.backoff.ms",
        int,
        50,
        "The pause after a connection was lost; it doubles with each failure in a row. Given without "
        "reconnect.backoff.max.ms it stays the same.",
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
        "How long opening a connection may take; it doubles with each failure in a row, with a fifth of jitter.",
        lowest=1,
        highest=INT64_MAX,
        kip=601,
        group="Connections",
    ),
    Setting(
        "socket.connection.setup.timeout.max.ms",
        int,
        30_000,
        "The longest that opening a connection may take.",
        lowest=1,
        highest=INT64_MAX,
        kip=601,
        group="Connections",
    ),
    Setting(
        "bootstrap.refused.timeout.ms",
        int,
        5_000,
        "How long all bootstrap addresses may refuse connections before a reader or admin client that met no broker "
        "yet gives up (ottla's own; longer in the tasks of Spark).",
        lowest=0,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "connections.max.idle.ms",
        int,
        540_000,
        "After how long without a request a connection is closed (before the broker does); -1 for never.",
        lowest=1,
        highest=INT64_MAX,
        special=-1,
        group="Connections",
    ),
    Setting(
        "send.buffer.bytes",
        int,
        -1,
        "The socket's send buffer (SO_SNDBUF); -1 leaves it to the operating system, which lets it grow with the "
        "connection (Kafka's own clients take 131072).",
        lowest=-1,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "receive.buffer.bytes",
        int,
        -1,
        "The socket's receive buffer (SO_RCVBUF); -1 leaves it to the operating system, which lets it grow with the "
        "connection (Kafka's own clients take 32768 to send, 65536 to read).",
        lowest=-1,
        highest=INT32_MAX,
        group="Connections",
    ),
    Setting(
        "clock",
        object,
        None,
        "An ottla.Clock that the client goes by in place of the machine's clock, for tests that stop time or set it "
        "ahead (ottla's own).",
        takes="Clock",
        reads=read_clock,
        group="Connections",
    ),
    *SECURITY_SETTINGS,
)


class ConnectionSettings:
    """The settings of `CONNECTION_SETTINGS`, one attribute each, checked; `bootstrap_servers` parsed.

    The client logs `warnings`, sentences about values that were changed. The rows about security are in `security`.
    """

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_dns_lookup: str
    clock: MachineClock
    client_id: str
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_recovery_strategy: str
    receive_buffer_bytes: int
    reconnect_backoff_max_ms: int
    reconnect_backoff_ms: int
    request_timeout_ms: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    security: SecuritySettings
    send_buffer_bytes: int
    bootstrap_refused_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    socket_connection_setup_timeout_ms: int

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` for what cannot be used."""
        values, explicit = read_settings(CONNECTION_SETTINGS, given)
        self._take(values, explicit)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], explicit: frozenset[str]) -> ConnectionSettings:
        """Take this part out of a larger table that `read_settings` has read already."""
        settings = cls.__new__(cls)
        settings._take(values, explicit)
        return settings

    def _take(self, values: Mapping[str, Any], explicit: frozenset[str]) -> None:
        for row in CONNECTION_SETTINGS:
            if row.group != "Security":
                setattr(self, row.keyword, values[row.keyword])
        self.clock = values["clock"] or MACHINE
        self.security = SecuritySettings(values)
        if not self.bootstrap_servers:
            raise ConfigError("bootstrap.servers is missing; give host:port, several separated by commas.")
        if len(self.client_id.encode()) > TEXT_BYTES_MAX:
            raise ConfigError(f"client.id is longer than the {TEXT_BYTES_MAX} bytes that the protocol has room for.")
        self.warnings: list[str] = []
        if "reconnect_backoff_ms" in explicit and "reconnect_backoff_max_ms" not in explicit:
            # As in Java: if only the first pause is given, all pauses are as long.
            self.reconnect_backoff_max_ms = self.reconnect_backoff_ms
        self._cut("reconnect.backoff.ms", "reconnect.backoff.max.ms")
        self._cut("retry.backoff.ms", "retry.backoff.max.ms")
        self._cut("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")

    def _cut(self, first_name: str, most_name: str) -> None:
        """Cut a first value that is above its maximum to it, as in Java, with a warning."""
        keyword = first_name.replace(".", "_")
        first, most = getattr(self, keyword), getattr(self, most_name.replace(".", "_"))
        if first > most:
            self.warnings.append(f"{first_name}={first} is above {most_name}={most}; {most} is used from the beginning")
            setattr(self, keyword, most)
