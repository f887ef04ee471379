"""A bare TCP relay, which knows nothing of Kafka: what any program between client and broker costs at the least.

`python -m benchmarks.tcp_relay LISTEN_PORT UPSTREAM_PORT`, on the loopback interface, until it is terminated. Each
direction is read into one buffer and written as far as the other socket takes it.
"""

from __future__ import annotations

import selectors
import socket
import sys

_BUFFER_BYTES = 1 << 20
_HOST = "127.0.0.1"


class _Pipe:
    """One direction of a connection: what was read and has not been written yet is in `left`."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.left = self.buffer[:0]


class Relay:
    """Listens on a port, and connects each client to the upstream port."""

    def __init__(self, port: int, upstream: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._upstream = upstream
        self._listener = socket.create_server((_HOST, port), backlog=64)
        self._selector.register(self._listener, selectors.EVENT_READ)
        # By the socket that is read from.
        self._pipes: dict[socket.socket, _Pipe] = {}

    def run(self) -> None:
        """Relay for ever."""
        while True:
            for key, events in self._selector.select():
                sock: socket.socket = key.fileobj  # type: ignore[assignment]
                if sock is self._listener:
                    self._accept()
                    continue
                if events & selectors.EVENT_WRITE and sock in self._pipes:
                    self._write(self._pipes[self._pipes[sock].target])
                if events & selectors.EVENT_READ and sock in self._pipes:
                    self._read(self._pipes[sock])

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        upstream = socket.create_connection((_HOST, self._upstream))
        for source, target in ((client, upstream), (upstream, client)):
            source.setblocking(False)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pipes[source] = _Pipe(source, target)
            self._selector.register(source, selectors.EVENT_READ)

    def _read(self, pipe: _Pipe) -> None:
        if pipe.left:
            return
        try:
            size = pipe.source.recv_into(pipe.buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._close(pipe)
            return
        pipe.left = pipe.buffer[:size]
        self._write(pipe)

    def _write(self, pipe: _Pipe) -> None:
        try:
            while pipe.left:
                pipe.left = pipe.left[pipe.target.send(pipe.left) :]
        except BlockingIOError:
            pass
        except OSError:
            self._close(pipe)
            return
        self._watch(pipe.source)
        self._watch(pipe.target)

    def _watch(self, sock: socket.socket) -> None:
        """Read from a socket whose last bytes have left, and write to one that some wait for."""
        here, there = self._pipes[sock], self._pipes[self._pipes[sock].target]
        events = (0 if here.left else selectors.EVENT_READ) | (selectors.EVENT_WRITE if there.left else 0)
        known = self._selector.get_map().get(sock)
        if known is not None and events and known.events != events:
            self._selector.modify(sock, events)
        elif known is not None and not events:
            self._selector.unregister(sock)
        elif known is None and events:
            self._selector.register(sock, events)

    def _close(self, pipe: _Pipe) -> None:
        for sock in (pipe.source, pipe.target):
            if self._pipes.pop(sock, None) is not None:
                if sock in self._selector.get_map():
                    self._selector.unregister(sock)
                sock.close()


if __name__ == "__main__":
    Relay(int(sys.argv[1]), int(sys.argv[2])).run()
