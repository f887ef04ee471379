"""Memory of batches that are settled, for batches to come (compiled).

Memory that is given back to the operating system comes back page by page, zeroed, at 0.5 to 2.5 us for 4 KiB, and cold.
The C library gives back what lies at the end of its heap, where batches of 1 MB do: a sixth of a producer's processor
time went there. So large buffers are kept; Java's BufferPool keeps all its memory.

Invariants
- A buffer is used again only when nobody else has it: a batch may be settled while its request is still being written
  to a socket, because its time was over. Who looks at its bytes holds it, so its reference count tells.
- What is kept is at most `limit_bytes`, comes on top of `buffered_bytes`, and the oldest goes first.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize, PyByteArray_Resize
from cython.cimports.cpython.list import PyList_GET_ITEM
from cython.cimports.ottla.records.buffers import Py_REFCNT, PyByteArrayObject

# The C library does well with smaller ones.
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
        """A bytearray of this size with anything in it, one of those kept where that saves an allocation."""
        buffer: bytearray
        room: cython.Py_ssize_t
        i: cython.Py_ssize_t
        if size >= _LEAST_BYTES:
            for i in range(len(self._kept) - 1, -1, -1):
                if Py_REFCNT(cython.cast(cython.p_void, PyList_GET_ITEM(self._kept, i))) != 1:
                    continue
                room = _room(self._kept[i])
                # Below half of its room a bytearray would be moved to less memory.
                if size < room and size > room // 2:
                    buffer = self._kept.pop(i)
                    self.kept_bytes -= room
                    PyByteArray_Resize(buffer, size)
                    return buffer
        return PyByteArray_FromStringAndSize(cython.NULL, size)

    @cython.cfunc
    def give(self, buffer: bytearray) -> object:
        """Keep it, if it is worth that; others may hold it still."""
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
    """How many bytes it has memory for, and one."""
    return cython.cast(cython.pointer(PyByteArrayObject), cython.cast(cython.p_void, buffer)).ob_alloc
