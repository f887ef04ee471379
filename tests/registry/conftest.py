"""A registry that answers what a test says, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest


def answer(body: bytes, status: str = "200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status.encode(), len(body), more, body)


class ScriptedRegistry:
    """A registry that gives these answers, one for each request; None hangs up, and what is callable is called."""

    def __init__(self, *answers: bytes | Callable[[], bytes] | None) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            while True:
                try:
                    request = sock.recv(65_536)
                except ConnectionResetError:
                    return
                if not request:
                    return
                self.requests.append(request)
                given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if given is None:
                    return
                sock.sendall(given() if callable(given) else given)


@pytest.fixture
def registry_of() -> Iterator[Callable[..., ScriptedRegistry]]:
    made: list[ScriptedRegistry] = []

    def make(*answers: bytes | Callable[[], bytes] | None) -> ScriptedRegistry:
        made.append(ScriptedRegistry(*answers))
        return made[-1]

    yield make
    for each in made:
        each.close()
