"""How much of a file is in this machine's page cache: `mincore` says it without reading the file."""

from __future__ import annotations

import ctypes
import mmap
import os

# Only the lowest bit of mincore's byte for a page has a meaning.
_LOWEST_BIT = bytes(each & 1 for each in range(256))
_MAP_FAILED = ctypes.c_void_p(-1).value


def resident_bytes(path: str) -> int | None:
    """The bytes of a file that are in memory, by whole pages; None if the system does not say."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        if not size:
            return 0
        return _resident(descriptor, size)
    except (AttributeError, OSError):
        # No mincore here, or not for this file system.
        return None
    finally:
        os.close(descriptor)


def _resident(descriptor: int, size: int) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    pages = -(-size // mmap.PAGESIZE)
    # The mapping is never accessed, so nothing is read from the disk.
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        return None
    try:
        found = ctypes.create_string_buffer(pages)
        if libc.mincore(address, size, found):
            return None
        in_memory = found.raw.translate(_LOWEST_BIT).count(1)
        return min(size, in_memory * mmap.PAGESIZE)
    finally:
        libc.munmap(address, size)
