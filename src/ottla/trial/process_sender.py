"""Sends a side's records with a client in a process of its own, by lines of JSON (docs/trial-clients.md).

One loop moves bytes both ways, without threads: it writes what the client takes and reads what the client writes, and
never waits longer than `patience_s` for a client that does neither. Nothing that a client writes ends a trial: a line
that cannot be used, a record reported twice, an early end become `problems`, each a sentence with the line's number.

The process leads a process group, which is killed at the end if anything of it is left.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ottla.clock import SIGNAL_CHECK_S
from ottla.delayed_signals import delayed_signals
from ottla.errors import UserMistake
from ottla.ledger.schema import ACKED, FAILED
from ottla.printable import printable
from ottla.trial.client_lines import (
    LINE_BYTES_MAX,
    Hello,
    LineError,
    Told,
    flush_line,
    read_hello,
    read_told,
    record_line,
    shown,
    start_line,
)
from ottla.trial.ledger import SideLedger
from ottla.trial.sender import ClientEnded, SendingOrder

_START_S = 60.0
# What brokers and a busy machine may add to `delivery.timeout.ms` before a client counts as silent.
_GRACE_S = 15.0
_END_S = 5.0
_READ_BYTES = 1 << 16
_STDERR_BYTES = 4_000
_STDERR_READS_MAX = 4
_PROBLEMS_MAX = 5
# A client that writes other lines without an end is ended.
_WRONG_LINES_MAX = 1_000

_NODE_ERROR = re.compile(r"(Uncaught )?\w*Error\b")

_logger = logging.getLogger("ottla.trial")


class ProcessSender:
    """A client that `command` starts; UserMistake where it cannot be started.

    `patience_s`: how long it may neither take a record nor tell an outcome; `start_s`: how long until its first line.
    """

    def __init__(
        self,
        command: Sequence[str],
        order: SendingOrder,
        ledger: SideLedger,
        *,
        patience_s: float | None = None,
        start_s: float = _START_S,
    ) -> None:
        self._order = order
        self._ledger = ledger
        self._patience_s = order.delivery_timeout_s + _GRACE_S if patience_s is None else patience_s
        self._hello: Hello | None = None
        self._problems: list[str] = []
        self._wrong_lines = 0
        # By record number: the partition it is for (None: the client's choice); the line that told its outcome.
        self._asked: dict[int, int | None] = {}
        self._told: dict[int, tuple[int, Told]] = {}
        self._line = 0
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._stderr = bytearray()
        self._takes_input = True
        self._has_said_all = False
        # Until the process has started, there is nothing to end.
        self._has_ended = True
        self._outgoing += start_line(order)
        try:
            with delayed_signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._start(command)
            with suppress(ClientEnded):
                self._move(lambda: self._hello is not None, start_s)
        except BaseException:
            # This sender is not returned yet, so nothing else can end the process.
            self.abandon()
            raise

    # ---- what a side asks for ---------------------------------------------------------------------------------------

    @property
    def client(self) -> str:
        """The client's name and version, as its first line has them; "" if there was none."""
        return "" if self._hello is None else self._hello.client

    @property
    def impossible(self) -> str | None:
        """Why this client cannot send as the side wants it."""
        if self._hello is None:
            return None
        if self._hello.impossible is not None:
            return self._hello.impossible
        missing = [name for name in self._hello.without if name in self._order.required]
        if not missing:
            return None
        return f"it cannot be given {', '.join(self._order.shown(name) for name in missing)}"

    @property
    def without(self) -> tuple[str, ...]:
        """Those of the trial's own settings that it does not have."""
        return () if self._hello is None else self._hello.without

    @property
    def problems(self) -> tuple[str, ...]:
        """Why its outcomes are not complete."""
        more = self._wrong_lines - _PROBLEMS_MAX
        return (*self._problems, *([f"{more:,} more lines of the client cannot be used"] if more > 0 else []))

    @property
    def takes_records(self) -> bool:
        """Whether it can send like this and has not ended."""
        return self.impossible is None and not self._has_ended

    def hand_over(
        self, number: int, partition: int | None, key: bytes | None, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Give it a record, and take the outcomes that it has written; waits while it takes nothing."""
        # From here on the client may have it.
        self._asked[number] = partition
        self._outgoing += record_line(number, partition, key, value, headers)
        self._move(lambda: not self._outgoing, self._patience_s)

    def flush(self) -> None:
        """Wait until all records have an outcome."""
        self._outgoing += flush_line()
        self._move(lambda: not self._outgoing and len(self._told) == len(self._asked), self._patience_s)

    def close(self) -> None:
        """End its input, take all its outcomes, and wait until it has ended."""
        try:
            with suppress(ClientEnded):
                self._move(lambda: not self._outgoing, self._patience_s)
                self._end_input()
                self._move(lambda: self._has_said_all, self._patience_s)
                self._see_it_end()
        finally:
            self.abandon()
        self._tell_the_rest_unknown()

    def abandon(self) -> None:
        """Kill it, with all that it has started. May be called more than once."""
        if self._has_ended:
            return
        self._has_ended = True
        self._selector.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()

    # ---- the process ------------------------------------------------------------------------------------------------

    def _start(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise UserMistake(f"the client cannot be started: {command[0]}: {error.strerror}") from None
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._pipes = (process.stdin, process.stdout, process.stderr)
        self._selector = selectors.DefaultSelector()
        for pipe, event, moves in (
            (process.stdin, selectors.EVENT_WRITE, self._write),
            (process.stdout, selectors.EVENT_READ, self._read),
            (process.stderr, selectors.EVENT_READ, self._read_stderr),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event, moves)
        self._has_ended = False

    def _end_input(self) -> None:
        self._stop_writing()
        self._pipes[0].close()

    def _see_it_end(self) -> None:
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._end("the client closed its output and did not end, so it was killed")
        if status:
            self._end(f"the client {_ending(status)} at its end{self._last_line()}")

    def _end(self, problem: str) -> None:
        """This client gets no more records."""
        self._problems.append(problem)
        self.abandon()
        raise ClientEnded

    # ---- bytes both ways --------------------------------------------------------------------------------------------

    def _move(self, is_done: Callable[[], bool], patience_s: float) -> None:
        """Write and read until `is_done`; end a client that has ended, or neither reads nor writes for so long."""
        if self._has_ended:
            raise ClientEnded
        until = time.monotonic() + patience_s
        while not is_done():
            if self._has_said_all:
                self._end_early()
            self._await_writing()
            ready = self._selector.select(max(0.0, min(until - time.monotonic(), SIGNAL_CHECK_S)))
            moved = [each.data() for each, _ in ready]
            if any(moved):
                until = time.monotonic() + patience_s
            elif time.monotonic() >= until:
                self._end_silent(patience_s)

    def _await_writing(self) -> None:
        """Ask for room in the pipe only while there is something to write."""
        if not self._takes_input:
            return
        is_asked = self._pipes[0] in self._selector.get_map()
        if self._outgoing and not is_asked:
            self._selector.register(self._pipes[0], selectors.EVENT_WRITE, self._write)
        elif not self._outgoing and is_asked:
            self._selector.unregister(self._pipes[0])

    def _write(self) -> bool:
        """Whether something was written."""
        try:
            count = os.write(self._pipes[0].fileno(), self._outgoing)
        except BlockingIOError:
            return False
        except BrokenPipeError:
            # What it has written so far is still to be read.
            self._stop_writing()
            return False
        del self._outgoing[:count]
        return count > 0

    def _stop_writing(self) -> None:
        self._takes_input = False
        if self._pipes[0] in self._selector.get_map():
            self._selector.unregister(self._pipes[0])

    def _read(self) -> bool:
        """Whether an outcome was read, or the end reached."""
        try:
            content = os.read(self._pipes[1].fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        self._incoming += content
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = bytearray(rest)
        told = [self._take_line(bytes(line)) for line in lines]
        self._check_length(bytes(rest))
        if content:
            return any(told)
        self._selector.unregister(self._pipes[1])
        self._has_said_all = True
        if rest:
            self._take_last_line(bytes(rest))
        return True

    def _read_stderr(self) -> bool:
        try:
            content = os.read(self._pipes[2].fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not content:
            self._selector.unregister(self._pipes[2])
        self._keep_stderr(content)
        return False

    def _keep_stderr(self, content: bytes) -> None:
        for line in content.splitlines():
            _logger.warning("%s: %s", self.client or "client", line.decode("utf-8", "backslashreplace"))
        self._stderr = (self._stderr + content)[-_STDERR_BYTES:]

    # ---- its lines --------------------------------------------------------------------------------------------------

    def _take_line(self, line: bytes) -> bool:
        """Whether it could be used."""
        self._check_length(line)
        self._line += 1
        if not line.strip():
            return False
        try:
            if self._hello is None:
                self._hello = read_hello(line)
            else:
                self._take_told(read_told(line))
        except LineError as wrong:
            problem = f"line {self._line} of the client {wrong}"
            if self._hello is None:
                self._end(problem)
            self._note_line(problem)
            return False
        return True

    def _check_length(self, line: bytes) -> None:
        if len(line) > LINE_BYTES_MAX:
            self._end(f"line {self._line + 1} of the client is longer than {LINE_BYTES_MAX:,} bytes")

    def _take_last_line(self, line: bytes) -> None:
        """A line that does not end: whole in spite of that, or cut off."""
        if line.endswith(b"}"):
            self._take_line(line)
        else:
            self._note_line(f"the last line of the client, line {self._line + 1}, ends in the middle: {shown(line)}")

    def _note_line(self, problem: str) -> None:
        self._wrong_lines += 1
        if self._wrong_lines <= _PROBLEMS_MAX:
            self._problems.append(problem)
        if self._wrong_lines == _WRONG_LINES_MAX:
            self._end(f"{_WRONG_LINES_MAX:,} lines of the client cannot be used, so it was ended")

    def _take_told(self, told: Told) -> None:
        """Into the ledger; LineError where this outcome cannot be."""
        number = told.number
        if number not in self._asked:
            raise LineError(f"tells of record {number}, which was not handed over")
        if number in self._told:
            line, before = self._told[number]
            raise LineError(f"tells record {number} {told.outcome}; line {line} has told it {before.outcome} already")
        partition = self._asked[number]
        if told.outcome == ACKED and self._order.is_answered:
            _check_place(told, partition)
        self._told[number] = (self._line, told)
        if told.outcome == FAILED:
            self._ledger.tell_failed(number)
            self._ledger.count_told(told.error)
        elif told.outcome == ACKED and self._order.is_answered:
            self._ledger.tell_acked(number, told.partition, told.offset)
        else:
            self._ledger.tell_unknown(number)
            if told.error:
                self._ledger.count_told(told.error)

    # ---- a client that does not end well ----------------------------------------------------------------------------

    def _end_silent(self, patience_s: float) -> None:
        if self._hello is None:
            self._end(f"the client said nothing within {patience_s:g} s of its start{self._last_line()}")
        self._end(f"the client took no record and told no outcome for {patience_s:g} s, so it was ended")

    def _end_early(self) -> None:
        try:
            ending = _ending(self._process.wait(_END_S))
        except subprocess.TimeoutExpired:
            ending = "closed its output"
        when = "before it said who it is" if self._hello is None else "while there was more for it to do"
        self._end(f"the client {ending} {when}{self._last_line()}")

    def _last_line(self) -> str:
        """The end of its stderr, after a colon: the last line of an error, else the last line."""
        with suppress(OSError):
            # No more than a pipe holds: a client that is alive may go on writing without end.
            for _ in range(_STDERR_READS_MAX):
                if not (content := os.read(self._pipes[2].fileno(), _READ_BYTES)):
                    break
                self._keep_stderr(content)
        lines = [line.strip() for line in self._stderr.decode("utf-8", "backslashreplace").split("\n")]
        # Behind the error Node.js prints where it came from, and then its own version.
        is_of_node = any(line.startswith("Node.js v") for line in lines[-2:])
        errors = [line for line in lines if is_of_node and _NODE_ERROR.match(line)]
        said = next((line for line in reversed(errors or lines) if line), "")
        return f": {printable(said)}" if said else ""

    def _tell_the_rest_unknown(self) -> None:
        """Records whose outcome a client never reported are unknown."""
        untold = [number for number in self._asked if number not in self._told]
        for number in untold:
            self._ledger.tell_unknown(number)
        if untold and self.impossible is None:
            self._problems.append(
                f"the client told no outcome of {len(untold):,} of {len(self._asked):,} records; "
                f"the first of them is record {untold[0]}"
            )


def _check_place(told: Told, partition: int | None) -> None:
    """A client that acknowledges a record must say where it is."""
    place = "in which partition" if told.partition < 0 else "at which offset"
    if told.partition < 0 or told.offset < 0:
        raise LineError(f"tells record {told.number} acked and does not say {place}")
    if partition is not None and told.partition != partition:
        raise LineError(
            f"tells record {told.number} acked in partition {told.partition}; it was to go to partition {partition}"
        )


def _ending(status: int) -> str:
    """How a process ended, by its exit status."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"
