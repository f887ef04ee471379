"""What a broker asks of others: whose answer is whose."""

from __future__ import annotations

from typing import Any

from ottla.broker.events import AskController, AskPeer, LetGo
from ottla.broker.outbox import Outbox


def test_outputs_leave_once_and_in_order() -> None:
    outbox = Outbox(broker_epoch=1)
    outbox.put(LetGo())
    outbox.ask_peer(2, "to a peer", lambda answer, now_us: None)
    outbox.ask_controller("to the controller", lambda answer, now_us: None)
    assert [type(output) for output in outbox.take()] == [LetGo, AskPeer, AskController]
    assert outbox.take() == []


def test_each_answer_goes_to_whoever_asked_and_only_once() -> None:
    outbox = Outbox(broker_epoch=1)
    told: list[Any] = []
    outbox.ask_controller("first", lambda answer, now_us: told.append(("first", answer, now_us)))
    outbox.ask_controller("second", lambda answer, now_us: told.append(("second", answer, now_us)))
    first, second = (output.token for output in outbox.take())
    outbox.controller_answered(second, "b", 5)
    outbox.controller_answered(first, None, 7)
    outbox.controller_answered(first, "again", 9)
    assert told == [("second", "b", 5), ("first", None, 7)]


def test_an_answer_of_a_peer_that_nobody_asked_for_here_is_left_to_others() -> None:
    outbox = Outbox(broker_epoch=1)
    told: list[Any] = []
    outbox.ask_peer(2, "question", lambda answer, now_us: told.append(answer))
    (asked,) = outbox.take()
    assert not outbox.peer_answered(outbox.next_number(), "to a Fetch", 1)
    assert told == []
    assert outbox.peer_answered(asked.token, "to the question", 1)
    assert told == ["to the question"]


def test_an_answer_to_an_earlier_start_of_the_broker_reaches_nobody() -> None:
    before, now = Outbox(broker_epoch=1), Outbox(broker_epoch=2)
    before.ask_controller("before", lambda answer, now_us: None)
    (asked,) = before.take()
    told: list[Any] = []
    now.ask_controller("now", lambda answer, now_us: told.append(answer))
    now.controller_answered(asked.token, "too late", 1)
    assert told == []
