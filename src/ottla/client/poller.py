"""Waiting for sockets: epoll where there is one, the `selectors` module elsewhere.

Level-triggered on purpose: what is not read in one turn is reported again in the next. Other threads end a wait by a
`Doorbell`; only this may be edge-triggered. It is closed when the last reference to it is gone: when the loop ends
(`GONE` is in its place from then on), but not while another thread is inside of `ring`, which could write into another
file that has got the same number.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
from typing import Final

from ottla.client.held_calls import change_held, write_held

HAS_EPOLL: Final = hasattr(select, "epoll")
READABLE: Final = 1
WRITABLE: Final = 4
# EPOLLERR and EPOLLHUP: reading such a socket gives the error or the end, so they count as readable.
_BROKEN: Final = 8 | 16


class EpollPoller:
    """epoll without the key objects that `selectors` builds for every event."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.watch = self._epoll.register
        self.forget = self._epoll.unregister
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def watch_doorbell(self, doorbell: Doorbell) -> None:
        """Edge-triggered: every ring ends one wait, and no system call is needed to read it."""
        self._epoll.register(doorbell.fd, select.EPOLLIN | select.EPOLLET)
        doorbell.stays_readable = doorbell.is_counter

    def change(self, fd: int, mask: int) -> None:
        """Watch this file descriptor for other events from now on."""
        if change_held(self._epoll.fileno(), fd, mask) < 0:
            self._epoll.modify(fd, mask)

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        """(file descriptor, READABLE | WRITABLE bits) of what is ready; -1 waits for ever."""
        try:
            return self._epoll.poll(timeout_s)
        except InterruptedError:
            return []


class _SelectorPoller:
    """The same by the `selectors` module (kqueue on macOS)."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def close(self) -> None:
        # A kqueue does not outlive a fork: in the child there is nothing left to close.
        with contextlib.suppress(OSError):
            self._selector.close()

    def watch_doorbell(self, doorbell: Doorbell) -> None:
        self.watch(doorbell.fd, READABLE)

    def watch(self, fd: int, mask: int) -> None:
        self._selector.register(fd, _selector_mask(mask))

    def change(self, fd: int, mask: int) -> None:
        # A selector cannot register a file for no event.
        if fd not in self._selector.get_map():
            if mask:
                self.watch(fd, mask)
        elif mask:
            self._selector.modify(fd, _selector_mask(mask))
        else:
            self._selector.unregister(fd)

    def forget(self, fd: int) -> None:
        self.change(fd, 0)

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        """(file descriptor, READABLE | WRITABLE bits) of what is ready; -1 waits for ever."""
        ready = self._selector.select(None if timeout_s < 0 else timeout_s)
        return [(key.fd, (READABLE if mask & 1 else 0) | (WRITABLE if mask & 2 else 0)) for key, mask in ready]


def _selector_mask(mask: int) -> int:
    return (selectors.EVENT_READ if mask & READABLE else 0) | (selectors.EVENT_WRITE if mask & WRITABLE else 0)


def new_poller() -> EpollPoller | _SelectorPoller:
    """The best poller of this machine."""
    return EpollPoller() if HAS_EPOLL else _SelectorPoller()


def is_readable(mask: int) -> bool:
    """Whether a read would not block: data, the end, or an error."""
    return bool(mask & (READABLE | _BROKEN))


class Doorbell:
    """A file descriptor that other threads make readable, an eventfd or a pipe.

    An eventfd counts its rings, and each of them is an edge of its own: with `stays_readable` (set by a poller that
    waits for edges) it is never read. It would be full after 2**64 rings. A pipe is full after 8,192 and must be read.
    """

    def __init__(self) -> None:
        self.stays_readable = False
        self.is_counter = hasattr(os, "eventfd")
        if self.is_counter:
            self.fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self.fd, self._write_fd = os.pipe()
            os.set_blocking(self.fd, False)
            os.set_blocking(self._write_fd, False)

    def ring(self) -> None:
        """Make it readable; ringing twice is the same as once."""
        # This may fail on a full pipe: that is readable already, which is all that matters.
        write_held(self._write_fd, b"\x01\0\0\0\0\0\0\0")

    def heard(self) -> None:
        """After a wait that it has ended: make it ready to end the next one."""
        if self.stays_readable:
            return
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def __del__(self) -> None:
        os.close(self.fd)
        if self._write_fd != self.fd:
            os.close(self._write_fd)


class Gone:
    """In place of a doorbell or poller that was dropped: threads that still have a use for it do nothing."""

    fd: Final = -1

    def ring(self) -> None:
        """Nobody waits any more."""

    def heard(self) -> None:
        """Nobody waits any more."""

    def forget(self, fd: int) -> None:
        """Nothing is watched any more."""

    def close(self) -> None:
        """It is closed already."""


GONE: Final = Gone()
