"""A proxy in front of brokers that loses acknowledgements: the request reaches the broker, its answer nobody.

Apache Kafka has no fault plan; this gives it the one fault that matters most to a producer. It knows of the protocol
just enough to tell frames and Produce requests apart, and to note who asks what in which version. An answer that is to
be lost ends both sides of its connection, as `Faults.lose_ack` of the embedded cluster does, so that the client knows
at once that it does not know.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from tools.ports import free_ports

from ottla.protocol.frames import decode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest

_PRODUCE, _API_VERSIONS = 0, 18
_NAMED_FROM_VERSION = 3  # of ApiVersions (KIP-511)


class Asked(NamedTuple):
    """What a client asked: the name of its software ("" where it did not tell), the API and its version."""

    software: str
    api_key: int
    version: int


class LossyProxy:
    """One address for each broker; `lose(every, times)` arms it and `fired` counts the answers that were lost.

    `asked` has what was asked, by client id.
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
        self._listening: list[socket.socket] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def start(self, brokers: str) -> None:
        """Let clients through to these brokers ("host:port,host:port")."""
        for port, broker in zip(self.ports, brokers.split(","), strict=True):
            listening = socket.create_server(("127.0.0.1", port))
            self._listening.append(listening)
            _run(self._accept, listening, broker)

    def lose(self, every: int, times: int) -> Self:
        """From now on lose the answer to every so-many-th Produce request, `times` in all; `with` ends it."""
        with self._lock:
            self._every, self._left, self._seen, self.fired = every, times, 0, 0
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        with self._lock:
            self._left = 0

    def close(self) -> None:
        """Let nobody through any more."""
        for sock in [*self._listening, *(end for pair in self._pairs for end in pair)]:
            _hang_up(sock)

    def _accept(self, listening: socket.socket, broker: str) -> None:
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
                doomed: set[bytes] = set()
                _run(self._pump, client, server, doomed, True)
                _run(self._pump, server, client, doomed, False)

    def _pump(self, source: socket.socket, target: socket.socket, doomed: set[bytes], requests: bool) -> None:
        """Carry frames one way; `doomed` holds the correlation ids of the requests whose answers will be lost."""
        software = ""
        with contextlib.suppress(OSError, EOFError), source.makefile("rb") as stream:
            while True:
                size = stream.read(4)
                frame = stream.read(int.from_bytes(size))
                if len(size) < 4 or len(frame) < int.from_bytes(size):
                    raise EOFError
                if requests:
                    software = self._note(software, frame)
                    if int.from_bytes(frame[:2]) == _PRODUCE and self._strikes():
                        doomed.add(frame[4:8])
                elif frame[:4] in doomed:
                    with self._lock:
                        self.fired += 1
                    break
                target.sendall(size + frame)
        _hang_up(source)
        _hang_up(target)

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

    def _strikes(self) -> bool:
        with self._lock:
            self._seen += 1
            strikes = self._left > 0 and self._seen % self._every == 0
            self._left -= strikes
            return strikes


def _run(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
