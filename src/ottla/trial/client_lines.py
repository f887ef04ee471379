"""The lines between a trial and a client in a process of its own: docs/trial-clients.md describes them.

Each line is a JSON object. A client's lines are checked here one by one; LineError says what is wrong with a line.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.ledger.schema import OUTCOMES
from ottla.printable import printable
from ottla.trial.sender import SendingOrder

PROTOCOL = 1
LINE_BYTES_MAX = 1 << 20
_SHOWN = 80


class LineError(Exception):
    """What is wrong with a line of a client."""


def start_line(order: SendingOrder) -> bytes:
    """What the client has to do."""
    return _line(
        {
            "protocol": PROTOCOL,
            "bootstrap.servers": order.bootstrap_servers,
            "topic": order.topic,
            "settings": dict(order.settings),
        }
    )


def record_line(
    number: int, partition: int | None, key: bytes | None, value: bytes, headers: Sequence[tuple[str, bytes]]
) -> bytes:
    """One record; bytes are base64."""
    return _line(
        {
            "number": number,
            "partition": partition,
            "key": None if key is None else _base64(key),
            "value": _base64(value),
            "headers": [[name, _base64(content)] for name, content in headers],
        }
    )


def flush_line() -> bytes:
    """All records so far must have their outcomes before anything else happens."""
    return _line({"flush": True})


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


# ---- what a client says ---------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Hello:
    """A client's first line: its name, which of the settings it does not have, or why it cannot send like this."""

    client: str
    without: tuple[str, ...]
    impossible: str | None


@dataclass(slots=True, frozen=True)
class Told:
    """What became of one record. `partition` and `offset` are -1 where they were not told."""

    number: int
    outcome: str
    partition: int
    offset: int
    error: str


def read_hello(line: bytes) -> Hello:
    """A client's first line; LineError where it is none."""
    said = _object(line)
    name, version = said.get("client"), said.get("version", "")
    if not isinstance(name, str) or not name or not isinstance(version, str):
        raise LineError(f'must be {{"client": its name, "version": its version}} and is {shown(line)}')
    without = said.get("without", [])
    if not isinstance(without, list) or not all(isinstance(each, str) for each in without):
        raise LineError(f'has "without": {without!r}, which must be a list of names of settings')
    impossible = said.get("impossible")
    if impossible is not None and not isinstance(impossible, str):
        raise LineError(f'has "impossible": {impossible!r}, which must be a text')
    # Control characters are spelled out: the line is shown on a terminal.
    return Hello(
        printable(f"{name} {version}".strip()),
        tuple(map(printable, without)),
        None if impossible is None else printable(impossible),
    )


def read_told(line: bytes) -> Told:
    """What became of a record; LineError where the line does not say so."""
    said = _object(line)
    number, outcome = said.get("number"), said.get("outcome")
    if type(number) is not int:
        raise LineError(f'has no "number" of a record: {shown(line)}')
    if outcome not in OUTCOMES:
        raise LineError(f"tells {outcome!r} of record {number}; an outcome is one of {', '.join(OUTCOMES)}")
    partition = _whole(said, "partition", number)
    offset = _whole(said, "offset", number)
    error = said.get("error") or ""
    return Told(number, outcome, partition, offset, error if isinstance(error, str) else json.dumps(error))


def _whole(said: dict[str, Any], name: str, number: int) -> int:
    value = said.get(name)
    if value is None:
        return -1
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise LineError(f"tells {name} {value!r} of record {number}, which must be an integer")
    return max(value, -1)


def _object(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise LineError(f"is not JSON: {shown(line)}") from None
    if not isinstance(said, dict):
        raise LineError(f"is not a JSON object: {shown(line)}")
    return said


def shown(line: bytes) -> str:
    """The beginning of a line, as a text in quotes."""
    text = line.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
