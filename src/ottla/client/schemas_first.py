"""`send` in an event loop, where a registry has to be asked before a topic's first record can be serialized.

A registry may be silent for minutes, and asking it blocks: a thread does that, and the event loop goes on. One thread
asks for all records of a topic that come meanwhile. Behind the answer they are serialized and appended in the order in
which they came; only if they must wait for the topic's partitions then, they have no order, as all sends that wait. It
is a thread of its own, and a daemon: those of the event loop would hold up its end.

A record that is cancelled while it waits is not sent; the question goes on, for whoever asks next.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ottla.errors import OttlaError, fresh

if TYPE_CHECKING:
    from ottla.records.delivery import Delivery
    from ottla.records.intake import Intake

# None where all could be asked, else what was raised.
_Outcome = asyncio.Future[OttlaError | None]


class SchemasFirst:
    """What an `Intake` calls for a record whose schemas are not known; of one producer, and one event loop."""

    def __init__(self) -> None:
        # By topic, and whether there is a value and a key.
        self._asking: dict[tuple[str, bool, bool], _Outcome] = {}

    def __call__(self, intake: Intake, topic: str, value: Any, key: Any, *more: Any) -> Coroutine[Any, Any, Delivery]:
        """Await that they are, and then `Intake.go_on`."""
        if asyncio._get_running_loop() is None:
            # A thread without an event loop waits itself.
            intake.ask(topic, value, key)
            went_on: Coroutine[Any, Any, Delivery] = intake.go_on(topic, value, key, *more)
            return went_on
        return self._wait(intake, topic, value, key, *more)

    async def _wait(self, intake: Intake, topic: str, value: Any, key: Any, *more: Any) -> Delivery:
        which = topic, value is None, key is None
        asking = self._asking.get(which)
        if asking is None:
            asking = self._asking[which] = _asked(intake, topic, value, key)
            asking.add_done_callback(lambda _: self._asking.pop(which))
        error = await asyncio.shield(asking)
        if error is not None:
            # One for each record.
            raise fresh(error)
        delivery: Delivery = await intake.go_on(topic, value, key, *more)
        return delivery


def _asked(intake: Intake, topic: str, value: Any, key: Any) -> _Outcome:
    """What comes of asking, which a thread does."""
    event_loop = asyncio.get_running_loop()
    outcome: _Outcome = event_loop.create_future()

    def tell(error: OttlaError | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    def ask() -> None:
        error: OttlaError | None = None
        try:
            intake.ask(topic, value, key)
        except OttlaError as raised:
            error = raised
        # An event loop that has ended has nobody who waits.
        with contextlib.suppress(RuntimeError):
            event_loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=ask, name="ottla-schemas", daemon=True).start()
    return outcome
