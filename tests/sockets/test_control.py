"""The control channel over a real socket pair: answers find their questions, errors keep their kind."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.interrupting import ended_by_a_signal_that_wakes_nobody

from ottla.errors import ConfigError, KafkaError, OttlaError, UserMistake
from ottla.sockets.control import ControlClient, ControlServer, describe_error, error_from
from ottla.sockets.event_loop import EventLoop

_PATIENCE_S = 60


class _OtherEnd:
    """A ControlServer in a loop of its own, which answers as the tests want."""

    def __init__(self, sock: socket.socket) -> None:
        self.gone = threading.Event()
        self.later: list[Callable[[Any], None]] = []
        self.loop = EventLoop()
        self.bell, heard = socket.socketpair()
        self.loop.add_reader(heard, self.loop.stop)
        self.heard = heard
        self.control = ControlServer(self.loop, sock, self.handle, self.end)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def handle(self, command: str, fields: dict[str, Any], answer: Callable[[Any], None]) -> None:
        if command == "echo":
            answer(fields)
        elif command == "later":
            self.later.append(answer)
        elif command == "release":
            for waiting in reversed(self.later):
                waiting(len(self.later))
            answer(None)
        elif command == "log":
            self.control.log("ottla.broker", logging.WARNING, "100 % of the disk is full")
            answer(None)
        elif command == "mistake":
            raise UserMistake("one sentence")
        elif command == "refuse":
            answer(KafkaError(3, "UNKNOWN_TOPIC_OR_PARTITION", "no such topic", retriable=True))
        elif command == "hang up":
            self.control.close()
        else:
            raise RuntimeError("a bug")

    def end(self) -> None:
        self.gone.set()

    def close(self) -> None:
        self.bell.send(b"!")
        self.thread.join()
        self.control.close()
        self.loop.close()
        self.bell.close()
        self.heard.close()


@pytest.fixture
def ends() -> Iterator[tuple[ControlClient, _OtherEnd]]:
    ours, theirs = socket.socketpair()
    other = _OtherEnd(theirs)
    client = ControlClient(ours)
    yield client, other
    client.close()
    other.close()


Ends = tuple[ControlClient, _OtherEnd]


def test_fields_come_back_as_they_were(ends: Ends) -> None:
    fields: dict[str, Any] = {"name": 'Flüge \n"quoted"', "nothing": None, "list": [1, 2.5, True], "nested": {"a": {}}}
    assert ends[0].ask("echo", _PATIENCE_S, **fields) == fields


def test_large_commands_and_answers_arrive_whole(ends: Ends) -> None:
    text = "x" * 3_000_000
    assert ends[0].ask("echo", _PATIENCE_S, text=text) == {"text": text}


def test_answers_in_another_order_find_their_questions(ends: Ends) -> None:
    client = ends[0]
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(client.ask("later", _PATIENCE_S))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(ends[1].later) < 4:
        client.ask("echo", _PATIENCE_S)
    client.ask("release", _PATIENCE_S)
    for thread in threads:
        thread.join()
    assert results == [4, 4, 4, 4]


def test_errors_keep_their_kind(ends: Ends) -> None:
    with pytest.raises(UserMistake, match=r"^one sentence$"):
        ends[0].ask("mistake", _PATIENCE_S)
    with pytest.raises(KafkaError, match=r"^no such topic$") as caught:
        ends[0].ask("refuse", _PATIENCE_S)
    assert (caught.value.code, caught.value.name, caught.value.retriable) == (3, "UNKNOWN_TOPIC_OR_PARTITION", True)


@pytest.mark.parametrize("kind", [ConfigError, UserMistake, OttlaError])
def test_described_errors_are_made_again(kind: type[OttlaError]) -> None:
    again = error_from(describe_error(kind("why")))
    assert type(again) is kind
    assert str(again) == "why"


def test_a_bug_at_the_other_end_is_an_error_here_and_leaves_the_channel_working(ends: Ends) -> None:
    with pytest.raises(OttlaError, match="unheard of could not be carried out"):
        ends[0].ask("unheard of", _PATIENCE_S)
    assert ends[0].ask("echo", _PATIENCE_S) == {}


def test_what_brokers_log_appears_in_the_logging_of_the_program(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    ends[0].ask("log", _PATIENCE_S)
    assert ("ottla.broker", logging.WARNING, "100 % of the disk is full") in caplog.record_tuples


def test_no_answer_in_time_is_a_timeout_and_later_answers_are_dropped(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        ends[0].ask("later", 0)
    ends[0].ask("release", _PATIENCE_S)
    assert ends[0].ask("echo", _PATIENCE_S, a=1) == {"a": 1}


def test_who_waits_for_an_answer_hears_of_a_signal_that_did_not_wake_it(ends: Ends) -> None:
    assert ended_by_a_signal_that_wakes_nobody(lambda: ends[0].ask("later", _PATIENCE_S))


def test_the_end_of_the_other_side_is_noticed_by_all_who_wait(ends: Ends) -> None:
    with pytest.raises(EOFError):
        ends[0].ask("hang up", _PATIENCE_S)
    with pytest.raises(EOFError):
        ends[0].ask("echo", _PATIENCE_S)


def test_the_brokers_notice_that_the_program_is_gone(ends: Ends) -> None:
    ends[0].close()
    assert ends[1].gone.wait(_PATIENCE_S)
