"""The loop by itself: what is posted arrives, deadlines are kept, nothing spins, and what breaks is reported."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from typing import Any

import pytest
from tests.client.conftest import Peer

from ottla.client import connecting
from ottla.client.channel import SocketBuffers
from ottla.client.io_loop import IoLoop
from ottla.client.resolve import beginning_after
from ottla.client.waiting import Waiting
from ottla.connection.address_book import AddressBook
from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Transmit, Unsendable
from ottla.connection.loss import REFUSED, LossKind
from ottla.protocol.messages.produce import ProduceRequest


class Recorder:
    """A core and a front in one: remembers what happens to it; says what the test puts into `to_say`."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.to_say: list[Any] = []
        self.performed: list[Any] = []
        self.due_us: int | None = None
        self.turns = 0
        self.ticked_us: list[int] = []
        self.crash: BaseException | None = None
        self.waiting = Waiting()
        self.addresses = AddressBook([])
        self.loop = IoLoop(self, self, client_id="test", thread_name="test-loop", buffers=SocketBuffers())

    def receive(self, event: Any, now_us: int) -> None:
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Connect | Disconnect):
            self.to_say.append(event)
        self.events.append(event)

    def outputs(self) -> list[Any]:
        said, self.to_say = self.to_say, []
        return said

    def deadline_us(self) -> int | None:
        return self.due_us

    def tick(self, now_us: int) -> None:
        self.ticked_us.append(now_us)
        if self.due_us is not None and now_us >= self.due_us:
            self.due_us = None
            self.events.append("due")

    def feed(self, now_us: int) -> None:
        self.turns += 1

    def set_sleeping(self, sleeping: bool) -> None:
        pass

    def sleeps_until(self, wakes_us: int) -> None:
        pass

    def perform(self, output: Any) -> None:
        self.performed.append(output)

    def turn_ended(self) -> None:
        self.waiting.look()

    def crashed(self, error: BaseException) -> None:
        self.crash = error
        self.waiting.look()

    def until(self, done: Any) -> None:
        assert self.waiting.wait(done, 30)

    def end(self) -> None:
        self.loop.stop()
        assert self.loop.join(30)


@pytest.fixture
def recorder() -> Any:
    recorder = Recorder()
    recorder.loop.start()
    yield recorder
    recorder.end()


def test_what_is_posted_from_many_threads_arrives_in_each_threads_order(recorder: Recorder) -> None:
    def post(name: str) -> None:
        for number in range(500):
            recorder.loop.post((name, number))

    threads = [threading.Thread(target=post, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    recorder.until(lambda: len(recorder.events) == 1500)
    for name in "abc":
        assert [number for who, number in recorder.events if who == name] == list(range(500))


def test_a_loop_with_nothing_to_do_takes_no_turns(recorder: Recorder) -> None:
    recorder.loop.post("one")
    recorder.until(lambda: recorder.events == ["one"])
    before = recorder.turns
    recorder.loop.post("two")
    recorder.until(lambda: recorder.events == ["one", "two"])
    # One turn takes the event in; one more may follow it when the doorbell was rung late.
    assert recorder.turns - before <= 2


def test_a_deadline_is_kept(recorder: Recorder) -> None:
    recorder.due_us = 0
    recorder.loop.post("wake up")
    recorder.until(lambda: "due" in recorder.events)


def test_an_exception_ends_the_loop_and_is_reported(recorder: Recorder) -> None:
    recorder.loop.post(ZeroDivisionError("a bug"))
    recorder.until(lambda: recorder.crash is not None)
    assert isinstance(recorder.crash, ZeroDivisionError)
    assert recorder.loop.join(30)
    recorder.loop.post("too late, but harmless")


def test_a_refused_connection_is_reported(recorder: Recorder, closed_port: str) -> None:
    host, port = closed_port.split(":")
    recorder.loop.post(Connect(1, host, int(port)))
    recorder.until(lambda: Disconnected(1, REFUSED) in recorder.events)


def test_a_connection_that_is_opened_and_closed_is_reported_twice(recorder: Recorder, peer: Peer) -> None:
    host, port = peer(lambda connection: connection.close()).split(":")
    recorder.loop.post(Connect(1, host, int(port)))
    recorder.until(lambda: len(recorder.events) == 3)
    assert recorder.events[1] == Connected(1)
    assert isinstance(recorder.events[2], Disconnected)


def test_a_name_is_looked_up_beside_the_loop(recorder: Recorder) -> None:
    recorder.loop.post(Connect(1, "no-such-host.invalid", 9092))
    recorder.until(lambda: len(recorder.events) == 2)
    lost = recorder.events[1]
    assert isinstance(lost, Disconnected)
    assert lost.loss.kind is LossKind.UNRESOLVABLE


def test_stopping_from_another_thread_ends_a_sleeping_loop() -> None:
    recorder = Recorder()
    recorder.loop.start()
    recorder.loop.post("awake")
    recorder.until(lambda: recorder.events == ["awake"])
    recorder.end()


def test_who_waits_is_let_go_by_the_answer_alone() -> None:
    waiting = Waiting()
    answers = [False, False]
    woken: list[int] = []

    def wait(number: int) -> None:
        assert waiting.wait(lambda: answers[number], 30)
        woken.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    answers[1] = True
    waiting.look()
    threads[1].join(30)
    assert woken == [1]
    answers[0] = True
    waiting.look()
    threads[0].join(30)
    assert woken == [1, 0]
    assert not waiting.wait(lambda: False, 0)


def test_a_request_that_cannot_be_written_fails_alone(recorder: Recorder, peer: Peer) -> None:
    host, port = peer(lambda connection: connection.recv(1)).split(":")
    recorder.loop.post(Connect(1, host, int(port)))
    recorder.until(lambda: Connected(1) in recorder.events)
    recorder.to_say.append(Transmit(1, 5, ProduceRequest(acks=99_999), 9))
    recorder.loop.wake()
    recorder.until(lambda: any(isinstance(event, Unsendable) for event in recorder.events))
    unsendable = next(event for event in recorder.events if isinstance(event, Unsendable))
    assert (unsendable.connection_id, unsendable.correlation_id) == (1, 5)
    assert "ProduceRequest version 9" in unsendable.reason
    assert recorder.crash is None


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8, and drops what a full queue gets"
)
def test_an_address_that_stalled_is_tried_after_the_others_of_its_name(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as stalled, contextlib.ExitStack() as fillers:
        stalled.bind(("127.0.0.1", 0))
        stalled.listen(0)
        port = stalled.getsockname()[1]
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        with socket.create_server(("127.0.0.2", port)):
            places = [(socket.AF_INET, (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
            # The one thing that a name server would have to be set up for.
            monkeypatch.setattr(connecting, "resolve", lambda host, port, done: done(list(places), None))
            for event in (Connect(1, "two-addresses", port), Disconnect(1), Connect(2, "two-addresses", port)):
                recorder.loop.post(event)
            recorder.until(lambda: Connected(2) in recorder.events)
    assert Connected(1) not in recorder.events


def test_the_addresses_of_a_name_go_round() -> None:
    one, two, three = [(socket.AF_INET, (host, 9092)) for host in ("one", "two", "three")]
    assert beginning_after([one, two, three], None) == [one, two, three]
    assert beginning_after([one, two, three], one) == [two, three, one]
    assert beginning_after([one, two, three], three) == [one, two, three]
    assert beginning_after([two, three], one) == [two, three]
