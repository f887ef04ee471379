"""Delays signal handlers while a process is started: when they run, the caller can already end that process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delayed_signals(*numbers: signal.Signals) -> Iterator[None]:
    """The handlers of these signals run after the block; a signal without a handler in Python is left as it is.

    To block the signals in this thread would not be enough: if another thread takes one, Python still runs its handler
    in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    is_over = False
    before = {number: signal.getsignal(number) for number in numbers}
    ours = {number: handler for number, handler in before.items() if callable(handler)}

    def hear(number: int, frame: FrameType | None) -> None:
        if is_over:
            # The block's end was interrupted: this handler stayed.
            ours[signal.Signals(number)](number, frame)
        else:
            heard.append(number)

    try:
        for number in ours:
            signal.signal(number, hear)
        yield
    finally:
        is_over = True
        for number, handler in ours.items():
            signal.signal(number, handler)
        for came in dict.fromkeys(heard):
            signal.raise_signal(came)
