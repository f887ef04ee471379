"""What coroutines await: a record that was appended, a delivery that is on its way (compiled).

`await producer.send(...)` nearly always finds its work done, so that a coroutine object, which costs more than
appending a record, would be made for nothing. An `Awaitable` that holds its result lets the coroutine go on at once,
without a turn of the event loop; one that waits for a future steps through it as a coroutine would. It also has a
coroutine's methods, so that `asyncio.create_task` and `asyncio.gather` take it.

Invariant: nothing here knows a thread. Futures are settled in their own event loop, however the settling began.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.exc import PyErr_SetObject

_OVER = cython.declare(object, object())
# asyncio's, once somebody awaits: who does has loaded it, who does not has no use for it.
_running_loop = cython.declare(object, None)


class MustWait(Exception):
    """Hooks that may not block raise it: the topic is not known (nbytes 0), or so much memory is not free."""

    def __init__(self, nbytes: int = 0) -> None:
        super().__init__(nbytes)
        self.nbytes = nbytes


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Awaitable:
    """Gives its value when awaited; again whenever it is awaited again."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self._steps is not None:
            step = next(self._steps, _OVER)
            if step is not _OVER:
                return step
            self._steps = None
        if self._asks:
            self._value = self._value.result()
            self._asks = False
        # Without arguments this is free; the value goes with it, as in a coroutine's return.
        PyErr_SetObject(StopIteration, self._value)
        raise StopIteration

    def send(self, value):
        """Go on: what a task does with its coroutine."""
        return next(self)

    def throw(self, *error):
        """End the wait with an error; what was sent stays sent."""
        steps = self._steps
        self._steps = None
        if steps is not None:
            return steps.throw(*error)
        given = error[0] if len(error) == 1 or error[1] is None else error[1]
        raise given() if isinstance(given, type) else given

    def close(self):
        """Wait no longer; what was sent stays sent."""
        self._steps = None


@cython.cfunc
def at_once(value: object) -> Awaitable:
    """Awaiting it gives `value` without a turn of the loop."""
    made: Awaitable = Awaitable.__new__(Awaitable)
    made._value = value
    return made


@cython.cfunc
def with_future(delivery: object, steps: object) -> Awaitable:
    """Awaiting it takes the steps of a future (None: it is over) and gives, or raises, the delivery's result."""
    made: Awaitable = Awaitable.__new__(Awaitable)
    made._value = delivery
    made._asks = True
    made._steps = steps
    return made


@cython.cfunc
def future_here() -> object:
    """A future of the event loop that runs here; RuntimeError where none does."""
    global _running_loop
    if _running_loop is None:
        import asyncio

        _running_loop = asyncio._get_running_loop
    loop = _running_loop()
    if loop is None:
        raise RuntimeError("A delivery can only be awaited in an event loop; elsewhere take result().")
    return loop.create_future()


def release(future):
    """Let go whoever awaits this future, from whatever thread; one that was cancelled meanwhile is left alone."""
    loop = future.get_loop()
    if _running_loop is not None and _running_loop() is loop:
        if not future.done():
            future.set_result(None)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(release, future)


def releasing(future):
    """A delivery's callback that lets go whoever awaits this future."""

    def let_go(_):
        release(future)

    return let_go
