"""What must come to an end, or come true; and timeouts that pass because a clock is set ahead, not by waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

import ottla

T = TypeVar("T")

# First line of a program that must print nothing: otherwise it logs long waits, which a slow machine causes.
UNHURRIED = "from ottla.client import leaving; leaving.QUIET_S = 3600\n"


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run it in an event loop of its own; TimeoutError after a minute."""

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(in_time())


def wait_until(
    true: Callable[[], T],
    otherwise: Callable[[], object] | str = "it did not come to that",
    patience_s: float = 30,
) -> T:
    """Look again and again, and return what it came to; AssertionError with what is `otherwise` where it never does."""
    give_up_s = time.monotonic() + patience_s
    while not (found := true()):
        assert time.monotonic() < give_up_s, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.01)
    return found


class Calling(threading.Thread):
    """A call on a thread of its own, and what it came to."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(60)
        assert not self.is_alive()
        return self.error


@contextlib.contextmanager
def ahead(clock: ottla.Clock, seconds: float, when: Callable[[], object] | None = None) -> Iterator[None]:
    """Set the clock ahead from another thread while the caller waits in a call: when `when` returns.

    Without `when` that is when a call waits by this clock.
    """

    def move() -> None:
        (when or clock.await_calls)()
        clock.advance(seconds)

    moving = Calling(move)
    yield
    error = moving.ended()
    if error is not None:
        raise error


def logged(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """The messages of one logger: brokers, too, log into this process, at any time."""
    return [record.getMessage() for record in caplog.records if record.name == name]


@contextlib.contextmanager
def connections_lost(count: int = 2) -> Iterator[Callable[[], None]]:
    """Gives a function that waits until clients have lost, or could not open, so many connections from now on.

    A client knows why a connection was lost when it has lost the next one.
    """
    lost = threading.Semaphore(0)

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if str(record.msg).startswith("connection %d to "):
                lost.release()

    def wait() -> None:
        for _ in range(count):
            assert lost.acquire(timeout=60), "no connection was lost"

    logger, counting = logging.getLogger("ottla.client"), Counting()
    level = logger.level
    logger.addHandler(counting)
    logger.setLevel(logging.DEBUG)
    try:
        yield wait
    finally:
        logger.removeHandler(counting)
        logger.setLevel(level)
