"""Ends a command in order when it is asked to: Ctrl+C, SIGTERM (`kill`, `timeout`, a container) and SIGHUP (a closed
terminal).

Each becomes an exception in the main thread, so that every `with` block on the way out stops its brokers and removes
its folders. What comes after the first must not interrupt that: `timeout` sends SIGTERM twice, and who
presses Ctrl+C often presses it again. So further signals are passed over, except that tidying up may hang: of further
Ctrl+Cs only the first is passed over, the next ones raise KeyboardInterrupt again. A command that runs until a signal
ends it calls `collect_signals`, and its main loop checks for Ctrl+C and SIGTERM; further signals are passed over in the
same way.

Libraries on the way out may fail over an interruption (PySpark does where it came in the middle of an answer from
Java), and what they raise then takes its place, be it an error or SystemExit (rich and typer, where nobody reads what
they print any more); it stays an interruption all the same. Where one comes in a destructor or a weak reference's
callback, out of which Python passes no exception on, it is sent once more.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}

_AGAIN_S = 0.01
# While a command ends, the second Ctrl+C is ignored; the third one raises Interrupted.
_CTRL_C_MAX = 2


class Interrupted(KeyboardInterrupt):
    """Ctrl+C.

    If a plain KeyboardInterrupt leaves `exec` or `eval`, as may happen while a library is imported, Python remembers
    it: `python -m ottla` then ends by SIGINT instead of with our exit status. It does not do so for a subclass.
    """


class Ended(BaseException):
    """The signal `number` came; no `except Exception` on its way takes it for an error.

    `what_of_it`: what the user should know.
    """

    def __init__(self, number: int, what_of_it: str = "") -> None:
        super().__init__(number, what_of_it)
        self.number = number
        name = "interrupted" if number == signal.SIGINT else (signal.strsignal(number) or f"signal {number}").lower()
        self.words = f"{name}: {what_of_it}" if what_of_it else name
        # As a shell reports a program that a signal has ended.
        self.status = 128 + number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within the block, the first of Ctrl+C, SIGTERM and SIGHUP raises Interrupted or Ended.

    Signals that were ignored or handled already at the start are left as they are. An error that was raised while an
    interruption was on its way becomes that interruption again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = {number: usual for number, usual in _ENDING.items() if signal.getsignal(number) is usual}
    is_ending = is_over = False
    further = 0
    report = sys.unraisablehook

    # One handler for all, which knows what has come. To set later signals to SIG_IGN instead would make Python print
    # an error if one of them has arrived and its handler has not run yet.
    def leave(number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending, further
        if not is_ending:
            is_ending = True
            raise Interrupted if number == signal.SIGINT else Ended(number)
        if number == signal.SIGINT:
            further += 1
            if further >= _CTRL_C_MAX:
                raise Interrupted

    def note_lost(unraisable: sys.UnraisableHookArgs) -> None:
        nonlocal is_ending
        lost = unraisable.exc_value
        if not isinstance(lost, KeyboardInterrupt | Ended):
            report(unraisable)
            return
        is_ending = False
        # Not from here, where it would be lost like the first one.
        again = threading.Timer(_AGAIN_S, send_again, [getattr(lost, "number", signal.SIGINT)])
        again.daemon = True
        again.start()

    def send_again(number: int) -> None:
        if not is_over:
            os.kill(os.getpid(), number)

    for number in ours:
        signal.signal(number, leave)
    sys.unraisablehook = note_lost
    try:
        yield
    except (Exception, SystemExit) as error:
        interruption = _interruption_under(error)
        if interruption is None:
            raise
        raise interruption from None
    finally:
        is_over = True
        sys.unraisablehook = report
        for number, usual in ours.items():
            signal.signal(number, usual)


def collect_signals() -> list[int]:
    """Return a list to which Ctrl+C and SIGTERM are added from now on; from the third on, Ctrl+C raises Interrupted.

    To be called within `ending_in_order`. SIGHUP raises Ended as before while the list is empty; later it is ignored,
    as the command is tidying up already.
    """
    # Not an Event: its lock may be held by the very thread that the handler interrupts.
    asked: list[int] = []
    hang_up = signal.getsignal(signal.SIGHUP)

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if number == signal.SIGINT and asked.count(number) > _CTRL_C_MAX:
            raise Interrupted

    def note_end_of_terminal(number: int, frame: FrameType | None) -> None:
        if not asked and callable(hang_up):
            hang_up(number, frame)

    if callable(hang_up):
        signal.signal(signal.SIGHUP, note_end_of_terminal)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return asked


def _interruption_under(error: BaseException | None) -> BaseException | None:
    """The KeyboardInterrupt or Ended in whose way out this error came up."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Ended):
        error = error.__context__
    return error
