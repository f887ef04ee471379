"""The thread that waits for a record sends it and takes its answer itself; whatever is unusual comes out as ever."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import FrameType
from typing import Any

import pytest
from tests.client.request_faults import REQUEST_FAULTS
from tests.read_back import stored

import ottla
from ottla.client import callers_turn
from ottla.client.callers_turn import ALONE_AFTER, ANSWER_MS_MAX, CallersTurn
from ottla.protocol.error_codes import ErrorCode

IS_COMPILED = callers_turn.__file__.endswith(tuple(EXTENSION_SUFFIXES))


def turns(producer: ottla.Producer) -> CallersTurn:
    """What counts the turns that callers have taken."""
    found = producer._driver.callers_turn
    assert found is not None
    return found


def get_alone(producer: ottla.Producer, topic: str) -> int:
    """Send one by one until the caller takes its own turns; how many it took."""
    for n in range(2 * ALONE_AFTER + 100):
        producer.send(topic, b"alone %d" % n, partition=0).result(60)
    assert turns(producer).taken > 0
    return 2 * ALONE_AFTER + 100


@pytest.fixture
def producer(kafka_cluster: ottla.Cluster, kafka_topic: str) -> Iterator[ottla.Producer]:
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1) as producer:
        get_alone(producer, kafka_topic)
        yield producer


def test_every_record_is_stored_once_and_in_order(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    before = len(stored(kafka_cluster, kafka_topic))
    taken = turns(producer).taken
    placed = [producer.send(kafka_topic, b"%d" % n, partition=0).result(60) for n in range(500)]
    assert turns(producer).taken > taken
    assert [each.offset for each in placed] == list(range(before, before + 500))
    assert stored(kafka_cluster, kafka_topic)[before:] == [b"%d" % n for n in range(500)]


@pytest.mark.skipif(not IS_COMPILED, reason="without a compiler everything is interpreted")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"acks": 0},
        {"acks": 1, "enable_idempotence": False},
        {"partitioner_class": "round_robin"},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_nothing_interpreted_is_called_on_the_callers_thread(
    kafka_cluster: ottla.Cluster, kafka_topic: str, settings: dict[str, Any]
) -> None:
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.append(f"{frame.f_code.co_filename}: {frame.f_code.co_name}")

    with (
        ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0, **settings) as producer,
        # Answers so late that the caller leaves them to the I/O thread.
        kafka_cluster.faults.delay_ack(topic=kafka_topic, every=90, delay_ms=2 * ANSWER_MS_MAX),
    ):
        get_alone(producer, kafka_topic)
        taken = turns(producer).taken
        for n in range(200):
            key = b"%d" % n if n % 2 else None
            # A collection may call what others have left in gc.callbacks.
            gc.disable()
            sys.setprofile(note)
            try:
                producer.send(kafka_topic, b"x", key).result(60)
            finally:
                sys.setprofile(None)
                gc.enable()
        assert turns(producer).taken > taken
    assert called == []


@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_what_goes_wrong_is_the_io_threads_and_every_record_arrives_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer, fault: str
) -> None:
    with REQUEST_FAULTS[fault](kafka_cluster.faults, kafka_topic) as rule:
        for n in range(60):
            producer.send(kafka_topic, b"%d" % n, partition=0).result(60)
        assert rule.fired
    assert stored(kafka_cluster, kafka_topic)[-60:] == [b"%d" % n for n in range(60)]


def test_a_record_that_is_refused_for_good_fails_and_the_next_one_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    with (
        kafka_cluster.faults.refuse(topic=kafka_topic, times=1, error=ErrorCode.INVALID_RECORD),
        pytest.raises(ottla.DeliveryFailed, match="INVALID_RECORD"),
    ):
        producer.send(kafka_topic, b"refused", partition=0).result(60)
    producer.send(kafka_topic, b"taken", partition=0).result(60)
    assert stored(kafka_cluster, kafka_topic)[-1] == b"taken"


def test_an_error_of_ours_in_a_turn_ends_the_producer_and_leaves_no_record_without_outcome(
    kafka_topic: str, producer: ottla.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(output: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(producer._driver, "perform", fail)
    delivery = producer.send(kafka_topic, b"perhaps stored", partition=0)
    # The first who waits takes the answer in, and meets the bug itself.
    with pytest.raises((ZeroDivisionError, ottla.DeliveryUnknown)):
        delivery.result(60)
    with pytest.raises(ottla.DeliveryUnknown, match="internal error"):
        delivery.result(60)
    with pytest.raises(ottla.OttlaError, match="make a new one"):
        producer.send(kafka_topic, b"refused")
    assert producer._driver.loop.join(60)


def test_a_broker_that_is_killed_and_comes_back_costs_nothing() -> None:
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("killed")
        broker = cluster.leader("killed", 0)
        with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1) as producer:
            alone = get_alone(producer, "killed")
            for n in range(3):
                producer.send("killed", b"before %d" % n, partition=0).result(60)
                cluster.kill(broker)
                restart = threading.Thread(target=cluster.start, args=(broker,))
                delivery = producer.send("killed", b"meanwhile %d" % n, partition=0)
                restart.start()
                delivery.result(60)
                restart.join()
        assert len(stored(cluster, "killed")) == alone + 6


@pytest.mark.parametrize("request_timeout_ms", [200, 1500])
def test_an_answer_that_never_comes_is_noticed_in_time(
    kafka_cluster: ottla.Cluster, kafka_topic: str, request_timeout_ms: int
) -> None:
    settings: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1, "request_timeout_ms": request_timeout_ms}
    with ottla.Producer(kafka_cluster.bootstrap_servers, **settings) as producer:
        get_alone(producer, kafka_topic)
        with kafka_cluster.faults.drop_ack(topic=kafka_topic, times=1) as rule:
            producer.send(kafka_topic, b"again", partition=0).result(60)
            assert rule.fired == 1
    assert stored(kafka_cluster, kafka_topic).count(b"again") == 1


def test_a_record_nobody_waits_for_arrives_all_the_same(kafka_topic: str, producer: ottla.Producer) -> None:
    arrived = threading.Event()
    taken = turns(producer).taken
    delivery = producer.send(kafka_topic, b"alone", partition=0)
    # The I/O thread may be awake at this moment; then it takes the turn, not the caller.
    while turns(producer).taken == taken:
        delivery.result(60)
        delivery = producer.send(kafka_topic, b"alone", partition=0)
    delivery.add_done_callback(lambda _: arrived.set())
    assert turns(producer).taken == taken + 1
    assert arrived.wait(60)
    several = [producer.send(kafka_topic, b"one of several", partition=0) for _ in range(5)]
    all_arrived = threading.Event()
    several[-1].add_done_callback(lambda _: all_arrived.set())
    assert all_arrived.wait(60)
    assert not producer._driver.appender.is_eager


def test_without_epoll_the_io_thread_does_it_all(
    kafka_cluster: ottla.Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer_driver.HAS_EPOLL", False)
    with ottla.Producer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
        assert producer._driver.callers_turn is None
        for n in range(2 * ALONE_AFTER):
            assert producer.send(kafka_topic, b"%d" % n, partition=0).result(60).offset == n


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told_so_and_the_parent_goes_on(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
        delivery = producer.send(kafka_topic, b"parent's", partition=0)
        child = os.fork()
        if not child:
            told = 0
            for _ in range(2 * ALONE_AFTER):
                try:
                    delivery.result(60)
                except ottla.ForkError:
                    told += 1
            os._exit(0 if told == 2 * ALONE_AFTER else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    delivery.result(60)
    get_alone(producer, kafka_topic)


def test_callbacks_run_on_the_io_thread(kafka_topic: str, producer: ottla.Producer) -> None:
    threads: Counter[int] = Counter()
    for _ in range(50):
        producer.send(
            kafka_topic, b"x", partition=0, on_delivery=lambda _: threads.update([threading.get_ident()])
        ).result(60)
        producer.send(kafka_topic, b"x", partition=0).result(60)
    producer.flush(60)
    assert sum(threads.values()) == 50
    assert threading.get_ident() not in threads
    assert len(threads) == 1


def test_a_wait_that_is_too_short_says_so_and_the_record_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
        delivery = producer.send(kafka_topic, b"late", partition=0)
        with pytest.raises(TimeoutError):
            delivery.result(0.001)
    delivery.result(60)
    assert stored(kafka_cluster, kafka_topic)[-1] == b"late"


class Interrupted(Exception):
    """What the signal's handler raises."""


