"""What the clients in Python share: reading what a trial asks for, and telling it what became of each record."""

from __future__ import annotations

import json
import sys
import threading
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Libraries call back from threads of their own.
_writing = threading.Lock()


@dataclass(slots=True, frozen=True)
class Record:
    """A record to send. `partition` None: whichever the client chooses."""

    number: int
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_start() -> dict[str, Any]:
    """The first line: bootstrap.servers, topic, settings."""
    start: dict[str, Any] = json.loads(sys.stdin.readline())
    return start


def read_next() -> Record | str:
    """The next record; "flush"; "end" behind the last line."""
    line = sys.stdin.readline()
    if not line:
        return "end"
    given = json.loads(line)
    if "number" not in given:
        return "flush"
    headers = [(name, _decoded(content)) for name, content in given["headers"]]
    return Record(given["number"], given["partition"], _decoded(given["key"]), _decoded(given["value"]), headers)


def _decoded(content: str | None) -> bytes | None:
    return None if content is None else b64decode(content)


def say_hello(client: str, version: str, without: Iterable[str] = (), impossible: str | None = None) -> None:
    """Who this is, which settings it does not have, and why it cannot send as it is asked to."""
    _say({"client": client, "version": version, "without": list(without), "impossible": impossible})


def tell_acked(number: int, partition: int | None, offset: int | None) -> None:
    """The broker has acknowledged the record; with acks=0 nobody knows where it is."""
    _say({"number": number, "outcome": "acked", "partition": partition, "offset": offset})


def tell_failed(number: int, error: object) -> None:
    """The record is certainly not stored."""
    _say({"number": number, "outcome": "failed", "error": str(error)})


def tell_unknown(number: int, error: object) -> None:
    """Nobody knows whether the record is stored."""
    _say({"number": number, "outcome": "unknown", "error": str(error)})


def _say(content: dict[str, Any]) -> None:
    with _writing:
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()
