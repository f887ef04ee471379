"""The control channel between a program that has a `Cluster`, say, and the process or thread that runs the servers.

One JSON object a line, over a socket pair. Commands: {"id", "command", ...}. Answers: {"id", "result"} or {"id",
"error"}. At any time the server may send {"log": [logger, level, text]}, which the program logs as its own. When either
end closes the socket or ends, the other one reads the end of the stream.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.clock import SIGNAL_CHECK_S
from ottla.errors import ConfigError, KafkaError, OttlaError, UserMistake

if TYPE_CHECKING:
    from ottla.sockets.event_loop import EventLoop

logger = logging.getLogger("ottla.sockets")

_READ_BYTES = 65_536


def describe_error(error: OttlaError) -> dict[str, Any]:
    """An error as plain values."""
    if isinstance(error, KafkaError):
        kafka = {"code": error.code, "name": error.name, "retriable": error.retriable, "fatal": error.fatal}
        return {"kind": "kafka", "text": str(error), **kafka}
    kind = "config" if isinstance(error, ConfigError) else "mistake" if isinstance(error, UserMistake) else "other"
    return {"kind": kind, "text": str(error)}


def error_from(fields: dict[str, Any]) -> OttlaError:
    """The error that `describe_error` described."""
    text = fields["text"]
    if fields["kind"] == "kafka":
        marks = {"retriable": fields["retriable"], "fatal": fields["fatal"]}
        return KafkaError(fields["code"], fields["name"], text, **marks)
    return {"config": ConfigError, "mistake": UserMistake}.get(fields["kind"], OttlaError)(text)


def child_environment() -> dict[str, str]:
    """A copy of our environment, with PYTHONPATH set if the child would not import the same ottla."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = dict(os.environ)
    if not home.endswith(("site-packages", "dist-packages")):
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = home if not known else f"{home}{os.pathsep}{known}"
    return environment


class ControlServer:
    """The server's end, on its event loop.

    `handle(command, fields, answer)` is called for every command and calls `answer(result)` once, or raises an
    OttlaError; `gone()` is called when the other end is closed.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        handle: Callable[[str, dict[str, Any], Callable[[Any], None]], None],
        gone: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._handle = handle
        self._gone = gone
        self._in = bytearray()
        self._out = bytearray()
        sock.setblocking(False)
        loop.add_reader(sock, self._readable)

    def log(self, name: str, level: int, text: str) -> None:
        """Have the program at the other end log this."""
        self._send({"log": [name, level, text]})

    def close(self) -> None:
        """Send what is left, as far as the socket takes it at once, and close. Closing twice is allowed."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._flush()
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _readable(self) -> None:
        try:
            content = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            content = b""
        if not content:
            self._loop.remove_reader(self._socket)
            self._gone()
            return
        self._in += content
        *lines, rest = self._in.split(b"\n")
        self._in = rest
        for line in lines:
            self._take(json.loads(line))

    def _take(self, fields: dict[str, Any]) -> None:
        number, command = fields.pop("id"), fields.pop("command")

        def answer(result: Any) -> None:
            if isinstance(result, OttlaError):
                self._send({"id": number, "error": describe_error(result)})
            else:
                self._send({"id": number, "result": result})

        try:
            self._handle(command, fields, answer)
        except OttlaError as error:
            answer(error)
        except Exception as error:
            logger.exception("the command %s failed", command)
            answer(OttlaError(f"{command} could not be carried out: {error!r}"))

    def _send(self, fields: dict[str, Any]) -> None:
        if self._socket.fileno() < 0:
            return
        self._out += json.dumps(fields).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._socket, self._flush)
            return
        except OSError:
            # The other end is gone; `_readable` calls `gone`.
            self._out.clear()
        self._loop.remove_writer(self._socket)


class _Question:
    """A command that waits for its answer."""

    __slots__ = ("answered", "fields")

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.fields: dict[str, Any] | None = None


class ControlClient:
    """The program's end; may be used from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="ottla-control-channel", daemon=True)
        self._thread.start()

    def ask(self, command: str, timeout_s: float, **fields: Any) -> Any:
        """Send a command and return its result; raises its error, EOFError if the other end is closed, TimeoutError."""
        number = next(self._numbers)
        question = _Question()
        line = json.dumps({"id": number, "command": command, **fields}).encode() + b"\n"
        with self._lock:
            if self._ended:
                raise EOFError
            self._questions[number] = question
            try:
                self._socket.sendall(line)
            except OSError:
                raise EOFError from None
        try:
            due_s = time.monotonic() + timeout_s
            while not question.answered.wait(max(0.0, min(due_s - time.monotonic(), SIGNAL_CHECK_S))):
                if time.monotonic() >= due_s:
                    raise TimeoutError
        finally:
            self._questions.pop(number, None)
        if question.fields is None:
            raise EOFError
        if "error" in question.fields:
            raise error_from(question.fields["error"])
        return question.fields["result"]

    def close(self) -> None:
        """Close the channel; the server at the other end then shuts down."""
        with contextlib.suppress(OSError):  # the other end may have closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        # ValueError: the last line was cut when the server ended.
        with self._socket.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
            for line in lines:
                self._take(json.loads(line))
        with self._lock:
            self._ended = True
            waiting = list(self._questions.values())
        for question in waiting:
            question.answered.set()

    def _take(self, fields: dict[str, Any]) -> None:
        if "log" in fields:
            name, level, text = fields["log"]
            logging.getLogger(name).log(level, "%s", text)
            return
        question = self._questions.get(fields["id"])
        if question is not None:
            question.fields = fields
            question.answered.set()
