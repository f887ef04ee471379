"""A connection on which requests are asked by hand, of the embedded cluster and of Apache Kafka alike."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

from ottla.protocol.frames import decode_response, encode_request

_PATIENCE_S = 60
# What a coordinator or leader says that is being set up, or still at work for the same client; clients ask again.
_NOT_YET = {14, 15, 16, 51}


class Wire:
    """Requests in any version, one by one; a connection the broker has closed is opened again."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",")[0].rsplit(":", 1)
        self._place = (host, int(port))
        self._socket = socket.create_connection(self._place, _PATIENCE_S)

    def ask(self, message: Any, version: int) -> Any:
        """The answer, or "hung up"."""
        self.send(message, version)
        return self.answer(message, version)

    def ask_until_ready(self, message: Any, version: int) -> Any:
        """The answer, asked for again while a coordinator is not ready."""
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            answer = self.ask(message, version)
            if not _NOT_YET & set(error_codes(answer)) or time.monotonic() > give_up:
                return answer
            time.sleep(0.02)

    def send(self, message: Any, version: int) -> None:
        """Ask, and do not wait for an answer."""
        self._socket.sendall(b"".join(bytes(chunk) for chunk in encode_request(1, "wire", message, version)))

    def answer(self, message: Any, version: int) -> Any:
        """The answer to what was sent, or "hung up"."""
        try:
            size = int.from_bytes(self._read(4))
            return decode_response(memoryview(self._read(size)), type(message), version)[1]
        except (EOFError, ConnectionResetError):
            self._socket.close()
            self._socket = socket.create_connection(self._place, _PATIENCE_S)
            return "hung up"

    def has_answer(self) -> bool:
        """Whether something has come that `answer` would read."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def error_codes(answer: Any) -> list[int]:
    """Every error code in an answer."""
    found = []
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            found.append(value)
        for each in value if isinstance(value, list) else (value,):
            found += error_codes(each)
    return found
