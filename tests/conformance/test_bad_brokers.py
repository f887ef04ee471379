"""A broker that answers late, wrong, twice or never, by a proxy in front of either cluster: the rest arrives, once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import ottla
from ottla.errors import DeliveryUnknown

from ..wrong_answers import WRONG, AnswerChange, as_it_is
from .sides import Side

_PATIENCE_S = 60
_QUICK: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 10, "reconnect_backoff_ms": 5}
# Short enough to be waited for in vain; who is slower than that is asked again.
_IMPATIENT = {**_QUICK, "request_timeout_ms": 1000}


def stored(side: Side, topic: str, reading: Any) -> list[bytes]:
    """What partition 0 holds."""
    values: list[bytes] = reading.values(side, topic)[0]
    return values


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_broker_that_answers_wrong_is_asked_again_and_everything_is_stored_once(
    side: Side, topic: str, wrong: AnswerChange, reading: Any
) -> None:
    with ottla.Producer(side.noted_servers, **_QUICK) as producer, side.proxy.spoil(wrong, as_it_is, wrong) as proxy:
        sent = [producer.send(topic, b"%d" % n, partition=0) for n in range(50)]
        producer.flush(_PATIENCE_S)
        while proxy.fired < 3:
            sent.append(producer.send(topic, b"%d" % len(sent), partition=0))
            producer.flush(_PATIENCE_S)
        assert [delivery.result(0).offset for delivery in sent] == list(range(len(sent)))
    assert stored(side, topic, reading) == [b"%d" % n for n in range(len(sent))]


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_without_idempotence_or_retries_a_wrong_answer_is_an_unknown_outcome(
    side: Side, topic: str, wrong: AnswerChange, reading: Any
) -> None:
    with ottla.Producer(side.noted_servers, retries=0, enable_idempotence=False, **_QUICK) as producer:
        with side.proxy.spoil(wrong) as proxy:
            doubtful = producer.send(topic, b"first", partition=0).exception(_PATIENCE_S)
            assert proxy.fired == 1
        if wrong is WRONG["answered twice"]:
            assert doubtful is None  # an answer that came twice came
        else:
            assert isinstance(doubtful, DeliveryUnknown), "a wrong answer counts as an acknowledgement"
        errors = [producer.send(topic, b"%d" % n, partition=0).exception(_PATIENCE_S) for n in range(20)]
    # A second answer on a connection may cost what is under way on it: unknown, never failed.
    assert all(error is None or isinstance(error, DeliveryUnknown) for error in errors)
    found = stored(side, topic, reading)
    assert found[0] == b"first"
    assert {b"%d" % n for n, error in enumerate(errors) if error is None} <= set(found)


@pytest.mark.parametrize("how", ["late", "never"])
def test_an_answer_that_comes_late_or_never_is_asked_for_again_and_the_record_stored_once(
    side: Side, topic: str, how: str, reading: Any
) -> None:
    acked = threading.Event()

    def hold_back(frame: bytes, version: int) -> bytes:
        if how == "never":
            return b""
        assert acked.wait(_PATIENCE_S)
        return as_it_is(frame, version)

    with ottla.Producer(side.noted_servers, **_IMPATIENT) as producer, side.proxy.spoil(hold_back) as proxy:
        first = producer.send(topic, b"first", partition=0)
        assert first.result(_PATIENCE_S).offset == 0
        assert proxy.fired == 1
        assert producer.metrics()["record-retry-total"] >= 1
        acked.set()
        assert producer.send(topic, b"second", partition=0).result(_PATIENCE_S).offset == 1
    assert stored(side, topic, reading) == [b"first", b"second"]


def test_requests_that_reach_their_broker_late_and_again_are_stored_once_in_order(
    side: Side, topic: str, reading: Any
) -> None:
    """The broker gets what its client has long given up on, and the same once more on another connection."""
    with ottla.Producer(side.noted_servers, **_IMPATIENT) as producer:
        sent = [producer.send(topic, b"0", partition=0)]
        sent[0].result(_PATIENCE_S)
        before = producer.metrics()["connection-close-total"]
        with side.proxy.hold(side.leader(topic, 0)):
            sent += [producer.send(topic, b"%d" % n, partition=0) for n in range(1, 100)]
            elsewhere = [producer.send(topic, b"%d" % n, partition=1 + n % 2) for n in range(100)]
            give_up_s = time.monotonic() + _PATIENCE_S
            while producer.metrics()["connection-close-total"] == before:
                producer.send(topic, b"meanwhile", partition=1).result(_PATIENCE_S)
                assert time.monotonic() < give_up_s, "an answer that does not come is waited for"
            assert all(delivery.exception(_PATIENCE_S) is None for delivery in elsewhere)
            assert not any(delivery.done() for delivery in sent[1:])
        assert [delivery.result(_PATIENCE_S).offset for delivery in sent] == list(range(100))
    assert stored(side, topic, reading) == [b"%d" % n for n in range(100)]


def test_a_partition_whose_broker_is_silent_ends_at_the_delivery_timeout_and_the_others_go_on(
    side: Side, topic: str
) -> None:
    clock = ottla.Clock()
    with ottla.Producer(side.noted_servers, clock=clock, **_QUICK) as producer:
        producer.send(topic, b"before", partition=0).result(_PATIENCE_S)
        leader = side.leader(topic, 0)
        with side.proxy.hold(leader) as await_held:
            silent = producer.send(topic, b"x", partition=0)
            elsewhere = [producer.send(topic, b"%d" % n, partition=1 + n % 2) for n in range(100)]
            assert all(delivery.exception(_PATIENCE_S) is None for delivery in elsewhere)
            await_held()
            clock.advance(120)
            error = silent.exception(_PATIENCE_S)
        assert isinstance(error, DeliveryUnknown)
        assert (error.topic, error.partition, error.broker_id) == (topic, 0, leader)
        assert error.retriable
        assert "delivery.timeout.ms=120000 passed for 1 records" in str(error)
        assert producer.send(topic, b"after", partition=0).result(_PATIENCE_S).offset > 0


@pytest.mark.parametrize("copies", [1, 2])
def test_a_request_handled_twice_is_stored_once_with_idempotence_and_twice_without(
    side: Side, topic: str, copies: int, reading: Any
) -> None:
    with (
        ottla.Producer(side.noted_servers, enable_idempotence=copies == 1, **_QUICK) as producer,
        side.proxy.repeat(5) as proxy,
    ):
        for n in range(10):
            producer.send(topic, b"%d" % n, partition=0).result(_PATIENCE_S)
        assert proxy.fired == 5
    expected = [b"%d" % n for n in range(10) for _ in range(copies if n < 5 else 1)]
    assert stored(side, topic, reading) == expected
