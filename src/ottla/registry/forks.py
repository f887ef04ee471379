"""What threads of a process share, made new in a child of it: a lock that another thread held stays held there."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Shared(Protocol):
    """Something with a lock."""

    def after_fork_in_child(self) -> None: ...


_shared: weakref.WeakSet[Shared] = weakref.WeakSet()


def tell_of_forks(each: Shared) -> None:
    """Have this one told of every fork, in the child, as long as it lives."""
    _shared.add(each)


def _after_fork_in_child() -> None:
    for each in list(_shared):
        each.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
