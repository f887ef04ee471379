"""Keeps answers of a registry: in a cache of limited size, with one request for all threads that need the same one."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from ottla.clock import SIGNAL_CHECK_S
from ottla.errors import OttlaError, fresh
from ottla.registry.forks import tell_of_forks


class _Flight:
    """A request under way, which other threads wait for: until `has_landed`, and `landing` can be had then."""

    __slots__ = ("error", "has_landed", "landing", "value")

    def __init__(self) -> None:
        # Not an Event: a thread that is interrupted while it sets one leaves it unset, or locked.
        self.has_landed = False
        self.landing = threading.Lock()
        self.landing.acquire()
        self.value: Any = None
        self.error: BaseException | None = None


class Cache:
    """Keeps the `capacity` values that were used last. `now_s` is the clock of values that are kept for a time only."""

    def __init__(self, capacity: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._capacity, self._now_s = capacity, now_s
        self._values: OrderedDict[Hashable, tuple[Any, float | None]] = OrderedDict()
        # How often `forget` was called: an answer to an earlier request may be wrong now, and is not kept.
        self._forgotten = 0
        self.after_fork_in_child()
        tell_of_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the lock and the requests of the parent's threads, which do not run here."""
        self._lock = threading.Lock()
        self._flights: dict[Hashable, _Flight] = {}

    def get(self, key: Hashable, fetch: Callable[[], Any], *, keep_s: float | None = None) -> Any:
        """Return the value that is kept, or what `fetch` returns; that is kept for good, or for `keep_s` seconds.

        While one thread fetches a key, others that need it wait, and get the same value, or the same error.
        """
        while True:
            ours: _Flight | None = None
            try:
                with self._lock:
                    found = self._found(key)
                    if found is not None:
                        return found[0]
                    forgotten = self._forgotten
                    flight = self._flights.get(key)
                    # A flight that has landed is about to be removed, unless its thread was interrupted just then.
                    if flight is None or flight.has_landed:
                        flight = self._flights[key] = ours = _Flight()
                if ours is not None:
                    ours.value = value = fetch()
                    with self._lock:
                        if forgotten == self._forgotten:
                            self._put(key, value, keep_s)
                    return value
            except BaseException as error:
                if ours is not None:
                    ours.error = error
                raise
            finally:
                if ours is not None:
                    ours.has_landed = True
                    ours.landing.release()
                    with self._lock:
                        if self._flights.get(key) is ours:
                            del self._flights[key]
            while not flight.has_landed:
                if flight.landing.acquire(timeout=SIGNAL_CHECK_S):
                    flight.landing.release()
            if flight.error is None:
                return flight.value
            if isinstance(flight.error, OttlaError):
                raise fresh(flight.error)
            # The thread that fetched was interrupted, which says nothing about the value: try again.

    def find(self, key: Hashable) -> Any:
        """Return the value that is kept; None where there is none."""
        with self._lock:
            found = self._found(key)
            return None if found is None else found[0]

    def put(self, key: Hashable, value: Any, *, keep_s: float | None = None) -> None:
        """Keep a value that was got in another way."""
        with self._lock:
            self._put(key, value, keep_s)

    def forget(self, which: Callable[[Any], bool] = lambda key: True) -> None:
        """Drop the values of these keys, and do not keep the answers to requests that are under way."""
        with self._lock:
            self._forgotten += 1
            for key in [key for key in self._values if which(key)]:
                del self._values[key]
            # From now on `get` makes a new request.
            for key in [key for key in self._flights if which(key)]:
                del self._flights[key]

    def __len__(self) -> int:
        return len(self._values)

    def _found(self, key: Hashable) -> tuple[Any, float | None] | None:
        found = self._values.get(key)
        if found is not None:
            if found[1] is None or self._now_s() < found[1]:
                self._values.move_to_end(key)
                return found
            del self._values[key]
        return None

    def _put(self, key: Hashable, value: Any, keep_s: float | None) -> None:
        if keep_s == 0:
            return
        self._values[key] = value, None if keep_s is None else self._now_s() + keep_s
        self._values.move_to_end(key)
        while len(self._values) > self._capacity:
            self._values.popitem(last=False)