@pytest.mark.parametrize("after_s", [0.005, 0.1])
def test_a_signal_ends_the_wait_and_nothing_is_lost(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer, after_s: float
) -> None:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
            delivery = producer.send(kafka_topic, b"interrupted", partition=0)
            with pytest.raises(Interrupted):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, after_s)
                delivery.result(60)
            assert not delivery.done()
        delivery.result(60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    producer.send(kafka_topic, b"and on", partition=0).result(60)
    assert stored(kafka_cluster, kafka_topic)[-2:] == [b"interrupted", b"and on"]


# What a handler raises within a finalizer is lost, wherever that runs.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_signals_at_any_moment_leave_every_record_stored_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    interrupted = []

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        interrupted.append(1)
        raise Interrupted

    waiting = []
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for n in range(600):
            delivery = producer.send(kafka_topic, b"%d" % n, partition=0)
            waiting.append(delivery)
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + n * 3e-7)
                delivery.result(60)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                continue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    for delivery in waiting:
        delivery.result(60)
    assert stored(kafka_cluster, kafka_topic)[-600:] == [b"%d" % n for n in range(600)]


def test_others_send_and_flush_while_one_waits_for_each_of_its_records(
    kafka_cluster: ottla.Cluster, kafka_topic: str, producer: ottla.Producer
) -> None:
    before = len(stored(kafka_cluster, kafka_topic))
    stop = threading.Event()
    sent: Counter[int] = Counter()

    def send_and_flush(number: int) -> None:
        while not stop.is_set():
            for _ in range(50):
                producer.send(kafka_topic, b"other", partition=0)
            sent[number] += 50
            producer.flush(60)

    others = [threading.Thread(target=send_and_flush, args=(number,)) for number in range(2)]
    for thread in others:
        thread.start()
    offsets = [producer.send(kafka_topic, b"%d" % n, partition=0).result(60).offset for n in range(2000)]
    stop.set()
    for thread in others:
        thread.join()
    assert offsets == sorted(set(offsets))
    assert len(stored(kafka_cluster, kafka_topic)) == before + 2000 + sum(sent.values())
