"""The useful number of requests in flight is measured, and measured again when the broker changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.producer.flight_limit import FlightLimit

# (when a request leaves, when the answer before it came) -> when its own answer comes, in milliseconds.
Broker = Callable[[float, float], float]


def serial(takes_ms: float, away_ms: float = 0) -> Broker:
    """Handles one request after the other; the way there and back takes `away_ms`."""
    return lambda sent, before: max(sent + away_ms, before) + takes_ms


def run(limit: FlightLimit, broker: Broker, requests: int, begin_ms: float = 0) -> tuple[float, list[int]]:
    """Send a request whenever the limit allows it; returns the end, and how many were in flight with each."""
    now, last, counts = begin_ms, begin_ms, []
    on_their_way: list[tuple[float, float, int]] = []
    for _ in range(requests):
        while not limit.allows(len(on_their_way)):
            answered, sent, others = on_their_way.pop(0)
            now = max(now, answered)
            limit.answered(others, int(sent * 1000), int(answered * 1000))
        others = len(on_their_way)
        limit.sent(others)
        last = broker(now, last)
        on_their_way.append((last, now, others))
        counts.append(others + 1)
        now += 0.05
    for answered, sent, others in on_their_way:
        now = max(now, answered)
        limit.answered(others, int(sent * 1000), int(answered * 1000))
    return now, counts


@pytest.mark.parametrize("takes_ms", [1, 5, 20, 100])
def test_one_request_in_flight_to_a_broker_that_handles_one_after_the_other(takes_ms: float) -> None:
    _, counts = run(FlightLimit(5), serial(takes_ms), 2000)
    assert counts.count(1) > 0.95 * len(counts)
    assert max(counts) == 2, "now and then one more is tried"


def test_few_requests_are_tried_in_the_first_seconds() -> None:
    """Each of them delays records by up to 20 ms: the latency of one record in a hundred is what is felt."""
    _, counts = run(FlightLimit(5), serial(20), 150)
    assert counts.count(2) <= 3


def test_all_requests_allowed_to_a_broker_far_away() -> None:
    _, counts = run(FlightLimit(5), serial(0.1, away_ms=20), 2000)
    assert max(counts) == 5
    # Now and then one goes alone, to measure what that takes.
    assert sum(counts) / len(counts) > 4


def test_only_as_many_requests_as_network_time_needs() -> None:
    _, counts = run(FlightLimit(5), serial(10, away_ms=10), 2000)
    # Two would do; with three it waits for a third of the time, with five for two thirds.
    assert 1.5 < sum(counts[100:]) / len(counts[100:]) < 3.1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (serial(0.1, away_ms=20), serial(20), 1),
        (serial(20), serial(0.1, away_ms=20), 5),
        (serial(100), serial(5), 1),
        (serial(0.1, away_ms=100), serial(0.1, away_ms=10), 5),
        (serial(0.1, away_ms=10), serial(0.1, away_ms=100), 5),
    ],
)
def test_a_broker_that_changes_is_measured_anew(before: Broker, after: Broker, expected: int) -> None:
    limit = FlightLimit(5)
    end, _ = run(limit, before, 1000)
    _, counts = run(limit, after, 3000, end)
    late = counts[1000:]
    assert abs(sum(late) / len(late) - expected) < 0.75


def test_never_more_requests_than_the_settings_allow() -> None:
    _, counts = run(FlightLimit(2), serial(0.1, away_ms=20), 500)
    assert max(counts) == 2
    _, counts = run(FlightLimit(1), serial(0.1, away_ms=20), 500)
    assert max(counts) == 1


@pytest.mark.parametrize("requests_before", [0, 1, 3, 20])
@pytest.mark.parametrize("pause_ms", [1_000, 60_000])
def test_one_answer_that_is_late_does_not_fill_the_brokers_queue(requests_before: int, pause_ms: int) -> None:
    """Else every request in company would look fast for thousands of requests to come."""
    limit = FlightLimit(5)
    now_ms = 0
    for took_ms in [20] * requests_before + [pause_ms]:
        limit.sent(0)
        limit.answered(0, now_ms * 1000, (now_ms + took_ms) * 1000)
        now_ms += took_ms
    _, counts = run(limit, serial(20), 1000, now_ms)
    assert max(counts) == 2, "now and then one more is tried"
    assert counts.count(1) > 0.9 * len(counts)


@pytest.mark.parametrize("away_ms", [0, 20])
def test_a_clock_that_was_set_back_is_forgotten(away_ms: float) -> None:
    limit = FlightLimit(5)
    broker = serial(0.1, away_ms) if away_ms else serial(20)
    end_ms, _ = run(limit, broker, 100)
    began_us = int(end_ms * 1000)
    limit.sent(0)
    limit.answered(0, began_us, began_us - 3_600_000_000)
    _, counts = run(limit, broker, 1000, end_ms - 3_600_000)
    assert 1 <= limit.useful <= 5
    late = counts[500:]
    assert abs(sum(late) / len(late) - (5 if away_ms else 1)) < 0.3
