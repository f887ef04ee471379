"""Signals at the worst of moments: when a call has just been carried out, or is about to sleep."""

from __future__ import annotations

import dis
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any


@contextmanager
def interrupted_after(call: Any) -> Iterator[None]:
    """Raise KeyboardInterrupt in this thread where `call`, a function in C, returns for the first time in the block."""

    def interrupt(_frame: FrameType, event: str, returned: Any) -> None:
        if event == "c_return" and returned is call:
            sys.setprofile(before)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        yield
    finally:
        sys.setprofile(before)


# Waits look for signals twice a second.
_HEARD_S = 20


class Told(Exception):
    """Raised by the handler of a signal."""


def ended_by_a_signal_that_wakes_nobody(wait: Callable[[], object]) -> bool:
    """Whether this call on the main thread hears of a signal that comes while it sleeps and does not end its sleep.

    Such is one that comes in the moment before the sleep, and one that another thread takes, as here.
    """
    main, is_over, is_unheard = threading.get_ident(), threading.Event(), threading.Event()

    def look() -> tuple[CodeType, int]:
        frame = sys._current_frames()[main]
        return frame.f_code, frame.f_lasti

    def send() -> None:
        # Asleep is who stands at the same place for a while.
        seen = look(), 1
        while seen[1] < 4:
            if is_over.wait(0.05):
                return
            place = look()
            seen = place, seen[1] + 1 if place == seen[0] else 1
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not is_over.wait(_HEARD_S):
            is_unheard.set()
            signal.pthread_kill(main, signal.SIGUSR1)

    def tell(number: int, frame: object) -> None:
        raise Told

    before, sender = signal.signal(signal.SIGUSR1, tell), threading.Thread(target=send)
    try:
        sender.start()
        wait()
    except Told:
        return not is_unheard.is_set()
    finally:
        is_over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    return False


@contextmanager
def interrupted_within(code: CodeType, nth: int) -> Iterator[None]:
    """Raise KeyboardInterrupt in this function behind the nth call that it makes: there Python looks for signals."""

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        left, last = nth, ("", "")

        def within(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal left, last
            # From Python 3.13 on, not before the frame has a function that traces it.
            frame.f_trace_opcodes = True
            if event == "opcode":
                # Not where `with` has entered: from Python 3.14 on that is a call as well.
                left -= last[1].startswith("CALL") and last[0] != "LOAD_SPECIAL"
                if left == 0:
                    raise KeyboardInterrupt
                last = last[1], dis.opname[code.co_code[frame.f_lasti]]
            return within

        return within

    before = sys.gettrace()
    # Python 3.12 looks now whether a frame wants opcodes.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
