"""System calls that keep the interpreter lock, and one that lets no signal handler in (compiled).

Python releases the lock around every system call, and another thread that has work takes it for 5 ms. The calls that
keep it do not block and take less than that: writing to a doorbell, changing what epoll watches, moving a few bytes
between memory and a non-blocking socket. More bytes are left to Python's own calls.

Invariant: a call that fails returns -1 and raises nothing. Where the error matters, the caller then makes Python's own
call, which raises it.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.ottla.client.held_calls import POLLIN, epoll_change, poll, pollfd, recv, send, write

# How much is moved at most: copying it takes some 20 microseconds.
HELD_BYTES_MAX = 64 * 1024


def write_held(fd: cython.int, data: bytes) -> int:
    """`os.write`: how many bytes were taken, or -1."""
    return write(fd, cython.cast(cython.p_char, data), len(data))


def send_held(fd: cython.int, chunks: list) -> int:
    """`sendmsg` of a few bytes on a socket that does not block: how many were taken, or -1."""
    data: bytes = b"".join(chunks)
    return send(fd, cython.cast(cython.p_char, data), len(data), 0)


def receive_held(fd: cython.int, buffer: object) -> int:
    """`recv_into` on a socket that does not block: how many bytes came (0: the end), or -1."""
    room: cython.uchar[::1] = buffer
    return recv(fd, cython.address(room[0]), room.shape[0], 0)


def change_held(epoll_fd: cython.int, fd: cython.int, mask: cython.uint) -> int:
    """`epoll.modify`: 0, or -1; always -1 where there is no epoll."""
    return epoll_change(epoll_fd, fd, mask)


def await_readable(fd: cython.int, timeout_ms: cython.int) -> bool:
    """Wait without the lock until something has come; False after `timeout_ms`, and when a signal comes.

    Python's own calls would run the signal's handler in between; this one leaves that to `run_signal_handlers`.
    """
    watched = cython.declare(pollfd)
    watched.fd = fd
    watched.events = POLLIN
    watched.revents = 0
    with cython.nogil:
        ready: cython.int = poll(cython.address(watched), 1, timeout_ms)
    return ready > 0


def run_signal_handlers() -> None:
    """On the main thread, run the handlers of signals that have come; raises what they raise."""
    PyErr_CheckSignals()
