"""What coroutines await: a record that was appended, a delivery without its outcome (compiled).

`await producer.send(...)` nearly always has its result at once. A coroutine object would take longer to make than a
record to append, so `send` returns an `Awaitable`. With a result it lets the coroutine go on at once, without a turn of
the event loop; with a future it waits as a coroutine does. It also has a coroutine's methods, so `asyncio.create_task`
and `asyncio.gather` take it.

Invariant: a future is settled in its own event loop, whichever thread calls `release`.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.exc import PyErr_SetObject

_OVER = cython.declare(object, object())
# asyncio's function, loaded with the first future: other programs need not import asyncio.
_running_loop = cython.declare(object, None)


class MustWait(Exception):
    """Raised by hooks that may not block: the topic is not known (nbytes 0), or so much memory is not free."""

    def __init__(self, nbytes: int = 0) -> None:
        super().__init__(nbytes)
        self.nbytes = nbytes


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class Awaitable:
    """Gives its value when awaited, also when it is awaited again."""

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
        # This sets StopIteration with the value, as a coroutine's return does, without making an exception object.
        PyErr_SetObject(StopIteration, self._value)
        raise StopIteration

    def send(self, value):
        """Take the next step, as a task does with its coroutine."""
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
    """Return an awaitable that gives `value` without a turn of the loop."""
    made: Awaitable = Awaitable.__new__(Awaitable)
    made._value = value
    return made


@cython.cfunc
def with_future(delivery: object, steps: object) -> Awaitable:
    """Return an awaitable of a delivery's result; `steps`: the iterator of a future to wait for first, or None."""
    made: Awaitable = Awaitable.__new__(Awaitable)
    made._value = delivery
    made._asks = True
    made._steps = steps
    return made


@cython.cfunc
def future_here() -> object:
    """Return a future of the event loop that runs in this thread; RuntimeError where none does."""
    global _running_loop
    if _running_loop is None:
        import asyncio

        _running_loop = asyncio._get_running_loop
    loop = _running_loop()
    if loop is None:
        raise RuntimeError("A delivery can only be awaited in an event loop; elsewhere take result().")
    return loop.create_future()


def release(future):
    """Settle this future, from any thread; one that was cancelled stays so."""
    loop = future.get_loop()
    if _running_loop is not None and _running_loop() is loop:
        if not future.done():
            future.set_result(None)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(release, future)


def releasing(future):
    """Return a delivery's callback that settles this future."""

    def let_go(_):
        release(future)

    return let_go
