"""Nodes of Apache Kafka are killed at random under load: every record acknowledged is there once, in its key's order.

Three kinds of senders write to one topic at a fixed rate, all with the default settings: `send` with callbacks, small
tables, an event loop. Meanwhile random nodes are killed and started again, one at a time; the next one is killed once
all replicas are in sync. With three replicas and min.insync.replicas=2 nothing may be lost, and no record may fail.
OTTLA_SOAK=1: two million records, five kills.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tools.kafka_jars import JarsUnavailable

import ottla
from ottla.client.async_producer import AsyncProducer
from ottla.errors import DeliveryUnknown

from ..conformance.sides import BROKERS, Apache, Side
from ..drawn import commit_seeds
from ..needs import lacking
from ..papers import Papers
from ..soak import IS_SOAK

pytestmark = [pytest.mark.kafka, pytest.mark.prove]

RECORDS, A_SECOND, KILLS = (2_000_000, 20_000, 5) if IS_SOAK else (40_000, 4_000, 1)
SEED = commit_seeds(1)
PARTITIONS = 6
KEYS = 997
ROWS_OF_A_TABLE = 200
SPURTS_A_SECOND = 50
PATIENCE_S = 180
TOPIC = "random-kills"


class Way:
    """What one way of sending did, and was told: a record's number is its value, and its key is of that number."""

    def __init__(self, name: str, topic: str, address: str, records: int, a_second: float) -> None:
        self.name = name
        self.topic = topic
        self.address = address
        self.sent = 0
        self.told: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        # By a record's number: "" as long as nothing is told.
        self.outcomes: list[str] = []
        self.partitions = array("i")
        self.offsets = array("q")
        self.longest_s = 0.0
        self._records = records
        self._a_second = a_second
        self._begun_s = time.monotonic()

    def key(self, number: int) -> str:
        """Which key a record has."""
        return f"{self.name}-{number % KEYS}"

    def wanted(self, over: threading.Event) -> bool:
        """Whether more is to be sent: the kills must not outlast the load."""
        return self.sent < self._records or not over.is_set()

    def take(self, count: int) -> range:
        """The numbers of the next records."""
        numbers = range(self.sent, self.sent + count)
        self.outcomes += [""] * count
        self.partitions.extend([-1] * count)
        self.offsets.extend([-1] * count)
        self.sent += count
        return numbers

    @property
    def ahead_s(self) -> float:
        """How long to wait until the next spurt; what was held up is not caught up with faster than asked for."""
        ahead = self._begun_s + self.sent / self._a_second - time.monotonic()
        if ahead < 0:
            self._begun_s -= ahead
        return max(0.0, ahead)

    @property
    def spurt(self) -> int:
        """How many records leave between two waits."""
        return max(1, round(self._a_second / SPURTS_A_SECOND))

    def tell(self, number: int, outcome: str, partition: int = -1, offset: int = -1, error: str = "") -> None:
        """Take note of a record's outcome."""
        if self.outcomes[number]:
            outcome = "twice"
        self.told[outcome] += 1
        if error:
            self.errors[error] += 1
        self.outcomes[number] = outcome
        self.partitions[number] = partition
        self.offsets[number] = offset

    def took(self, since_s: float) -> None:
        """Take note of how long an acknowledgement took."""
        self.longest_s = max(self.longest_s, time.monotonic() - since_s)

    def delivered(self, number: int, since_s: float, delivery: Any) -> None:
        """The callback of a record."""
        error = delivery.exception(0)
        if error is None:
            where = delivery.result(0)
            self.took(since_s)
            self.tell(number, "acked", where.partition, where.offset)
        else:
            self.tell(number, "unknown" if isinstance(error, DeliveryUnknown) else "failed", error=str(error))

    def table_delivered(self, numbers: range, since_s: float, table: pa.Table) -> None:
        """The outcomes of a table's rows."""
        if table.column("error").null_count:
            self.took(since_s)
        rows = (table.column(name).to_pylist() for name in ("partition", "offset", "error"))
        for number, partition, offset, error in zip(numbers, *rows, strict=True):
            if error is None:
                self.tell(number, "acked", partition, offset)
            else:
                self.tell(number, error.split(":")[0], error=error)


