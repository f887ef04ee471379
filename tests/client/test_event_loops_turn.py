"""An event loop that awaits its records one by one sends them and takes their answers itself; all else is as ever."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from importlib.machinery import EXTENSION_SUFFIXES
from random import Random
from types import FrameType
from typing import Any

import pytest
from tests.client.in_time import run, wait_until
from tests.client.request_faults import REQUEST_FAULTS
from tests.drawn import fixed_seeds
from tests.read_back import stored

import ottla
from ottla.client import callers_turn
from ottla.client.callers_turn import ALONE_AFTER, EventLoopsTurn
from ottla.protocol.error_codes import ErrorCode

IS_COMPILED = callers_turn.__file__.endswith(tuple(EXTENSION_SUFFIXES))


def turns(producer: ottla.AsyncProducer) -> EventLoopsTurn:
    """What counts the turns that the event loop has taken."""
    found = producer._driver.callers_turn
    assert isinstance(found, EventLoopsTurn)
    return found


async def get_alone(producer: ottla.AsyncProducer, topic: str) -> int:
    """Await one by one until the event loop takes its own turns, and has borrowed the connection; the last offset."""
    turn = turns(producer)
    taken, offset, sent = turn.taken, -1, 0
    # How soon that is depends on when the I/O thread sleeps.
    while sent < 2 * ALONE_AFTER or turn.taken == taken or not turn._lent:
        offset = (await (await producer.send(topic, b"alone %d" % sent, partition=0))).offset
        sent += 1
    return offset


@asynccontextmanager
async def alone(cluster: ottla.Cluster, topic: str, **settings: Any) -> AsyncIterator[tuple[ottla.AsyncProducer, int]]:
    """A producer whose event loop takes its own turns, and the next offset."""
    async with ottla.AsyncProducer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1, **settings) as producer:
        yield producer, await get_alone(producer, topic) + 1


def test_every_record_is_stored_once_and_in_order(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            taken = turns(producer).taken
            for n in range(500):
                told = await (await producer.send(kafka_topic, b"%d" % n, partition=0))
                assert told.offset == first + n
            assert turns(producer).taken > taken
            assert stored(kafka_cluster, kafka_topic)[first:] == [b"%d" % n for n in range(500)]

    run(work())


@pytest.fixture
def spread() -> Iterator[ottla.Cluster]:
    """Three brokers, each of which leads one partition of the topic `spread`."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("spread", partitions=3)
        assert len({cluster.leader("spread", partition) for partition in range(3)}) == 3
        yield cluster


async def borrow_three(producer: ottla.AsyncProducer) -> int:
    """Await records one by one until the connections to all three are lent; how many."""
    sent = 0
    while sent < 100 or len(turns(producer)._lent) < 3:
        await (await producer.send("spread", b"%d" % sent, partition=sent % 3))
        sent += 1
    return sent


def test_several_brokers_lend_their_connections(spread: ottla.Cluster) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(spread.bootstrap_servers, linger_ms=0) as producer:
            sent = await borrow_three(producer)
            assert turns(producer).taken > 0
            assert sorted(stored(spread, "spread")) == sorted(b"%d" % n for n in range(sent))

    run(work())


def test_a_lent_connection_that_ends_is_noticed_while_another_one_is_awaited(spread: ottla.Cluster) -> None:
    """It stays readable until somebody reads its end, and the event loop would turn and turn."""

    async def work() -> None:
        async with ottla.AsyncProducer(spread.bootstrap_servers, linger_ms=0) as producer:
            await borrow_three(producer)
            lent = list(turns(producer)._lent)
            spread.kill(spread.leader("spread", 1))
            with spread.faults.delay_ack(topic="spread", every=1, delay_ms=20):
                for _ in range(200):
                    await (await producer.send("spread", b"on", partition=0))
                    if not all(each.connected for each in lent):
                        break
            assert sum(each.connected for each in lent) == 2

    run(work())


