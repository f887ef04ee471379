"""Signals that come while a process is started are heard when it is there: who is interrupted then can end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heard_later(*numbers: signal.Signals) -> Iterator[None]:
    """These signals are heard when the block is over; one that no Python function handles is left as it is.

    That they are blocked in this thread would not be enough: where another thread takes one, Python handles it in the
    main thread all the same.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in numbers}
    ours = {number: handler for number, handler in before.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda came, _: heard.append(came))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        for came in dict.fromkeys(heard):
            signal.raise_signal(came)
