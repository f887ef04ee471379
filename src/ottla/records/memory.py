"""`buffer.memory`: how much of it is used, and which calls wait for it, in their order (compiled).

A call takes memory at once if enough is free and no call waits. Otherwise it joins the queue with the number of bytes
it needs. No call gets memory before the first in the queue: small records cannot keep a large one waiting for ever.
What a call is given counts as used at once, so no other call can take it.

Invariants
- The interpreter lock guards all state: no method runs other Python code between its first look and its last write.
- `used_bytes` is the memory of all batches that are not settled, and of calls that have not used what they were given.
- A call is in the queue once at most. Every call that joined ends with `end`: what it did not use is given back.
- While nothing is used, the first in the queue is given what it needs, even more than the limit; else it would wait for
  ever.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t


@cython.final
@cython.cclass
class BlockedCall:
    """One call of a user that has to wait: its deadline, how much memory it waits for, and what it was given.

    `deadline_us` is -1 until the call waits for the first time. From then on `max.block.ms` is counted, once for all
    waits of the call.
    """

    def __cinit__(self):
        self.deadline_us = -1

    @property
    def has_memory(self) -> bool:
        """Whether the call was given the memory it waited for."""
        return not self.is_waiting


@cython.final
@cython.cclass
class BufferMemory:
    """The memory of one producer's batches; `limit_bytes` is `buffer.memory`."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._line = []

    @cython.cfunc
    @cython.exceptval(check=False)
    def has_room(self, nbytes: int64_t) -> cython.bint:
        """Whether `nbytes` may be taken without waiting."""
        return self.waiting_count == 0 and self.used_bytes + nbytes <= self.limit_bytes

    @cython.cfunc
    def add(self, nbytes: int64_t) -> object:
        """Count `nbytes` more as used; a number below 0 gives memory back."""
        self.used_bytes += nbytes
        if nbytes < 0 and self.waiting_count:
            self._serve()
        return None

    def join(self, call: BlockedCall, nbytes: int) -> None:
        """Put the call at the end of the queue, for `nbytes`; memory that it was given before is given back."""
        if call.is_waiting:
            self._line.remove(call)
            self.waiting_count -= 1
        self.used_bytes -= call.given_bytes
        call.given_bytes = 0
        call.wanted_bytes = nbytes
        call.is_waiting = True
        self._line.append(call)
        self.waiting_count += 1
        self._serve()

    def end(self, call: BlockedCall) -> None:
        """End a call, or let it go on without memory: take it out of the queue, and give back what it did not use."""
        if call.is_waiting:
            call.is_waiting = False
            self._line.remove(call)
            self.waiting_count -= 1
        self.used_bytes -= call.given_bytes
        call.given_bytes = 0
        self._serve()

    @cython.cfunc
    def _serve(self) -> object:
        """Give memory to the first calls in the queue, as long as there is enough for the next one."""
        call: BlockedCall
        while self.waiting_count:
            call = self._line[0]
            if self.used_bytes + call.wanted_bytes > self.limit_bytes and self.used_bytes > 0:
                break
            del self._line[0]
            self.waiting_count -= 1
            call.is_waiting = False
            self.has_served = True
            call.given_bytes = call.wanted_bytes
            self.used_bytes += call.wanted_bytes
        return None
