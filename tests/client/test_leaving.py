"""Closing a producer whose brokers do not answer: the log says what it waits for, and Ctrl+C ends the wait.

The signal is sent when the program has written a certain line, so the moment of the interruption is known.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import ottla
from ottla.client import leaving

TOPIC = "flights"


@pytest.fixture
def cluster() -> Iterator[ottla.Cluster]:
    """A broker of one's own, to be stalled."""
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC)
        yield cluster


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait is logged, however short."""
    monkeypatch.setattr(leaving, "QUIET_S", 0.01)
    monkeypatch.setattr(leaving, "QUIET_INTERRUPTED_S", 0.01)


class Heard(logging.Handler):
    """What is logged under `ottla.producer`, and word of its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.first = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.first.set()


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler = Heard()
    logger = logging.getLogger("ottla.producer")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def ready(producer: ottla.Producer) -> None:
    producer.send(TOPIC, b"before").result(30)


def left_by(error: BaseException, cluster: ottla.Cluster, before: Callable[[], None]) -> ottla.Delivery:
    """What became of a record that was sent after `before`, at the end of a block that this error ended."""
    deliveries = []
    try:
        with ottla.Producer(cluster.bootstrap_servers) as producer:
            ready(producer)
            before()
            deliveries.append(producer.send(TOPIC, b"x", partition=0))
            raise error
    except type(error) as caught:
        if caught is not error:
            raise
    return deliveries[0]


def counted(told: str) -> int:
    """How many records a sentence accounts for."""
    counts = re.findall(r"(\d+) records? (?:(?:was|were) not delivered|(?:is|are) unknown)", told)
    return sum(map(int, counts))


# ---- Ctrl+C, from outside -------------------------------------------------------------------------------------------

# Python looks for a signal, then sleeps: one that comes in between is handled when the sleep ends. So no sleep here is
# without end: a thread sleeps in short pieces, and an event loop with a signal handler is woken by every signal.
_BEGINS = """
import asyncio, signal, sys, time, ottla
from ottla.client import leaving
leaving.LAST_ANSWERS_S = 3600  # only Ctrl+C ends it before that
servers, topic = sys.argv[1:]

def stall(producer):
    producer.send(topic, b"before").result(30)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        producer.send(topic, b"x")
    print("sent", flush=True)

def wait_for_ctrl_c():
    while True:
        time.sleep(0.05)

def be_woken_by_signals():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
"""

_IN_THE_BLOCK = """
with ottla.Producer(servers) as producer:
    stall(producer)
    wait_for_ctrl_c()
"""
_AT_ITS_END = """
leaving.QUIET_S = 0.01
with ottla.Producer(servers) as producer:
    stall(producer)
"""
_IN_FLUSH = """
leaving.QUIET_S = 0.01
with ottla.Producer(servers) as producer:
    stall(producer)
    producer.flush()
"""
_IN_A_COROUTINE = """
async def main():
    be_woken_by_signals()
    async with ottla.AsyncProducer(servers) as producer:
        await (await producer.send(topic, b"before"))
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(3):
            await producer.send(topic, b"x")
        print("sent", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


_IN_A_TRANSACTION_OF_COROUTINES = """
async def main():
    be_woken_by_signals()
    async with ottla.AsyncProducer(servers, transactional_id="t") as producer:
        async with producer.transaction():
            await (await producer.send(topic, b"before"))
            print("ready", flush=True)
            sys.stdin.readline()
            await producer.send(topic, b"x")
            print("sent", flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


class Child:
    """A program that sends to a broker that is stalled meanwhile."""

    def __init__(self, cluster: ottla.Cluster, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BEGINS + script, cluster.bootstrap_servers, TOPIC],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "ready\n"
            cluster.pause(1)
            assert self._process.stdin is not None
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == "sent\n"
        except BaseException:
            self._process.kill()
            raise

    def says(self, line: str) -> None:
        """Wait for this line."""
        assert self._process.stderr is not None
        assert line in self._process.stderr.readline()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ends(self) -> str:
        """Wait for its end by Ctrl+C, and return what it said last."""
        _, told = self._process.communicate(timeout=60)
        assert self._process.returncode == -signal.SIGINT, told
        return told

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (_IN_THE_BLOCK, None),
        (_AT_ITS_END, "close() has"),
        (_IN_FLUSH, "flush() has"),
    ],
    ids=["in the block", "at its end", "in flush"],
)
def test_ctrl_c_tells_what_is_waited_for_and_a_second_one_ends_it(
    cluster: ottla.Cluster, script: str, line: str | None
) -> None:
    with Child(cluster, script) as child:
        if line is not None:
            child.says(line)
        child.interrupt()
        child.says(
            f"interrupted: waiting up to 3600 s for 3 records to {cluster.bootstrap_servers}; "
            "press Ctrl+C again to give them up"
        )
        child.interrupt()
        told = child.ends()
    log, _, traceback = told.partition("Traceback")
    assert counted(log) == 3
    # One error with its own words, and the records behind it.
    assert "Traceback" not in traceback
    assert re.search(r"\nKeyboardInterrupt\n.*records.*\n$", traceback)
    assert counted(traceback) == 3


