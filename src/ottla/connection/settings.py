"""Settings: one typed table under Kafka's names, how it is read, and the part of it every client shares.

Each `Setting` is a row: name, type, default, range, one sentence of documentation, KIP. `read_settings` takes dotted
(`linger.ms`) or snake_case (`linger_ms`) names and numbers or their text, as property files hold them, and answers
with every row's value and the names that were given. What cannot be used is refused with a `ConfigError` that names
the setting, the value, and what is allowed. Values stay in Kafka's own units (milliseconds, bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.errors import ConfigError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Setting:
    """One row of the table. `kind` is int, bool, str or list; `allowed` lists the words of a str setting."""

    __slots__ = ("allowed", "default", "doc", "highest", "kind", "kip", "lowest", "name", "special")

    def __init__(
        self,
        name: str,
        kind: type,
        default: Any,
        doc: str,
        *,
        lowest: int | None = None,
        highest: int | None = None,
        special: int | None = None,
        allowed: tuple[str, ...] = (),
        kip: int | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.lowest = lowest
        self.highest = highest
        # A single value outside lowest..highest that is allowed too, such as gzip's -1.
        self.special = special
        self.allowed = allowed
        self.kip = kip

    @property
    def keyword(self) -> str:
        """The name as a Python keyword: `linger_ms` for `linger.ms`."""
        return self.name.replace(".", "_")

    def read(self, value: Any) -> Any:
        """Return the value in the row's type; `ConfigError` where it is none or out of range."""
        if self.kind is int:
            return self._read_int(value)
        if self.kind is bool:
            return self._read_bool(value)
        if self.kind is list:
            return value
        return self._read_word(value)

    def _read_int(self, value: Any) -> int:
        number: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str):
            try:
                number = int(value.strip())
            except ValueError:
                number = None
        if number is None:
            raise ConfigError(f"{self.name}={value!r} is not a whole number; {self._range()}.")
        low = self.lowest is not None and number < self.lowest
        high = self.highest is not None and number > self.highest
        if (low or high) and number != self.special:
            raise ConfigError(f"{self.name}={number} is out of range; {self._range()}.")
        return number

    def _range(self) -> str:
        low = self.lowest if self.lowest is not None else "any"
        high = self.highest if self.highest is not None else "any"
        text = f"allowed is a whole number from {low} to {high}"
        return text if self.special is None else f"{text}, or {self.special}"

    def _read_bool(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise ConfigError(f"{self.name}={value!r} is neither true nor false.")

    def _read_word(self, value: Any) -> str:
        if not isinstance(value, str) and not (self.allowed and isinstance(value, int)):
            raise ConfigError(f"{self.name}={value!r} is not text.")
        word = str(value).strip()
        if self.allowed and word not in self.allowed:
            nearest = nearest_name(word, self.allowed)
            hint = f" Did you mean {nearest}?" if nearest else ""
            raise ConfigError(f"{self.name}={value!r} is not known; allowed are {', '.join(self.allowed)}.{hint}")
        return word


CONNECTION_SETTINGS: tuple[Setting, ...] = (
    Setting("bootstrap.servers", list, None, "Where to find the cluster: host:port, several separated by commas."),
    Setting("client.id", str, "ottla", "The name brokers log and count this client under."),
    Setting(
        "request.timeout.ms",
        int,
        30_000,
        "How long an answer may take before the connection is given up.",
        lowest=1,
        highest=INT32_MAX,
    ),
    Setting(
        "metadata.max.age.ms",
        int,
        300_000,
        "How old metadata may grow before it is asked for again.",
        lowest=0,
        highest=INT64_MAX,
    ),
    Setting(
        "reconnect.backoff.ms",
        int,
        50,
        "The pause after a connection was lost; it doubles with each failure in a row.",
        lowest=0,
        highest=INT64_MAX,
    ),
    Setting(
        "reconnect.backoff.max.ms",
        int,
        1_000,
        "The longest pause between tries to connect to one broker.",
        lowest=0,
        highest=INT64_MAX,
        kip=144,
    ),
    Setting(
        "retry.backoff.ms",
        int,
        100,
        "The pause before a failed request is tried again; it doubles with each failure in a row.",
        lowest=0,
        highest=INT64_MAX,
        kip=580,
    ),
    Setting(
        "retry.backoff.max.ms",
        int,
        1_000,
        "The longest pause before a failed request is tried again.",
        lowest=0,
        highest=INT64_MAX,
        kip=580,
    ),
    Setting(
        "socket.connection.setup.timeout.ms",
        int,
        10_000,
        "How long opening a connection may take.",
        lowest=1,
        highest=INT64_MAX,
        kip=601,
    ),
    Setting(
        "connections.max.idle.ms",
        int,
        540_000,
        "After how long without a request a connection is closed (before the broker does).",
        lowest=1,
        highest=INT64_MAX,
    ),
    Setting(
        "send.buffer.bytes",
        int,
        131_072,
        "The socket's send buffer (SO_SNDBUF); -1 leaves it to the operating system.",
        lowest=-1,
        highest=INT32_MAX,
    ),
    Setting(
        "receive.buffer.bytes",
        int,
        65_536,
        "The socket's receive buffer (SO_RCVBUF); -1 leaves it to the operating system.",
        lowest=-1,
        highest=INT32_MAX,
    ),
)

# Kafka has these, ottla does not (yet): a sentence of its own instead of "unknown", so that nobody looks for a typo.
NOT_SUPPORTED = (
    "security.protocol",
    "transactional.id",
    "transaction.timeout.ms",
    "partitioner.class",
    "key.serializer",
    "value.serializer",
    "interceptor.classes",
    "metric.reporters",
    "client.dns.lookup",
    "group.id",
    "auto.offset.reset",
)
_NOT_SUPPORTED_PREFIXES = ("ssl.", "sasl.", "metrics.")


def read_settings(table: Sequence[Setting], given: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return every row's value by keyword, and the keywords that were given.

    A value of None counts as not given. `ConfigError` for an unknown name (with the nearest known one), a name given
    twice in both spellings, or a value that its row refuses.
    """
    rows = {row.keyword: row for row in table}
    values = {keyword: row.default for keyword, row in rows.items()}
    explicit: dict[str, str] = {}
    for name, value in given.items():
        keyword = name.replace(".", "_")
        row = rows.get(keyword)
        if row is None:
            raise ConfigError(_unknown(name, table))
        if value is None:
            continue
        if keyword in explicit:
            raise ConfigError(f"{row.name} is given twice, as {explicit[keyword]} and as {name}; keep one.")
        explicit[keyword] = name
        values[keyword] = row.read(value)
    return values, frozenset(explicit)


def _unknown(name: str, table: Sequence[Setting]) -> str:
    dotted = name.replace("_", ".")
    if dotted in NOT_SUPPORTED or dotted.startswith(_NOT_SUPPORTED_PREFIXES):
        return f"{dotted} is a setting of Kafka's that ottla does not support here; leave it out."
    nearest = nearest_name(dotted, [row.name for row in table])
    hint = f"did you mean {nearest}?" if nearest else "known are " + ", ".join(row.name for row in table) + "."
    return f"{name} is not a setting this client knows; {hint}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like this one, None where none comes near."""
    import difflib  # only when something is wrong already

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


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


class ConnectionSettings:
    """The settings of `CONNECTION_SETTINGS`, one attribute each, checked; `bootstrap_servers` parsed."""

    __slots__ = (
        "bootstrap_servers",
        "client_id",
        "connections_max_idle_ms",
        "metadata_max_age_ms",
        "receive_buffer_bytes",
        "reconnect_backoff_max_ms",
        "reconnect_backoff_ms",
        "request_timeout_ms",
        "retry_backoff_max_ms",
        "retry_backoff_ms",
        "send_buffer_bytes",
        "socket_connection_setup_timeout_ms",
    )

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
        for name in self.__slots__:
            setattr(self, name, values[name])
        if values["bootstrap_servers"] is None:
            raise ConfigError("bootstrap.servers is missing; give host:port, several separated by commas.")
        self.bootstrap_servers = parse_bootstrap(values["bootstrap_servers"])
        # Java does the same: a first pause above the maximum is cut to it.
        self.reconnect_backoff_ms = min(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms)
        self.retry_backoff_ms = min(self.retry_backoff_ms, self.retry_backoff_max_ms)