def test_what_is_awaited_late_is_the_io_threads(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    """Nobody would look after it: the event loop may be held up when the answer comes."""

    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            turn = turns(producer)
            with kafka_cluster.faults.delay_ack(topic=kafka_topic, times=1, delay_ms=3000):
                delivery = await producer.send(kafka_topic, b"late", partition=0)
                wait_until(lambda: not turn._lent, "the connection taken back")
                awaiting = asyncio.ensure_future(_outcome(delivery))
                await asyncio.sleep(0)
                assert not turn._lent
                assert (await awaiting).offset == first

    run(work())


def test_callbacks_know_nothing_of_who_awaited_first(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    called_with: list[str] = []

    async def request(producer: ottla.AsyncProducer) -> None:
        variable.set("the request's")
        for _ in range(100):
            delivery = await producer.send(
                kafka_topic, b"x", partition=0, on_delivery=lambda _: called_with.append(variable.get())
            )
            await delivery
        await get_alone(producer, kafka_topic)

    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
            await asyncio.create_task(request(producer))
            await asyncio.create_task(request(producer))

    run(work())
    assert called_with == ["nobody's"] * 200


def test_an_event_loop_that_reads_no_files_leaves_it_to_the_io_thread(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    class Deaf(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
            raise NotImplementedError

    async def work() -> None:
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0) as producer:
            for n in range(200):
                assert (await (await producer.send(kafka_topic, b"%d" % n, partition=0))).offset == n
            assert not turns(producer)._lent
            assert not producer._driver.appender.is_eager

    with asyncio.Runner(loop_factory=Deaf) as runner:
        runner.run(work())


@pytest.mark.skipif(not IS_COMPILED, reason="without a compiler everything is interpreted")
@pytest.mark.parametrize("settings", [{}, {"acks": 1, "enable_idempotence": False}], ids=str)
def test_no_handler_of_a_signal_runs_within_a_turn(
    kafka_cluster: ottla.Cluster, kafka_topic: str, settings: dict[str, Any]
) -> None:
    """Python runs them where an interpreted function is called; none of ours is but these, outside the turn."""
    called: set[str] = set()
    package = os.path.dirname(ottla.__file__)

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            called.add(frame.f_code.co_name)

    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic, **settings) as (producer, _first):
            taken = turns(producer).taken
            # Garbage collection could finalize objects that other tests have left.
            gc.disable()
            sys.setprofile(note)
            try:
                for _ in range(200):
                    await (await producer.send(kafka_topic, b"x", partition=0))
            finally:
                sys.setprofile(None)
                gc.enable()
            assert turns(producer).taken > taken

    run(work())
    assert called == {"is_awaited", "bind", "land", "ring"}


@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_what_goes_wrong_is_the_io_threads_and_every_record_arrives_once(
    kafka_cluster: ottla.Cluster, kafka_topic: str, fault: str
) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, _first):
            with REQUEST_FAULTS[fault](kafka_cluster.faults, kafka_topic) as rule:
                for n in range(60):
                    await (await producer.send(kafka_topic, b"%d" % n, partition=0))
                assert rule.fired

    run(work())
    assert stored(kafka_cluster, kafka_topic)[-60:] == [b"%d" % n for n in range(60)]


def test_a_record_that_is_refused_for_good_fails_and_the_next_one_arrives(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, _first):
            with kafka_cluster.faults.refuse(topic=kafka_topic, times=1, error=ErrorCode.INVALID_RECORD):
                refused = await producer.send(kafka_topic, b"refused", partition=0)
                with pytest.raises(ottla.DeliveryFailed, match="INVALID_RECORD"):
                    await refused
            await (await producer.send(kafka_topic, b"taken", partition=0))

    run(work())
    assert stored(kafka_cluster, kafka_topic)[-1] == b"taken"


def test_a_broker_that_is_killed_and_comes_back_costs_nothing() -> None:
    async def work(cluster: ottla.Cluster) -> None:
        broker = cluster.leader("killed", 0)
        sent = [b"before 0", b"meanwhile 0", b"before 1", b"meanwhile 1", b"before 2", b"meanwhile 2"]
        async with alone(cluster, "killed") as (producer, _first):
            for before, meanwhile in zip(sent[::2], sent[1::2], strict=True):
                await (await producer.send("killed", before, partition=0))
                cluster.kill(broker)
                restart = threading.Thread(target=cluster.start, args=(broker,))
                delivery = await producer.send("killed", meanwhile, partition=0)
                restart.start()
                await delivery
                restart.join()
                last = await get_alone(producer, "killed")
            found = stored(cluster, "killed")
            assert len(found) == last + 1
            assert [value for value in found if not value.startswith(b"alone")] == sent

    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("killed")
        run(work(cluster))


@pytest.mark.parametrize("request_timeout_ms", [200, 5000])
def test_an_answer_that_never_comes_is_noticed_in_time(
    kafka_cluster: ottla.Cluster, kafka_topic: str, request_timeout_ms: int
) -> None:
    """Where a request must be given up before the I/O thread could take a connection back, none is lent."""

    async def work() -> None:
        settings: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1, "request_timeout_ms": request_timeout_ms}
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, **settings) as producer:
            if request_timeout_ms == 200:
                assert producer._driver.callers_turn is None
            else:
                await get_alone(producer, kafka_topic)
            with kafka_cluster.faults.drop_ack(topic=kafka_topic, times=1) as rule:
                await (await producer.send(kafka_topic, b"again", partition=0))
                assert rule.fired == 1

    run(work())
    assert stored(kafka_cluster, kafka_topic).count(b"again") == 1


