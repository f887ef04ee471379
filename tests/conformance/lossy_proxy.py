"""A proxy in front of brokers that loses and spoils acknowledgements, repeats requests, and has brokers stand still.

Apache Kafka has no fault plan; this gives it the faults that matter most to a producer. It knows of the protocol just
enough to tell frames and Produce requests apart, and to note who asks what in which version. An answer that is to be
lost ends both sides of its connection, as `Faults.lose_ack` of the embedded cluster does, so that the client knows at
once that it does not know.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from tools.ports import free_ports

from ottla.protocol.frames import decode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest

from ..wrong_answers import AnswerChange, framed

_PRODUCE, _API_VERSIONS = 0, 18
_NAMED_FROM_VERSION = 3  # of ApiVersions (KIP-511)


class Asked(NamedTuple):
    """What a client asked: the name of its software ("" where it did not tell), the API and its version."""

    software: str
    api_key: int
    version: int


class _Connection:
    """What both directions of one connection know: Produce requests by correlation id, and what becomes of them."""

    def __init__(self, passing: threading.Event, held: threading.Event) -> None:
        self.passing = passing
        self.held = held
        self.versions: dict[bytes, int] = {}
        self.lost: set[bytes] = set()
        self.repeated: set[bytes] = set()


class LossyProxy:
    """One address for each broker; `lose`, `spoil`, `repeat` and `hold` say what goes wrong from now on.

    `fired` counts what really went wrong since the last of them but `hold`. `asked` has what was asked, by client id.
    """

    def __init__(self, brokers: int) -> None:
        self.ports = free_ports(brokers)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.fired = 0
        self.asked: dict[str, set[Asked]] = {}
        self._lock = threading.Lock()
        self._every = 1
        self._left = 0
        self._seen = 0
        self._lost_api_key = _PRODUCE
        self._changes: list[AnswerChange] = []
        self._to_repeat = 0
        self._passing = [threading.Event() for _ in self.ports]
        self._held = [threading.Event() for _ in self.ports]
        self._listening: list[socket.socket] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def start(self, brokers: str) -> None:
        """Let clients through to these brokers ("host:port,host:port")."""
        for port, broker, passing, held in zip(self.ports, brokers.split(","), self._passing, self._held, strict=True):
            passing.set()
            listening = socket.create_server(("127.0.0.1", port))
            self._listening.append(listening)
            _run(self._accept, listening, broker, passing, held)

    def lose(self, every: int, times: int, api_key: int = _PRODUCE) -> Self:
        """From now on lose the answer to every so-many-th request of this kind, `times` in all; `with` ends it."""
        with self._lock:
            self._every, self._left, self._seen, self.fired = every, times, 0, 0
            self._lost_api_key = api_key
        return self

    def spoil(self, *changes: AnswerChange) -> Self:
        """Have these make the next answers to Produce requests, one each; `with` ends it."""
        with self._lock:
            self._changes, self.fired = list(changes), 0
        return self

    def repeat(self, times: int) -> Self:
        """Have brokers handle so many Produce requests twice, from now on each; `with` ends it."""
        with self._lock:
            self._to_repeat, self.fired = times, 0
        return self

    @contextlib.contextmanager
    def hold(self, broker_id: int) -> Iterator[Callable[[], object]]:
        """Let nothing through to this broker (from 1) or from it; at the end of the `with` all of it passes.

        Gives a function that waits until something is held.
        """
        passing, held = self._passing[broker_id - 1], self._held[broker_id - 1]
        held.clear()
        passing.clear()
        try:
            yield lambda: held.wait(60)
        finally:
            passing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        with self._lock:
            self._left = self._to_repeat = 0
            self._changes = []

    def close(self) -> None:
        """Let nobody through any more."""
        for sock in [*self._listening, *(end for pair in self._pairs for end in pair)]:
            _hang_up(sock)

    def _accept(self, listening: socket.socket, broker: str, passing: threading.Event, held: threading.Event) -> None:
        host, port = broker.rsplit(":", 1)
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                try:
                    server = socket.create_connection((host, int(port)))
                except OSError:
                    _hang_up(client)
                    continue
                for sock in (client, server):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((client, server))
                connection = _Connection(passing, held)
                _run(self._pump, client, server, connection, True)
                _run(self._pump, server, client, connection, False)

    def _pump(self, source: socket.socket, target: socket.socket, connection: _Connection, requests: bool) -> None:
        """Carry frames one way."""
        software = ""
        with contextlib.suppress(OSError, EOFError), source.makefile("rb") as stream:
            while True:
                size = stream.read(4)
                frame = stream.read(int.from_bytes(size))
                if len(size) < 4 or len(frame) < int.from_bytes(size):
                    raise EOFError
                if not connection.passing.is_set():
                    connection.held.set()
                    connection.passing.wait()
                sent: bytes | None
                if requests:
                    software = self._note(software, frame)
                    sent = self._request(connection, size + frame)
                else:
                    sent = self._answer(connection, frame)
                if sent is None:
                    break
                target.sendall(sent)
        _hang_up(source)
        _hang_up(target)

    def _request(self, connection: _Connection, request: bytes) -> bytes:
        """What the broker is sent, and in `connection` what is to become of the answer."""
        api_key, correlation_id = int.from_bytes(request[4:6]), request[8:12]
        with self._lock:
            if api_key == self._lost_api_key:
                self._seen += 1
                if self._left > 0 and self._seen % self._every == 0:
                    self._left -= 1
                    connection.lost.add(correlation_id)
            if api_key == _PRODUCE:
                connection.versions[correlation_id] = int.from_bytes(request[6:8])
                if self._to_repeat > 0:
                    self._to_repeat -= 1
                    connection.repeated.add(correlation_id)
                    return request * 2
        return request

    def _answer(self, connection: _Connection, frame: bytes) -> bytes | None:
        """What the client is sent; None: the connection is to be cut."""
        correlation_id = frame[:4]
        with self._lock:
            if correlation_id in connection.lost:
                self.fired += 1
                return None
            if correlation_id not in connection.versions:
                return framed(frame)
            if correlation_id in connection.repeated:
                # The answer to the second of the two is the client's.
                connection.repeated.remove(correlation_id)
                self.fired += 1
                return b""
            version = connection.versions.pop(correlation_id)
            if not self._changes:
                return framed(frame)
            change = self._changes.pop(0)
            self.fired += 1
        return change(frame, version)

    def _note(self, software: str, frame: bytes) -> str:
        """Remember what is asked; the name of the client's software as far as it has told it on this connection."""
        api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        length = int.from_bytes(frame[8:10], signed=True)
        client_id = frame[10 : 10 + length].decode() if length > 0 else ""
        if api_key == _API_VERSIONS and version >= _NAMED_FROM_VERSION:
            message = decode_request(memoryview(frame), lenient=True)[1]
            assert isinstance(message, ApiVersionsRequest)
            software = message.client_software_name
        with self._lock:
            self.asked.setdefault(client_id, set()).add(Asked(software, api_key, version))
        return software


def _run(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
