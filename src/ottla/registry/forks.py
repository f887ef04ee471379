"""Renews, in a forked child, what threads share: a lock that another thread held would stay locked there."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Shared(Protocol):
    """Something with a lock."""

    def after_fork_in_child(self) -> None: ...


_shared: weakref.WeakSet[Shared] = weakref.WeakSet()


def tell_of_forks(each: Shared) -> None:
    """Call its `after_fork_in_child` in the child of every fork, as long as the object exists."""
    _shared.add(each)


def _after_fork_in_child() -> None:
    for each in list(_shared):
        each.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