def test_while_the_event_loop_is_held_up_the_io_thread_takes_the_answer(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            delivery = await producer.send(kafka_topic, b"meanwhile", partition=0)
            awaiting = asyncio.ensure_future(_outcome(delivery))
            await asyncio.sleep(0)
            wait_until(delivery.done, "the record acknowledged")
            assert (await awaiting).offset == first
            await get_alone(producer, kafka_topic)

    run(work())


async def _outcome(delivery: ottla.Delivery) -> ottla.RecordMetadata:
    return await delivery


def test_who_overtakes_another_leaves_it_to_the_io_thread(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                one = asyncio.ensure_future(_outcome(await producer.send(kafka_topic, b"one", partition=0)))
                await asyncio.sleep(0)
                two = await producer.send(kafka_topic, b"two", partition=0)
                three = asyncio.ensure_future(_outcome(two))
                await asyncio.sleep(0)
                assert not producer._driver.appender.is_eager
            assert [(await one).offset, (await three).offset] == [first, first + 1]
            await get_alone(producer, kafka_topic)

    run(work())


def test_bursts_between_single_records_arrive_in_order(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def send(producer: ottla.AsyncProducer, value: bytes) -> int:
        return (await (await producer.send(kafka_topic, value, partition=0))).offset

    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            for burst in range(5):
                values = [b"%d of burst %d" % (n, burst) for n in range(100)]
                offsets = await asyncio.gather(*(send(producer, value) for value in values))
                assert offsets == list(range(first, first + 100))
                assert stored(kafka_cluster, kafka_topic)[first:] == values
                first = await get_alone(producer, kafka_topic) + 1

    run(work())


def test_a_wait_that_is_given_up_changes_nothing_about_the_record(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                delivery = await producer.send(kafka_topic, b"late", partition=0)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await delivery
            assert (await delivery).offset == first
            await (await producer.send(kafka_topic, b"and on", partition=0))

    run(work())
    assert stored(kafka_cluster, kafka_topic)[-2:] == [b"late", b"and on"]


@pytest.mark.parametrize("acks", ["all", 0])
def test_callbacks_run_in_the_event_loop(kafka_cluster: ottla.Cluster, kafka_topic: str, acks: Any) -> None:
    async def work() -> None:
        called_in: list[asyncio.AbstractEventLoop] = []

        def note(_delivery: ottla.Delivery) -> None:
            called_in.append(asyncio.get_running_loop())

        here = asyncio.get_running_loop()
        async with ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0, acks=acks) as producer:
            for _ in range(100):
                await (await producer.send(kafka_topic, b"x", partition=0, on_delivery=note))
            # Nobody awaits this one.
            await producer.send(kafka_topic, b"x", partition=0, on_delivery=note)
            await producer.flush()
            # Without answers a record may be settled before it is awaited, and then nobody waits.
            assert turns(producer).taken > 0 or not acks
        assert called_in == [here] * 101

    run(work())


def test_another_thread_sends_and_waits_beside_it(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    def send_and_wait(producer: ottla.AsyncProducer) -> None:
        for _ in range(300):
            producer._driver.appender.send(kafka_topic, b"other", partition=0).result(60)

    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, _first):
            other = asyncio.ensure_future(asyncio.to_thread(send_and_wait, producer))
            sent = 0
            while not other.done():
                await (await producer.send(kafka_topic, b"own %d" % sent, partition=0))
                sent += 1
            await other
            found = [value for value in stored(kafka_cluster, kafka_topic) if not value.startswith(b"alone")]
            assert found.count(b"other") == 300
            assert [value for value in found if value != b"other"] == [b"own %d" % n for n in range(sent)]

    run(work())


@pytest.mark.parametrize("end", ["close", "drop"])
def test_nothing_stays_with_the_event_loop(kafka_cluster: ottla.Cluster, kafka_topic: str, end: str) -> None:
    async def work() -> None:
        event_loop = asyncio.get_running_loop()
        producer: ottla.AsyncProducer | None
        producer = ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0)
        await get_alone(producer, kafka_topic)
        watched, driver = turns(producer)._poller.fileno(), producer._driver
        if end == "close":
            await producer.close()
        else:
            producer = None
            assert driver.loop.join(30)
            await asyncio.sleep(0)
        # True where there was one.
        assert not event_loop.remove_reader(watched)

    run(work())


def test_an_event_loop_that_is_over_holds_nothing_up(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> tuple[ottla.AsyncProducer, int]:
        producer = ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0)
        return producer, await get_alone(producer, kafka_topic) + 1

    producer, first = asyncio.run(work())
    delivery = producer._driver.appender.send(kafka_topic, b"without it", partition=0)
    assert delivery.result(60).offset == first
    producer._waits.close_at_exit(60)


def test_closing_takes_the_connections_back(
    kafka_cluster: ottla.Cluster, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes without an event loop hears of the last answer at once."""
    monkeypatch.setattr("ottla.client.callers_turn.LOOK_US", 60_000_000)

    async def work() -> tuple[ottla.AsyncProducer, int, ottla.Delivery]:
        producer = ottla.AsyncProducer(kafka_cluster.bootstrap_servers, linger_ms=0)
        first = await get_alone(producer, kafka_topic) + 1
        return producer, first, await producer.send(kafka_topic, b"last", partition=0)

    producer, first, delivery = asyncio.run(work())
    turn = turns(producer)
    producer._waits.close_at_exit(60)
    assert delivery.result(0).offset == first
    assert not turn._lent
    # Nobody waited until it looked as if the event loop had ended.
    assert producer._driver.appender.is_eager


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_is_told_so_and_the_parent_goes_on(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    async def work() -> None:
        async with alone(kafka_cluster, kafka_topic) as (producer, first):
            with kafka_cluster.faults.unplug(kafka_cluster.leader(kafka_topic, 0)):
                delivery = await producer.send(kafka_topic, b"parent's", partition=0)
                child = os.fork()
                if not child:
                    told = 0
                    try:
                        await delivery
                    except ottla.ForkError:
                        told = 1
                    os._exit(0 if told else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert (await delivery).offset == first
            await get_alone(producer, kafka_topic)

    run(work())


@pytest.mark.parametrize("seed", fixed_seeds(1, soak=40))
def test_whatever_is_sent_between_single_records_is_stored_once_and_in_order(
    kafka_cluster: ottla.Cluster, kafka_topic: str, seed: int
) -> None:
    rng = Random(seed)
    sent: list[bytes] = []

    async def send(producer: ottla.AsyncProducer) -> ottla.Delivery:
        sent.append(b"%d" % len(sent))
        return await producer.send(kafka_topic, sent[-1], partition=0)

    async def one_by_one(producer: ottla.AsyncProducer) -> None:
        for _ in range(rng.randrange(1, 60)):
            await (await send(producer))

    async def burst(producer: ottla.AsyncProducer) -> None:
        deliveries = [await send(producer) for _ in range(rng.randrange(2, 80))]
        await asyncio.gather(*deliveries)

    async def impatient(producer: ottla.AsyncProducer) -> None:
        waiting = asyncio.ensure_future(_outcome(await send(producer)))
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async def flush(producer: ottla.AsyncProducer) -> None:
        await send(producer)
        await producer.flush()

    async def work() -> None:
        address, faults = kafka_cluster.bootstrap_servers, kafka_cluster.faults
        async with ottla.AsyncProducer(address, linger_ms=0, retry_backoff_ms=1) as producer:
            turn = turns(producer)
            with (
                faults.lose_ack(topic=kafka_topic, every=41),
                faults.lose_request(topic=kafka_topic, every=53),
                faults.refuse(topic=kafka_topic, every=67, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ):
                while len(sent) < 3000 or not turn.taken:
                    await rng.choice((one_by_one, one_by_one, one_by_one, burst, impatient, flush))(producer)

    run(work())
    assert stored(kafka_cluster, kafka_topic) == sent
