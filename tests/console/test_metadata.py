"""The metadata that every view of the console needs, where a broker does not answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import ottla
from ottla.console.kafka import Kafka
from ottla.errors import OttlaError

VIEWS = 8
PATIENCE_S = 30


def count_waiting(kafka: Kafka) -> int:
    """How many threads wait for an answer that another one has asked for."""
    asked = kafka._asked
    return 0 if asked is None else len(asked._condition._waiters)  # type: ignore[attr-defined]


def test_views_wait_for_a_broker_that_does_not_answer_at_the_same_time(cluster: ottla.Cluster) -> None:
    clock = ottla.Clock()
    with (
        closing(Kafka(cluster.bootstrap_servers, {"clock": clock}, {})) as kafka,
        ThreadPoolExecutor(VIEWS) as pool,
        cluster.faults.hold(api="Metadata") as asked,
    ):
        views = [pool.submit(kafka.metadata) for _ in range(VIEWS)]
        asked.await_reached()
        deadline = time.monotonic() + PATIENCE_S
        while count_waiting(kafka) < VIEWS - 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        clock.advance(3600)
        errors = [view.exception(PATIENCE_S) for view in views]
    assert isinstance(errors[0], OttlaError)
    assert all(error is errors[0] for error in errors)


def test_a_fresh_look_is_asked_for_and_kept(cluster: ottla.Cluster) -> None:
    with closing(Kafka(cluster.bootstrap_servers, {}, {})) as kafka:
        first = kafka.metadata()
        fresh = kafka.metadata(fresh=True)
        assert fresh is not first
        assert kafka.metadata() is fresh
