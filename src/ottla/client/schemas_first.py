"""`send` in an event loop, where a registry has to be asked before a topic's first record can be serialized.

A registry may be silent for minutes, and asking it blocks: a thread does that, and the event loop goes on. All records
of the topic that come meanwhile wait in a queue, as they are now. Behind the answer they are serialized and appended in
their order, before any that comes later. (Those that must wait for the topic's partitions then have no order, as all
sends that wait.) The thread is a daemon: those of the event loop would hold up its end.

A record that is cancelled while it waits is not sent; the question goes on, for whoever asks next.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import threading
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import OttlaError, fresh
from ottla.records.record_parts import header_pairs

if TYPE_CHECKING:
    from ottla.clock import MachineClock
    from ottla.records.delivery import Delivery
    from ottla.records.intake import Intake


class _Record(NamedTuple):
    """What `Intake.go_on` takes."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: Any
    timestamp_ms: Any
    on_delivery: Any


class SchemasFirst:
    """What an `Intake` calls for records that may have to wait; of one producer, and one event loop."""

    def __init__(self, clock: MachineClock) -> None:
        self._clock = clock
        self._process = os.getpid()
        # By topic: who waits, and for what `go_on` gives.
        self._queues: dict[str, deque[tuple[_Record, asyncio.Future[Any]]]] = {}

    def __call__(self, intake: Intake, *parts: Any) -> Coroutine[Any, Any, Delivery]:
        """Append the record behind all others of its topic, and once its schemas are known."""
        record = _Record(*parts)
        topic, value, key = record[:3]
        went_on: Coroutine[Any, Any, Delivery]
        if not isinstance(topic, str) or not (topic in self._queues or intake.has_to_ask(topic, value, key)):
            went_on = intake.go_on(*record)
            return went_on
        if asyncio._get_running_loop() is None or os.getpid() != self._process:
            # A thread without an event loop waits itself. In a child of the process `go_on` raises.
            intake.learn(topic, intake.ask(topic, value, key))
            went_on = intake.go_on(*record)
            return went_on
        return self._wait(intake, self._as_it_is(record))

    def _as_it_is(self, record: _Record) -> _Record:
        """The record with copies of what may be changed while it waits."""
        headers, timestamp_ms = record.headers, record.timestamp_ms
        return record._replace(
            value=_copied(record.value),
            key=_copied(record.key),
            headers=None if headers is None else [(name, _copied(content)) for name, content in header_pairs(headers)],
            timestamp_ms=self._clock.wall_ms() if timestamp_ms is None else timestamp_ms,
        )

    async def _wait(self, intake: Intake, record: _Record) -> Delivery:
        sent: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(record.topic, deque())
        intake.is_asking = True
        queue.append((record, sent))
        if len(queue) == 1:
            self._go_on(intake, record.topic)
        try:
            went_on = await sent
        except asyncio.CancelledError:
            if sent.done() and not sent.cancelled() and sent.exception() is None:
                # Appended already, or waiting for the topic's partitions: then it is not sent.
                sent.result().close()
            raise
        delivery: Delivery = await went_on
        return delivery

    def _go_on(self, intake: Intake, topic: str) -> None:
        """Append what waits, until one has to ask."""
        queue = self._queues[topic]
        while queue:
            record, sent = queue[0]
            if not sent.done():
                if intake.has_to_ask(*record[:3]):
                    self._ask(intake, record)
                    return
                try:
                    sent.set_result(intake.go_on(*record))
                except Exception as error:
                    sent.set_exception(error)
            queue.popleft()
        del self._queues[topic]
        intake.is_asking = bool(self._queues)

    def _ask(self, intake: Intake, record: _Record) -> None:
        """Have a thread ask what this record lacks, and go on in the event loop."""
        event_loop = asyncio.get_running_loop()

        def ask() -> None:
            answers: tuple[Any, Any] = (None, None)
            error: OttlaError | None = None
            try:
                answers = intake.ask(*record[:3])
            except OttlaError as raised:
                error = raised
            except BaseException as raised:  # whatever it is, somebody waits
                error = OttlaError(f"asking for the schemas of {record.topic!r} ended with {type(raised).__name__}")
            # An event loop that has ended has nobody who waits.
            with contextlib.suppress(RuntimeError):
                event_loop.call_soon_threadsafe(self._told, intake, record, answers, error)

        threading.Thread(target=ask, name="ottla-schemas", daemon=True).start()

    def _told(self, intake: Intake, asked: _Record, answers: tuple[Any, Any], error: OttlaError | None) -> None:
        if error is None:
            intake.learn(asked.topic, answers)
        else:
            # Whoever would ask the same is told the same, each by an error of its own.
            for record, sent in self._queues[asked.topic]:
                if not sent.done() and _question(record) == _question(asked):
                    sent.set_exception(fresh(error))
        self._go_on(intake, asked.topic)


def _question(record: _Record) -> tuple[bool, bool]:
    return record.value is None, record.key is None


def _copied(given: Any) -> Any:
    """A copy; the object itself where it cannot be copied."""
    try:
        return copy.deepcopy(given)
    except Exception:
        return given
