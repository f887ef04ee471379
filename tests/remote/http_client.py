"""A client that knows nothing but HTTP, and one that knows nothing but sockets."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

TIMEOUT_S = 60


class Http:
    """Asks a control address, one connection for each request."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self._token = token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of the answer; `body` is made JSON."""
        return self.send(method, path, None if body is None else json.dumps(body).encode(), **headers)

    def send(self, method: str, path: str, content: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """The same with a body as it is; headers by their names with _ in the place of -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if content is not None:
            given.setdefault("Content-Type", "application/json")
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, content, given)
            response = connection.getresponse()
            assert response.getheader("Content-Type") == "application/json"
            assert response.getheader("Server") == "ottla"
            told = response.read()
            return response.status, json.loads(told) if told else None
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """What is there; the answer must be a good one."""
        status, told = self.ask("GET", path)
        assert status == 200, told
        return told

    def post(self, path: str, **fields: Any) -> Any:
        """Have something done; the answer must be a good one."""
        status, told = self.ask("POST", path, fields)
        assert status in (200, 201), told
        return told

    def connect(self) -> socket.socket:
        """A connection, for bytes of one's own."""
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)

    def say(self, content: bytes) -> bytes:
        """All that is answered to these bytes until the connection ends."""
        with self.connect() as sock:
            sock.sendall(content)
            return heard(sock)


def heard(sock: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    with sock.makefile("rb") as answer:
        return answer.read()
