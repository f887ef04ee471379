"""Timeouts of coroutines, by the client's clock.

asyncio's own timeouts go by the event loop's clock. A client may have another clock, which a test moves; then the time
left is computed again whenever that clock is moved.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ottla.client.waiting import STOPPED_S, tell_if_stopped
from ottla.clock import MACHINE, MachineClock


@contextlib.asynccontextmanager
async def timeout_at(clock: MachineClock, due_us: int | None) -> AsyncIterator[None]:
    """Cancel the block when the clock shows `due_us` (None: never), and raise TimeoutError."""
    event_loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        if due_us is None:
            yield
            return

        def look() -> None:
            left_us = due_us - clock.now_us()
            if left_us <= 0 or not clock.is_stopped:
                timeout.reschedule(event_loop.time() + max(0, left_us) / 1_000_000)
            else:
                timeout.reschedule(None)

        def moved() -> None:
            # The event loop may have ended; then nothing waits any more.
            with contextlib.suppress(RuntimeError):
                event_loop.call_soon_threadsafe(look_once_more)

        def look_once_more() -> None:
            if is_inside:
                look()

        is_inside = True
        look()
        telling: asyncio.TimerHandle | None = None
        if clock is not MACHINE:
            clock.watch(moved, is_call=True)
            telling = event_loop.call_later(STOPPED_S, tell_if_stopped, clock)
        try:
            yield
        finally:
            is_inside = False
            if telling is not None:
                telling.cancel()
                clock.forget(moved, is_call=True)


def due_in(clock: MachineClock, timeout_s: float | None) -> int | None:
    """What the clock shows in `timeout_s`; None for None."""
    return None if timeout_s is None else clock.now_us() + int(timeout_s * 1_000_000)
