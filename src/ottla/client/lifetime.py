"""Clients that are still open when the process ends, or when it forks.

At the end of the interpreter `at_exit` of every open client is called, which may deliver what was sent. A child of
`multiprocessing` ends without `atexit`, but runs finalizers: there one of these calls `at_exit`. After a fork the child
has copies of the sockets and of all memory, but no I/O threads: `after_fork_in_child` of each client is called, and its
methods raise `ForkError` from then on. The parent's clients go on as before.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn, Protocol, SupportsIndex

from ottla.errors import ForkError


class Living(Protocol):
    """Something with an I/O thread."""

    def at_exit(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


class OfOneProcess:
    """A client with sockets and a thread of its own, which cannot be copied or sent to another process."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"this {type(self).__name__} cannot be pickled or copied: it has sockets and a thread of its own; make one "
            "in each process that needs one (in PySpark: inside of the function that runs there)"
        )


# A dict, because it has an order: the client that was opened first is closed first.
_living: dict[int, Living] = {}
_watched_pid = 0


def began(client: Living) -> None:
    """Call this client's methods on a fork and at the end of the process, until `ended`."""
    _living[id(client)] = client
    _watch_child()


def _watch_child() -> None:
    """In a child of `multiprocessing`, register a finalizer; in each process, because a fork drops the parent's."""
    global _watched_pid
    if "multiprocessing.process" not in sys.modules or _watched_pid == os.getpid():
        return
    _watched_pid = os.getpid()
    from multiprocessing.process import parent_process
    from multiprocessing.util import Finalize

    if parent_process() is not None:
        Finalize(None, _at_exit, exitpriority=100)


def ended(client: Living) -> None:
    """This client has closed."""
    _living.pop(id(client), None)


def forked(what: str) -> ForkError:
    """The error for every use in a child process."""
    return ForkError(
        f"this {what} was made before the process forked and works in the parent only; make a new one in the child"
    )


def _at_exit() -> None:
    for client in list(_living.values()):
        client.at_exit()


def _after_fork_in_child() -> None:
    inherited = list(_living.values())
    _living.clear()
    for client in inherited:
        client.after_fork_in_child()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
