"""`ottla.Registry`: a schema registry of one's own beside any Kafka, in a process of its own."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ottla.addresses import address_of, addresses_of
from ottla.connection.setting import read_settings
from ottla.connection.settings import CONNECTION_SETTINGS, parse_bootstrap
from ottla.embedded_registry.topic import DEFAULT_TOPIC
from ottla.errors import ClosedError, ConfigError, ForkError, OttlaError
from ottla.sockets.control import ControlClient, child_environment
from ottla.sockets.listener import Listener
from ottla.timeouts import seconds

if TYPE_CHECKING:
    import subprocess

# What it takes besides to read all there is.
_START_TIMEOUT_S = 90.0
_FOR_EVER_S = 86_400.0
_STOP_TIMEOUT_S = 30.0
_PROTOCOLS = ("PLAINTEXT", "SSL")


class Registry:
    """A schema registry with the REST API of Confluent's; use it in a `with` statement, or `close()` it.

    Schemas are kept in the compacted topic `topic` of the cluster at `bootstrap_servers`, which is made where it is
    missing (`replication_factor`: 3, or as many as there are brokers), and found again by the next registry. Several
    registries may work on one topic: brokers let one of them write at a time.

    `url` is what clients are given. `port` 0 takes a free one. `listener`: host, port and TLS in an `ottla.Listener`
    instead (PLAINTEXT or SSL). `users`: passwords by name, asked for by basic authentication; `token`: a bearer token
    that is let in, too. `start_timeout_s`: how long brokers may be out of reach at the start. `in_process`: run it in
    threads of this program, to debug it. Settings are those of all clients (`security_protocol="SASL_SSL"`, ...);
    the page "Schema registry" of the documentation tells what is understood.

    Errors: UserMistake (port in use), ConfigError, Unreachable and KafkaError where the topic cannot be had.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: Listener | None = None,
        users: Mapping[str, str] | None = None,
        token: str | None = None,
        topic: str = DEFAULT_TOPIC,
        replication_factor: int | None = None,
        start_timeout_s: float | None = 30.0,
        in_process: bool = False,
        **settings: Any,
    ) -> None:
        servers = addresses_of(parse_bootstrap(bootstrap_servers))
        listener = _read_listener(listener, host, port)
        settings = {
            name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in settings.items()
        }
        _check_settings(servers, settings)
        _check_users(users, token)
        if not isinstance(topic, str) or not topic:
            raise ConfigError(f"topic={topic!r:.60} must be the name of a topic, such as {DEFAULT_TOPIC}")
        limit_s = seconds(start_timeout_s)
        patience_s = _FOR_EVER_S if limit_s is None else limit_s
        self._owner_pid = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._control: ControlClient | None = None
        atexit.register(self.close)
        try:
            self._control = ControlClient(self._launch(in_process))
            told = self._ask(
                "start",
                patience_s + _START_TIMEOUT_S,
                servers=servers,
                topic=topic,
                replication_factor=replication_factor,
                settings=settings,
                patience_s=patience_s,
                listener=listener.to_dict(),
                users=dict(users or {}),
                token=token,
            )
        except BaseException:
            self.close()
            raise
        name = listener.advertised_host or listener.host
        port = told["port"] if listener.advertised_port is None else listener.advertised_port
        self._url = f"{'https' if listener.is_tls else 'http'}://{address_of(name, port)}"

    @property
    def url(self) -> str:
        """The address for clients: "http://127.0.0.1:8081"."""
        return self._url

    @property
    def pid(self) -> int | None:
        """The registry's process; None where it runs in this one."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it is there: neither closed nor ended by itself."""
        if self._control is None:
            return False
        return (
            self._thread.is_alive() if self._process is None and self._thread is not None else self._is_process_there()
        )

    def kill(self) -> None:
        """End the process at once, as `kill -9` does; what was answered is kept in the topic."""
        if self._process is None:
            raise ConfigError("in_process=True: only a registry in a process of its own can be killed")
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the registry. Closing twice is allowed."""
        control, self._control = self._control, None
        atexit.unregister(self.close)
        if os.getpid() != self._owner_pid:
            return
        if control is not None:
            control.close()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        process = self._process
        if process is not None:
            with contextlib.suppress(Exception):
                process.wait(_STOP_TIMEOUT_S)
            if process.poll() is None:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._control is None else "running" if self.is_running else "ended by itself"
        return f"<Registry at {getattr(self, '_url', 'no address')}, {state}>"

    def _is_process_there(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ask(self, command: str, timeout_s: float, **fields: Any) -> Any:
        if os.getpid() != self._owner_pid:
            raise ForkError("this Registry was made before a fork: use it in the process that made it.")
        if self._control is None:
            raise ClosedError("this Registry is closed: make a new one.")
        try:
            return self._control.ask(command, timeout_s, **fields)
        except EOFError:
            raise OttlaError("the registry's process ended by itself.") from None
        except TimeoutError:
            raise OttlaError(f"the registry did not answer {command} within {timeout_s:.0f} s.") from None

    def _launch(self, in_process: bool) -> socket.socket:
        """Start the registry's process (or thread) and return our end of the control channel."""
        ours, theirs = socket.socketpair()
        if in_process:
            from ottla.embedded_registry.process import run_registry

            self._thread = threading.Thread(target=run_registry, args=(theirs,), name="ottla-registry", daemon=True)
            self._thread.start()
            return ours
        import subprocess

        with theirs:
            command = [
                sys.executable,
                "-P",
                "-m",
                "ottla.embedded_registry.process",
                str(theirs.fileno()),
                str(self._owner_pid),
            ]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=child_environment(),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return ours


def _read_listener(listener: Listener | None, host: str, port: int) -> Listener:
    if listener is None:
        return Listener(host=host, port=port)
    if not isinstance(listener, Listener) or listener.protocol not in _PROTOCOLS:
        raise ConfigError(
            f"listener={listener!r:.200} must be an ottla.Listener with the protocol {' or '.join(_PROTOCOLS)}"
        )
    if port or host != "127.0.0.1":
        raise ConfigError("listener= has a host and a port of its own: leave out host= and port=")
    return listener


def _check_settings(servers: str, settings: Mapping[str, Any]) -> None:
    read_settings(CONNECTION_SETTINGS, {"bootstrap_servers": servers, **settings})
    for name, value in settings.items():
        if not isinstance(value, (str, int, float, bool, list, tuple, type(None))):
            raise ConfigError(f"{name}: the registry's process takes text and numbers, not {type(value).__name__}")


def _check_users(users: Mapping[str, str] | None, token: str | None) -> None:
    if users is not None and not (
        isinstance(users, Mapping) and all(isinstance(each, str) for pair in users.items() for each in pair)
    ):
        raise ConfigError("users= must be a mapping of names to passwords, both text")
    if any(":" in name for name in users or ()):
        raise ConfigError("users=: a name may not have a colon in it, which ends it in basic authentication")
    if token is not None and not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
        raise ConfigError("token= must be a text of printable ASCII characters")