def send_with_callbacks(way: Way, over: threading.Event, **settings: Any) -> None:
    with ottla.Producer(way.address, **settings) as producer:
        while way.wanted(over):
            for number in way.take(way.spurt):
                told = partial(way.delivered, number, time.monotonic())
                producer.send(way.topic, b"%d" % number, way.key(number), on_delivery=told)
            threading.Event().wait(way.ahead_s)


def send_tables(way: Way, over: threading.Event) -> None:
    waiting: deque[tuple[range, float, Any]] = deque()

    def look(all_of_them: bool = False) -> None:
        while waiting and (all_of_them or waiting[0][2].done()):
            numbers, since_s, sent = waiting.popleft()
            way.table_delivered(numbers, since_s, sent.result(PATIENCE_S))

    with ottla.Producer(way.address) as producer:
        while way.wanted(over):
            numbers = way.take(ROWS_OF_A_TABLE)
            keys = [way.key(number) for number in numbers]
            table = pa.table({"key": keys, "value": [b"%d" % number for number in numbers]})
            since_s = time.monotonic()
            waiting.append((numbers, since_s, producer.send_table(way.topic, table, key="key", value="value")))
            look()
            threading.Event().wait(way.ahead_s)
        look(all_of_them=True)


def send_in_event_loop(way: Way, over: threading.Event) -> None:
    async def send() -> None:
        async with AsyncProducer(way.address) as producer:
            while way.wanted(over):
                for number in way.take(way.spurt):
                    told = partial(way.delivered, number, time.monotonic())
                    await producer.send(way.topic, b"%d" % number, way.key(number), on_delivery=told)
                await asyncio.sleep(way.ahead_s)

    asyncio.run(send())


WAYS: dict[str, Callable[[Way, threading.Event], None]] = {
    "callbacks": send_with_callbacks,
    "tables": send_tables,
    "event-loop": send_in_event_loop,
}


class Found(NamedTuple):
    """What the topic holds: how often each record of a way, and where at first; keys that go back or elsewhere."""

    times: dict[str, bytearray]
    places: dict[str, list[tuple[int, int]]]
    out_of_order: list[str]


def read_back(ways: list[Way]) -> Found:
    """Read the whole topic, which all of these ways have sent to."""
    times = {way.name: bytearray(way.sent) for way in ways}
    places = {way.name: [(-1, -1)] * way.sent for way in ways}
    latest: dict[bytes, tuple[int, int]] = {}
    out_of_order = []
    with ottla.Reader(ways[0].address, ways[0].topic) as reader:
        for batch in reader:
            partition = batch.column("partition")[0].as_py()
            columns = (batch.column(name).to_pylist() for name in ("key", "value", "offset"))
            for key, value, offset in zip(*columns, strict=True):
                number, name = int(value), key.decode().rpartition("-")[0]
                before = latest.get(key, (partition, -1))
                if before[0] != partition or before[1] >= number:
                    out_of_order.append(f"{key.decode()}: {number} at {partition}, {offset} after {before}")
                latest[key] = partition, number
                if not times[name][number]:
                    places[name][number] = partition, offset
                times[name][number] += 1
    return Found(times, places, out_of_order)


