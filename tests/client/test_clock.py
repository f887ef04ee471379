"""`ottla.Clock`: time that a test stops and sets ahead, for every kind of client."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.client.in_time import Calling, wait_until

import ottla
from ottla.clock import Clock
from ottla.errors import ConfigError, KafkaError, OttlaError


def test_a_stopped_clock_shows_the_same_until_it_is_set_ahead() -> None:
    clock = Clock(stopped=True)
    began_us, began_ms = clock.now_us(), clock.wall_ms()
    assert clock.is_stopped
    clock.advance(86_400)
    assert (clock.now_us() - began_us, clock.wall_ms() - began_ms) == (86_400_000_000, 86_400_000)


def test_a_clock_never_goes_back() -> None:
    clock = Clock()
    seen = [clock.now_us()]
    ahead = [lambda: clock.advance(3), lambda: clock.advance(0)]
    for change in (clock.stop, clock.stop, ahead[0], clock.go_on, clock.go_on, ahead[1]):
        change()
        seen.append(clock.now_us())
    assert seen == sorted(seen)
    assert seen[-1] - seen[0] >= 3_000_000


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1", True, 10**9 + 1])
def test_a_time_that_cannot_pass_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match="give a number of seconds from 0 to 1,000,000,000; a clock does not go back"):
        Clock().advance(seconds)


def test_a_clock_ends_where_pythons_dates_do() -> None:
    clock = Clock(stopped=True)
    while clock.wall_ms() < datetime(9970, 1, 1, tzinfo=UTC).timestamp() * 1000:
        clock.advance(10**9)
    with pytest.raises(ConfigError, match="a clock goes to the end of the year 9999 at most"):
        clock.advance(10**9)
    assert datetime.fromtimestamp(clock.wall_ms() / 1000, UTC).year > 9900


def test_who_waits_for_calls_that_do_not_come_is_told_how_many_there_are() -> None:
    with pytest.raises(TimeoutError, match="after 0 s: 0, and not 1"):
        Clock().await_calls(timeout=0)


@pytest.mark.parametrize("given", [{"count": 0}, {"count": 0.5}, {"timeout": -1}, {"timeout": "1"}])
def test_calls_that_cannot_be_waited_for_are_refused(given: dict[str, Any]) -> None:
    [name] = given
    with pytest.raises(ConfigError, match=f"{name}=.* must be"):
        Clock().await_calls(**given)


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"clock=.* is no clock; give an ottla\.Clock"):
        ottla.Producer("localhost:9092", clock=5)  # type: ignore[arg-type]


def test_records_are_given_up_when_the_clock_says_so(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        assert producer.send(kafka_topic, b"first").result().offset == 0
        with kafka_cluster.faults.drop_request(topic=kafka_topic):
            delivery = producer.send(kafka_topic, b"second")
            failing = Calling(lambda: delivery.result())
            clock.await_calls()
            clock.advance(119)
            assert not delivery.done()
            clock.advance(2)
            error = failing.ended()
        assert isinstance(error, ottla.DeliveryFailed | ottla.DeliveryUnknown)
        assert "delivery.timeout.ms" in str(error)


@pytest.mark.parametrize("waiting", ["result", "close"])
def test_who_waits_by_a_stopped_clock_is_told_so(
    kafka_cluster: ottla.Cluster, kafka_topic: str, waiting: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ottla.Clock(stopped=True)
    producer = ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0)
    with kafka_cluster.faults.hold(topic=kafka_topic):
        delivery = producer.send(kafka_topic, b"value")
        calling = Calling(lambda: delivery.result(5) if waiting == "result" else producer.close(5))
        wait_until(lambda: "its clock is stopped: time passes by clock.advance(...)" in caplog.text)
        assert calling.is_alive()
        clock.advance(6)
        assert isinstance(calling.ended(), TimeoutError if waiting == "result" else None | OttlaError)
    clock.go_on()
    producer.close()


def test_who_waits_in_an_event_loop_by_a_stopped_clock_is_told_so(
    kafka_cluster: ottla.Cluster, kafka_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ottla.Clock(stopped=True)

    async def flush() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
            with kafka_cluster.faults.hold(topic=kafka_topic):
                await producer.send(kafka_topic, b"value")
                flushing = asyncio.create_task(producer.flush(60))
                await asyncio.to_thread(wait_until, lambda: "its clock is stopped" in caplog.text)
                clock.advance(61)
                with pytest.raises(TimeoutError):
                    await flushing
            clock.go_on()

    asyncio.run(flush())


def test_linger_passes_with_the_clock(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock(stopped=True)
    with ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=20_000) as producer:
        producer.partitions_for(kafka_topic)
        delivery = producer.send(kafka_topic, b"value")
        clock.advance(19)
        assert not delivery.done()
        clock.advance(1)
        assert delivery.result(60).offset == 0


def test_a_record_has_the_clocks_time(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock(stopped=True)
    clock.advance(500)
    with ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        assert producer.send(kafka_topic, b"value").result(60).timestamp_ms == clock.wall_ms()


def test_send_waits_for_a_topic_by_the_clock(kafka_cluster: ottla.Cluster) -> None:
    clock = ottla.Clock(stopped=True)
    producer = ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0)
    with kafka_cluster.faults.drop_request(api="Metadata"):
        sending = Calling(lambda: producer.send("a-topic-nobody-made", b"value"))
        clock.await_calls()
        assert sending.is_alive()
        clock.advance(60)
        assert isinstance(sending.ended(), OttlaError)
    producer.close(0)


def test_flush_in_an_event_loop_times_out_by_the_clock(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock(stopped=True)

    async def flush() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
            await (await producer.send(kafka_topic, b"first"))
            with kafka_cluster.faults.drop_request(topic=kafka_topic):
                await producer.send(kafka_topic, b"second")
                flushing = asyncio.create_task(producer.flush(60))
                await asyncio.to_thread(clock.await_calls)
                clock.advance(59)
                await asyncio.sleep(0)
                assert not flushing.done()
                clock.advance(1)
                with pytest.raises(TimeoutError, match="after 60 s"):
                    await flushing
            clock.go_on()
            clock.advance(30)
            await producer.flush()

    asyncio.run(flush())


def test_an_admin_client_gives_up_by_the_clock(kafka_cluster: ottla.Cluster) -> None:
    clock = ottla.Clock()
    with ottla.Admin(kafka_cluster.bootstrap_servers, clock=clock) as admin:
        admin.list_topics()
        with kafka_cluster.faults.drop_request(api="Metadata"):
            asking = Calling(lambda: admin.list_topics())
            clock.await_calls()
            assert asking.is_alive()
            clock.advance(61)
            assert isinstance(asking.ended(), OttlaError | KafkaError)


def test_a_client_that_is_closed_leaves_nothing_at_the_clock(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    clock = ottla.Clock()
    with ottla.Producer(kafka_cluster.bootstrap_servers, clock=clock, linger_ms=0) as producer:
        producer.send(kafka_topic, b"value").result(60)
    assert clock._watchers == []
