"""What brokers and the controller say to each other: delivered, parted, lost, given up."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.broker.events import (
    AskController,
    AskPeer,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    PeerAnswered,
    RequestReceived,
)
from ottla.faults.fields import CONTROLLER
from ottla.host.links import Links
from ottla.host.schedule import Schedule
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

TIMEOUT_US = 5_000_000
SILENCE_US = 1_000_000


class Wires:
    """Messages are on their way for ten microseconds, and arrive as what was sent."""

    crossed = None

    def delay_us(self) -> int:
        return 10

    def copy(self, message: Any) -> Any:
        return message


class Runner:
    """Takes down what arrives, and when."""

    def __init__(self, schedule: Schedule) -> None:
        self.is_dead = False
        self.arrived: list[tuple[int, Any]] = []
        self._schedule = schedule

    def deliver(self, event: Any) -> None:
        self.arrived.append((self._schedule.now_us, event))

    @property
    def last(self) -> Any:
        return self.arrived[-1][1]

    def late_us(self, event: Any) -> int:
        return 0


class Scene:
    """Two brokers and a controller."""

    def __init__(self) -> None:
        self.schedule = Schedule(1_000_000)
        self.links = Links(self.schedule, Wires(), Random(1), TIMEOUT_US)
        self.one, self.two, self.controller = (Runner(self.schedule) for _ in range(3))
        self.links.join(1, self.one)
        self.links.join(2, self.two)
        self.links.controller = self.controller  # type: ignore[assignment]

    def let_pass(self, microseconds: int) -> None:
        end_us = self.schedule.now_us + microseconds
        while (next_us := self.schedule.next_us()) is not None and next_us <= end_us:
            self.schedule.run_next()
        self.schedule.now_us = end_us


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_question_and_its_answer_arrive(scene: Scene) -> None:
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(20)
    asked = scene.two.last
    assert isinstance(asked, RequestReceived)
    assert (asked.client_id, asked.message) == ("broker-1", MetadataRequest())
    answer = MetadataResponse()
    scene.links.answer_peer(asked.connection_id, answer)
    scene.let_pass(20)
    assert scene.one.last == PeerAnswered(2, 7, answer)


def test_a_question_that_is_not_answered_in_time_is_given_up(scene: Scene) -> None:
    """The peer may be paused for good. An answer that comes after all reaches nobody."""
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(1_000_000)
    scene.links.ask_peer(1, AskPeer(2, 8, MetadataRequest()))
    scene.let_pass(TIMEOUT_US - 1_000_001)
    assert scene.one.arrived == []
    scene.let_pass(100)
    assert [event for _, event in scene.one.arrived] == [PeerAnswered(2, 7, None)]
    scene.let_pass(1_000_000)
    assert [event for _, event in scene.one.arrived] == [PeerAnswered(2, 7, None), PeerAnswered(2, 8, None)]
    scene.links.answer_peer(scene.two.arrived[0][1].connection_id, MetadataResponse())
    scene.let_pass(100)
    assert len(scene.one.arrived) == 2


def test_a_fetch_waits_for_records_as_long_as_it_takes(scene: Scene) -> None:
    scene.links.ask_peer(1, AskPeer(2, 7, FetchRequest()))
    scene.let_pass(100 * TIMEOUT_US)
    assert scene.one.arrived == []
    scene.links.answer_peer(scene.two.last.connection_id, FetchResponse())
    scene.let_pass(20)
    assert scene.one.last == PeerAnswered(2, 7, FetchResponse())


@pytest.mark.parametrize(("silently", "after_us"), [(False, 0), (True, SILENCE_US)])
def test_who_asks_across_a_cut_link_hears_of_it_at_once_or_after_a_while(
    scene: Scene, silently: bool, after_us: int
) -> None:
    cut = scene.links.cut(2, 1, silently=silently)
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(2 * SILENCE_US)
    assert scene.one.arrived == [(1_000_000 + after_us + 10, PeerAnswered(2, 7, None))]
    assert (scene.two.arrived, cut.fired) == ([], 1)
    cut.end()
    scene.links.ask_peer(1, AskPeer(2, 8, MetadataRequest()))
    scene.let_pass(20)
    assert (len(scene.two.arrived), cut.fired) == (1, 1)


def test_an_answer_is_lost_where_the_link_was_cut_meanwhile(scene: Scene) -> None:
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(20)
    scene.links.cut(1, 2)
    scene.links.answer_peer(scene.two.last.connection_id, MetadataResponse())
    scene.let_pass(20)
    assert scene.one.last == PeerAnswered(2, 7, None)


def test_who_asks_a_dead_broker_or_one_that_dies_gets_no_answer(scene: Scene) -> None:
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(20)
    scene.two.is_dead = True
    scene.links.forget(2)
    scene.links.ask_peer(1, AskPeer(2, 8, MetadataRequest()))
    scene.let_pass(20)
    assert [event for _, event in scene.one.arrived] == [PeerAnswered(2, 7, None), PeerAnswered(2, 8, None)]


def test_a_broker_that_dies_ends_the_connections_of_its_questions(scene: Scene) -> None:
    scene.links.ask_peer(1, AskPeer(2, 7, MetadataRequest()))
    scene.let_pass(20)
    scene.links.forget(1)
    scene.let_pass(20)
    assert scene.two.last == ConnectionLost(scene.two.arrived[0][1].connection_id)


def test_messages_lost_by_chance_are_counted(scene: Scene) -> None:
    loss = scene.links.lose(0.5)
    for token in range(200):
        scene.links.ask_peer(1, AskPeer(2, token, MetadataRequest()))
    scene.let_pass(20)
    assert 50 < loss.fired < 150
    assert len(scene.two.arrived) == 200 - loss.fired
    loss.end()
    scene.links.ask_peer(1, AskPeer(2, 999, MetadataRequest()))
    scene.let_pass(20)
    assert scene.two.last.correlation_id == 999


def test_the_controller_answers_brokers_and_whoever_runs_the_cluster(scene: Scene) -> None:
    told: list[Any] = []
    scene.links.ask_controller(1, AskController(7, "a question"))
    scene.links.order("an order", told.append)
    scene.let_pass(20)
    requests = sorted((event for _, event in scene.controller.arrived), key=lambda event: event.broker_id)
    assert [(request.broker_id, request.message) for request in requests] == [(-1, "an order"), (1, "a question")]
    for request in requests:
        answer = ControllerResponse(request.broker_id, request.token, f"{request.message} answered")
        scene.links.answer_from_controller(answer)
    scene.let_pass(20)
    assert told == ["an order answered"]
    assert scene.one.last == ControllerAnswered(7, "a question answered")


def test_a_controller_that_dies_answers_nobody(scene: Scene) -> None:
    told: list[Any] = []
    scene.links.ask_controller(1, AskController(7, "a question"))
    scene.links.order("an order", told.append)
    scene.let_pass(20)
    asked = [event for _, event in scene.controller.arrived]
    assert all(isinstance(event, ControllerRequest) for event in asked)
    scene.controller.is_dead = True
    scene.links.forget_controller()
    scene.links.order("another", told.append)
    scene.let_pass(20)
    assert told == [None, None]
    assert scene.one.last == ControllerAnswered(7, None)
    scene.links.answer_from_controller(ControllerResponse(1, 7, "too late"))
    scene.let_pass(20)
    assert len(scene.one.arrived) == 1


def test_a_broker_cut_off_from_the_controller_does_not_reach_it(scene: Scene) -> None:
    cut = scene.links.cut(1, CONTROLLER)
    scene.links.ask_controller(1, AskController(7, "a question"))
    scene.let_pass(20)
    assert (scene.controller.arrived, cut.fired) == ([], 1)
    assert scene.one.last == ControllerAnswered(7, None)
