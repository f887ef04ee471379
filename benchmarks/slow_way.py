"""A proxy in front of a broker that counts Produce requests and delays their answers.

It runs in threads of this process, which otherwise only waits for the client that is measured.

If serial, it handles a connection as Apache Kafka does: a request is read when the answer to the one before has left,
and the answer to a Produce request leaves `late_s` seconds after the request was read. Otherwise requests pass at once,
and each answer arrives `late_s` seconds later: a broker that is far away.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from types import TracebackType
from typing import Self

_PRODUCE = 0
_PIECE = 1 << 18


class SlowWay:
    """Listens on loopback (`address`) from the start, forwards to `broker` once that is set; `late_s` may change."""

    def __init__(self, late_s: float = 0.0, *, is_serial: bool = True) -> None:
        self.late_s = late_s
        self.broker = ""
        self.produce_requests = 0
        self._is_serial = is_serial
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close all connections."""
        for sock in [self._listening, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                host, port = self.broker.rsplit(":", 1)
                broker = socket.create_connection((host, int(port)))
            except OSError:
                return
            for sock in (client, broker):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(sock)
            if self._is_serial:
                self._begin(self._one_at_a_time, client, broker)
            else:
                self._begin(self._requests, client, broker)
                arriving: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                self._begin(self._answers, broker, arriving)
                self._begin(self._arrive, arriving, client)

    def _begin(self, target: object, *arguments: object) -> None:
        def run() -> None:
            with contextlib.suppress(OSError, EOFError):
                target(*arguments)  # type: ignore[operator]
            for each in arguments:
                if isinstance(each, socket.socket):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=run, daemon=True).start()

    def _one_at_a_time(self, client: socket.socket, broker: socket.socket) -> None:
        while True:
            request, is_produce = self._request(client)
            begin = time.monotonic()
            broker.sendall(request)
            answer = _frame(broker)
            if is_produce:
                _sleep_until(begin + self.late_s)
            client.sendall(answer)

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        while True:
            broker.sendall(self._request(client)[0])

    def _answers(self, broker: socket.socket, arriving: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while piece := broker.recv(_PIECE):
            arriving.put((time.monotonic() + self.late_s, piece))
        arriving.put((0, b""))

    def _arrive(self, arriving: queue.SimpleQueue[tuple[float, bytes]], client: socket.socket) -> None:
        while True:
            due, piece = arriving.get()
            if not piece:
                return
            _sleep_until(due)
            client.sendall(piece)

    def _request(self, client: socket.socket) -> tuple[bytearray, bool]:
        frame = _frame(client)
        is_produce = int.from_bytes(frame[4:6]) == _PRODUCE
        if is_produce:
            with self._lock:
                self.produce_requests += 1
        return frame, is_produce


def _frame(sock: socket.socket) -> bytearray:
    """The next frame, its length included."""
    head = _receive(sock, bytearray(4), 0)
    return _receive(sock, head + bytes(int.from_bytes(head)), 4)


def _receive(sock: socket.socket, content: bytearray, begin: int) -> bytearray:
    left = memoryview(content)[begin:]
    while left:
        received = sock.recv_into(left)
        if not received:
            raise EOFError
        left = left[received:]
    return content


def _sleep_until(due: float) -> None:
    left = due - time.monotonic()
    if left > 0:
        time.sleep(left)
