"""Ends a command in order when the system asks for it: SIGTERM (`kill`, `timeout`, a container) and SIGHUP (a closed
terminal).

Both become an exception in the main thread, as Python does with Ctrl+C, so that every `with` block on the way out
stops its brokers and removes its folders. Once one has come, further ones are ignored: `timeout` sends SIGTERM twice,
and the second must not strike in the middle of tidying up.

Libraries on the way out may fail over an interruption (PySpark does where it struck in the middle of an answer from
Java), and what they raise then takes its place; it stays an interruption all the same.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """The signal `number` came; no `except Exception` on its way takes it for an error.

    `what_of_it`: what whoever sent the signal should know.
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
    """Within the block, SIGTERM and SIGHUP raise Ended, unless whoever started us had them ignored or handled.

    An error that was raised while an interruption was on its way becomes that interruption again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    except Exception as error:
        interruption = _interruption_under(error)
        if interruption is None:
            raise
        raise interruption from None
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _interruption_under(error: BaseException | None) -> BaseException | None:
    """The KeyboardInterrupt or Ended in whose way out this error came up."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Ended):
        error = error.__context__
    return error
