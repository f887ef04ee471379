"""Signals that come while a process is started: heard when it is there, and nothing of that stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from tests.interrupting import interrupted_below, interrupted_within

from ottla.delayed_signals import delayed_signals

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Told(Exception):
    """Raised by the handler of a signal."""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    def tell(number: int, _frame: object) -> None:
        raise Told(number)

    before = {number: signal.signal(number, tell) for number in _NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_comes_meanwhile_is_heard_at_the_end() -> None:
    done: list[str] = []

    def start() -> None:
        signal.raise_signal(signal.SIGTERM)
        done.append("started")

    with pytest.raises(Told), delayed_signals(*_NUMBERS):
        start()
    assert done == ["started"]
    assert_all_are_heard()


def test_wherever_it_is_interrupted_later_signals_are_heard() -> None:
    code = delayed_signals.__wrapped__.__code__  # type: ignore[attr-defined]
    for interrupted in (interrupted_within, interrupted_below):
        for nth in range(1, 100):
            try:
                with interrupted(code, nth), delayed_signals(*_NUMBERS):
                    pass
                break
            except KeyboardInterrupt:
                assert_all_are_heard()
        assert nth > 5


def assert_all_are_heard() -> None:
    for number in _NUMBERS:
        with pytest.raises(Told):
            signal.raise_signal(number)
