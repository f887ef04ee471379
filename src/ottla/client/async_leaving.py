"""`leaving.py` for an `AsyncProducer`: nothing here blocks the event loop, and a cancellation is an interruption."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.client import leaving
from ottla.client.leaving import CANCELLED, Look, tell_of_closing
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.async_producer import AsyncProducer
    from ottla.client.producer_driver import ProducerDriver

# The first Ctrl+C cancels the main task. A second one raises KeyboardInterrupt wherever code runs, in coroutines, too.
INTERRUPTIONS = (asyncio.CancelledError, KeyboardInterrupt)


@contextlib.contextmanager
def told_of(driver: ProducerDriver, verb: str, timeout_s: float | None) -> Iterator[None]:
    """Log once what the block waits for if it takes long, as `LongWaits.wait` does."""
    look = Look(driver, driver.waits.long.cause, verb, timeout_s)
    if timeout_s is not None and timeout_s <= look.pause_s:
        yield
        return
    event_loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def again() -> None:
        look.again()
        if not look.has_told:
            timers[:] = [event_loop.call_later(look.pause_s, again)]

    timers.append(event_loop.call_later(look.pause_s, again))
    try:
        yield
    finally:
        timers[0].cancel()


async def leave_async(producer: AsyncProducer, error: BaseException | None) -> None:
    """Close a producer whose block has ended, by `error` or without one."""
    if isinstance(error, INTERRUPTIONS):
        await _hurry(producer, error)
        return
    try:
        await producer.close()
    except INTERRUPTIONS as cancelled:
        await _hurry(producer, cancelled)
        raise
    except OttlaError as closing:
        if error is None:
            raise
        tell_of_closing(error, closing)


async def abort_cancelled(producer: AsyncProducer, cancelled: BaseException) -> None:
    """As `leaving.abort_interrupted`, for an event loop."""
    driver = producer._driver
    verbs = driver.transactions
    try:
        for call in verbs.end(False):
            has_ended = verbs.has_ended(call)
            await producer._waits.within(leaving.QUIET_INTERRUPTED_S, has_ended)
            if not has_ended():
                leaving.tell_of_aborting(CANCELLED)
                await producer._waits.within(leaving.LAST_ANSWERS_S, has_ended)
            if not has_ended():
                break
            verbs.hear(call)
        else:
            return
    except INTERRUPTIONS:
        pass
    leaving.leave_to_coordinator(driver, cancelled)


async def _hurry(producer: AsyncProducer, cancelled: BaseException) -> None:
    producer._waits.long.cause = CANCELLED
    try:
        try:
            await producer.close(0 if producer._waits.long.is_given_up else leaving.LAST_ANSWERS_S)
        except INTERRUPTIONS:
            await producer.close(0)
    except (OttlaError, TimeoutError) as closing:
        tell_of_closing(cancelled, closing)
