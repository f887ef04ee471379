"""Servers that many tests share are stopped behind the last test that needs them, not at the end of the session."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

_ENDED = pytest.StashKey[set[str]]()
_WATCHED = pytest.StashKey[list["_Watched"]]()


class _Watched:
    """What is to be stopped, once."""

    def __init__(self, users: set[str], stop: Callable[[], None]) -> None:
        self.users = users
        self._stop: Callable[[], None] | None = stop

    def stop(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


def stop_behind_last(
    request: pytest.FixtureRequest, needs: Callable[[pytest.Item], bool], stop: Callable[[], None]
) -> None:
    """Call `stop` when every test of this run that needs it has ended, or at the end of the fixture that asks.

    The latter is where another process runs some of them.
    """
    session = request.session
    users = {item.nodeid for item in session.items if needs(item)} - session.stash.get(_ENDED, set())
    watched = _Watched(users, stop)
    session.stash.setdefault(_WATCHED, []).append(watched)
    request.addfinalizer(watched.stop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Behind the test's own fixtures."""
    try:
        return (yield)
    finally:
        stash = item.session.stash
        stash.setdefault(_ENDED, set()).add(item.nodeid)
        for watched in [*stash.get(_WATCHED, [])]:
            watched.users.discard(item.nodeid)
            if not watched.users:
                stash[_WATCHED].remove(watched)
                watched.stop()
