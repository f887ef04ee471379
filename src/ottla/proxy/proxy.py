"""`ottla.Proxy`: stands between any clients and any Kafka, and causes faults of requests there.

It lives in a thread of the program that made it. `ottla proxy` is the same in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ottla.connection.security_settings import SECURITY_SETTINGS, SecuritySettings
from ottla.connection.setting import read_settings
from ottla.connection.settings import parse_bootstrap
from ottla.errors import ClosedError, ConfigError, ForkError, OttlaError
from ottla.faults.verbs import Verbs
from ottla.proxy.faults_in_force import KINDS
from ottla.proxy.server import ProxyServer
from ottla.proxy.upstream import look_at_upstream
from ottla.sockets.control import ControlClient, ControlServer
from ottla.sockets.event_loop import EventLoop
from ottla.sockets.listener import Listener

_COMMAND_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0


class ProxyFaults(Verbs):
    """The faults of one proxy: those that apply to requests and connections."""

    known_kinds = KINDS
    _where = "in this proxy"


class Proxy:
    """A proxy in front of the Kafka at `upstream` ("host:port", several with commas); a context manager.

    Clients are given `bootstrap_servers`, and connect to the proxy alone: every address in an answer is rewritten to
    one of the proxy's ports, of which there is one for each broker. `faults` has the verbs of `Cluster.faults` that
    apply to requests and connections.

    `listener`: where clients come in; 127.0.0.1 and free ports unless given. Its port is that of the first bootstrap
    address, and counts up; protocol SSL takes a certificate. SASL passes through, and is for the broker to judge.
    `upstream_settings`: settings for the connections to brokers, by the clients' own names (`security.protocol`,
    `ssl.truststore.location`, ...). `record`: a new file for a capture of all requests and answers, which `ottla tap`
    shows. It has hashes in place of records; `payloads` keeps the bytes of requests and answers, too.

    Raises ConfigError, Unreachable, NotKafka, or UserMistake where a port cannot be had.
    """

    def __init__(
        self,
        upstream: str | Sequence[str],
        *,
        listener: Listener | None = None,
        upstream_settings: Mapping[str, Any] | None = None,
        record: str | os.PathLike[str] | None = None,
        payloads: bool = False,
    ) -> None:
        listener = Listener() if listener is None else listener
        if not isinstance(listener, Listener):
            raise ConfigError(f"listener={listener!r} must be an ottla.Listener")
        if listener.is_sasl:
            raise ConfigError(
                f"listener protocol={listener.protocol!r}: SASL passes through a proxy to the broker; "
                "give PLAINTEXT, or SSL with a certificate"
            )
        addresses = list(parse_bootstrap(upstream))
        tls = _upstream_tls(upstream_settings or {})
        brokers = look_at_upstream(addresses, tls)
        self._owner_pid = os.getpid()
        self._control: ControlClient | None = None
        self._loop = EventLoop()
        try:
            self._server = ProxyServer(
                self._loop,
                listener,
                addresses,
                brokers,
                tls,
                None if record is None else Path(record),
                payloads=payloads,
            )
        except BaseException:
            self._loop.close()
            raise
        ours, theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._run, args=(theirs,), name="ottla-proxy", daemon=True)
        self._thread.start()
        self._control = ControlClient(ours)
        self._last: dict[str, Any] = {}
        self.faults = ProxyFaults(self._ask)

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given: "host:port", several with commas."""
        found: str = self.describe()["bootstrap_servers"]
        return found

    @property
    def is_running(self) -> bool:
        """Whether it is there: not closed."""
        return self._control is not None and self._thread.is_alive()

    def describe(self) -> dict[str, Any]:
        """Where each broker is upstream and here, and how many connections and requests there were so far.

        `under_way`: how many of the requests the brokers have not answered yet.
        """
        if self._control is None:
            return self._last
        found: dict[str, Any] = self._ask("describe")
        return found

    def close(self) -> None:
        """Close all connections and ports. Closing twice is allowed; counts can still be read."""
        control = self._control
        if control is None:
            return
        if os.getpid() != self._owner_pid:
            self._control = None
            return
        with contextlib.suppress(OttlaError):
            self._last = self.describe()
            self.faults.remember_counts()
        self._control = None
        control.close()
        self._thread.join(_STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Proxy at {self.bootstrap_servers}>" if self._control is not None else "<Proxy, closed>"

    def _run(self, sock: socket.socket) -> None:
        control = ControlServer(self._loop, sock, self._server.handle, self._loop.stop)
        try:
            self._loop.run_forever()
        finally:
            self._server.close()
            control.close()
            self._loop.close()

    def _ask(self, command: str, timeout_s: float = _COMMAND_TIMEOUT_S, **fields: Any) -> Any:
        if os.getpid() != self._owner_pid:
            raise ForkError("this Proxy was made before a fork: use it in the process that made it.")
        control = self._control
        if control is None:
            raise ClosedError("this Proxy is closed: make another one.")
        try:
            return control.ask(command, timeout_s, **fields)
        except EOFError:
            raise ClosedError("this Proxy is closed: make another one.") from None
        except TimeoutError:
            raise OttlaError(f"the proxy did not answer {command} within {timeout_s:.0f} s.") from None


def _upstream_tls(given: Mapping[str, Any]) -> Any:
    """The TLS context for connections to brokers, None where they speak without; ConfigError."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"upstream_settings={given!r} must be a mapping of names to values")
    for name in given:
        if str(name).replace("_", ".").startswith("sasl."):
            raise ConfigError(f"upstream_settings: {name} is for clients: SASL passes through a proxy to the broker")
    values, _ = read_settings(SECURITY_SETTINGS, given)
    # A client's authentication passes through; only TLS is the proxy's own.
    values["security_protocol"] = "SSL" if values["security_protocol"].endswith("SSL") else "PLAINTEXT"
    settings = SecuritySettings(values)
    if not settings.is_tls:
        return None
    from ottla.client.tls import client_context

    return client_context(settings)
