"""Keeps the memory of settled batches for later batches (compiled).

The C library returns memory at the end of its heap to the operating system, and batches of 1 MB are there. To get it
again costs 0.5 to 2.5 us for each page of 4 KiB, which is zeroed and not in the cache: that was a sixth of a producer's
processor time. So large buffers are kept. (Java's BufferPool keeps all its memory.)

Invariants
- A buffer is used again only when nothing else has a reference to it. A batch may be settled by its timeout while its
  request is still being written to a socket; then its reference count is above 1.
- At most `limit_bytes` are kept, in addition to `buffered_bytes`; the oldest are released first.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize
from cython.cimports.cpython.list import PyList_GET_ITEM
from cython.cimports.ottla.records.buffers import Py_REFCNT, PyByteArrayObject

# Smaller ones are left to the C library.
_LEAST_BYTES = cython.declare(cython.Py_ssize_t, 65536)


@cython.final
@cython.cclass
class BufferPool:
    """Keeps up to `limit_bytes` of bytearrays that were given back."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._kept = []

    @cython.cfunc
    def take(self, size: cython.Py_ssize_t) -> bytearray:
        """Return a bytearray of this size with any content: one that was kept, if one fits, else a new one."""
        buffer: bytearray
        room: cython.Py_ssize_t
        i: cython.Py_ssize_t
        if size >= _LEAST_BYTES:
            for i in range(len(self._kept) - 1, -1, -1):
                if Py_REFCNT(cython.cast(cython.p_void, PyList_GET_ITEM(self._kept, i))) != 1:
                    continue
                room = _room(self._kept[i])
                # Python reallocates a bytearray that is cut to less than half of its allocated size.
                if size < room and size > room // 2:
                    buffer = self._kept.pop(i)
                    self.kept_bytes -= room
                    PyByteArray_Resize(buffer, size)
                    return buffer
        return PyByteArray_FromStringAndSize(cython.NULL, size)

    @cython.cfunc
    def give(self, buffer: bytearray) -> object:
        """Keep this buffer if its size is in range; others may still have references to it."""
        room: cython.Py_ssize_t = _room(buffer)
        if room <= _LEAST_BYTES or room > self.limit_bytes:
            return None
        while self.kept_bytes + room > self.limit_bytes:
            self.kept_bytes -= _room(self._kept.pop(0))
        self._kept.append(buffer)
        self.kept_bytes += room
        return None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _room(buffer: bytearray) -> cython.Py_ssize_t:
    """How many bytes are allocated for it: one more than it can hold."""
    return cython.cast(cython.pointer(PyByteArrayObject), cython.cast(cython.p_void, buffer)).ob_alloc
