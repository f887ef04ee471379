"""What outlives its user by accident: clients that are still open at the end of the process or across a fork.

At the end of the interpreter every open client is given the chance to finish (`at_exit`); so it is at the end of a
child of `multiprocessing`, which leaves out what `atexit` was given and runs finalizers of its own instead. After a
fork the child has copies of sockets and of everything in memory, but not the I/O threads: its clients are told
(`after_fork_in_child`) and raise `ForkError` from then on; the parent's go on undisturbed.
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


# A dict for its order: what was opened first is closed first.
_living: dict[int, Living] = {}
_watched_pid = 0


def began(client: Living) -> None:
    """From now on this client hears of forks and of the end."""
    _living[id(client)] = client
    _watch_child()


def _watch_child() -> None:
    """Hear of this process's end, too, if it is a child of `multiprocessing`: one that forks forgets its parent's."""
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
    """The error of every use in a child process."""
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