def faults(found: Found, way: Way) -> set[str]:
    """What is wrong with what is stored, by what was told."""
    wrong = {"out of order"} if any(line.startswith(f"{way.name}-") for line in found.out_of_order) else set()
    told_of = zip(way.partitions, way.offsets, strict=True)
    stored = zip(found.times[way.name], found.places[way.name], strict=True)
    for outcome, told_place, (times, place) in zip(way.outcomes, told_of, stored, strict=True):
        if times > 1:
            wrong.add("stored twice")
        if outcome not in ("acked", "failed", "unknown"):
            wrong.add("not told, or told twice")
        if outcome == "failed" and times:
            wrong.add("stored though told failed")
        if outcome == "acked" and not times:
            wrong.add("acknowledged and lost")
        elif outcome == "acked" and place != told_place:
            wrong.add("not where its delivery says")
    return wrong


def tell_figures(say: Callable[[str], None], found: Found, way: Way) -> None:
    """Say what a way of sending did, was told, and left."""
    times = Counter(found.times[way.name])
    twice = sum(count for often, count in times.items() if often > 1)
    out_of_order = sum(line.startswith(f"{way.name}-") for line in found.out_of_order)
    say(
        f"{way.name}: sent {way.sent}, told {dict(way.told)}, stored {way.sent - times[0]}, stored twice {twice}, "
        f"out of order {out_of_order}, longest time to an acknowledgement {way.longest_s:.1f} s, "
        f"errors {dict(way.errors)}"
    )


def kill_at_random(side: Side, ways: list[Way], rng: Random, is_broken: Callable[[], bool]) -> list[int]:
    """Kill a node and start it again, time after time, spread over the load; the nodes in the order of their deaths."""
    victims = []
    for kill in range(KILLS):
        begin = int(RECORDS * (kill + 0.2 + 0.6 * rng.random()) / KILLS)
        while sum(way.sent for way in ways) < begin and not is_broken():
            threading.Event().wait(0.01)
        if is_broken():
            break
        victims.append(rng.randrange(BROKERS) + 1)
        side.kill(victims[-1])
        side.await_in_sync(TOPIC, BROKERS - 1)
        side.start(victims[-1])
        side.await_in_sync(TOPIC, BROKERS)
    return victims


@pytest.fixture(scope="module")
def side(papers: Papers) -> Iterator[Side]:
    """Three nodes of Apache Kafka."""
    try:
        apache = Apache(papers)
    except JarsUnavailable as missing:
        lacking("kafka", missing)
    yield apache
    apache.close()


def test_every_acknowledged_record_is_there_once_in_order(side: Side, say: Callable[[str], None]) -> None:
    side.create_topic(TOPIC, PARTITIONS, BROKERS, min_insync_replicas="2")
    [seed] = SEED
    over = threading.Event()
    begin_s = time.monotonic()
    share = RECORDS // len(WAYS) + 1
    ways = [Way(name, TOPIC, side.bootstrap_servers, share, A_SECOND / len(WAYS)) for name in WAYS]
    with ThreadPoolExecutor(len(WAYS)) as pool:
        runs = [pool.submit(WAYS[way.name], way, over) for way in ways]
        try:
            victims = kill_at_random(side, ways, Random(seed), lambda: any(run.done() for run in runs))
        finally:
            over.set()
    say(f"seed {seed}: nodes {victims} killed, all sent within {time.monotonic() - begin_s:.0f} s")
    for run in runs:
        run.result()
    found = read_back(ways)
    for way in ways:
        tell_figures(say, found, way)

    assert len(victims) == KILLS
    for way in ways:
        assert not faults(found, way)
        assert way.told == {"acked": way.sent}, way.errors


def test_the_control_without_idempotence_is_found_out(side: Side, kafka_name: str) -> None:
    """A retry of what was stored, and whose acknowledgement was lost, is stored twice."""
    side.create_topic(kafka_name, PARTITIONS, BROKERS, min_insync_replicas="2")
    over = threading.Event()
    over.set()
    way = Way("callbacks", kafka_name, side.lossy_servers, 1000, 1000)
    with side.losing_acks(kafka_name, every=3, times=5):
        send_with_callbacks(way, over, enable_idempotence=False)
    assert faults(read_back([way]), way) >= {"stored twice", "out of order"}
