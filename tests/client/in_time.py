"""What must come to an end, or come true."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in an event loop of its own; TimeoutError after a minute."""

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(in_time())


def wait_until(true: Callable[[], bool]) -> None:
    """Look again and again; AssertionError after half a minute."""
    for _ in range(3000):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to that")
