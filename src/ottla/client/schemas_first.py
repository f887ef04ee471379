"""`send` in an event loop, where a registry has to be asked before a topic's first record can be serialized.

Asking a registry blocks, perhaps for minutes: a thread does that, and the event loop goes on. The topic's records that
are sent meanwhile wait in a queue, as copies. After the answer they are serialized and appended in their order, before
any later record. (If they must then wait for the topic's partitions, too, they have no order any more, like all sends
that wait for these.) The thread is a daemon; a thread of the event loop's own pool would keep the loop from ending.

A record whose `send` is cancelled before it is appended is not sent. The thread still asks, for later records.
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
    """What an `Intake` calls for records that may have to wait; for one producer and one event loop."""

    def __init__(self, clock: MachineClock) -> None:
        self._clock = clock
        self._process = os.getpid()
        # {topic: the records that wait, each with the future of what `Intake.go_on` returns}.
        self._queues: dict[str, deque[tuple[_Record, asyncio.Future[Any]]]] = {}

    def __call__(self, intake: Intake, *parts: Any) -> Coroutine[Any, Any, Delivery]:
        """Append the record when its schemas are known, after all others of its topic that wait."""
        record = _Record(*parts)
        topic, value, key = record[:3]
        went_on: Coroutine[Any, Any, Delivery]
        if not isinstance(topic, str) or not (topic in self._queues or intake.has_to_ask(topic, value, key)):
            went_on = intake.go_on(*record)
            return went_on
        if asyncio._get_running_loop() is None or os.getpid() != self._process:
            # A thread without an event loop asks and waits itself. In a forked child `go_on` raises.
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
                # Either it is appended, and will be sent, or this keeps a record that waits for partitions from it.
                sent.result().close()
            raise
        delivery: Delivery = await went_on
        return delivery

    def _go_on(self, intake: Intake, topic: str) -> None:
        """Append the records that wait, up to the first that needs a schema; have that looked up."""
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
        """Look up this record's schemas in a thread, then call `_told` in the event loop."""
        event_loop = asyncio.get_running_loop()

        def ask() -> None:
            answers: tuple[Any, Any] = (None, None)
            error: OttlaError | None = None
            try:
                answers = intake.ask(*record[:3])
            except OttlaError as raised:
                error = raised
            except BaseException as raised:  # of any kind: the records that wait must get an error
                error = OttlaError(f"asking for the schemas of {record.topic!r} ended with {type(raised).__name__}")
            # RuntimeError: the event loop has ended, and nothing waits any more.
            with contextlib.suppress(RuntimeError):
                event_loop.call_soon_threadsafe(self._told, intake, record, answers, error)

        threading.Thread(target=ask, name="ottla-schemas", daemon=True).start()

    def _told(self, intake: Intake, asked: _Record, answers: tuple[Any, Any], error: OttlaError | None) -> None:
        if error is None:
            intake.learn(asked.topic, answers)
        else:
            # Every record that needs the same schemas gets the same error, each its own copy.
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
