"""Signals at the worst moments: when a call has just returned, or is about to block."""

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


# How long the handler may take to run; waits check for signals twice a second.
_HEARD_S = 20


class Told(Exception):
    """Raised by the handler of a signal."""


def ended_by_a_signal_that_wakes_nobody(wait: Callable[[], object]) -> bool:
    """Whether a signal's handler runs during this blocking call on the main thread, though the signal does not wake it.

    A signal does not wake it if it comes just before the call blocks, or if another thread takes it, as here.
    """
    main, is_over, is_unheard = threading.get_ident(), threading.Event(), threading.Event()

    def look() -> tuple[CodeType, int]:
        frame = sys._current_frames()[main]
        return frame.f_code, frame.f_lasti

    def send() -> None:
        # The main thread is blocked if it stays at the same instruction for a while.
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


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def interrupted_within(code: CodeType, nth: int, handler: Callable[[], None] = _interrupt) -> Iterator[None]:
    """Run a handler in this function after the nth call that it makes: there Python checks for signals."""

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        left, last = nth, ("", "")

        def within(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal left, last
            # From Python 3.13 on, this has no effect before the frame has a trace function.
            frame.f_trace_opcodes = True
            if event == "opcode":
                # Not after `__enter__`: from Python 3.14 on, `with` calls it by a CALL, too.
                left -= last[1].startswith("CALL") and last[0] != "LOAD_SPECIAL"
                if left == 0:
                    left = -1
                    handler()
                last = last[1], dis.opname[code.co_code[frame.f_lasti]]
            return within

        return within

    before = sys.gettrace()
    # Python 3.12 checks in `settrace` whether a frame wants opcode events.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def interrupted_below(code: CodeType, nth: int) -> Iterator[None]:
    """Raise KeyboardInterrupt where the nth Python function begins that this one calls, itself or by others."""
    left = nth

    def trace(frame: FrameType, _event: str, _argument: Any) -> None:
        nonlocal left
        caller = frame.f_back
        while caller is not None and caller.f_code is not code:
            caller = caller.f_back
        left -= caller is not None
        if left == 0:
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
