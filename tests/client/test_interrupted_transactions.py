"""Ctrl+C, or a cancellation, while a transaction block begins or commits: the same for threads and for coroutines."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.client.in_time import logged, run
from tests.interrupting import interrupted_within

import ottla
from ottla.client.coroutine_waits import CoroutineWaits
from ottla.client.thread_waits import ThreadWaits
from ottla.client.transaction_verbs import TransactionVerbs

from ..markers import await_markers

pytestmark = pytest.mark.usefixtures("unhurried")


def interrupt_the(nth: int, waits: Any, name: str, kind: type[BaseException]) -> None:
    """Have the nth wait from now on end by this exception, when what was waited for has come."""
    wait = getattr(waits, name)
    left = [nth]

    def is_due() -> bool:
        left[0] -= 1
        return left[0] == 0

    def wait_for(*given: Any) -> Any:
        waited = wait(*given)
        if is_due():
            raise kind
        return waited

    async def within(*given: Any) -> None:
        await wait(*given)
        if is_due():
            raise kind

    setattr(waits, name, within if name == "within" else wait_for)


def in_a_thread(cluster: ottla.Cluster, topic: str, nth: int, kind: type[BaseException]) -> BaseException:
    """What ended a block whose nth wait was interrupted; then a record is committed."""
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=topic, linger_ms=0) as producer:
        assert isinstance(producer._waits, ThreadWaits)
        interrupt_the(nth, producer._waits, "wait_for", kind)
        with pytest.raises(kind) as caught, producer.transaction():
            producer.send(topic, b"first")
        if nth == COMMIT:
            producer.commit_transaction()
        with producer.transaction():
            producer.send(topic, b"second")
    return caught.value


def in_an_event_loop(cluster: ottla.Cluster, topic: str, nth: int, kind: type[BaseException]) -> BaseException:
    """As `in_a_thread`."""

    errors: list[BaseException] = []

    async def block(producer: ottla.AsyncProducer) -> BaseException:
        try:
            async with producer.transaction():
                await producer.send(topic, b"first")
        except kind as error:
            return error
        raise AssertionError("nothing was interrupted")

    async def work() -> None:
        async with ottla.AsyncProducer(cluster.bootstrap_servers, transactional_id=topic, linger_ms=0) as producer:
            assert isinstance(producer._waits, CoroutineWaits)
            interrupt_the(nth, producer._waits, "within", kind)
            errors.append(await block(producer))
            if nth == COMMIT:
                await producer.commit_transaction()
            async with producer.transaction():
                await producer.send(topic, b"second")

    run(work())
    return errors[0]


# Which wait of the block is which: for an identity, for the beginning, for the end.
IDENTITY, BEGIN, COMMIT = 1, 2, 3
WAYS = [
    pytest.param(in_a_thread, KeyboardInterrupt, id="thread"),
    pytest.param(in_an_event_loop, KeyboardInterrupt, id="event-loop"),
    pytest.param(in_an_event_loop, asyncio.CancelledError, id="event-loop-cancelled"),
]


def committed(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    await_markers(cluster.bootstrap_servers, topic)
    found = ottla.read_table(cluster.bootstrap_servers, topic, isolation_level="read_committed")
    return sorted(found["value"].to_pylist())


@pytest.mark.parametrize(("block", "kind"), WAYS)
@pytest.mark.parametrize("nth", [IDENTITY, BEGIN], ids=["identity", "begin"])
def test_who_is_interrupted_while_beginning_leaves_nothing_open(
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    caplog: pytest.LogCaptureFixture,
    block: Callable[..., BaseException],
    kind: type[BaseException],
    nth: int,
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.producer"):
        error = block(kafka_cluster, kafka_topic, nth, kind)
    assert not hasattr(error, "__notes__")
    assert logged(caplog, "ottla.producer") == []
    assert committed(kafka_cluster, kafka_topic) == [b"second"]


@pytest.mark.parametrize(("block", "kind"), WAYS)
def test_who_is_interrupted_while_committing_is_told_that_the_outcome_is_not_known(
    kafka_cluster: ottla.Cluster,
    kafka_topic: str,
    caplog: pytest.LogCaptureFixture,
    block: Callable[..., BaseException],
    kind: type[BaseException],
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.producer"):
        error = block(kafka_cluster, kafka_topic, COMMIT, kind)
    told = "interrupted while the transaction was being committed: it is not known whether it is committed"
    assert getattr(error, "__notes__", None) == [told]
    assert logged(caplog, "ottla.producer") == [told]
    assert committed(kafka_cluster, kafka_topic) == [b"first", b"second"]


@pytest.mark.parametrize("verb", ["commit_transaction", "abort_transaction"])
def test_wherever_a_call_to_end_is_interrupted_the_same_call_ends_it(
    kafka_cluster: ottla.Cluster, kafka_topic: str, verb: str
) -> None:
    expected: list[bytes] = []
    with ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_topic, linger_ms=0) as producer:
        for nth in range(1, 100):
            value = b"%02d" % nth
            producer.begin_transaction()
            producer.send(kafka_topic, value)
            is_interrupted = True
            with suppress(KeyboardInterrupt), interrupted_within(TransactionVerbs.end.__code__, nth):
                getattr(producer, verb)()
                is_interrupted = False
            if is_interrupted:
                # The interrupted call may have ended the transaction already.
                with suppress(ottla.TransactionMisuse):
                    getattr(producer, verb)()
            if verb == "commit_transaction":
                expected.append(value)
            if not is_interrupted:
                break
    assert nth > 5
    assert committed(kafka_cluster, kafka_topic) == expected


def test_a_handler_of_a_signal_may_end_the_transaction_wherever_that_is_done_already(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    """Such as that of SIGTERM, which aborts what is open."""
    aborted: list[int] = []

    def work() -> None:
        with ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_topic, linger_ms=0) as producer:
            for nth in itertools.count(1):
                handled: list[int] = []

                def abort(nth: int = nth, handled: list[int] = handled) -> None:
                    handled.append(nth)
                    with suppress(ottla.TransactionMisuse):
                        producer.abort_transaction()
                        aborted.append(nth)

                producer.begin_transaction()
                producer.send(kafka_topic, b"%02d" % nth)
                with interrupted_within(TransactionVerbs.end.__code__, nth, abort):
                    try:
                        producer.commit_transaction()
                    except ottla.TransactionMisuse:
                        assert nth in aborted
                    else:
                        assert nth not in aborted
                        committed_ones.append(b"%02d" % nth)
                if not handled:
                    ended.append(nth)
                    return

    committed_ones: list[bytes] = []
    ended: list[int] = []
    # Of its own, as a thread that waits for itself would never end.
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert ended
    assert ended[0] > 5
    assert aborted
    assert committed(kafka_cluster, kafka_topic) == committed_ones
