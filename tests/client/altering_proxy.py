"""A proxy in front of a cluster that changes the answers to requests of one API; the logs behind it are right.

It reads the frames of both directions with ottla's own protocol code. Metadata answers name the proxy in place of the
brokers, so that a client never connects around it. What it does to the answers (of Produce requests, unless
another API is named) is a list of functions (`tests/wrong_answers.py`), one for each answer in turn; answers after
those go through as they are.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from tests.wrong_answers import AnswerChange, framed

from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.metadata import MetadataRequest

PRODUCE, METADATA = 0, 3


class AlteringProxy:
    """Listens until `close`, for a cluster of one broker. `altered_count` counts the answers that were changed."""

    def __init__(self, bootstrap_servers: str, changes: list[AnswerChange], api_key: int = PRODUCE) -> None:
        host, port = bootstrap_servers.split(":")
        self._upstream = host, int(port)
        self._changes = list(changes)
        self._api_key = api_key
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self.altered_count = 0
        self._spawn(self._accept)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)
        for sock in self._sockets:
            sock.close()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._upstream)
            except OSError:
                return
            self._sockets += [client, broker]
            asked: dict[int, tuple[int, int]] = {}
            self._spawn(self._forward, client, broker, asked)
            self._spawn(self._return, client, broker, asked)

    def _forward(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(client):
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                asked[correlation_id] = api_key, version
                broker.sendall(framed(frame))
        hang_up(client, broker)

    def _return(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with contextlib.suppress(OSError):
            for frame in frames(broker):
                api_key, version = asked.pop(int.from_bytes(frame[:4], "big"))
                answer: bytes | None = framed(frame)
                if api_key == METADATA:
                    answer = self._in_our_name(frame, version)
                if api_key == self._api_key and answer is not None:
                    answer = self._altered(answer[4:], version)
                if answer is None:
                    break
                client.sendall(answer)
        hang_up(client, broker)

    def _in_our_name(self, frame: bytes, version: int) -> bytes:
        correlation_id, message = decode_response(memoryview(frame), MetadataRequest, version)
        for broker in message.brokers:
            broker.host, broker.port = "127.0.0.1", self._port
        return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))

    def _altered(self, frame: bytes, version: int) -> bytes | None:
        with self._lock:
            if not self._changes:
                return framed(frame)
            change = self._changes.pop(0)
            self.altered_count += 1
        return change(frame, version)


def frames(sock: socket.socket) -> Iterator[bytes]:
    with sock.makefile("rb") as stream:
        while True:
            size = stream.read(4)
            if len(size) < 4:
                return
            frame = stream.read(int.from_bytes(size, "big"))
            yield frame


def hang_up(*sockets: socket.socket) -> None:
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
