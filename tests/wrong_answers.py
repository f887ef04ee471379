"""Answers to Produce requests as no broker should give them: from a true one, by name, for proxies that do wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages.produce import ProduceRequest

# From an answer (a frame without its length) and the version of its request to the bytes sent in its place; None cuts
# the connection, no bytes leave it silent.
AnswerChange = Callable[[bytes, int], bytes | None]


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def as_it_is(frame: bytes, version: int) -> bytes:
    return framed(frame)


def _changed(frame: bytes, version: int, change: Callable[[Any], None]) -> bytes:
    correlation_id, message = decode_response(memoryview(frame), ProduceRequest, version)
    change(message)
    return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))


def _another_partition(frame: bytes, version: int) -> bytes:
    def change(message: Any) -> None:
        message.responses[0].partition_responses[0].index = 77

    return _changed(frame, version, change)


def _no_partition(frame: bytes, version: int) -> bytes:
    def change(message: Any) -> None:
        message.responses = []

    return _changed(frame, version, change)


WRONG: dict[str, AnswerChange] = {
    "another request's answer": lambda frame, version: framed(b"\x7f\xff\xff\xff" + frame[4:]),
    "answered twice": lambda frame, version: framed(frame) * 2,
    "no answer at all": lambda frame, version: None,
    "cut short": lambda frame, version: framed(frame[:-3]),
    "bytes behind the answer": lambda frame, version: framed(frame + b"\0\0\0"),
    "not a frame": lambda frame, version: b"HTTP/1.1 200 OK\r\n\r\n",
    "a frame of no size": lambda frame, version: b"\x80\0\0\0",
    "another partition": _another_partition,
    "no partition": _no_partition,
}
