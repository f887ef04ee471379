"""Coroutines that must come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in an event loop of its own; TimeoutError after a minute."""

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(in_time())