def test_ctrl_c_in_an_event_loop_tells_what_is_waited_for_and_a_second_one_ends_it(cluster: ottla.Cluster) -> None:
    with Child(cluster, _IN_A_COROUTINE) as child:
        child.interrupt()
        child.says("cancelled: waiting up to 3600 s for 3 records to ")
        child.interrupt()
        told = child.ends()
    assert counted(told.partition("Traceback")[0]) == 3


def test_ctrl_c_in_a_transaction_of_coroutines_tells_what_is_waited_for_and_a_second_one_ends_it(
    cluster: ottla.Cluster,
) -> None:
    with Child(cluster, _IN_A_TRANSACTION_OF_COROUTINES) as child:
        child.interrupt()
        child.says("cancelled: waiting up to 3600 s for the transaction to be aborted")
        child.interrupt()
        told = child.ends()
    assert "the transaction may still be open" in told


def test_ctrl_c_ends_the_wait_at_the_end_of_a_process(cluster: ottla.Cluster) -> None:
    with Child(cluster, "leaving.QUIET_S = 0.01\nproducer = ottla.Producer(servers)\nstall(producer)") as child:
        child.says("the process ends: waiting up to 30 s for 3 records to ")
        child.interrupt()
        _, told = child._process.communicate(timeout=60)
    assert "Traceback" not in told
    assert counted(told) == 3


def test_ctrl_c_in_a_transaction_tells_what_is_waited_for_and_a_second_one_ends_it(cluster: ottla.Cluster) -> None:
    script = """
with ottla.Producer(servers, transactional_id="t") as producer:
    with producer.transaction():
        stall(producer)
        wait_for_ctrl_c()
"""
    with Child(cluster, script) as child:
        child.interrupt()
        child.says("interrupted: waiting up to 3600 s for the transaction to be aborted; press Ctrl+C again to leave")
        child.interrupt()
        told = child.ends()
    assert "the transaction may still be open" in told
    assert told.count("Traceback") == 1


# ---- within this process --------------------------------------------------------------------------------------------


