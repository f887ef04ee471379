"""A random generator of our own (SplitMix64): the same draws on every machine and in every version of Python.

`random.Random` is the same in every version only for `random()`; how `choice` or `shuffle` use it has changed before.
`Chance` is a `Random`, because the cores take one, and overrides the methods that are used.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
from collections.abc import MutableSequence, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_HALF = (1 << 32) - 1


class Stream:
    """A sequence of 64-bit words, which follows from `state`, a number below 2**64."""

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state

    def next(self) -> int:
        """The next word."""
        self.state = state = (self.state + _STEP) & _WORD
        state = ((state ^ (state >> 30)) * _FIRST) & _WORD
        state = ((state ^ (state >> 27)) * _SECOND) & _WORD
        return state ^ (state >> 31)

    def below(self, limit: int) -> int:
        """A number from 0 to below `limit`, which is below 2**32: the upper half of word times limit."""
        word = self.next()
        return ((word >> 32) * limit + ((word & _HALF) * limit >> 32)) >> 32


class Chance(Random):
    """A generator made from `seed`, any number or text."""

    def __init__(self, seed: int | str) -> None:
        self._stream = Stream(0)
        super().__init__(seed)

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Begin again from `a`."""
        self._stream.state = int.from_bytes(hashlib.blake2b(str(a).encode(), digest_size=8).digest())

    def fork(self, name: str) -> Chance:
        """Another generator, made from this one's state and the name; this one's state does not change."""
        return Chance(f"{self._stream.state} {name}")

    def random(self) -> float:
        """From 0.0 up to, not including, 1.0."""
        return (self._stream.next() >> 11) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        """An integer of `k` bits."""
        drawn = 0
        for _ in range((k + 63) // 64):
            drawn = drawn << 64 | self._stream.next()
        return drawn >> (-k % 64)

    def randbytes(self, n: int) -> bytes:
        """`n` bytes."""
        return self.getrandbits(8 * n).to_bytes(n)

    def below(self, limit: int) -> int:
        """A number from 0 to below `limit`, which is 1 at least."""
        return self._stream.below(limit) if limit <= _HALF else self._stream.next() * limit >> 64

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """One of `range(start, stop, step)`."""
        if stop is None and step == 1 and start > 0:
            return self.below(start)
        choices = range(start) if stop is None else range(start, stop, step)
        if not choices:
            raise ValueError(f"nothing to draw from {choices}")
        return choices[self.below(len(choices))]

    def randint(self, a: int, b: int) -> int:
        """From `a` to `b`, both included."""
        return a + self.below(b - a + 1)

    def uniform(self, a: float, b: float) -> float:
        """Between `a` and `b`."""
        return a + (b - a) * self.random()

    def choice(self, seq: Any) -> Any:
        """One element."""
        return seq[self.below(len(seq))]

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Put the elements in a random order."""
        for i in range(len(x) - 1, 0, -1):
            j = self.below(i + 1)
            x[i], x[j] = x[j], x[i]

    def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
        """`k` different elements."""
        pool = list(population)
        self.shuffle(pool)
        return pool[:k]