def test_after_ctrl_c_records_have_a_few_seconds_and_what_became_of_them_is_a_note(
    cluster: ottla.Cluster, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LAST_ANSWERS_S", 0.1)
    interruption = KeyboardInterrupt()
    left_by(interruption, cluster, lambda: cluster.pause(1))
    [note] = interruption.__notes__
    assert counted(note) == counted(heard.lines[-1]) == 1


def test_after_ctrl_c_brokers_that_answer_get_everything_and_nothing_is_said(
    cluster: ottla.Cluster, heard: Heard, unhurried: None
) -> None:
    interruption = KeyboardInterrupt()
    delivery = left_by(interruption, cluster, lambda: None)
    assert delivery.result(0).offset == 1
    assert not hasattr(interruption, "__notes__")
    assert heard.lines == []


def test_flush_says_what_it_waits_for_and_goes_on_waiting(cluster: ottla.Cluster, heard: Heard, at_once: None) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer, ThreadPoolExecutor() as threads:
        ready(producer)
        cluster.pause(1)
        for _ in range(3):
            producer.send(TOPIC, b"x")
        flushing = threads.submit(producer.flush)
        assert heard.first.wait(60)
        cluster.resume(1)
        flushing.result(60)
        # Copied before `close`, which may take longer than 0.01 s, too, and be logged.
        lines = list(heard.lines)
    assert lines == [
        f"flush() has had no answer for 0.01 s and keeps waiting for 3 records to {cluster.bootstrap_servers}; each is "
        "given up after delivery.timeout.ms (120000 ms)"
    ]


def test_close_says_what_it_waits_for_and_goes_on_waiting(cluster: ottla.Cluster, heard: Heard, at_once: None) -> None:
    with ThreadPoolExecutor() as threads:
        producer = ottla.Producer(cluster.bootstrap_servers)
        ready(producer)
        cluster.pause(1)
        delivery = producer.send(TOPIC, b"x")
        closing = threads.submit(producer.close, 3600)
        assert heard.first.wait(60)
        cluster.resume(1)
        closing.result(60)
    assert delivery.result(0).offset == 1
    assert heard.lines == [
        f"close() has had no answer for 0.01 s and keeps waiting, up to 3600 s in all, for 1 record to "
        f"{cluster.bootstrap_servers}"
    ]


def test_an_error_in_the_block_gives_up_no_record(cluster: ottla.Cluster, heard: Heard, at_once: None) -> None:
    """Only an interruption cuts the wait short."""

    def resume_when_told() -> None:
        assert heard.first.wait(60)
        cluster.resume(1)

    with ThreadPoolExecutor() as threads:
        resuming = threads.submit(resume_when_told)
        delivery = left_by(LookupError("mine"), cluster, lambda: cluster.pause(1))
        resuming.result(60)
    assert delivery.result(0).offset == 1
    assert "close() has had no answer" in heard.lines[0]


def test_a_wait_with_a_short_timeout_is_not_told(cluster: ottla.Cluster, heard: Heard) -> None:
    producer = ottla.Producer(cluster.bootstrap_servers)
    ready(producer)
    cluster.pause(1)
    producer.send(TOPIC, b"x")
    with pytest.raises(TimeoutError):
        producer.flush(0.01)
    with pytest.raises(ottla.DeliveryError):
        producer.close(0)
    assert heard.lines == []


def test_coroutines_are_told_too(cluster: ottla.Cluster, heard: Heard, at_once: None) -> None:
    async def flush_and_close() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers) as producer:
            await (await producer.send(TOPIC, b"before"))
            for verb in (producer.flush, producer.close):
                heard.first.clear()
                cluster.pause(1)
                await producer.send(TOPIC, b"x")
                task = asyncio.create_task(verb())
                assert await asyncio.to_thread(heard.first.wait, 60)
                cluster.resume(1)
                await task

    asyncio.run(flush_and_close())
    assert [line.partition(" 0.01 s ")[0] for line in heard.lines] == [
        "flush() has had no answer for",
        "close() has had no answer for",
    ]


def test_a_cancelled_block_waits_a_few_seconds_only(
    cluster: ottla.Cluster, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LAST_ANSWERS_S", 0.1)

    async def cancelled() -> None:
        sent = asyncio.Event()

        async def block() -> None:
            async with ottla.AsyncProducer(cluster.bootstrap_servers) as producer:
                await (await producer.send(TOPIC, b"before"))
                cluster.pause(1)
                await producer.send(TOPIC, b"x")
                sent.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(block())
        await sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert counted(heard.lines[-1]) == 1
